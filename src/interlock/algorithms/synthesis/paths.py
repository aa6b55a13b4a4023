"""Items with one end each: a path for every chunk, so that no link is busier than it must be, hop by hop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answers import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.goal import Direction, TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.algorithms.synthesis.list_schedule import ListScheduler, Tasks, fastest
from interlock.ragged import Ragged

__all__ = ["MOST_SEARCHED", "balanced_paths", "can_share_links", "path_tasks", "route", "sharing_paths"]

# Time on the way weighs as much as price: both are seconds. Not tuned: without it, 52 drawn problems were 0.6 % faster
# on average, the worst 12 % slower.
HASTE = 1.0
MANY_PATHS = 20_000  # items are cut further only below: a cap on time
FEW_PATHS = 1_000  # below, a detour is worth many chunks
PASSES = 4  # times that every path is laid anew, at the prices that the others left
MOST_LOOKS = 100_000_000  # at arcs, in all searches for one cut: some seconds; above, paths share searches
MOST_SEARCHED = 10_000_000  # ranks x arcs: above, so many paths must share a search that others' plans are far better


def balanced_paths(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """With links held alone."""
    yield from _balanced(goal, graph.arcs, budget)


def can_share_links(goal: TreeGoal, graph: Graph) -> bool:
    """Whether some links are faster than what they carry."""
    return goal.is_pairwise and goal.direction is Direction.OUT and graph.shared is not None


def sharing_paths(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """With links shared. To wait for word costs a latency, not to wait at most a message: whatever is shorter."""
    shared = graph.shared
    assert shared is not None
    message_s = float(goal.size_bytes.mean()) * shared.seconds_per_byte.mean()
    is_patient = shared.fan_in == 1 or shared.latency_s.mean() < message_s
    yield from _balanced(goal, shared.patient() if is_patient else shared, budget)


def _balanced(goal: TreeGoal, arcs: ArcSet, budget: Budget) -> Iterator[Answer]:
    """Each item whole at first; cut so that large ones can share links where there are few."""
    best_s, best_parts = np.inf, 0
    for parts in goal.parts_to_try():
        chunks = cut(goal.size_bytes, parts)
        patience = 32 if len(chunks) <= FEW_PATHS else 4
        if best_parts and (len(chunks) > MANY_PATHS or parts >= patience * best_parts):
            return
        ticks = arcs.ticks(8 * len(chunks), float(goal.size_bytes.sum()) * goal.num_ranks)
        src, dst = goal.root[chunks.item], goal.ends.to_ragged().values[chunks.item]
        batch = max(1, len(chunks) // 4096, -(-len(chunks) * PASSES * len(arcs) // MOST_LOOKS))
        made_s = np.inf
        idle = np.where(np.isin(arcs.src, src), 0, ticks.opening)  # ranks with nothing of their own open late
        for delay in (idle, 0 * idle) if idle.any() else (idle,):
            paths, peak = route(
                arcs, ticks, src, dst, chunks.length, passes=PASSES, batch=batch, seed=budget.seed, delay_ticks=delay
            )
            tasks = path_tasks(paths, _in_turn(src, dst, chunks.item, goal.num_ranks))
            transfers = fastest(tasks, ListScheduler(arcs, ticks, chunks), peak, budget)
            answer = TimedAnswer(chunks, arcs, ticks, transfers)
            yield answer
            made_s = min(made_s, answer.makespan_s)
        if made_s < 0.99 * best_s:
            best_s, best_parts = made_s, parts


def route(
    arcs: ArcSet,
    ticks: Ticks,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    size_bytes: NDArray[np.int64],
    *,
    passes: int,
    batch: int,
    seed: int,
    delay_ticks: NDArray[np.int64] | None = None,
) -> tuple[Ragged, int]:
    """Arcs from each source to its destination, and the ticks of the busiest resource."""
    order = np.argsort(src, kind="stable")
    offsets, values, load = _core.route_paths(
        arcs.columns(ticks),
        np.ascontiguousarray(src[order], np.int32),
        np.ascontiguousarray(dst[order], np.int32),
        np.ascontiguousarray(size_bytes[order], np.int64),
        passes,
        batch,
        HASTE,
        seed,
        np.zeros(len(arcs), np.int64) if delay_ticks is None else delay_ticks,
    )
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return Ragged(np.asarray(offsets), np.asarray(values)).take(place), int(np.asarray(load).max(initial=0))


def _in_turn(
    src: NDArray[np.int32], dst: NDArray[np.int32], item: NDArray[np.int32], num_ranks: int
) -> NDArray[np.int64]:
    """Chunks in an order in which sources serve their destinations in turn, each beginning with the rank after it.

    Otherwise all would begin with the same destination, and what leads to the others would rest.
    """
    part = np.arange(len(item)) - np.searchsorted(item, item)
    return np.lexsort(((dst - src) % num_ranks, part))


def path_tasks(paths: Ragged, order: NDArray[np.int64] | None = None) -> Tasks:
    """A transfer per hop, after the hop before it; of equally urgent chunks the first in `order` goes first."""
    chunk = np.arange(len(paths)) if order is None else order
    paths = paths if order is None else paths.take(order)
    task = np.arange(len(paths.values), dtype=np.int32)
    is_last = np.zeros(len(task), np.bool_)
    is_last[paths.offsets[1:][paths.counts > 0] - 1] = True
    return Tasks(
        paths.values,
        chunk[paths.row_of_value].astype(np.int32),
        np.zeros(len(task), np.bool_),
        Ragged.from_counts(np.where(is_last, 0, 1), task[~is_last] + np.int32(1)),
        np.zeros(len(task), np.int64),
    )
