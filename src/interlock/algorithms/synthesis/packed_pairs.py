"""Sums that every rank needs, on any graph: up one tree and down another, laid along the cheapest links.

Many chunks are on their way at once, so that sums and copies overlap; roots are free, so that weak ranks relay little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answers import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.forests import Forest, pack, summing_and_copying_tasks, wanted_by
from interlock.algorithms.synthesis.goal import LEAST_CHUNK_BYTES, TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.algorithms.synthesis.list_schedule import (
    ListScheduler,
    Merging,
    TimedTransfers,
    fastest,
    merged_evenly,
    never_merged,
)

__all__ = ["packed_pairs", "sharing_pairs"]

MOST_PAIRS = 256  # of trees: a cap on time
PASSES = 6  # times that every tree is laid anew, at the prices that the others left
MOST_CHUNKS = 4096  # a cap on time
CENTRAL = 1.3  # how much farther from its farthest rank a root may be than the most central one
# Slack and haste: shallow trees; over fast links; close to the cheapest. No kind is best everywhere: without the second
# 12 % were lost where most, without the third 8 %, of 52 drawn All-Reduces.
TREES = ((1.0, 1.0), (3.0, 10.0), (0.1, 1.0))
MORE_CHUNKS = (1.3, 2.6, 4.0, 0.7)  # merged on their way, more of them fill and drain the trees sooner
OTHER_TREES = ((3.0, 10.0), (0.3, 4.0), (0.1, 1.0), (0.3, 1.0))  # laid from other seeds; without, 1.2 % slower


def packed_pairs(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """Roots near the middle or anywhere; the best pairs with more and with fewer chunks; then other pairs."""
    arcs, total_bytes = graph.arcs, goal.total_bytes
    ticks = arcs.ticks(4 * MOST_CHUNKS * goal.num_ranks, 2.0 * total_bytes * goal.num_ranks)
    counts = _numbers_of_chunks(goal, arcs, ticks, total_bytes) if goal.parts is None else (goal.parts,)
    best_s, best_parts = np.inf, counts[0]

    # Trees hardly depend on the number of chunks: they are laid once, for the first, as long as there is budget.
    scheduler = _scheduler(goal, arcs, ticks, counts[0])
    num_chunks = len(scheduler.chunks)
    choices = _choices_of_roots(goal, arcs, ticks, total_bytes // num_chunks)
    pairs = min(num_chunks, MOST_PAIRS)
    effort = pairs * len(arcs) * PASSES // 2
    forests: list[tuple[float, int, Forest]] = []
    for place, (kind, roots) in enumerate(product(TREES, choices)):
        if place > 0 and not budget.affords(4 * effort):
            break
        budget.spend(effort)
        forest = _laid(goal, arcs, ticks, num_chunks, roots, kind, budget.seed, pairs)
        if forest.peak_ticks * ticks.tick_s >= best_s:
            continue  # its busiest link alone takes as long as an answer
        answer = _answer(scheduler, _fastest(forest, scheduler, budget, never_merged))
        yield answer
        forests.append((answer.makespan_s, place, forest))
        best_s = min(best_s, answer.makespan_s)

    forest = min(forests)[2]
    for parts in counts:
        scheduler = _scheduler(goal, arcs, ticks, parts)
        is_afforded = budget.affords(10 * len(scheduler.chunks) * goal.num_ranks)
        if not is_afforded or int(scheduler.chunks.length.max()) < LEAST_CHUNK_BYTES:
            continue
        answer = _answer(scheduler, _fastest(forest, scheduler, budget, merged_evenly))
        yield answer
        if answer.makespan_s < best_s:
            best_s, best_parts = answer.makespan_s, parts

    scheduler = _scheduler(goal, arcs, ticks, best_parts)
    num_chunks = len(scheduler.chunks)
    choices = _choices_of_roots(goal, arcs, ticks, total_bytes // num_chunks)
    pairs = min(num_chunks, MOST_PAIRS)
    effort = pairs * len(arcs) * PASSES // 2
    for attempt, kind in enumerate(OTHER_TREES):
        if not budget.affords(4 * effort + 20 * num_chunks * goal.num_ranks):
            return
        budget.spend(effort)
        roots = choices[attempt % len(choices)]
        forest = _laid(goal, arcs, ticks, num_chunks, roots, kind, budget.seed + 1 + attempt, pairs)
        yield _answer(scheduler, _fastest(forest, scheduler, budget, merged_evenly))


def sharing_pairs(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """The same with links shared."""
    yield from packed_pairs(goal, graph.patient(), budget)


def _scheduler(goal: TreeGoal, arcs: ArcSet, ticks: Ticks, parts: int) -> ListScheduler:
    return ListScheduler(arcs, ticks, cut(goal.size_bytes, parts))


def _answer(scheduler: ListScheduler, transfers: TimedTransfers) -> TimedAnswer:
    return TimedAnswer(scheduler.chunks, scheduler.arcs, scheduler.ticks, transfers)


def _numbers_of_chunks(goal: TreeGoal, arcs: ArcSet, ticks: Ticks, total_bytes: int) -> tuple[int, ...]:
    """Per item, where overhead grows with more chunks as much as the time to fill and drain the trees shrinks."""
    items, ranks = len(goal.size_bytes), goal.num_ranks
    farthest = np.asarray(_core.eccentricities(arcs.columns(replace(ticks, overhead=0 * ticks.overhead)), total_bytes))
    filling = 2.0 * float(farthest.min() if farthest.min() > 0 else farthest.max())
    overhead = 2.0 * (ranks - 1) / arcs.num_resources * float(ticks.overhead.mean())
    best = np.sqrt(filling / overhead) if overhead > 0 else np.inf
    middle = float(np.clip(best, 2 * ranks, min(MOST_CHUNKS, max(64, total_bytes // LEAST_CHUNK_BYTES))))
    return tuple(max(1, round(middle * share / items)) for share in MORE_CHUNKS)


def _choices_of_roots(goal: TreeGoal, arcs: ArcSet, ticks: Ticks, chunk_bytes: int) -> list[NDArray[np.int32]]:
    """Ranks not much farther from their farthest rank than the most central one is; and, if others, all."""
    members = goal.ends.shared
    assert members is not None
    distance = np.asarray(_core.eccentricities(arcs.columns(ticks), chunk_bytes))[members]
    central = members[distance <= CENTRAL * distance.min()]
    everyone = np.sort(members)
    return [everyone] if len(central) == len(members) or (distance < 0).any() else [np.sort(central), everyone]


def _laid(
    goal: TreeGoal,
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


def _fastest(
    forest: Forest,
    scheduler: ListScheduler,
    budget: Budget,
    mergings_for: Callable[[float], tuple[Merging, ...]],
) -> TimedTransfers:
    """Chunks dealt out to the trees in turn."""
    tree = (np.arange(len(scheduler.chunks)) % len(forest.root)).astype(np.int32)
    tasks = summing_and_copying_tasks(forest, tree, scheduler.arcs)
    return fastest(tasks, scheduler, forest.peak_ticks, budget, mergings_for)
