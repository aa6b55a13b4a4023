"""A tree for every chunk, along the cheapest links at prices that rise with load: for any goal on any graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interlock.algorithms.synthesis.answers import Answer, TimedAnswer
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.forests import copying_tasks, fastest_trees, pack, wanted_by
from interlock.algorithms.synthesis.goal import LEAST_CHUNK_BYTES, TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.algorithms.synthesis.list_schedule import (
    ListScheduler,
    TimedTransfers,
    fastest,
    more_parts_are_no_use,
    overhead_share,
)

__all__ = ["packed_trees", "sharing_trees"]

QUICK_TRANSFERS = 50_000  # below, trees are laid in more passes: within a fair effort
SLACKS = (0.2, 0.0)  # shallow trees first, then the cheapest


def packed_trees(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """With more and more chunks, until more of them are no longer better."""
    best_s, best_parts = np.inf, 0
    for parts in goal.parts_to_try():
        chunks = cut(goal.size_bytes, parts)
        transfers = goal.num_moves * parts
        is_too_much = not budget.affords(4 * transfers) or int(chunks.length.max()) < LEAST_CHUNK_BYTES
        if best_parts and (is_too_much or more_parts_are_no_use(graph.arcs, chunks, parts, best_parts)):
            return
        ticks = graph.arcs.ticks(transfers, float(goal.size_bytes.sum()) * goal.num_ranks)
        scheduler = ListScheduler(graph.arcs, ticks, chunks)
        answer = TimedAnswer(chunks, graph.arcs, ticks, _fastest_on_trees(goal, scheduler, transfers, budget))
        yield answer
        if answer.makespan_s < best_s:
            best_s, best_parts = answer.makespan_s, parts


def sharing_trees(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """The same with links shared."""
    yield from packed_trees(goal, graph.patient(), budget)


def _fastest_on_trees(goal: TreeGoal, scheduler: ListScheduler, transfers: int, budget: Budget) -> TimedTransfers:
    """The fastest trees for one chunk alone, where overhead is much of the time; packed ones, where it is not all."""
    arcs, ticks, chunks = scheduler.arcs, scheduler.ticks, scheduler.chunks
    root = np.ascontiguousarray(goal.root[chunks.item])
    each = np.arange(len(chunks), dtype=np.int32)
    share = overhead_share(arcs, chunks)
    best: TimedTransfers | None = None
    if goal.spans_all and share > 0.1:
        forest = fastest_trees(arcs, ticks, root, int(chunks.length.mean()))
        best = fastest(copying_tasks(forest, each, arcs), scheduler, 0, budget)
        if share >= 0.5 or budget.is_over(scheduler.seconds(best)):
            return best
    is_quick = transfers <= QUICK_TRANSFERS
    for slack in SLACKS if is_quick else SLACKS[:1]:
        wanted = wanted_by(goal, chunks.item)
        passes = 6 if is_quick else 2
        forest = pack(arcs, ticks, root, chunks.length, wanted, passes=passes, slack=slack, seed=budget.seed)
        tried = fastest(copying_tasks(forest, each, arcs), scheduler, forest.peak_ticks, budget)
        if best is None or tried.makespan_ticks < best.makespan_ticks:
            best = tried
        # Other trees are no better where the busiest link of these hardly rests.
        if tried.makespan_ticks <= 1.02 * forest.peak_ticks or budget.is_over(scheduler.seconds(best)):
            break
    assert best is not None
    return best
