"""Is any lower bound above the exact fluid optimum? Random clusters and graphs against the linear program.

python benchmarks/bench_bound_lp.py --clusters 10000 --graphs 10000

Clusters: up to 4x4, every fabric, scale-up, scale-out, oversubscription, with slow, dead and missing parts. Graphs: up
to seven ranks, some links half-duplex, rates up to a thousand times apart, every collective, groups of ranks.
Latencies and overheads are zero and nothing is hashed: the program knows none of it. (Where pairs of NICs have uplinks
of their own by a hash, the bound may be above the program; `below_bound` of bench_faulty_clusters.py looks there.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import interlock as il
from common import arguments, report
from interlock.collectives import CollectiveKind, collective
from interlock.cost import lower_bound
from interlock.cost.lp import fluid_optimum_s
from interlock.problem import Problem, collective_problem, demand_problem
from interlock.topology import FABRICS, Fault

FREE = {"scale_up_latency": 0, "scale_out_latency": 0, "message_overhead": 0, "stage_overhead": 0}
SLACK = 1e-6  # of the solver


def random_cluster(rng: np.random.Generator) -> Problem:
    """A demand of any shape on a cluster of any kind."""
    servers, gpus = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    servers = max(servers, 2 if gpus == 1 else 1)
    scale_out = str(rng.choice(["flat", "rail", "rail-spine"]))
    faults: list[Fault] = []
    if servers > 1 and rng.random() < 0.7:
        for place in rng.permutation(servers * gpus)[: rng.integers(1, 5)].tolist():
            make = rng.integers(3)
            if make == 0:
                faults.append(il.slow_nic(*divmod(place, gpus), float(50e9 * 10 ** rng.uniform(-2, 0))))
            else:
                faults.append((il.dead_nic, il.missing_gpu)[make - 1](*divmod(place, gpus)))
    hosts = il.cluster(
        "h200",
        servers=servers,
        gpus_per_server=gpus,
        scale_up=str(rng.choice(["switch", "mesh"])),
        scale_up_bandwidth=float(rng.choice([450e9, 200e9, 100e9, 60e9])),
        scale_out=scale_out,
        nics_per_gpu=int(rng.choice([1, 1, 2])),
        oversubscription=1.0 if scale_out == "rail" else float(rng.choice([1, 1, 2, 4])),
        fabric=replace(FABRICS[str(rng.choice(sorted(FABRICS)))], ecmp_radix=None),
        faults=faults,
        **FREE,  # type: ignore[arg-type]
    )
    ranks = hosts.num_ranks
    rows = rng.integers(0, 10**9, (ranks, ranks))
    shape = rng.integers(5)
    if shape == 0:
        rows = (rng.pareto(1.0, (ranks, ranks)) * 1e8).clip(0, 1e11).astype(np.int64)
    elif shape == 1:
        rows *= rng.random((ranks, ranks)) < 0.2
    elif shape == 2:
        rows[:] = 10**8
    elif shape == 3:
        rows[:, rng.integers(ranks)] *= 10
    np.fill_diagonal(rows, 0)
    rows[~hosts.present] = 0
    rows[:, ~hosts.present] = 0
    return demand_problem(hosts, il.traffic.matrix(rows))


def random_graph(rng: np.random.Generator) -> Problem:
    """A collective, of all ranks or a group, on a graph."""
    count = int(rng.integers(2, 8))
    table = rng.random((count, count)) < rng.uniform(0.2, 0.9)
    table |= np.roll(np.eye(count, dtype=np.bool_), 1, axis=1)
    np.fill_diagonal(table, False)
    src, dst = np.nonzero(table)
    rates = rng.choice([[50.0] * 3, [25.0, 50.0, 100.0], [1.0, 10.0, 1000.0]])
    channel = np.arange(len(src), dtype=np.int32)
    if rng.random() < 0.3:  # both directions of a pair share one medium
        channel = np.unique(np.minimum(src, dst) * count + np.maximum(src, dst), return_inverse=True)[1].astype(
            np.int32
        )
    speeds = 1e9 * rng.choice(rates, channel.max() + 1)[channel]
    topology = il.topology.from_edges(src, dst, speeds, channel=channel)
    group = sorted(rng.permutation(count)[: rng.integers(2, count + 1)].tolist()) if rng.random() < 0.3 else None
    kind = rng.choice(list(CollectiveKind))
    return collective_problem(topology, collective(str(kind), 10**9, group, group[0] if group else 0))


def against_optimum(
    name: str, make: Callable[[np.random.Generator], Problem], seed: int, count: int
) -> dict[str, object]:
    """One row: how many bounds are above the optimum, how many within 1 % of it, the lowest."""
    ratios, unreachable = [], 0
    for number in range(count):
        try:
            problem = make(np.random.default_rng([seed, number]))
            optimum_s = fluid_optimum_s(problem)
        except il.InterlockError:  # somebody cannot be reached
            unreachable += 1
            continue
        bound_s = lower_bound(problem).seconds
        ratios.append(bound_s / optimum_s if optimum_s else 1.0 + bound_s)
        if ratios[-1] > 1 + SLACK:
            print(f"{name} {number}: bound {bound_s} above the optimum {optimum_s}: {problem.name}", flush=True)
    found = np.array(ratios)
    return {
        "problems": name,
        "compared": len(found),
        "unreachable": unreachable,
        "above_optimum": int((found > 1 + SLACK).sum()),
        "highest": float(found.max()),
        "within_1_percent": float((found > 0.99).mean()),
        "lowest": float(found.min()),
    }


if __name__ == "__main__":
    options = arguments(__doc__ or "", clusters=10_000, graphs=10_000)
    rows = [
        against_optimum("clusters", random_cluster, options.seed, options.clusters),
        against_optimum("graphs", random_graph, options.seed, options.graphs),
    ]
    report("bound_lp", rows, options)
