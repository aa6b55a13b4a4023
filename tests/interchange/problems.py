"""Small problems of every kind, and the intents that describe them to readers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import interlock as il
from interlock.algorithms import registry
from interlock.interchange import Intent
from interlock.planning import Plan, solve
from interlock.problem import Problem, collective_problem, demand_problem

COLLECTIVES = (
    il.all_gather("96 KiB"),
    il.reduce_scatter("96 KiB"),
    il.all_reduce("96 KiB"),
    il.all_to_all("96 KiB"),
    il.broadcast("96 KiB", root=1),
    il.reduce("96 KiB", root=1),
    il.gather("96 KiB", root=1),
    il.scatter("96 KiB", root=1),
)


def demands() -> Iterator[tuple[str, Problem]]:
    """All-to-Allv on two tiers: skewed, sparse with empty rows, and with bytes that stay at home."""
    small = il.cluster("h200", servers=2, gpus_per_server=2)
    wide = il.cluster("h200", servers=3, gpus_per_server=2)
    yield "zipf", demand_problem(small, il.traffic.zipf(small, bytes_per_gpu="100 kB", seed=3))
    yield "sparse", demand_problem(wide, il.traffic.sparse(wide, density=0.3, bytes_per_gpu="30 kB", seed=1))
    grid = (np.arange(36).reshape(6, 6) * 7 % 11).astype(np.int64) * 4096
    yield "whole chunks", demand_problem(wide, il.traffic.matrix(grid))


def collectives() -> Iterator[tuple[str, Problem]]:
    """Every collective on a mesh of links and on a switch."""
    graph = il.topology.fully_connected(4, bandwidth="50 GB/s", message_overhead="0.5 us")
    servers = il.cluster("h200", servers=2, gpus_per_server=2)
    ring = il.topology.ring(5, bandwidth="50 GB/s", message_overhead="0.5 us")
    for wanted in COLLECTIVES:
        yield f"{wanted.kind} on links", collective_problem(graph, wanted, 2)
        yield f"{wanted.kind} on servers", collective_problem(servers.topology, wanted, 1, servers)
        yield f"{wanted.kind} on a ring", collective_problem(ring, wanted, 1)
    server = il.cluster("h200", servers=1, gpus_per_server=4)
    for wanted in COLLECTIVES[:3]:
        yield f"{wanted.kind} in a server", collective_problem(server.topology, wanted, 1, server)


def problems() -> list[tuple[str, Problem]]:
    """All of them."""
    return [*demands(), *collectives()]


def plans(name: str) -> Iterator[tuple[str, Plan]]:
    """One algorithm's plans for every problem it supports."""
    for label, problem in problems():
        if registry.get(name).supports(problem) is None:
            yield label, solve(problem, name)


def intent_of(problem: Problem) -> Intent:
    """What a user would say of a file made from a problem."""
    if problem.demand is not None:
        return Intent(demand=problem.demand)
    assert problem.collective is not None
    return Intent(collective=str(problem.collective.kind), root=problem.collective.root)
