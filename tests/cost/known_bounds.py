"""Bounds as they were when somebody last looked: every part of them, by the resource that it names.

A change that is not meant to change bounds changes none of them. After one that is, rewrite them with
``python -m tests.cost.known_bounds`` and read the difference: no part gets smaller without a reason.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

from tests.algorithms.known_plans import networks
from tests.cost.test_graph_bounds import one_way_ring, random_graph

import interlock as il
from interlock.collectives import CollectiveKind, collective
from interlock.cost import lower_bound
from interlock.problem import Problem, collective_problem, demand_problem
from interlock.topology import FABRICS

FILE = Path(__file__).parent.parent / "golden" / "bounds.json"


def clusters() -> dict[str, il.Cluster]:
    """Each with another thing that may bind."""
    hurt = (il.dead_nic(0, 1), il.slow_nic(1, 2, "100 Gb/s"), il.missing_gpu(2, 0))
    slow = {"scale_up_bandwidth_bytes_per_s": 30e9, "scale_out_bandwidth_bytes_per_s": 50e9}
    return {
        "one server": il.Cluster("one", 1, 4),
        "flat 4:1": il.Cluster("flat", 3, 4, oversubscription=4.0),
        "spine 2:1": il.Cluster("spine", 3, 3, scale_out="rail-spine", oversubscription=2.0),
        "rails, hurt": il.Cluster("rails", 3, 3, scale_out="rail", faults=hurt),
        "slow inside": il.Cluster("slow", 2, 4, **slow),
        "slow mesh, hurt": il.Cluster("mesh", 3, 3, scale_up="mesh", faults=hurt, **slow),
        "hashed": il.Cluster("hashed", 4, 2, fabric=FABRICS["clos"], oversubscription=2.0),
    }


def steps() -> dict[str, Problem]:
    """A path that binds, a port that binds, and one move alone."""
    made = {}
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    for name, size, last in (("path", "1 MB", "5 ms"), ("port", "400 MB", "1 us")):
        step = il.step(cluster)
        for number in range(3):
            step.move(f"move {number}", il.traffic.zipf(cluster, 0.8, size, seed=number), ready=f"{number} us")
        step.compute("after", last, after=["move 1"])
        step.compute("beside", "1 us")
        made[f"step, {name}"] = step.problem()
    alone = il.step(cluster)
    alone.compute("before", "3 us")
    alone.move("only", il.traffic.zipf(cluster, 0.8, "1 MB", seed=1), after=["before"])
    return {**made, "step, one move": alone.problem()}


def problems() -> dict[str, Problem]:
    """Collectives and demands on the networks of the known plans, on these clusters and on drawn graphs."""
    asked: dict[str, Problem] = {}
    for (name, network), size in product({**networks(), **clusters()}.items(), ("48 kB", "48 MB")):
        cluster = network if isinstance(network, il.Cluster) else None
        topology = network.topology if isinstance(network, il.Cluster) else network
        for kind in CollectiveKind:
            key = f"{name}, {kind.value} of {size}"
            asked[key] = collective_problem(topology, collective(kind, size), cluster=cluster)
        if size == "48 MB":
            some = il.all_reduce(size, group=[0, 1, 3])
            asked[f"{name}, all-reduce among three of {size}"] = collective_problem(topology, some, cluster=cluster)
        for load in (
            il.traffic.zipf(network, 0.8, size, seed=7),
            il.traffic.hot_expert(network, 0.8, size, seed=7),
            il.traffic.sparse(network, density=0.2, bytes_per_gpu=size, seed=7),
        ):
            asked[f"{name}, {load.name} of {size}"] = demand_problem(network, load)
    kinds = list(CollectiveKind)
    for seed in range(24):
        kind = kinds[seed % len(kinds)]
        asked[f"graph {seed}, {kind.value}"] = collective_problem(random_graph(seed), collective(kind, "1 GB"))
    for seed in range(8):
        asked[f"one-way ring {seed}"] = collective_problem(one_way_ring(seed), il.all_reduce("1 GB"))
    return {**asked, **steps()}


def looked_at(problem: Problem) -> dict[str, float]:
    """Microseconds of all parts, the one that binds first."""
    bound = lower_bound(problem)
    return {name: float(f"{1e6 * bound.parts[name]:.9g}") for name in sorted(bound.parts, key=bound.binds.__ne__)}


def main() -> None:
    """Look at all of them anew."""
    lines = [f"{json.dumps(name)}: {json.dumps(looked_at(problem))}" for name, problem in problems().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
