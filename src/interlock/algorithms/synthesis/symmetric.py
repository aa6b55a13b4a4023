"""One rank for all: only rank 0's chunks get a schedule, and symmetry makes every other rank's of it.

Rank 0's chunks may use each orbit of arcs as if they were alone: when all ranks do the same at once, each on arcs of
its own, nobody is in another's way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answers import Answer, TranslatedAnswer
from interlock.algorithms.synthesis.arcs import Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.forests import copying_tasks, fastest_trees, pack
from interlock.algorithms.synthesis.goal import LEAST_CHUNK_BYTES, TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.algorithms.synthesis.list_schedule import (
    ListScheduler,
    TimedTransfers,
    fastest,
    more_parts_are_no_use,
    overhead_share,
)
from interlock.algorithms.synthesis.paths import path_tasks, route
from interlock.algorithms.synthesis.symmetry import Quotient
from interlock.schedule import Chunks

__all__ = ["looks_alike", "symmetric"]

GROWTHS = 8  # seeds tried, until one needs the least slots
MOST_CHUNKS = 1_000_000  # arriving at all ranks together, where we choose how many: a cap on rows


@dataclass(frozen=True, slots=True)
class RankZero:
    """Rank 0's chunks, and where symmetry finds them for the others."""

    scheduler: ListScheduler  # its chunks are rank 0's
    all_chunks: Chunks
    image: NDArray[np.int32]  # [num_ranks, chunks_per_rank]
    quotient: Quotient

    @property
    def num_chunks(self) -> int:
        """Of rank 0."""
        return len(self.scheduler.chunks)

    def answer(self, transfers: TimedTransfers) -> TranslatedAnswer:
        """For all ranks."""
        return TranslatedAnswer(self.all_chunks, self.quotient, self.scheduler.ticks, self.image, transfers)


def looks_alike(goal: TreeGoal, graph: Graph) -> bool:
    """Whether graph and goal look the same from every rank."""
    if graph.quotient is None:
        return False
    items = _item_of_pair(goal) if goal.is_pairwise else _items_by_rank(goal) if goal.spans_all else None
    return items is not None


def symmetric(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """Rank 0's paths to all others, or its trees."""
    assert graph.quotient is not None
    return (_paths if goal.is_pairwise else _trees)(goal, graph.quotient, budget)


def _items_by_rank(goal: TreeGoal) -> NDArray[np.int32] | None:
    """Items of each rank ``[num_ranks, items_per_rank]`` if all have as many, of the same size to a byte."""
    items, ranks = len(goal.size_bytes), goal.num_ranks
    if items % ranks or not goal.has_equal_items:
        return None
    order = np.argsort(goal.root, kind="stable").astype(np.int32)
    if not np.array_equal(goal.root[order], np.repeat(np.arange(ranks), items // ranks)):
        return None
    return order.reshape(ranks, -1)


def _item_of_pair(goal: TreeGoal) -> NDArray[np.int32] | None:
    """Item of each pair of ranks ``[num_ranks, num_ranks]``, -1 on the diagonal, if there is just one and all equal."""
    ranks = goal.num_ranks
    if len(goal.size_bytes) != ranks * (ranks - 1) or not goal.has_equal_items:
        return None
    item = np.full((ranks, ranks), -1, np.int32)
    item[goal.root, goal.ends.to_ragged().values] = np.arange(len(goal.root), dtype=np.int32)
    return item if int((item < 0).sum()) == ranks and bool((np.diag(item) < 0).all()) else None


def _rank_zero(goal: TreeGoal, quotient: Quotient, items: NDArray[np.int32], parts: int) -> RankZero | None:
    """Every item cut in `parts`; None where there are not so many bytes, or too many rows would come of it."""
    if parts > 1 and (int(goal.size_bytes.min()) < parts * LEAST_CHUNK_BYTES or parts * goal.num_moves > MOST_CHUNKS):
        return None
    chunks = cut(goal.size_bytes, parts)
    image = items.repeat(parts, axis=1) * np.int32(parts) + np.tile(np.arange(parts, dtype=np.int32), items.shape[1])
    ticks = quotient.arcs.ticks(8 * goal.num_moves * parts, float(goal.size_bytes.sum()) * goal.num_ranks)
    return RankZero(ListScheduler(quotient.arcs, ticks, chunks.take(image[0])), chunks, image, quotient)


def _trees(goal: TreeGoal, quotient: Quotient, budget: Budget) -> Iterator[Answer]:
    """With more and more chunks, until more of them are no longer better."""
    by_rank = _items_by_rank(goal)
    assert by_rank is not None
    best_s, best_parts = np.inf, 0
    for parts in goal.parts_to_try():
        zero = _rank_zero(goal, quotient, by_rank, parts)
        if zero is None or (
            best_parts and more_parts_are_no_use(quotient.arcs, zero.scheduler.chunks, parts, best_parts)
        ):
            return
        if best_parts and not budget.affords(20 * zero.num_chunks * goal.num_ranks):
            return
        answer = zero.answer(_fastest_to_all(goal, zero, budget))
        yield answer
        if answer.makespan_s < best_s:
            best_s, best_parts = answer.makespan_s, parts


def _fastest_to_all(goal: TreeGoal, zero: RankZero, budget: Budget) -> TimedTransfers:
    """Grown greedily; along the fastest trees, where overhead counts; along packed trees."""
    scheduler, arcs, chunks = zero.scheduler, zero.scheduler.arcs, zero.scheduler.chunks
    transfers = zero.num_chunks * (goal.num_ranks - 1)
    least_ticks = _least_ticks(zero, transfers)
    best: TimedTransfers | None = None
    for attempt in range(GROWTHS):
        grown = _grown(zero, budget.seed + attempt)
        budget.spend(transfers)
        best = _faster(best, grown)
        if budget.is_over(scheduler.seconds(best)):
            return best
        if grown.makespan_ticks <= least_ticks:
            break
    assert best is not None
    root, each = np.zeros(zero.num_chunks, np.int32), np.arange(zero.num_chunks, dtype=np.int32)
    share = overhead_share(arcs, chunks)
    if share > 0.1:
        forest = fastest_trees(arcs, scheduler.ticks, root, int(chunks.length.mean()))
        best = _faster(best, fastest(copying_tasks(forest, each, arcs), scheduler, 0, budget))
        if budget.is_over(scheduler.seconds(best)):
            return best
    if grown.makespan_ticks <= least_ticks and (share < 0.01 or goal.parts is not None):
        return best
    everyone = np.zeros(0, np.uint8), np.zeros(0, np.int32)
    for slack in (0.05, 0.3):
        forest = pack(arcs, scheduler.ticks, root, chunks.length, everyone, passes=6, slack=slack, seed=budget.seed)
        best = _faster(best, fastest(copying_tasks(forest, each, arcs), scheduler, forest.peak_ticks, budget))
        if budget.is_over(scheduler.seconds(best)):
            return best
    return best


def _faster(best: TimedTransfers | None, other: TimedTransfers) -> TimedTransfers:
    return other if best is None or other.makespan_ticks < best.makespan_ticks else best


def _least_ticks(zero: RankZero, transfers: int) -> int:
    """With equal orbits, all of them busy all the time; 0 where they are unequal."""
    arcs, ticks = zero.scheduler.arcs, zero.scheduler.ticks
    held = ticks.overhead + np.rint(int(zero.scheduler.chunks.length.max()) * ticks.per_byte).astype(np.int64)
    if np.ptp(held) or arcs.num_resources != zero.quotient.num_orbits:
        return 0
    return -(-transfers // zero.quotient.num_orbits) * int(held[0])


def _grown(zero: RankZero, seed: int) -> TimedTransfers:
    """Rank 0's chunks spread over one orbit after another; always sends where something is lacking."""
    arcs, ticks, orbits = zero.scheduler.arcs, zero.scheduler.ticks, zero.quotient.num_orbits
    orbit_arc = arcs.orbit_arc
    number = np.arange(len(arcs), dtype=np.int32).reshape(-1, orbits)
    # Orbit o out of rank u is arc number[u, o]; with ends swapped, the one that leads into u.
    leaving = np.empty_like(number)
    leaving[arcs.src.reshape(-1, orbits), np.arange(orbits)] = number
    resources = arcs.resources.take(orbit_arc)
    route_number, chunk, start, makespan = _core.grow(
        np.ascontiguousarray(arcs.dst[leaving]),
        arcs.num_resources,
        resources.offsets,
        resources.values,
        np.maximum(_held_ticks(ticks, orbit_arc, int(zero.scheduler.chunks.length.max())), 1),
        ticks.latency[orbit_arc],
        zero.num_chunks,
        seed,
    )
    arc = leaving.reshape(-1)[route_number]
    message = np.arange(len(arc), dtype=np.int32)
    sent = np.asarray(start) + ticks.held(arc, zero.scheduler.chunks.length[chunk])
    return TimedTransfers(
        arc, np.asarray(chunk), np.asarray(start), sent, message, np.zeros(len(arc), np.bool_), makespan
    )


def _held_ticks(ticks: Ticks, arc: NDArray[np.int64], chunk_bytes: int) -> NDArray[np.int64]:
    return ticks.overhead[arc] + np.rint(chunk_bytes * ticks.per_byte[arc]).astype(np.int64)


def _paths(goal: TreeGoal, quotient: Quotient, budget: Budget) -> Iterator[Answer]:
    """Rank 0's balanced paths to all others."""
    item_of_pair = _item_of_pair(goal)
    assert item_of_pair is not None
    ranks = goal.num_ranks
    others = np.arange(1, ranks, dtype=np.int32)
    items = item_of_pair[np.arange(ranks)[:, None], quotient.image[:, others]]
    for parts in goal.parts_to_try():
        zero = _rank_zero(goal, quotient, items, parts)
        if zero is None or (parts > 1 and not budget.affords(100 * zero.num_chunks)):
            return
        src, dst = np.zeros(zero.num_chunks, np.int32), np.repeat(others, parts)
        batch = max(1, zero.num_chunks // 128)
        scheduler = zero.scheduler
        paths, peak = route(
            quotient.arcs, scheduler.ticks, src, dst, scheduler.chunks.length, passes=6, batch=batch, seed=budget.seed
        )
        yield zero.answer(fastest(path_tasks(paths), scheduler, peak, budget))
