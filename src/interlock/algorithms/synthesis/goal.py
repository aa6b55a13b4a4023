"""What has to be done, in terms of trees: every item has a root and ends, and flows one way, the other, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem, RankSets
from interlock.ragged import ranges
from interlock.schedule import Chunks

__all__ = ["LEAST_CHUNK_BYTES", "Direction", "TreeGoal", "cut", "goal_of"]

LEAST_CHUNK_BYTES = 64  # a cache line
MORE_AND_MORE_PARTS = tuple(2**k for k in range(13))  # ends where overhead or the budget does


class Direction(Enum):
    """Which way an item flows along its tree."""

    OUT = "copies from the root to the ends"
    IN = "sums from the ends to the root"
    IN_AND_OUT = "sums to a root of our choice, then copies back"


@dataclass(frozen=True, slots=True, eq=False)
class TreeGoal:
    """Items with a root each (any, where they flow in and out) and the ranks at the other end."""

    direction: Direction
    num_ranks: int
    size_bytes: NDArray[np.int64]  # [num_items]
    root: NDArray[np.int32]  # [num_items]
    ends: RankSets
    parts: int | None = None  # chunks that the largest item is cut into; None: ours to choose
    is_cut_evenly: bool = False  # whether chunks of an item must be of nearly equal size

    @property
    def spans_all(self) -> bool:
        """Whether every rank is an end of every item."""
        return self.ends.shared is not None and len(self.ends.shared) == self.num_ranks

    @property
    def is_pairwise(self) -> bool:
        """Whether every item goes from one rank to one other."""
        return self.direction is not Direction.IN_AND_OUT and self.ends.is_single

    @property
    def has_equal_items(self) -> bool:
        """Whether items have the same size, to a byte."""
        return int(np.ptp(self.size_bytes)) <= 1

    @property
    def total_bytes(self) -> int:
        """Of all items together."""
        return int(self.size_bytes.sum())

    def in_pairs(self) -> TreeGoal:
        """The same where each item goes from its root to one other rank, if a group of two is all there is to serve."""
        shared = self.ends.shared
        if self.direction is Direction.IN_AND_OUT or shared is None or len(shared) != 2 or self.num_ranks == 2:
            return self
        if not np.isin(self.root, shared).all():
            return self
        return replace(self, ends=RankSets.one(np.where(self.root == shared[0], shared[1], shared[0])))

    @property
    def num_moves(self) -> int:
        """Pairs of item and end: how often something must at least arrive."""
        shared = self.ends.shared
        ends = len(self.size_bytes) * len(shared) if shared is not None else int(self.ends.to_ragged().offsets[-1])
        return ends * (2 if self.direction is Direction.IN_AND_OUT else 1)

    def parts_to_try(self) -> Sequence[int]:
        """How many chunks to cut the largest item into: as asked, or more and more."""
        return MORE_AND_MORE_PARTS if self.parts is None else (self.parts,)


def goal_of(problem: Problem) -> TreeGoal | str:
    """The goal of a problem, or the reason why trees cannot serve it."""
    items, ranks = problem.items, problem.num_ranks
    if not items.are_reduced:
        return TreeGoal(Direction.OUT, ranks, items.size_bytes, items.origin, items.destinations)
    if items.destinations.is_single:
        root = items.destinations.to_ragged().values
        return TreeGoal(Direction.IN, ranks, items.size_bytes, root, items.contributors)
    shared, wanted = items.contributors.shared, items.destinations.shared
    if shared is None or wanted is None or not np.array_equal(np.sort(shared), np.sort(wanted)):
        return "sums for several ranks must be contributed by those same ranks, the same for every item"
    root = shared[np.arange(len(items)) % len(shared)].astype(np.int32)
    return TreeGoal(Direction.IN_AND_OUT, ranks, items.size_bytes, root, items.contributors)


def cut(size_bytes: NDArray[np.int64], parts: int) -> Chunks:
    """The largest item cut into `parts` chunks of nearly equal size, others into fewer as they are smaller."""
    largest = int(size_bytes.max(initial=1))
    scaled = size_bytes >> max(0, largest.bit_length() - 50)
    counts = np.clip(-(-scaled * parts // int(scaled.max(initial=1))), 1, size_bytes)
    item = np.repeat(np.arange(len(size_bytes)), counts)
    part = ranges(0, counts)
    quotient, rest = np.divmod(size_bytes[item], counts[item])
    offset = part * quotient + np.minimum(part, rest)
    return Chunks(item.astype(np.int32), offset, quotient + (part < rest))
