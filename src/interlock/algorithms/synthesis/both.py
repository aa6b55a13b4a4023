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
from interlock.algorithms.synthesis.trees import pack, summing_and_spreading_work, wanted_by

__all__ = ["both_ways"]

LEAST_CHUNK_BYTES = 64
MOST_PAIRS = 256  # of trees
CHUNKS_PER_RANK = (8, 16, 32, 64)
CENTRAL = 1.3  # how much farther from its farthest rank a root may be than the most central one
PACES = (0.3, 1.0)  # how strictly chunks keep their order, see `lateness`


def both_ways(goal: Goal, arcs: ArcSet, budget: Budget) -> Iterator[Answer]:
    """Pairs of trees with roots near the middle, chosen with their trees so that weak ranks relay little."""
    items = len(goal.size_bytes)
    for per_rank in CHUNKS_PER_RANK if budget.parts is None else (budget.parts,):
        parts = per_rank if budget.parts is not None else max(1, per_rank * goal.num_ranks // items)
        chunks = cut(goal.size_bytes, parts)
        transfers = len(chunks) * 2 * goal.num_ranks
        is_first = per_rank == CHUNKS_PER_RANK[0] or budget.parts is not None
        if not is_first and (int(chunks.length.max()) < LEAST_CHUNK_BYTES or not budget.affords(5 * transfers)):
            return
        ticks = arcs.ticks(2 * transfers, float(goal.size_bytes.sum()) * goal.num_ranks * 2)
        pairs = min(MOST_PAIRS, len(chunks), 2 * goal.num_ranks)
        scene = Scene(arcs, ticks, chunks, partial(TimedAnswer, chunks, arcs, ticks))
        per_pair = -(-len(chunks) // pairs)
        chunk_bytes = int(chunks.length.max())
        roots = _central(goal, arcs, ticks, chunk_bytes)
        forest = pack(
            arcs,
            replace(ticks, overhead=ticks.overhead * per_pair),
            roots[np.arange(pairs) % len(roots)],
            np.full(pairs, per_pair * chunk_bytes, np.int64),
            wanted_by(goal, np.zeros(1, np.int32)),
            passes=6,
            slack=1.0,
            seed=budget.seed,
            free_roots=roots,
        )
        number = np.arange(len(chunks))
        for pace in PACES:
            lateness = np.rint(number * (pace * forest.peak_ticks / len(chunks))).astype(np.int64)
            work = summing_and_spreading_work(forest, (number % pairs).astype(np.int32), arcs, lateness)
            yield from scheduled(work, scene, forest.peak_ticks, budget)


def _central(goal: Goal, arcs: ArcSet, ticks: Ticks, chunk_bytes: int) -> NDArray[np.int32]:
    """Ranks of the group that are not much farther from their farthest rank than the most central one is."""
    farthest = np.asarray(_core.eccentricities(arcs.columns(ticks), chunk_bytes))
    members = goal.ends.shared
    assert members is not None
    distance = farthest[members]
    if (distance < 0).any():
        return members
    return np.sort(members[distance <= CENTRAL * distance.min()])
