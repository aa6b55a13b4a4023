"""Chunks matched to links at random as time goes on, as TACOS does: quick, and good where no link is scarce."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answers import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.connections import all_can_meet_at
from interlock.algorithms.synthesis.goal import TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.algorithms.synthesis.list_schedule import TimedTransfers

__all__ = ["can_match", "matched", "random_matching", "reach_each_other", "tries_by_parts", "wanted"]

MOST_STARTS = 16  # seeds of each number of chunks: no effort beside trees
PARTS = (1, 2, 4, 8)  # chunks per item of which the best is taken where none are asked for


def can_match(goal: TreeGoal, graph: Graph) -> bool:
    """Whether links do not share anything, and those that want the chunks need nobody else."""
    return graph.arcs.is_simple and (goal.spans_all or reach_each_other(goal, graph.arcs))


def reach_each_other(goal: TreeGoal, arcs: ArcSet) -> bool:
    """Whether all chunks are wanted by the same ranks, and those reach each other without others' help."""
    if goal.ends.shared is None or (len(goal.ends.shared) == 1 and goal.num_moves > 0):
        return False
    takes = wanted(goal)
    among = np.flatnonzero(takes[arcs.src] & takes[arcs.dst])
    return all_can_meet_at(int(goal.root[0]), goal, arcs, among)


def random_matching(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """Some numbers of chunks, the fewest first, with some seeds each, which are no effort beside trees."""
    budget.spend(goal.num_moves * (goal.parts or 1))
    for parts, tries in tries_by_parts(goal, goal.parts, None, budget.limit):
        for start in range(tries):
            yield matched(goal, graph.arcs, parts, (budget.seed + start) % 2**64)


def tries_by_parts(goal: TreeGoal, parts: int | None, starts: int | None, transfers: int) -> list[tuple[int, int]]:
    """How many seeds each number of chunks is tried with; all together are cheap where the choice is ours."""
    counts = (parts,) if parts is not None else PARTS
    affordable = [count for count in counts if goal.num_moves * count * len(counts) <= transfers]
    return [
        (count, starts or max(1, min(MOST_STARTS, transfers // (goal.num_moves * count * len(counts)))))
        for count in affordable or counts[:1]
    ]


def matched(goal: TreeGoal, arcs: ArcSet, parts: int, seed: int) -> TimedAnswer:
    """One random matching: every rank takes what it lacks over whatever link is free, as long as links do not share."""
    chunks = cut(goal.size_bytes, parts)
    ticks = arcs.ticks(goal.num_moves * parts, float(goal.size_bytes.sum()) * goal.num_ranks)
    held = ticks.overhead + np.rint(int(chunks.length.max()) * ticks.per_byte).astype(np.int64)
    link, chunk, start, makespan = _core.match_randomly(
        arcs.src,
        arcs.dst,
        np.maximum(held, 1),
        ticks.latency,
        np.ascontiguousarray(goal.root[chunks.item]),
        wanted(goal).astype(np.uint8),
        seed,
    )
    count = len(link)
    transfers = TimedTransfers(
        np.asarray(link),
        np.asarray(chunk),
        np.asarray(start),
        np.asarray(start) + ticks.held(np.asarray(link), chunks.length[chunk]),
        np.arange(count, dtype=np.int32),
        np.zeros(count, np.bool_),
        makespan,
    )
    return TimedAnswer(chunks, arcs, ticks, transfers)


def wanted(goal: TreeGoal) -> NDArray[np.bool_]:
    """Which ranks want the chunks, where all chunks are wanted by the same."""
    takes = np.zeros(goal.num_ranks, np.bool_)
    assert goal.ends.shared is not None
    takes[goal.ends.shared] = True
    return takes
