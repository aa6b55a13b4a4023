"""Sums that every rank needs: summed up one tree and copied down another, many chunks on their way at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answer import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.candidates import Scene, scheduled
from interlock.algorithms.synthesis.goal import Goal, cut
from interlock.algorithms.synthesis.trees import Forest, pack, summing_and_spreading_work, wanted_by

__all__ = ["both_ways"]

LEAST_CHUNK_BYTES = 64
MOST_PAIRS = 256  # of trees
PASSES = 6
MOST_CHUNKS = 4096
CENTRAL = 1.3  # how much farther from its farthest rank a root may be than the most central one
SLACKS = (1.0, 0.1)  # shallow trees first; close to the cheapest where some link is much weaker than the rest
PACES = (0.3, 1.0)  # how strictly chunks keep their order


def both_ways(goal: Goal, arcs: ArcSet, budget: Budget) -> Iterator[Answer]:
    """Pairs of trees with roots near the middle or anywhere, more and more chunks on them."""
    members = goal.ends.shared
    assert members is not None
    best_s = np.inf
    total_bytes = int(goal.size_bytes.sum())
    ticks = arcs.ticks(4 * MOST_CHUNKS * goal.num_ranks, 2.0 * total_bytes * goal.num_ranks)
    counts = _numbers_of_chunks(goal, arcs, ticks, total_bytes) if budget.parts is None else (budget.parts,)
    # Trees hardly depend on the number of chunks: they are laid once, for the first.
    forests = [
        _pairs(goal, arcs, ticks, counts[0] * len(goal.size_bytes), roots, slack, budget)
        for roots in _choices_of_roots(members, arcs, ticks, total_bytes // (counts[0] * len(goal.size_bytes)))
        for slack in SLACKS
    ]
    for parts in counts:
        chunks = cut(goal.size_bytes, parts)
        is_too_much = int(chunks.length.max()) < LEAST_CHUNK_BYTES
        is_too_much |= not budget.affords(10 * len(chunks) * goal.num_ranks)
        if best_s < np.inf and is_too_much:
            continue
        scene = Scene(arcs, ticks, chunks, partial(TimedAnswer, chunks, arcs, ticks))
        # A forest whose busiest link is busier than an answer is long cannot give a better one.
        for forest in sorted(forests, key=lambda forest: forest.peak_ticks):
            if forest.peak_ticks * ticks.tick_s >= best_s:
                break
            for answer in _paced(forest, scene, budget):
                yield answer
                best_s = min(best_s, answer.makespan_s)


def _numbers_of_chunks(goal: Goal, arcs: ArcSet, ticks: Ticks, total_bytes: int) -> tuple[int, ...]:
    """Per item, where overhead grows with more chunks as much as the time to fill and drain the trees shrinks."""
    items, ranks = len(goal.size_bytes), goal.num_ranks
    farthest = np.asarray(_core.eccentricities(arcs.columns(replace(ticks, overhead=0 * ticks.overhead)), total_bytes))
    filling = 2.0 * float(farthest.min() if farthest.min() > 0 else farthest.max())
    overhead = 2.0 * (ranks - 1) / arcs.num_resources * float(ticks.overhead.mean())
    best = np.sqrt(filling / overhead) if overhead > 0 else np.inf
    middle = float(np.clip(best, 2 * ranks, min(MOST_CHUNKS, max(64, total_bytes // LEAST_CHUNK_BYTES))))
    return tuple(max(1, round(middle * share / items)) for share in (1.0, 1.6, 0.6))


def _choices_of_roots(
    members: NDArray[np.int32], arcs: ArcSet, ticks: Ticks, chunk_bytes: int
) -> list[NDArray[np.int32]]:
    """Ranks not much farther from their farthest rank than the most central one is; and, if others, all."""
    distance = np.asarray(_core.eccentricities(arcs.columns(ticks), chunk_bytes))[members]
    central = members[distance <= CENTRAL * distance.min()]
    everyone = np.sort(members)
    return [everyone] if len(central) == len(members) or (distance < 0).any() else [np.sort(central), everyone]


def _pairs(
    goal: Goal, arcs: ArcSet, ticks: Ticks, num_chunks: int, roots: NDArray[np.int32], slack: float, budget: Budget
) -> Forest:
    """Pairs of trees, each for its share of the chunks."""
    pairs = min(MOST_PAIRS, num_chunks)
    budget.spend(pairs * len(arcs) * PASSES // 2)
    return pack(
        arcs,
        replace(ticks, overhead=ticks.overhead * num_chunks // pairs),
        roots[np.arange(pairs) % len(roots)],
        np.full(pairs, -(-int(goal.size_bytes.sum()) // pairs), np.int64),
        wanted_by(goal, np.zeros(1, np.int32)),
        passes=PASSES,
        slack=slack,
        seed=budget.seed,
        free_roots=roots,
    )


def _paced(forest: Forest, scene: Scene, budget: Budget) -> Iterator[Answer]:
    """Chunks dealt out to the trees in turn, each meant to be a little later than the one before."""
    number = np.arange(len(scene.chunks))
    tree = (number % len(forest.root)).astype(np.int32)
    for pace in PACES:
        lateness = np.rint(number * (pace * forest.peak_ticks / len(number))).astype(np.int64)
        work = summing_and_spreading_work(forest, tree, scene.arcs, lateness)
        yield from scheduled(work, scene, forest.peak_ticks, budget)
