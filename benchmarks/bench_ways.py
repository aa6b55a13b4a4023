"""Which of `guided`'s ways are needed: how much slower is its schedule without the way that won?

Regular graphs (a mesh, tori, a ring, switches, servers) and random ones of ten families (`graph_families.py`), five
collectives, three sizes. Each problem is solved with all ways, and again without the one that won: without another,
only the budget of those after it would differ. A way that is never missed by more than 1 % has no reason to be there.
"""

from __future__ import annotations

import time
from unittest.mock import patch

import numpy as np

import interlock as il
from common import arguments, report
from graph_families import FAMILIES, random_graph
from interlock.algorithms import guided
from interlock.collectives import Collective
from interlock.problem import Problem, collective_problem
from interlock.schedule import CompactSchedule
from interlock.simulate import simulate

GIB = 2**30
LINK = {"bandwidth": 50 * GIB, "message_overhead": "0.5 us"}
UNLIKE = {"bandwidth": (200 * GIB, 50 * GIB), "message_overhead": "0.5 us"}
PORT = {"bandwidth": "10 GB/s", "message_overhead": "1 us"}
COLLECTIVES = (il.all_gather, il.reduce_scatter, il.all_reduce, il.all_to_all, il.broadcast)
MISSED = 1.01
MOST_S = 3.0  # of processor time: what takes longer is not solved again
TABLES = ("IN_SWITCH", "COPIES", "SUMS_FOR_ALL")


def regular() -> dict[str, il.Topology]:
    """Graphs with a name."""
    topology = il.topology
    return {
        "mesh 4x4": topology.mesh(4, 4, **LINK),
        "mesh 4x4, 200/50": topology.mesh(4, 4, **UNLIKE),
        "torus 4x4": topology.torus(4, 4, **LINK),
        "torus 4x4, 200/50": topology.torus(4, 4, **UNLIKE),
        "torus 3x3x3": topology.torus(3, 3, 3, **LINK),
        "ring 8": topology.ring(8, **LINK),
        "switch 8": topology.switch(8, **PORT),
        "clos 2x2x2": topology.clos(2, 2, 2, **PORT),
        "DGX-1": topology.dgx1(),
        "h200 x1": il.cluster("h200", servers=1).topology,
        "h200 x2": il.cluster("h200", servers=2).topology,
    }


def problems(seed: int) -> list[tuple[str, Problem]]:
    """All of them, with a name."""
    found: list[tuple[str, il.Topology, Collective]] = []
    for name, topology in regular().items():
        for collective in COLLECTIVES:
            found += [(name, topology, collective(size)) for size in ("1 GiB", "16 MiB", "256 KiB")]
    for number, family in enumerate(FAMILIES):
        for place, size in enumerate(("1 GiB", "64 MiB", "1 MiB")):
            for collective in COLLECTIVES:
                rng = np.random.default_rng([seed + place, number])
                ranks = int(rng.integers(4, 12 if collective is il.all_reduce else 20, endpoint=True))
                found.append((f"{family}, {ranks} ranks", random_graph(family, rng, ranks), collective(size)))
    return [
        (
            f"{collective.kind.value} {collective.size_bytes / 2**20:g} MiB on {name}",
            collective_problem(topology, collective),
        )
        for name, topology, collective in found
    ]


def _seconds(made: CompactSchedule, problem: Problem) -> float:
    return simulate(made.expand(), problem).makespan_s


def solved(problem: Problem, without: str | None = None) -> tuple[float, str, float]:
    """Simulated seconds, the way that won, processor seconds."""
    kept = {name: tuple(way for way in getattr(guided, name) if way.name != without) for name in TABLES}
    start = time.process_time()
    with patch.multiple(guided, **kept):
        made = guided.guided(problem, threads=1, time_of=lambda made: _seconds(made, problem))
    took_s = time.process_time() - start
    return _seconds(made, problem), made.reason.partition(";")[0].partition(" (")[0], took_s


def main() -> None:
    """A row per way: how often it won, how often it would be missed, and where most."""
    options = arguments(__doc__ or "", minutes=10.0)
    chosen = problems(options.seed)
    order = np.random.default_rng(options.seed).permutation(len(chosen))
    end_s = time.monotonic() + 60.0 * options.minutes
    wins: dict[str, int] = {}
    losses: dict[str, list[tuple[float, str]]] = {}
    for name, problem in (chosen[place] for place in order):
        if time.monotonic() > end_s:
            break
        if guided.refuses(problem) is not None:
            continue
        with_all_s, won, took_s = solved(problem)
        wins[won] = wins.get(won, 0) + 1
        if took_s <= MOST_S:
            try:
                losses.setdefault(won, []).append((solved(problem, won)[0] / with_all_s, name))
            except AssertionError:  # no other way fits
                losses.setdefault(won, []).append((float("inf"), name))
    ways = dict.fromkeys(way.name for table in TABLES for way in getattr(guided, table))
    rows: list[dict[str, object]] = []
    for way in ways:
        lost = losses.get(way, [])
        finite = [loss for loss in lost if np.isfinite(loss[0])]
        most, where = max(finite, default=(1.0, "-"))
        rows.append(
            {
                "way": way,
                "won": wins.get(way, 0),
                "missed by more than 1 %": sum(loss > MISSED for loss, _ in finite),
                "the only way": len(lost) - len(finite),
                "most": most,
                "where": where,
            }
        )
    report("ways", rows, options, problems=sum(wins.values()))


if __name__ == "__main__":
    main()
