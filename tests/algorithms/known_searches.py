"""Searches as they were when somebody last looked: which ways fit, what each asks of its budget and what it finds.

Whole plans hardly show most numbers of a search, since only the best answer is left of it. Here every way is followed
to its end, on small networks and with little budget, whatever the others found. A change that is not meant to change a
search changes none of this; after one that is, rewrite it with ``python -m tests.algorithms.known_searches``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import interlock as il
from interlock.algorithms.guided import COPIES, IN_SWITCH, SUMS_FOR_ALL
from interlock.algorithms.synthesis.budget import Budget, SearchBound
from interlock.algorithms.synthesis.goal import Direction, goal_of
from interlock.algorithms.synthesis.graph import graph_of
from interlock.problem import Problem, collective_problem, demand_problem
from interlock.topology import FABRICS

FILE = Path(__file__).parent.parent / "golden" / "searches.json"


LIMITS = (0, 20_000, 60_000)  # nothing but the first answer; some of what a way would try; most of it

Looked = dict[str, dict[str, list[float]]]


@dataclass(slots=True)
class Diary(Budget):
    """A budget that remembers what it was asked for."""

    asked: int = 0

    def affords(self, transfers: int) -> bool:
        self.asked += transfers
        return self.spent + transfers <= self.limit


def networks() -> dict[str, il.Topology]:
    """Alike and unlike links, with and without overhead, switches and uplinks."""
    ends = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (1, 3)])
    rates = np.array([50, 25, 50, 100, 25, 50, 75], float) * 1e9
    both = np.concatenate([ends, ends[:, ::-1]])
    src, dst = np.nonzero(~np.eye(8, dtype=np.bool_))
    uplinks = il.cluster("h200", servers=4, gpus_per_server=2, scale_out="flat", fabric=FABRICS["clos"])
    busy = {"bandwidth": "50 GB/s", "latency": "1 us", "message_overhead": "1 us"}
    return {
        "ring of 5": il.topology.ring(5, bandwidth="50 GB/s", latency="1 us"),
        "busy torus 3x3": il.topology.torus(3, 3, **busy),
        "busy grid 2x3": il.topology.mesh(2, 3, **busy),
        "unlike links": il.topology.from_edges(
            both[:, 0], both[:, 1], np.tile(rates, 2), "1 us", message_overhead="0.5 us"
        ),
        "all to all of them, unlike": il.topology.from_edges(
            src, dst, np.where((src + dst) % 3, 50e9, 20e9), "1 us", message_overhead="0.1 us"
        ),
        "two leaves": il.topology.clos(2, 3, 2, **busy),
        "one switch": il.Cluster("switch", 1, 4, multicasts=True, reduces=True, message_overhead_s=1e-6).topology,
        "hashed uplinks": uplinks.topology,
    }


def problems() -> dict[str, Problem]:
    """What each is asked for, small and large."""
    asked: dict[str, Problem] = {}
    for name, network in networks().items():
        for size in ("6 kB", "6 MB"):
            for wanted in (
                il.all_gather(size),
                il.all_reduce(size),
                il.broadcast(size, root=1),
                il.reduce_scatter(size),
                il.all_gather(size, group=[0, 1, 3]),
            ):
                among = "" if wanted.group is None else " among three"
                asked[f"{name}, {wanted.kind.value}{among} of {size}"] = collective_problem(network, wanted)
            asked[f"{name}, all-to-all of {size}"] = collective_problem(network, il.all_to_all(size))
            load = np.add.outer(np.arange(network.num_ranks), 3 * np.arange(network.num_ranks)) % 5 * 10**5
            np.fill_diagonal(load, 0)
            if size == "6 MB":
                asked[f"{name}, unlike pairs"] = demand_problem(network, il.traffic.matrix(load))
    return asked


def looked_at(problem: Problem) -> Looked:
    """Of every way that fits, with each limit: what it spent, what it asked for, and its answers: how many chunks, and
    how many microseconds they take."""
    goal, graph = goal_of(problem), graph_of(problem.topology)
    assert not isinstance(goal, str)
    goal = goal.in_pairs()
    if goal.direction is Direction.IN:
        graph = graph.reversed()
    ways = IN_SWITCH + (SUMS_FOR_ALL if goal.direction is Direction.IN_AND_OUT else COPIES)
    found: Looked = {}
    for way in ways:
        if not way.fits(goal, graph):
            continue
        for limit in LIMITS:
            diary = Diary(limit, SearchBound(0.0), seed=3)
            told: list[float] = []
            for answer in way.search(goal, graph, diary):
                told += [len(answer.chunks), round(answer.makespan_s * 1e6, 5)]
                if diary.is_spent:
                    break
            found.setdefault(way.name, {})[str(limit)] = [diary.spent, diary.asked, *told]
    return found


def main() -> None:
    """Look at all of them anew."""
    lines = [f"{json.dumps(name)}: {json.dumps(looked_at(problem))}" for name, problem in problems().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
