"""Chunks matched to links at random as time goes on, as TACOS does: quick, and good where no link is scarce."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answers import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.goal import TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.algorithms.synthesis.list_schedule import TimedTransfers

__all__ = ["can_match", "matched", "random_matching", "wanted"]


def can_match(goal: TreeGoal, graph: Graph) -> bool:
    """Whether all ranks want everything, over links that do not share anything."""
    return goal.spans_all and graph.arcs.is_simple


def random_matching(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """Once: other seeds hardly differ."""
    parts = goal.parts or 1
    answer = matched(goal, graph.arcs, parts, budget.seed)
    budget.spend(goal.num_moves * parts)
    yield answer


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
    timed = TimedTransfers(
        np.asarray(link),
        np.asarray(chunk),
        np.asarray(start),
        np.arange(count, dtype=np.int32),
        np.zeros(count, np.bool_),
        makespan,
    )
    return TimedAnswer(chunks, arcs, ticks, timed)


def wanted(goal: TreeGoal) -> NDArray[np.bool_]:
    """Which ranks want the chunks, where all chunks are wanted by the same."""
    takes = np.zeros(goal.num_ranks, np.bool_)
    assert goal.ends.shared is not None
    takes[goal.ends.shared] = True
    return takes
