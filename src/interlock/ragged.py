"""Rows of integers of unequal length, as two arrays (CSR), and what such rows are counted with."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput

__all__ = ["Ragged", "before_in_group", "matches", "ranges", "run_starts", "topological_order"]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Row r is ``values[offsets[r]:offsets[r + 1]]``.

    >>> rows = Ragged.from_lists([[3, 1], [], [2]])
    >>> len(rows), rows[0].tolist(), rows[1].tolist()
    (3, [3, 1], [])
    """

    offsets: NDArray[np.int64]  # [rows + 1]
    values: NDArray[np.int32]

    @classmethod
    def empty(cls, num_rows: int) -> Ragged:
        """Rows with nothing in them."""
        return cls(np.zeros(num_rows + 1, np.int64), np.zeros(0, np.int32))

    @classmethod
    def single(cls, values: NDArray[np.int32]) -> Ragged:
        """One value in every row."""
        return cls(np.arange(len(values) + 1, dtype=np.int64), np.ascontiguousarray(values, np.int32))

    @classmethod
    def from_counts(cls, counts: NDArray[np.integer], values: NDArray[np.int32]) -> Ragged:
        """Rows of the given lengths over one flat array."""
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        if offsets[-1] != len(values):
            raise InvalidInput(f"counts add up to {offsets[-1]} but there are {len(values)} values")
        return cls(offsets, np.ascontiguousarray(values, np.int32))

    @classmethod
    def from_pairs(cls, rows: NDArray[np.int64], values: NDArray[np.int64], num_rows: int) -> Ragged:
        """Row ``rows[i]`` holds ``values[i]``, which is not negative: ascending, each once."""
        width = int(values.max(initial=0)) + 1
        pairs = np.sort(rows * width + values)
        pairs = pairs[np.diff(pairs, prepend=-1) != 0]
        return cls.from_counts(np.bincount(pairs // width, minlength=num_rows), (pairs % width).astype(np.int32))

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        """Rows given as Python sequences."""
        lists = list(rows)
        counts = np.fromiter((len(row) for row in lists), np.int64, len(lists))
        flat = np.fromiter((value for row in lists for value in row), np.int32, int(counts.sum()))
        return cls.from_counts(counts, flat)

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts, one after the other."""
        counts = np.concatenate([part.counts for part in parts]) if parts else np.zeros(0, np.int64)
        values = np.concatenate([part.values for part in parts]) if parts else np.zeros(0, np.int32)
        return cls.from_counts(counts, values)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Length of each row."""
        return np.diff(self.offsets)

    @property
    def is_single(self) -> bool:
        """Whether every row holds exactly one value."""
        return len(self.values) == len(self) and bool((self.counts == 1).all())

    @property
    def row_of_value(self) -> NDArray[np.int64]:
        """The row each value belongs to."""
        return np.repeat(np.arange(len(self)), self.counts)

    @classmethod
    def grouped(cls, rows: NDArray[np.integer], values: NDArray[np.integer], num_rows: int) -> Ragged:
        """Row ``rows[i]`` holds ``values[i]``, in the order given."""
        ordered = values[np.argsort(rows, kind="stable")].astype(np.int32)
        return cls.from_counts(np.bincount(rows, minlength=num_rows), ordered)

    @classmethod
    def either(cls, which: NDArray[np.bool_], yes: Ragged, no: Ragged) -> Ragged:
        """Rows of one table where `which`, of the other elsewhere."""
        row = np.arange(len(which))
        return cls.concatenate([yes, no]).take(np.where(which, row, len(yes) + row))

    def take(self, rows: NDArray[np.integer]) -> Ragged:
        """The chosen rows, in the order given."""
        counts = self.counts[rows]
        return Ragged.from_counts(counts, self.values[ranges(self.offsets[:-1][rows], counts)])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ragged):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]


def ranges(first: NDArray[np.integer] | int, counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """`counts[k]` numbers from `first[k]` on, one range after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    shift = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return np.asarray(np.arange(len(shift)) + shift, np.int64)


def matches(have: NDArray[np.integer], asked: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places in `have` of every key that is asked for, as often as it is there, and the place in `asked` each serves.

    >>> [places.tolist() for places in matches(np.array([7, 3, 7]), np.array([3, 9, 7]))]
    [[1, 0, 2], [0, 2, 2]]
    """
    order = np.argsort(have, kind="stable")
    low = np.searchsorted(have[order], asked, side="left")
    counts = np.searchsorted(have[order], asked, side="right") - low
    return order[ranges(low, counts)], np.repeat(np.arange(len(asked)), counts)


def run_starts(*columns: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Which rows differ from the row before in any column.

    >>> run_starts(np.array([4, 4, 4, 7]), np.array([0, 0, 1, 1])).tolist()
    [True, False, True, True]
    """
    starts = np.ones(len(columns[0]), np.bool_)
    starts[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return starts


def before_in_group(group: NDArray[np.integer], sizes: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Sizes of what stands before each entry in its group, added up; without sizes, how many do.

    >>> before_in_group(np.array([7, 3, 7, 7])).tolist()
    [0, 0, 1, 2]
    >>> before_in_group(np.array([7, 3, 7, 7]), np.array([5, 1, 2, 9])).tolist()
    [0, 0, 5, 7]
    """
    order = np.argsort(group, kind="stable")
    ordered = np.ones(len(group), np.int64) if sizes is None else sizes[order]
    running = np.cumsum(ordered) - ordered
    first = np.flatnonzero(run_starts(group[order]))
    before = np.empty(len(group), np.int64)
    before[order] = running - np.repeat(running[first], np.diff(np.append(first, len(group))))
    return before


def topological_order(after: Ragged) -> list[int]:
    """Rows, each behind the rows it names; of those that may come next, the first. Without those that wait in a circle.

    >>> topological_order(Ragged.from_lists([[2], [], [3], [], [0]]))
    [1, 3, 2, 0, 4]
    """
    followers = Ragged.grouped(after.values, after.row_of_value, len(after))
    first, named_by = followers.offsets.tolist(), followers.values.tolist()
    waits = after.counts.tolist()
    ready = [row for row, count in enumerate(waits) if count == 0]
    order: list[int] = []
    while ready:
        row = heapq.heappop(ready)
        order.append(row)
        for follower in named_by[first[row] : first[row + 1]]:
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(ready, follower)
    return order
