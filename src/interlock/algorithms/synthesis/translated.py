"""One rank for all: ways to spread rank 0's chunks that every rank can follow at once."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.answer import Answer, TranslatedAnswer
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.candidates import Scene, no_more_parts, overhead_share, scheduled
from interlock.algorithms.synthesis.goal import Goal, cut
from interlock.algorithms.synthesis.paths import path_work, route
from interlock.algorithms.synthesis.symmetry import Quotient, grown
from interlock.algorithms.synthesis.trees import alike, pack, spreading_work
from interlock.schedule import Chunks

__all__ = ["translated_answers"]

GROWTHS = 8  # seeds tried
LEAST_CHUNK_BYTES = 64
MOST_CHUNKS = 1_000_000  # arriving at all ranks together, where we choose how many


@dataclass(frozen=True, slots=True)
class Share:
    """Rank 0's share of all chunks: those it starts with, and where symmetry finds them for the others."""

    scene: Scene
    own: Chunks
    per_rank: int


def translated_answers(goal: Goal, quotient: Quotient, budget: Budget) -> Generator[Answer]:
    """Answers for goals that look the same from every rank; none for others."""
    if goal.is_pairwise:
        pairs = _item_of_pair(goal)
        if pairs is not None:
            yield from _path_answers(goal, quotient, pairs, budget)
    elif goal.spans_all:
        by_rank = _items_by_rank(goal)
        if by_rank is not None:
            yield from _tree_answers(goal, quotient, by_rank, budget)


def _items_by_rank(goal: Goal) -> NDArray[np.int32] | None:
    """Items of each rank ``[num_ranks, items_per_rank]`` if all have as many, of the same size to a byte."""
    items, ranks = len(goal.size_bytes), goal.num_ranks
    if items % ranks or int(np.ptp(goal.size_bytes)) > 1:
        return None
    order = np.argsort(goal.root, kind="stable").astype(np.int32)
    if not np.array_equal(goal.root[order], np.repeat(np.arange(ranks), items // ranks)):
        return None
    return order.reshape(ranks, -1)


def _item_of_pair(goal: Goal) -> NDArray[np.int32] | None:
    """Item of each pair of ranks ``[num_ranks, num_ranks]``, -1 on the diagonal, if there is just one and all equal."""
    ranks = goal.num_ranks
    if len(goal.size_bytes) != ranks * (ranks - 1) or int(np.ptp(goal.size_bytes)) > 1:
        return None
    item = np.full((ranks, ranks), -1, np.int32)
    item[goal.root, goal.ends.to_ragged().values] = np.arange(len(goal.root), dtype=np.int32)
    return item if int((item < 0).sum()) == ranks and bool((np.diag(item) < 0).all()) else None


def _share(goal: Goal, quotient: Quotient, items: NDArray[np.int32], parts: int) -> Share | None:
    """Every item cut in `parts`; None where there are not so many bytes, or too many rows would come of it."""
    if parts > 1 and (int(goal.size_bytes.min()) < parts * LEAST_CHUNK_BYTES or parts * goal.num_moves > MOST_CHUNKS):
        return None
    chunks = cut(goal.size_bytes, parts)
    image = items.repeat(parts, axis=1) * np.int32(parts) + np.tile(np.arange(parts, dtype=np.int32), items.shape[1])
    own = Chunks(chunks.item[image[0]], chunks.offset[image[0]], chunks.length[image[0]])
    ticks = quotient.arcs.ticks(8 * goal.num_moves * parts, float(goal.size_bytes.sum()) * goal.num_ranks)
    scene = Scene(quotient.arcs, ticks, own, partial(TranslatedAnswer, chunks, quotient, ticks, image))
    return Share(scene, own, image.shape[1])


def _tree_answers(goal: Goal, quotient: Quotient, by_rank: NDArray[np.int32], budget: Budget) -> Iterator[Answer]:
    """Grown greedily, then along packed trees, with more and more chunks."""
    best_s, best_parts = np.inf, 0
    for parts in budget.ladder():
        share = _share(goal, quotient, by_rank, parts)
        if share is None or (best_parts and no_more_parts(quotient.arcs, share.own, parts, best_parts)):
            return
        if best_parts and not budget.affords(20 * share.per_rank * goal.num_ranks):
            return
        for answer in _trees_of(goal, quotient, share, budget):
            yield answer
            if answer.makespan_s < best_s:
                best_s, best_parts = answer.makespan_s, parts


def _trees_of(goal: Goal, quotient: Quotient, share: Share, budget: Budget) -> Iterator[Answer]:
    arcs, ticks, own = quotient.arcs, share.scene.ticks, share.own
    transfers = share.per_rank * (goal.num_ranks - 1)
    least_ticks = _least_ticks(quotient, share, transfers)
    for attempt in range(GROWTHS):
        timed = grown(quotient, ticks, int(own.length.max()), share.per_rank, budget.seed + attempt)
        budget.spend(transfers)
        yield share.scene.made(timed)
        if timed.makespan_ticks <= least_ticks:
            break
    root, each = np.zeros(share.per_rank, np.int32), np.arange(share.per_rank, dtype=np.int32)
    part = overhead_share(arcs, own)
    if part > 0.1:
        work = spreading_work(alike(arcs, ticks, root, int(own.length.mean())), each, arcs)
        yield from scheduled(work, share.scene, 0, budget)
    if timed.makespan_ticks <= least_ticks and (part < 0.01 or budget.parts is not None):
        return
    everyone = np.zeros(0, np.uint8), np.zeros(0, np.int32)
    for slack in (0.05, 0.3):
        forest = pack(arcs, ticks, root, own.length, everyone, passes=6, slack=slack, seed=budget.seed)
        yield from scheduled(spreading_work(forest, each, arcs), share.scene, forest.peak_ticks, budget)


def _least_ticks(quotient: Quotient, share: Share, transfers: int) -> int:
    """With equal lanes, all of them busy all the time; 0 where they are unequal."""
    arcs, ticks = quotient.arcs, share.scene.ticks
    held = ticks.overhead + np.rint(int(share.own.length.max()) * ticks.per_byte).astype(np.int64)
    if np.ptp(held) or arcs.num_resources != quotient.num_lanes:
        return 0
    return -(-transfers // quotient.num_lanes) * int(held[0])


def _path_answers(goal: Goal, quotient: Quotient, item_of_pair: NDArray[np.int32], budget: Budget) -> Iterator[Answer]:
    """Rank 0's balanced paths to all others."""
    ranks = goal.num_ranks
    others = np.arange(1, ranks, dtype=np.int32)
    items = item_of_pair[np.arange(ranks)[:, None], quotient.image[:, others]]
    for parts in budget.ladder():
        share = _share(goal, quotient, items, parts)
        if share is None or (parts > 1 and not budget.affords(100 * share.per_rank)):
            return
        src, dst = np.zeros(share.per_rank, np.int32), np.repeat(others, parts)
        batch = max(1, share.per_rank // 128)
        paths, peak = route(
            quotient.arcs, share.scene.ticks, src, dst, share.own.length, passes=6, batch=batch, seed=budget.seed
        )
        yield from scheduled(path_work(paths), share.scene, peak, budget)
