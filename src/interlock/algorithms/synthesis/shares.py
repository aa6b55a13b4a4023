"""Trees in the best proportions: a linear program says how much each carries, and chunks are cut to that measure."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answer import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.candidates import FELT, MEASURED, Manner, Scene, overhead_share, tried
from interlock.algorithms.synthesis.goal import Flow, Goal, cut
from interlock.algorithms.synthesis.timed import Work
from interlock.algorithms.synthesis.trees import Forest, spreading_work, summing_and_spreading_work, wanted_by
from interlock.errors import InvalidInput
from interlock.schedule import Chunks

__all__ = ["are_few", "shared"]

MOST_ROWS = 700  # of the linear program
MOST_EFFORT = 2_000_000_000  # its steps, each as long as its rows are many, squared
MOST_STEPS = 10_000_000  # as many as the core takes
EFFORT_PER_TRANSFER = 400
MORE_TRANSFERS = 5_000_000  # beside the steps of the program
MOST_TRANSFERS = 250_000  # at once
TOLERANCE = 0.01  # of the busiest link's time
HASTES = (1.0, 10.0)  # how much time on the way weighs beside price
# One after the other over the slowest link of a tree, for each hop on the way.
CHUNKS_PER_HOP = (15.0, 30.0, 8.0)
LEAST_CHUNKS = 30
PACE = 0.5  # how strictly chunks keep their order
TAPER = 0.1  # towards the beginning and the end, from there on, chunks and messages get shorter
THIN = 0.3  # the shortest, of the longest
LEAST_CHUNK_BYTES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Trees, and the bytes that each carries: those of all roots one after the other."""

    forest: Forest
    end: NDArray[np.int64]  # [num_trees] ascending
    slowest: NDArray[np.float64]  # [num_trees] ticks per byte on the slowest arc


def are_few(goal: Goal, arcs: ArcSet, budget: Budget) -> bool:
    """Whether the program is small, and chunks may be cut as it says."""
    rows = arcs.num_resources + goal.num_ranks
    is_free = budget.parts is None and not budget.is_even and not budget.is_stopped
    return is_free and rows <= MOST_ROWS and goal.ends.shared is not None and len(goal.ends.shared) > 1


def shared(goal: Goal, arcs: ArcSet, budget: Budget) -> Generator[Answer]:
    """Short chunks on the best trees, with a budget that leaves as much as ever for other ways."""
    own = replace(budget, spent=0, limit=MORE_TRANSFERS, report=lambda share: None)
    counted = 0
    for answer in _answers(goal, arcs, own):
        budget.extend(own.spent - counted)
        budget.spend(own.spent - counted)
        counted = own.spent
        yield answer


def _answers(goal: Goal, arcs: ArcSet, budget: Budget) -> Iterator[Answer]:
    total_bytes = int(goal.size_bytes.sum())
    if total_bytes == 0 or overhead_share(arcs, cut(goal.size_bytes, 1)) >= 0.5:
        return
    ticks = arcs.ticks(4 * MOST_TRANSFERS, 2.0 * total_bytes * goal.num_ranks)
    shares = _shares(goal, arcs, ticks, ticks.per_byte * float(total_bytes), HASTES[0], budget)
    if shares is None:
        return
    hops = _hops(shares, arcs)
    if not ticks.overhead.any():
        yield from _timed(goal, arcs, ticks, shares, hops, None, budget)
        return
    # Longer messages have less overhead, but are passed on later.
    whole = shares.forest.peak_ticks
    best_ticks = np.sqrt(np.maximum(1.0, ticks.overhead) * (whole / hops))
    burdened = replace(ticks, per_byte=ticks.per_byte * (1.0 + ticks.overhead / best_ticks))
    chunk_ticks = np.minimum(ticks.per_byte * total_bytes, whole) / (CHUNKS_PER_HOP[0] * hops)
    for haste in HASTES:
        shares = _shares(goal, arcs, burdened, np.maximum(best_ticks, chunk_ticks) + ticks.latency, haste, budget)
        if shares is not None:
            yield from _timed(goal, arcs, ticks, shares, hops, best_ticks, budget)


def _hops(shares: Shares, arcs: ArcSet) -> float:
    """Of the longest ways of trees, there and back, weighed by what they carry."""
    forest = shares.forest
    hops = _longest(forest.arc_into, arcs.src) + (_longest(forest.arc_outof, arcs.dst) if len(forest.arc_outof) else 0)
    return float(np.average(hops, weights=np.diff(shares.end, prepend=0)))


def _longest(arc: NDArray[np.int32], next_rank: NDArray[np.int32]) -> NDArray[np.int64]:
    """Hops from each tree's farthest rank to its root."""
    rank = np.broadcast_to(np.arange(arc.shape[1], dtype=np.int32), arc.shape)
    towards = np.where(arc >= 0, next_rank[arc], rank)
    hops = np.zeros(len(arc), np.int64)
    while (is_moving := np.take_along_axis(arc, rank, axis=1) >= 0).any():
        hops += is_moving.any(axis=1)
        rank = np.take_along_axis(towards, rank, axis=1)
    return hops


def _timed(
    goal: Goal,
    arcs: ArcSet,
    ticks: Ticks,
    shares: Shares,
    hops: float,
    best_ticks: NDArray[np.float64] | None,
    budget: Budget,
) -> Iterator[Answer]:
    """More and fewer chunks, merged into messages of about the best length."""
    for per_hop in CHUNKS_PER_HOP:
        chunks, tree, when = _cut(goal, shares, max(LEAST_CHUNKS, round(per_hop * hops)))
        work = _work(goal, arcs, shares, tree, when)
        if len(work) > MOST_TRANSFERS:
            continue
        scene = Scene(arcs, ticks, chunks, partial(TimedAnswer, chunks, arcs, ticks), best_ticks)
        is_felt = overhead_share(arcs, chunks) >= FELT
        yield from tried(work, scene, MEASURED if is_felt else (Manner(1),), budget)


def _shares(
    goal: Goal,
    arcs: ArcSet,
    ticks: Ticks,
    hop_ticks: NDArray[np.float64],
    haste: float,
    budget: Budget,
) -> Shares | None:
    """The best trees, in the order of their roots; None where they are not found in time."""
    is_free = goal.flow is Flow.BOTH
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
            haste,
            TOLERANCE,
            most_steps,
        )
    except InvalidInput:  # rates too far apart for the program's arithmetic; other ways remain
        return None
    number, share, root, into, outof, peak_ticks, steps = map(np.asarray, made)
    effort = int(steps) * rows**2 // EFFORT_PER_TRANSFER
    budget.extend(effort)
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
    return Shares(Forest(root[order], into, outof, round(float(peak_ticks))), end, slowest)


def _central_first(goal: Goal, arcs: ArcSet, ticks: Ticks, hop_ticks: NDArray[np.float64]) -> NDArray[np.int32]:
    """Ranks that sums may meet at, those first that are not far from any other."""
    members = goal.ends.shared
    assert members is not None
    farthest = np.asarray(_core.eccentricities(arcs.columns(replace(ticks, per_byte=hop_ticks)), 1))
    return members[np.lexsort((members, farthest[members]))].astype(np.int32)


def _cut(goal: Goal, shares: Shares, count: int) -> tuple[Chunks, NDArray[np.int32], NDArray[np.float64]]:
    """Chunks, the tree of each, and when it is meant to go, from 0 to 1: none takes longer on any arc than one of
    `count` that keep the busiest link busy."""
    first = np.concatenate([[0], shares.end[:-1]])
    size = shares.end - first
    mean = float(np.mean(1.0 / _tapered(np.linspace(0.0, 1.0, 1001))))
    slots = np.ceil(size * shares.slowest * (mean * count / max(1, shares.forest.peak_ticks)))
    pieces = np.clip(slots, 1, np.maximum(1, size // LEAST_CHUNK_BYTES)).astype(np.int64)
    tree = np.repeat(np.arange(len(size), dtype=np.int32), pieces)
    place = np.arange(len(tree)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    last_when, when = _when((place + 1) / pieces[tree]), _when((place + 0.5) / pieces[tree])
    within = np.minimum(np.rint(size[tree] * last_when).astype(np.int64), size[tree])
    piece_end = first[tree] + np.where(place + 1 == pieces[tree], size[tree], within)
    # Items of one root follow each other, and a piece that spans several becomes several.
    order = np.arange(len(goal.root)) if goal.flow is Flow.BOTH else np.argsort(goal.root, kind="stable")
    item_end = np.cumsum(goal.size_bytes[order])
    end = np.union1d(piece_end, item_end)
    end = end[end > 0]
    start = np.concatenate([[0], end[:-1]])
    piece = np.searchsorted(piece_end, start, side="right")
    row = np.searchsorted(item_end, start, side="right")
    item = order[row]
    chunks = Chunks(item.astype(np.int32), start - (item_end[row] - goal.size_bytes[item]), end - start)
    return chunks, tree[piece], when[piece]


def _work(goal: Goal, arcs: ArcSet, shares: Shares, tree: NDArray[np.int32], when: NDArray[np.float64]) -> Work:
    lateness = np.rint(when * (PACE * shares.forest.peak_ticks)).astype(np.int64)
    make = summing_and_spreading_work if goal.flow is Flow.BOTH else spreading_work
    work = make(shares.forest, tree, arcs, lateness)
    return replace(work, ease=_tapered(when)[work.chunk])


def _tapered(when: NDArray[np.float64]) -> NDArray[np.float64]:
    """How long chunks are: shorter towards the beginning and the end, where trees fill and drain."""
    return np.clip(np.minimum(when, 1.0 - when) / TAPER, THIN, 1.0)


def _when(part: NDArray[np.float64]) -> NDArray[np.float64]:
    """By when a part of all chunks has gone, both from 0 to 1."""
    when = np.linspace(0.0, 1.0, 1001)
    gone = np.cumsum(1.0 / _tapered(when))
    return np.interp(part, (gone - gone[0]) / (gone[-1] - gone[0]), when)
