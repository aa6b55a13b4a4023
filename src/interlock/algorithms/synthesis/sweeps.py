"""Trees where ranks have many links: laid quickly, one for every chunk, so that even slow links get their share."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.answer import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.bounds import least_seconds, least_seconds_both_ways
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.candidates import FELT, LEVEL, Manner, Scene, overhead_share, tried
from interlock.algorithms.synthesis.goal import Goal, cut
from interlock.algorithms.synthesis.reach import meets_at
from interlock.algorithms.synthesis.timed import Work
from interlock.algorithms.synthesis.trees import Forest, spreading_work, summing_and_spreading_work, sweep
from interlock.schedule import Chunks

__all__ = ["are_many", "swept_copies", "swept_sums"]

# Trees are laid with more care only where arcs are few, or where these leave links unbalanced.
TOO_MANY_ARCS = 500
BALANCED = 1.15  # the time of the busiest link, of the least time
MANY_LINKS = 6  # for each rank
MOST_RANKS = 512
MOST_TRANSFERS = 1_000_000
CHUNKS_PER_ARC = (64, 128)
SUMS_PER_ARC = (128, 256)
HASTE = 0.3
PASSES = 6
PACE = 0.1  # how strictly sums keep their order
# Sums pass more hops, which shorter messages fill sooner.
SHORT = tuple(Manner(4096, full=full) for full in (12.0, 16.0, 8.0, 24.0))
MESSAGE = 16  # how much longer than its overhead a message is, more or less
HOP = 5  # the least time of a hop, in the same measure: chunks wait for others to share a message with
LEAST_CHUNK_BYTES = 64


def are_many(goal: Goal, arcs: ArcSet) -> bool:
    """Whether ranks have so many links each that quick trees will do; ways through the same ports do not count."""
    ranks = goal.num_ranks
    is_dense = MANY_LINKS * ranks <= min(len(arcs), arcs.num_resources)
    return goal.spans_all and is_dense and ranks <= MOST_RANKS and meets_at(0, goal, arcs)


def swept_copies(goal: Goal, arcs: ArcSet, budget: Budget) -> Generator[Answer, None, bool]:
    """A tree for every chunk, so many chunks that every arc carries dozens; returns whether that will do."""
    moves, peak_s = goal.num_moves, np.inf
    for per_arc in CHUNKS_PER_ARC:
        parts = budget.parts or max(1, round(per_arc * len(arcs) / moves))
        chunks = cut(goal.size_bytes, parts)
        if not _is_worthwhile(arcs, chunks, parts, moves * parts, budget):
            break
        ticks = arcs.ticks(moves * parts, float(goal.size_bytes.sum()) * goal.num_ranks)
        forest = _swept(arcs, ticks, chunks, goal.root[chunks.item], budget)
        work = spreading_work(forest, np.arange(len(chunks), dtype=np.int32), arcs)
        yield from _merged(work, arcs, ticks, chunks, LEVEL, budget)
        peak_s = min(peak_s, forest.peak_ticks * ticks.tick_s)
    return len(arcs) >= TOO_MANY_ARCS and peak_s <= BALANCED * least_seconds(goal, arcs)


def swept_sums(goal: Goal, arcs: ArcSet, ticks: Ticks, budget: Budget) -> Generator[Answer, None, bool]:
    """The same with pairs of trees, sums up one and copies down the other, roots free to move."""
    hops, peak_s = 2 * goal.num_ranks * len(goal.size_bytes), np.inf
    for per_arc in SUMS_PER_ARC:
        parts = budget.parts or max(1, round(per_arc * len(arcs) / hops))
        chunks = cut(goal.size_bytes, parts)
        if not _is_worthwhile(arcs, chunks, parts, hops * parts, budget):
            break
        everyone = np.arange(goal.num_ranks, dtype=np.int32)
        number = np.arange(len(chunks), dtype=np.int32)
        forest = _swept(arcs, ticks, chunks, number % goal.num_ranks, budget, everyone)
        lateness = np.rint(number * (PACE * forest.peak_ticks / len(chunks))).astype(np.int64)
        work = summing_and_spreading_work(forest, number, arcs, lateness)
        yield from _merged(work, arcs, ticks, chunks, SHORT, budget)
        peak_s = min(peak_s, forest.peak_ticks * ticks.tick_s)
    return len(arcs) >= TOO_MANY_ARCS and peak_s <= BALANCED * least_seconds_both_ways(goal, arcs)


def _is_worthwhile(arcs: ArcSet, chunks: Chunks, parts: int, transfers: int, budget: Budget) -> bool:
    """Whether there is budget, and an item sent whole would not be mostly overhead."""
    items = replace(chunks, length=chunks.length * parts)
    return (
        transfers <= MOST_TRANSFERS
        and budget.affords(12 * transfers)
        and int(chunks.length.min()) >= LEAST_CHUNK_BYTES
        and overhead_share(arcs, items) < 0.5
    )


def _swept(
    arcs: ArcSet,
    ticks: Ticks,
    chunks: Chunks,
    root: NDArray[np.int32],
    budget: Budget,
    free_roots: NDArray[np.int32] | None = None,
) -> Forest:
    """A tree per chunk, each with its part of the overhead of messages that it shares."""
    body = float(chunks.length.mean()) * ticks.per_byte
    budget.spend(len(chunks) * len(arcs) * PASSES // (200 if free_roots is None else 50))
    return sweep(
        arcs,
        replace(ticks, overhead=np.minimum(ticks.overhead, np.rint(body / MESSAGE)).astype(np.int64)),
        root,
        chunks.length,
        np.maximum(1.0, ticks.latency + np.maximum(body, HOP * ticks.overhead)),
        passes=PASSES,
        haste=HASTE,
        seed=budget.seed,
        free_roots=free_roots,
    )


def _merged(
    work: Work, arcs: ArcSet, ticks: Ticks, chunks: Chunks, manners: tuple[Manner, ...], budget: Budget
) -> Iterator[Answer]:
    """Messages that take about as long on links of any speed; single chunks where overhead is not felt."""
    scene = Scene(arcs, ticks, chunks, partial(TimedAnswer, chunks, arcs, ticks))
    is_felt = overhead_share(arcs, chunks) >= FELT
    yield from tried(work, scene, manners if is_felt else (Manner(1),), budget)
