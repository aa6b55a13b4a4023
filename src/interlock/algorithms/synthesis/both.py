"""Sums that every rank needs: summed up one tree and copied down another, many chunks on their way at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answer import Answer, TimedAnswer, called
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.candidates import Manner, Scene, evenly_merged, scheduled, unmerged
from interlock.algorithms.synthesis.goal import Goal, cut
from interlock.algorithms.synthesis.shares import are_few, shared
from interlock.algorithms.synthesis.sweeps import are_many, swept_sums
from interlock.algorithms.synthesis.trees import Forest, pack, summing_and_spreading_work, wanted_by

__all__ = ["both_ways"]

LEAST_CHUNK_BYTES = 64
MOST_PAIRS = 256  # of trees
MOST_PAIRS_ON_FEW_ARCS = 1024
MOST_PAIRED_ARCS = 30_000  # of all pairs together, where they are more than those
PASSES = 6
MOST_CHUNKS = 4096
CENTRAL = 1.3  # how much farther from its farthest rank a root may be than the most central one
TREES = ((1.0, 1.0), (3.0, 10.0), (0.1, 1.0))  # slack and haste: shallow; over fast links; close to the cheapest
KEPT_FORESTS = 2  # the best with one number of chunks are tried with the next
MORE_CHUNKS = (1.3, 2.6, 4.0, 0.7)  # merged on their way, more of them fill and drain the trees sooner
PACES = (1.0, 0.3)  # how strictly chunks keep their order; the second for the first number of chunks merged
OTHER_TREES = ((3.0, 10.0), (0.3, 4.0), (0.1, 1.0), (0.3, 1.0))  # laid from other seeds
MORE_PAIRS = 384  # of those


def both_ways(goal: Goal, arcs: ArcSet, budget: Budget) -> Iterator[Answer]:
    """A pair of trees per chunk, shares of the best pairs, then packed ones."""
    total_bytes = int(goal.size_bytes.sum())
    ticks = arcs.ticks(4 * MOST_CHUNKS * goal.num_ranks, 2.0 * total_bytes * goal.num_ranks)
    if are_many(goal, arcs) and (yield from called("a pair of trees per chunk", swept_sums(goal, arcs, ticks, budget))):
        return
    if are_few(goal, arcs, budget):
        yield from called("shares of the best pairs of trees", shared(goal, arcs, budget))
    yield from called("packed pairs of trees", _packed(goal, arcs, ticks, total_bytes, budget))


def _packed(goal: Goal, arcs: ArcSet, ticks: Ticks, total_bytes: int, budget: Budget) -> Generator[Answer]:
    """Roots near the middle or anywhere; the best with more and more chunks; then others."""
    counts = _numbers_of_chunks(goal, arcs, ticks, total_bytes) if budget.parts is None else (budget.parts,)
    best_s, best_parts = np.inf, counts[0]
    scene = _scene(goal, arcs, ticks, counts[0])
    tried: list[tuple[float, int, Forest]] = []
    # Trees hardly depend on the number of chunks: they are laid once, for the first, as long as there is budget.
    for place, forest in enumerate(_forests(goal, arcs, ticks, len(scene.chunks), budget)):
        # A forest whose busiest link is busier than an answer is long cannot give a better one.
        if forest.peak_ticks * ticks.tick_s >= best_s:
            continue
        least_s = np.inf
        for answer in _paced(forest, scene, PACES[0], budget, unmerged):
            yield answer
            least_s = min(least_s, answer.makespan_s)
        tried.append((least_s, place, forest))
        best_s = min(best_s, least_s)
    kept = [forest for _, _, forest in sorted(tried)[:KEPT_FORESTS]]
    for parts in counts:
        scene = _scene(goal, arcs, ticks, parts)
        if int(scene.chunks.length.max()) < LEAST_CHUNK_BYTES:
            continue
        for forest in kept:
            if not budget.affords(10 * len(scene.chunks) * goal.num_ranks):
                break
            for answer in _paced(forest, scene, PACES[parts == counts[0]], budget, evenly_merged):
                yield answer
                if answer.makespan_s < best_s:
                    best_s, best_parts = answer.makespan_s, parts
    yield from _on_other_trees(goal, arcs, _scene(goal, arcs, ticks, best_parts), budget)


def _scene(goal: Goal, arcs: ArcSet, ticks: Ticks, parts: int) -> Scene:
    chunks = cut(goal.size_bytes, parts)
    return Scene(arcs, ticks, chunks, partial(TimedAnswer, chunks, arcs, ticks))


def _forests(goal: Goal, arcs: ArcSet, ticks: Ticks, num_chunks: int, budget: Budget) -> Iterator[Forest]:
    """Trees from central roots and from all, shallow and cheap; the first in any case."""
    members = goal.ends.shared
    assert members is not None
    choices = _choices_of_roots(members, arcs, ticks, int(goal.size_bytes.sum()) // num_chunks)
    most = int(np.clip(MOST_PAIRED_ARCS // len(arcs), MOST_PAIRS, MOST_PAIRS_ON_FEW_ARCS))
    cost = min(most, num_chunks) * len(arcs) * PASSES // 2
    for place, (kind, roots) in enumerate(product(TREES, choices)):
        if place > 0 and not budget.affords(4 * cost):
            return
        budget.spend(cost)
        yield _pairs(goal, arcs, ticks, num_chunks, roots, kind, budget.seed, min(most, num_chunks))


def _on_other_trees(goal: Goal, arcs: ArcSet, scene: Scene, budget: Budget) -> Iterator[Answer]:
    """The best number of chunks again, on trees laid from other seeds, while there is budget."""
    members = goal.ends.shared
    assert members is not None
    num_chunks = len(scene.chunks)
    choices = _choices_of_roots(members, arcs, scene.ticks, int(goal.size_bytes.sum()) // num_chunks)
    most = int(np.clip(MOST_PAIRED_ARCS // len(arcs), MORE_PAIRS, MOST_PAIRS_ON_FEW_ARCS))
    pairs = min(most, num_chunks)
    cost = pairs * len(arcs) * PASSES // 2
    for attempt, kind in enumerate(OTHER_TREES):
        if not budget.affords(4 * cost + 20 * num_chunks * goal.num_ranks):
            return
        budget.spend(cost)
        roots = choices[attempt % len(choices)]
        forest = _pairs(goal, arcs, scene.ticks, num_chunks, roots, kind, budget.seed + 1 + attempt, pairs)
        yield from _paced(forest, scene, PACES[0], budget, evenly_merged)


def _numbers_of_chunks(goal: Goal, arcs: ArcSet, ticks: Ticks, total_bytes: int) -> tuple[int, ...]:
    """Per item, where overhead grows with more chunks as much as the time to fill and drain the trees shrinks."""
    items, ranks = len(goal.size_bytes), goal.num_ranks
    farthest = np.asarray(_core.eccentricities(arcs.columns(replace(ticks, overhead=0 * ticks.overhead)), total_bytes))
    filling = 2.0 * float(farthest.min() if farthest.min() > 0 else farthest.max())
    overhead = 2.0 * (ranks - 1) / arcs.num_resources * float(ticks.overhead.mean())
    best = np.sqrt(filling / overhead) if overhead > 0 else np.inf
    middle = float(np.clip(best, 2 * ranks, min(MOST_CHUNKS, max(64, total_bytes // LEAST_CHUNK_BYTES))))
    return tuple(max(1, round(middle * share / items)) for share in MORE_CHUNKS)


def _choices_of_roots(
    members: NDArray[np.int32], arcs: ArcSet, ticks: Ticks, chunk_bytes: int
) -> list[NDArray[np.int32]]:
    """Ranks not much farther from their farthest rank than the most central one is; and, if others, all."""
    distance = np.asarray(_core.eccentricities(arcs.columns(ticks), chunk_bytes))[members]
    central = members[distance <= CENTRAL * distance.min()]
    everyone = np.sort(members)
    return [everyone] if len(central) == len(members) or (distance < 0).any() else [np.sort(central), everyone]


def _pairs(
    goal: Goal,
    arcs: ArcSet,
    ticks: Ticks,
    num_chunks: int,
    roots: NDArray[np.int32],
    kind: tuple[float, float],
    seed: int,
    pairs: int,
) -> Forest:
    """Pairs of trees, each for its share of the chunks."""
    return pack(
        arcs,
        replace(ticks, overhead=ticks.overhead * num_chunks // pairs),
        roots[np.arange(pairs) % len(roots)],
        np.full(pairs, -(-int(goal.size_bytes.sum()) // pairs), np.int64),
        wanted_by(goal, np.zeros(1, np.int32)),
        passes=PASSES,
        slack=kind[0],
        haste=kind[1],
        seed=seed,
        free_roots=roots,
    )


def _paced(
    forest: Forest, scene: Scene, pace: float, budget: Budget, manners_for: Callable[[float], tuple[Manner, ...]]
) -> Iterator[Answer]:
    """Chunks dealt out to the trees in turn, each meant to be a little later than the one before."""
    number = np.arange(len(scene.chunks))
    tree = (number % len(forest.root)).astype(np.int32)
    lateness = np.rint(number * (pace * forest.peak_ticks / len(number))).astype(np.int64)
    work = summing_and_spreading_work(forest, tree, scene.arcs, lateness)
    yield from scheduled(work, scene, forest.peak_ticks, budget, manners_for)
