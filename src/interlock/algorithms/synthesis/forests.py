"""Trees for chunks to flow along: laid so that no link is busier than it must be, and turned into tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.goal import TreeGoal
from interlock.algorithms.synthesis.list_schedule import Tasks
from interlock.problem import RankSets
from interlock.ragged import Ragged, matches

__all__ = ["Forest", "copying_tasks", "fastest_trees", "pack", "summing_and_copying_tasks", "wanted_by"]

Mask = tuple[NDArray[np.uint8], NDArray[np.int32]]


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """A tree per group of chunks: the arc into each rank, and with sums also the arc out of each rank."""

    root: NDArray[np.int32]  # [num_trees]
    arc_into: NDArray[np.int32]  # [num_trees, num_ranks], -1 at the root and where the tree does not go
    arc_outof: NDArray[np.int32]  # the same towards the root; no rows where nothing is summed
    peak_ticks: int  # of the busiest resource

    @classmethod
    def of(cls, laid: tuple[Any, ...]) -> Forest:
        """As the core gives it: roots, arcs into and out of ranks, and the ticks of each resource."""
        root, arc_into, arc_outof, ticks = laid
        return cls(root, arc_into, arc_outof, int(ticks.max(initial=0)))


def pack(
    arcs: ArcSet,
    ticks: Ticks,
    root: NDArray[np.int32],
    size_bytes: NDArray[np.int64],
    wanted: Mask,
    *,
    passes: int,
    slack: float,
    haste: float = 1.0,
    seed: int,
    free_roots: NDArray[np.int32] | None = None,
) -> Forest:
    """Lay a tree per root; see `pack_trees` of the core for `passes`, `slack` and `haste`."""
    laid = _core.pack_trees(
        arcs.columns(ticks),
        np.ascontiguousarray(root, np.int32),
        np.ascontiguousarray(size_bytes, np.int64),
        *wanted,
        np.zeros(0, np.int32) if free_roots is None else np.ascontiguousarray(free_roots, np.int32),
        passes,
        slack,
        haste,
        seed,
    )
    return Forest.of(laid)


def fastest_trees(arcs: ArcSet, ticks: Ticks, root: NDArray[np.int32], chunk_bytes: int) -> Forest:
    """Fastest trees that look alike from every root, every other one the other way round, to share out the links."""
    turns = [np.asarray(_core.alike_trees(arcs.columns(ticks), root, chunk_bytes, turn)) for turn in (False, True)]
    into = np.where((np.arange(len(root)) % 2 == 0)[:, None], *turns)
    return Forest(root, into, np.zeros((0, arcs.num_ranks), np.int32), 0)


def wanted_by(goal: TreeGoal, item: NDArray[np.int32]) -> Mask:
    """Ranks that the trees of some items must reach, as rows of a mask and the row of each tree."""
    if goal.spans_all:
        return np.zeros(0, np.uint8), np.zeros(0, np.int32)
    return _masks(goal.ends, goal.num_ranks, item)


def _masks(ends: RankSets, num_ranks: int, item: NDArray[np.int32]) -> Mask:
    if ends.shared is not None:
        mask = np.zeros(num_ranks, np.uint8)
        mask[ends.shared] = 1
        return mask, np.zeros(0, np.int32)
    rows = ends.to_ragged().take(item)
    masks = np.zeros((len(item), num_ranks), np.uint8)
    masks[rows.row_of_value, rows.values] = 1
    return masks.reshape(-1), np.arange(len(item), dtype=np.int32)


def copying_tasks(
    forest: Forest, tree_of_chunk: NDArray[np.int32], arcs: ArcSet, lateness: NDArray[np.int64] | None = None
) -> Tasks:
    """A transfer for every arc of every chunk's tree, after the one that brings the chunk to its source."""
    into = forest.arc_into[tree_of_chunk]
    chunk, rank = np.nonzero(into >= 0)
    arc = into[chunk, rank]
    task = np.full(into.shape, -1, np.int32)
    task[chunk, rank] = np.arange(len(arc), dtype=np.int32)
    before = task[chunk, arcs.src[arc]]
    follows = np.flatnonzero(before >= 0)
    return Tasks(
        arc,
        chunk.astype(np.int32),
        np.zeros(len(arc), np.bool_),
        Ragged.grouped(before[follows], follows, len(arc)),
        np.zeros(len(arc), np.int64) if lateness is None else lateness[chunk],
    )


def summing_and_copying_tasks(
    forest: Forest, tree_of_chunk: NDArray[np.int32], arcs: ArcSet, lateness: NDArray[np.int64] | None = None
) -> Tasks:
    """Sums up to each chunk's root, then copies down from it; unless said otherwise, each chunk is meant to be a little
    later than the one before."""
    if lateness is None:
        num_chunks = len(tree_of_chunk)
        lateness = np.rint(np.arange(num_chunks) * (forest.peak_ticks / num_chunks)).astype(np.int64)
    outof, into = forest.arc_outof[tree_of_chunk], forest.arc_into[tree_of_chunk]
    up_chunk, up_rank = np.nonzero(outof >= 0)
    down_chunk, down_rank = np.nonzero(into >= 0)
    up_arc, down_arc = outof[up_chunk, up_rank], into[down_chunk, down_rank]
    num_up, num_down = len(up_arc), len(down_arc)
    up_task = np.full(outof.shape, -1, np.int64)
    up_task[up_chunk, up_rank] = np.arange(num_up)
    down_task = np.full(into.shape, -1, np.int64)
    down_task[down_chunk, down_rank] = num_up + np.arange(num_down)
    next_up = up_task[up_chunk, arcs.dst[up_arc]]
    last_down = down_task[down_chunk, arcs.src[down_arc]]
    into_root, from_root = np.flatnonzero(next_up < 0), np.flatnonzero(last_down < 0)
    copied, summed = matches(down_chunk[from_root], up_chunk[into_root])
    onward = np.flatnonzero(next_up >= 0)
    below = np.flatnonzero(last_down >= 0)
    before = np.concatenate([onward, last_down[below], into_root[summed]])
    after = np.concatenate([next_up[onward], num_up + below, num_up + from_root[copied]])
    chunk = np.concatenate([up_chunk, down_chunk])
    return Tasks(
        np.concatenate([up_arc, down_arc]),
        chunk.astype(np.int32),
        np.arange(num_up + num_down) < num_up,
        Ragged.grouped(before, after, num_up + num_down),
        lateness[chunk],
    )
