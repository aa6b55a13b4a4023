"""Trees in the best proportions: a linear program says how much each carries, and chunks are cut to that measure.

The program's columns are trees, found as they are needed: the cheapest at the prices that links have so far. Its value
is the least time that links could need if nothing had to wait and messages had no overhead (the fluid optimum).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answers import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.forests import Forest, copying_tasks, summing_and_copying_tasks, wanted_by
from interlock.algorithms.synthesis.goal import LEAST_CHUNK_BYTES, Direction, TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.algorithms.synthesis.list_schedule import (
    OVERHEAD_MATTERS,
    SINGLE,
    ListScheduler,
    Merging,
    Tasks,
    fastest_merged,
    overhead_share,
)
from interlock.errors import InvalidInput
from interlock.ragged import ranges
from interlock.schedule import Chunks

__all__ = ["fits_a_program", "proportioned_trees"]

MOST_ROWS = 700  # of the linear program, whose steps grow with their square
MOST_EFFORT = 2_000_000_000  # its steps, each as long as its rows are many, squared: a cap on time
MOST_STEPS = 10_000_000  # as many as the core takes
EFFORT_PER_TRANSFER = 400  # how much of it takes as long as to schedule a transfer
MOST_TRANSFERS = 250_000  # in one schedule: a cap on time
TOLERANCE = 0.01  # of the busiest link's time: the program ends there
# The next three were each changed alone on 194 drawn problems (`bench_ways.problems(991)`, this way only, simulated).
# Time on the way weighs as much as price: both are seconds. From 0 to 4 the average stays within 0.2 %.
HASTE = 1.0
# One after the other over the slowest link of a tree, for each hop on the way.
CHUNKS_PER_HOP = (15.0, 30.0, 8.0)
# Messages of about the best length, more or less.
ABOUT_THE_BEST = tuple(Merging(4096, most_of_best=part) for part in (1.7, 2.8, 1.1, 4.0))
# How strictly chunks keep their order: between the first and the last lies half of the time of the busiest link.
# Without an order schedules were 1.6 % slower on average; 0.1 and 1 are as good as this.
PACE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Proportions:
    """Trees, and the bytes that each carries: those of all roots one after the other."""

    forest: Forest
    end: NDArray[np.int64]  # [num_trees] ascending
    slowest: NDArray[np.float64]  # [num_trees] ticks per byte on the slowest arc


def fits_a_program(goal: TreeGoal, graph: Graph) -> bool:
    """Whether the program is small, chunks may be cut as it says, and an item sent whole is not mostly overhead."""
    rows = graph.arcs.num_resources + goal.num_ranks
    is_free = goal.parts is None and not goal.is_cut_evenly
    has_ends = goal.ends.shared is not None and len(goal.ends.shared) > 1
    is_small = rows <= MOST_ROWS and goal.total_bytes > 0
    return is_free and has_ends and is_small and overhead_share(graph.arcs, cut(goal.size_bytes, 1)) < 0.5


def proportioned_trees(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """As links are; then with overhead and time on the way in the prices, and messages of about the best length."""
    if budget.is_spent:
        return  # an answer is wanted at once
    arcs = graph.arcs
    ticks = arcs.ticks(4 * MOST_TRANSFERS, 2.0 * goal.total_bytes * goal.num_ranks)
    found = _solve(goal, arcs, ticks, ticks.per_byte * float(goal.total_bytes), budget)
    if found is None:
        return
    hops = _hops(found, arcs)
    best_ticks: NDArray[np.float64] | None = None
    if ticks.overhead.any():
        # Longer messages have less overhead, but are passed on later.
        whole = found.forest.peak_ticks
        best_ticks = np.sqrt(np.maximum(1.0, ticks.overhead) * (whole / hops))
        priced = replace(ticks, per_byte=ticks.per_byte * (1.0 + ticks.overhead / best_ticks))
        chunk_ticks = np.minimum(ticks.per_byte * goal.total_bytes, whole) / (CHUNKS_PER_HOP[0] * hops)
        hop_ticks = np.maximum(best_ticks, chunk_ticks) + ticks.latency.astype(np.float64)
        found = _solve(goal, arcs, priced, hop_ticks, budget)
        if found is None:
            return
    for per_hop in CHUNKS_PER_HOP:
        chunks, tree, when = _cut(goal, found, max(1, round(per_hop * hops)))
        tasks = _tasks(goal, arcs, found, tree, when)
        if len(tasks) > MOST_TRANSFERS:
            continue
        mergings = ABOUT_THE_BEST if overhead_share(arcs, chunks) >= OVERHEAD_MATTERS else (SINGLE,)
        transfers = fastest_merged(tasks, ListScheduler(arcs, ticks, chunks, best_ticks), mergings, budget)
        if transfers is not None:
            yield TimedAnswer(chunks, arcs, ticks, transfers)


def _hops(proportions: Proportions, arcs: ArcSet) -> float:
    """Of the longest ways of trees, there and back, weighed by what they carry."""
    forest = proportions.forest
    hops = _longest(forest.arc_into, arcs.src) + (_longest(forest.arc_outof, arcs.dst) if len(forest.arc_outof) else 0)
    return float(np.average(hops, weights=np.diff(proportions.end, prepend=0)))


def _longest(arc: NDArray[np.int32], next_rank: NDArray[np.int32]) -> NDArray[np.int64]:
    """Hops from each tree's farthest rank to its root."""
    rank = np.broadcast_to(np.arange(arc.shape[1], dtype=np.int32), arc.shape)
    towards = np.where(arc >= 0, next_rank[arc], rank)
    hops = np.zeros(len(arc), np.int64)
    while (is_moving := np.take_along_axis(arc, rank, axis=1) >= 0).any():
        hops += is_moving.any(axis=1)
        rank = np.take_along_axis(towards, rank, axis=1)
    return hops


def _solve(
    goal: TreeGoal,
    arcs: ArcSet,
    ticks: Ticks,
    hop_ticks: NDArray[np.float64],
    budget: Budget,
) -> Proportions | None:
    """The best trees, in the order of their roots; None where they are not found in time."""
    is_free = goal.direction is Direction.IN_AND_OUT
    size_bytes = np.zeros(goal.num_ranks, np.int64)
    np.add.at(size_bytes, goal.root, goal.size_bytes)  # exact, which floats are not above 2^53 bytes
    roots = np.flatnonzero(size_bytes).astype(np.int32)
    size_bytes = size_bytes[roots]
    rows = arcs.num_resources + len(roots)
    most_steps = min(MOST_EFFORT // rows**2, MOST_STEPS)
    try:
        made = _core.share_trees(
            arcs.columns(ticks),
            roots,
            size_bytes,
            *wanted_by(goal, np.zeros(1, np.int32)),
            _central_first(goal, arcs, ticks, hop_ticks) if is_free else np.zeros(0, np.int32),
            hop_ticks,
            HASTE,
            TOLERANCE,
            most_steps,
        )
    except InvalidInput:  # rates too far apart for the program's arithmetic; other ways remain
        return None
    number, share, root, into, outof, peak_ticks, steps = map(np.asarray, made)
    effort = int(steps) * rows**2 // EFFORT_PER_TRANSFER
    budget.limit += effort  # MOST_EFFORT limits it, beside the transfers
    budget.spend(effort)
    if int(steps) >= most_steps:
        return None
    order = np.argsort(number, kind="stable")
    number, share, into = number[order], share[order], into[order]
    sizes = size_bytes.sum(keepdims=True) if is_free else size_bytes
    whole_end = np.cumsum(sizes)[number]
    # The shares of every root sum up to one, but for rounding.
    end = np.rint(whole_end + (np.cumsum(share) - number - 1) * sizes[number]).astype(np.int64)
    is_last = np.diff(number, append=-1) != 0
    end = np.maximum.accumulate(np.where(is_last, whole_end, np.minimum(end, whole_end)))
    slowest = np.where(into >= 0, ticks.per_byte[into], 0.0).max(axis=1)
    if is_free:
        outof = outof[order]
        slowest = np.maximum(slowest, np.where(outof >= 0, ticks.per_byte[outof], 0.0).max(axis=1))
    return Proportions(Forest(root[order], into, outof, round(float(peak_ticks))), end, slowest)


def _central_first(goal: TreeGoal, arcs: ArcSet, ticks: Ticks, hop_ticks: NDArray[np.float64]) -> NDArray[np.int32]:
    """Ranks that sums may meet at, those first that are not far from any other."""
    members = goal.ends.shared
    assert members is not None
    farthest = np.asarray(_core.eccentricities(arcs.columns(replace(ticks, per_byte=hop_ticks)), 1))
    return members[np.lexsort((members, farthest[members]))].astype(np.int32)


def _cut(goal: TreeGoal, proportions: Proportions, count: int) -> tuple[Chunks, NDArray[np.int32], NDArray[np.float64]]:
    """Chunks, the tree of each, and when it is meant to go, from 0 to 1: none takes longer on any arc than one of
    `count` that keep the busiest link busy."""
    first = np.concatenate([[0], proportions.end[:-1]])
    size = proportions.end - first
    slots = np.ceil(size * proportions.slowest * (count / max(1, proportions.forest.peak_ticks)))
    pieces = np.clip(slots, 1, np.maximum(1, size // LEAST_CHUNK_BYTES)).astype(np.int64)
    tree = np.repeat(np.arange(len(size), dtype=np.int32), pieces)
    place = ranges(0, pieces)
    within = np.rint(size[tree] * ((place + 1) / pieces[tree])).astype(np.int64)
    piece_end = first[tree] + np.where(place + 1 == pieces[tree], size[tree], within)
    # Items of one root follow each other, and a piece that spans several becomes several.
    order = (
        np.arange(len(goal.root)) if goal.direction is Direction.IN_AND_OUT else np.argsort(goal.root, kind="stable")
    )
    item_end = np.cumsum(goal.size_bytes[order])
    end = np.union1d(piece_end, item_end)
    end = end[end > 0]
    start = np.concatenate([[0], end[:-1]])
    piece = np.searchsorted(piece_end, start, side="right")
    row = np.searchsorted(item_end, start, side="right")
    item = order[row]
    chunks = Chunks(item.astype(np.int32), start - (item_end[row] - goal.size_bytes[item]), end - start)
    return chunks, tree[piece], ((place + 0.5) / pieces[tree])[piece]


def _tasks(
    goal: TreeGoal, arcs: ArcSet, proportions: Proportions, tree: NDArray[np.int32], when: NDArray[np.float64]
) -> Tasks:
    lateness = np.rint(when * (PACE * proportions.forest.peak_ticks)).astype(np.int64)
    make = summing_and_copying_tasks if goal.direction is Direction.IN_AND_OUT else copying_tasks
    return make(proportions.forest, tree, arcs, lateness)
