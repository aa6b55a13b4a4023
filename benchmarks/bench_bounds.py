"""How close are the lower bounds to the exact fluid optimum, and how long do they take?"""

from __future__ import annotations

import numpy as np

import interlock as il
from common import arguments, report, timed
from interlock.collectives import collective
from interlock.cost import lower_bound
from interlock.cost.lp import fluid_optimum_s
from interlock.errors import InterlockError
from interlock.problem import Problem, collective_problem, demand_problem

LINK = {"bandwidth": 50 * 2**30, "message_overhead": "0.5 us"}
SHAPES = {
    "mesh 8x8": lambda: il.topology.mesh(8, 8, **LINK),
    "torus 8x8x8": lambda: il.topology.torus(8, 8, 8, **LINK),
    "mesh 32x32": lambda: il.topology.mesh(32, 32, **LINK),
    "mesh 96x96": lambda: il.topology.mesh(96, 96, **LINK),
}
KINDS = ("all-gather", "reduce-scatter", "all-reduce", "broadcast")


def times(seed: int, repeats: int) -> list[dict[str, object]]:
    """One row per problem: what it is, its bound, what binds, how long finding it took."""
    problems: dict[str, Problem] = {}
    for servers in (4, 16, 40):
        cluster = il.cluster("h200", servers=servers)
        demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="512 MB", seed=seed)
        problems[f"All-to-Allv zipf 0.8, {servers}x8"] = demand_problem(cluster, demand)
    for name, shape in SHAPES.items():
        for kind in KINDS:
            problems[f"{kind}, {name}"] = collective_problem(shape(), collective(kind, "1 GiB"))
    rows = []
    for name, problem in problems.items():
        bound = lower_bound(problem)
        took = timed(lambda problem=problem: lower_bound(problem), repeats)  # type: ignore[misc]
        rows.append({"problem": name, "bound_us": bound.seconds * 1e6, "binds": bound.binds, **took})
    return rows


def tightness(seed: int, count: int) -> list[dict[str, object]]:
    """Bound over optimum on small random graphs, by collective."""
    rows = []
    for kind in (*KINDS, "gather", "scatter", "all-to-all"):
        ratios = []
        for number in range(count):
            problem = collective_problem(random_graph(np.random.default_rng([seed, number])), collective(kind, "1 GB"))
            try:
                ratios.append(lower_bound(problem).seconds / fluid_optimum_s(problem))
            except InterlockError:  # some rank cannot be reached: no optimum
                continue
        found = np.array(ratios)
        rows.append(
            {
                "collective": kind,
                "graphs": len(found),
                "above_optimum": int((found > 1 + 1e-6).sum()),
                "within_1_percent": float((found > 0.99).mean()),
                "least": float(found.min()),
            }
        )
    return rows


def random_graph(rng: np.random.Generator) -> il.Topology:
    """Up to nine ranks, each pair joined with probability one half, three speeds."""
    count = int(rng.integers(3, 10))
    table = rng.random((count, count)) < 0.5
    table |= np.roll(np.eye(count, dtype=np.bool_), 1, axis=1)
    np.fill_diagonal(table, False)
    src, dst = np.nonzero(table)
    return il.topology.from_edges(src, dst, 1e9 * rng.choice([25.0, 50.0, 100.0], len(src)))


if __name__ == "__main__":
    options = arguments(__doc__, graphs=100)
    report("bounds", times(options.seed, options.repeats), options, tightness=tightness(options.seed, options.graphs))
