"""Plans as they were when somebody last looked: how many messages, how far above the bound they end, and their form:
how many waits, and a number that tells who sends what in which order over which links.

A change that is not meant to change plans changes none of them. After one that is, rewrite them with
``python -m tests.algorithms.known_plans`` and read the difference: it tells what got better and what got worse.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import interlock as il
from interlock.algorithms.registry import get, names
from interlock.planning import solve
from interlock.problem import Problem, collective_problem, demand_problem
from interlock.schedule import Schedule
from interlock.topology import FABRICS

FILE = Path(__file__).parent.parent / "golden" / "plans.json"


def networks() -> dict[str, il.Cluster | il.Topology]:
    """Small ones, each unlike the others."""
    hurt = (il.dead_nic(0, 1), il.slow_nic(1, 2, "100 Gb/s"), il.missing_gpu(2, 0))
    limping = (il.slow_nic(0, 1, "100 Gb/s"), il.slow_nic(2, 0, "200 Gb/s"), il.slow_nic(2, 2, "300 Gb/s"))
    ends = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (1, 3)])
    rates = np.array([50, 25, 50, 100, 25, 50, 75], float) * 1e9
    both = np.concatenate([ends, ends[:, ::-1]])
    return {
        "switch 2x4": il.Cluster("switch", 2, 4, multicasts=True, reduces=True, message_overhead_s=1e-6),
        "mesh 2x4": il.Cluster("mesh", 2, 4, scale_up="mesh", scale_up_bandwidth_bytes_per_s=64e9),
        "rail 3x2, 2:1": il.Cluster(
            "rail", 3, 2, scale_out="rail", scale_up_bandwidth_bytes_per_s=1e11, nics_per_gpu=2
        ),
        "hurt 3x3": il.Cluster("hurt", 3, 3, faults=hurt),
        "one-to-one 4x2": il.Cluster("alone", 4, 2, fabric=FABRICS["roce-dcqcn"], oversubscription=2.0),
        "slow switch 3x4": il.Cluster(
            "slow", 3, 4, multicasts=True, reduces=True, scale_up_bandwidth_bytes_per_s=60e9, stage_overhead_s=5e-6
        ),
        "one mesh of 6": il.Cluster("one", 1, 6, scale_up="mesh", scale_up_bandwidth_bytes_per_s=1e11),
        "ring of 5": il.topology.ring(5, bandwidth="50 GB/s", latency="1 us"),
        "torus 3x3": il.topology.torus(3, 3, bandwidth="50 GB/s", latency="1 us"),
        "hypercube of 8": il.topology.hypercube(3, bandwidth="50 GB/s", latency="1 us"),
        "two leaves": il.topology.clos(2, 3, 2, bandwidth="50 GB/s", latency="1 us"),
        "grid 2x4": il.topology.mesh(2, 4, bandwidth="50 GB/s", latency="1 us"),
        "all of 6": il.topology.fully_connected(6, bandwidth="50 GB/s", latency="1 us"),
        "seven unlike links": il.topology.from_edges(both[:, 0], both[:, 1], np.tile(rates, 2), "1 us"),
        "limping 4x3": il.Cluster("limping", 4, 3, scale_out="rail", faults=limping, message_overhead_s=5e-7),
        "eight servers of 2": il.Cluster("eight", 8, 2, message_overhead_s=1e-6),
        "busy grid 3x3": il.topology.mesh(3, 3, bandwidth="50 GB/s", latency="1 us", message_overhead="1 us"),
        "busy leaves": il.topology.clos(2, 3, 2, bandwidth="50 GB/s", latency="1 us", message_overhead="1 us"),
        "one way round": il.topology.from_edges(
            [0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 0], "50 GB/s", "1 us", message_overhead="1 us"
        ),
        "busy torus 2x3": il.topology.torus(2, 3, bandwidth="50 GB/s", latency="1 us", message_overhead="2 us"),
        "busy unlike links": il.topology.from_edges(
            both[:, 0], both[:, 1], np.tile(rates, 2), "1 us", message_overhead="0.5 us"
        ),
    }


def problems() -> dict[str, Problem]:
    """What each network is asked for, small and large."""
    asked: dict[str, Problem] = {}
    for name, network in networks().items():
        cluster = network if isinstance(network, il.Cluster) else None
        topology = network.topology if isinstance(network, il.Cluster) else network
        for size in ("48 kB", "48 MB"):
            collectives = [make(size) for make in (il.all_gather, il.reduce_scatter, il.all_reduce, il.all_to_all)]
            collectives += [make(size, root=1) for make in (il.broadcast, il.reduce, il.gather, il.scatter)]
            collectives.append(il.all_gather(size, group=[0, 1, 3]))
            for collective in collectives:
                group = "" if collective.group is None else " among three"
                key = f"{name}, {collective.kind.value}{group} of {size}"
                asked[key] = collective_problem(topology, collective, cluster=cluster)
            for load in (
                il.traffic.zipf(network, 0.8, size, seed=7),
                il.traffic.hot_expert(network, 0.8, size, seed=7),
            ):
                asked[f"{name}, {load.name} of {size}"] = demand_problem(network, load)
    return asked


def looked_at(problem: Problem) -> dict[str, list[float]]:
    """Messages, time over the bound, waits and form of every algorithm that supports a problem.

    `guided` searches longest, and is for graphs; `auto` takes it there.
    """
    found = {}
    for name in names():
        if name != ("auto" if problem.cluster is None else "guided") and get(name).supports(problem) is None:
            plan = solve(problem, name)
            ratio = plan.simulate().makespan_s / plan.bound.seconds
            rows = plan.schedule
            found[name] = [rows.num_messages, round(ratio, 6), len(rows.deps.values), round(form(rows), 6)]
    return found


def form(rows: Schedule) -> float:
    """How far back the weight of each column lies, in parts of its length, each column with another weight: another
    order, end, link, wait or place in an item changes it, a byte here or there does not."""
    columns = (rows.src.values, rows.dst.values, rows.path.values, rows.deps.values, rows.pieces.offset)
    columns += (rows.size_bytes, rows.stage, rows.slice, rows.order)
    sum_of_places = 0.0
    for number, column in enumerate(columns, 1):
        weight = column.astype(np.float64) + 1.0
        place = float((weight * np.arange(len(weight))).sum() / (weight.sum() * len(weight) or 1))
        sum_of_places += number**0.5 * place
    return sum_of_places


def main() -> None:
    """Look at all of them anew."""
    lines = [f"{json.dumps(name)}: {json.dumps(looked_at(problem))}" for name, problem in problems().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
