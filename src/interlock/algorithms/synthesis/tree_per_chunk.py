"""Where ranks have many links: a tree laid quickly for every chunk, so many that even slow links get their share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answers import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.bounds import least_seconds, least_seconds_in_and_out
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.connections import all_can_meet_at
from interlock.algorithms.synthesis.forests import Forest, copying_tasks, summing_and_copying_tasks
from interlock.algorithms.synthesis.goal import LEAST_CHUNK_BYTES, Direction, TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.algorithms.synthesis.list_schedule import (
    LONG_MESSAGES,
    OVERHEAD_MATTERS,
    SINGLE,
    ListScheduler,
    Merging,
    fastest_merged,
    overhead_share,
)
from interlock.schedule import Chunks

__all__ = ["has_many_links", "is_good_for_many_links", "sweep", "tree_per_chunk"]

MANY_LINKS = 6  # of each rank: with fewer, the best arc now spoils too much for trees to come
MOST_RANKS = 512  # a cap on time
MOST_TRANSFERS = 1_000_000  # in one schedule: a cap on time
TOO_MANY_ARCS = 500  # for trees laid with more care, unless these are far from the bound
FAR_FROM_BOUND = 1.15  # of the quick bound, which is often a few percent below what is possible
CHUNKS_PER_ARC = (64, 128)  # so that a link of a sixteenth of the speed still has some
# How much time on the way weighs beside price. 1 is as good; without it, of 11 drawn problems with many links three
# were up to 5 % slower, but a Broadcast of 1 GiB on a torus almost twice as fast.
HASTE = 0.3
PASSES = 6  # times that every tree is laid anew, at the prices that the others left
# Sums pass more hops, which shorter messages fill sooner.
SHORTER_MESSAGES = tuple(replace(LONG_MESSAGES[0], most_overheads=most) for most in (12.0, 16.0, 8.0, 24.0))
MESSAGE = 16  # how much longer than its overhead a message is, more or less
HOP = 5  # the least time of a hop, in the same measure: chunks wait for others to share a message with


def has_many_links(goal: TreeGoal, graph: Graph) -> bool:
    """Whether ranks have so many links each that quick trees will do; ways through the same ports do not count."""
    arcs, ranks = graph.arcs, goal.num_ranks
    is_dense = MANY_LINKS * ranks <= min(len(arcs), arcs.num_resources)
    return goal.spans_all and is_dense and ranks <= MOST_RANKS and all_can_meet_at(0, goal, arcs)


def is_good_for_many_links(goal: TreeGoal, graph: Graph, best: Answer) -> bool:
    """Whether trees laid with more care would take too long for what they could still gain."""
    least = least_seconds_in_and_out if goal.direction is Direction.IN_AND_OUT else least_seconds
    return len(graph.arcs) >= TOO_MANY_ARCS and best.makespan_s <= FAR_FROM_BOUND * least(goal, graph.arcs)


def tree_per_chunk(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """So many chunks that every arc carries dozens; for sums that all need a pair of trees each, with roots free to
    move: up one and down the other."""
    arcs = graph.arcs
    has_sums = goal.direction is Direction.IN_AND_OUT
    hops = 2 * goal.num_ranks * len(goal.size_bytes) if has_sums else goal.num_moves
    for per_arc in CHUNKS_PER_ARC:
        parts = goal.parts or max(1, round(per_arc * len(arcs) / hops))
        chunks = cut(goal.size_bytes, parts)
        if not _is_worthwhile(arcs, chunks, parts, hops * parts, budget):
            return
        ticks = arcs.ticks(hops * parts, (1.0 + has_sums) * goal.total_bytes * goal.num_ranks)
        number = np.arange(len(chunks), dtype=np.int32)
        if has_sums:
            everyone = np.arange(goal.num_ranks, dtype=np.int32)
            forest = _swept(arcs, ticks, chunks, number % goal.num_ranks, budget, everyone)
            tasks = summing_and_copying_tasks(forest, number, arcs)
        else:
            forest = _swept(arcs, ticks, chunks, goal.root[chunks.item], budget)
            tasks = copying_tasks(forest, number, arcs)
        mergings: tuple[Merging, ...] = SHORTER_MESSAGES if has_sums else LONG_MESSAGES
        if overhead_share(arcs, chunks) < OVERHEAD_MATTERS:
            mergings = (SINGLE,)
        transfers = fastest_merged(tasks, ListScheduler(arcs, ticks, chunks), mergings, budget)
        if transfers is not None:
            yield TimedAnswer(chunks, arcs, ticks, transfers)


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


def sweep(
    arcs: ArcSet,
    ticks: Ticks,
    root: NDArray[np.int32],
    size_bytes: NDArray[np.int64],
    hop_ticks: NDArray[np.float64],
    *,
    passes: int,
    haste: float,
    seed: int = 0,
    free_roots: NDArray[np.int32] | None = None,
) -> Forest:
    """Lay a tree per root to all ranks, quickly, where ranks have many arcs; see `sweep_trees` of the core."""
    laid = _core.sweep_trees(
        arcs.columns(ticks),
        np.ascontiguousarray(root, np.int32),
        np.ascontiguousarray(size_bytes, np.int64),
        np.zeros(0, np.int32) if free_roots is None else np.ascontiguousarray(free_roots, np.int32),
        np.ascontiguousarray(hop_ticks, np.float64),
        passes,
        haste,
        seed,
    )
    return Forest.of(laid)
