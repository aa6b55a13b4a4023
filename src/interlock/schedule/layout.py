"""Where one rank's bytes lie: which part of its input and output buffer belongs to which item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem, RankSets

__all__ = ["Layout", "PairStarts", "Region"]


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Items of one buffer, ascending, and where each begins."""

    item: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    size_bytes: int  # of the whole buffer


@dataclass(frozen=True, slots=True, eq=False)
class PairStarts:
    """Where the bytes for and from each rank begin in a rank's buffers of an All-to-All."""

    input: NDArray[np.int64]  # [ranks]
    output: NDArray[np.int64]


class Layout:
    """One rank's buffers. Bytes that stay in place (a rank's own share of an All-to-All) are not items.

    `own` are bytes that stay: start in the input, start in the output, length. `pairs` is there for All-to-Alls.
    """

    def __init__(
        self,
        rank: int,
        regions: Callable[[], tuple[Region, Region]],
        own: tuple[int, int, int] = (0, 0, 0),
        pairs: PairStarts | None = None,
    ) -> None:
        self.rank, self.own, self.pairs = rank, own, pairs
        self._regions = regions

    @cached_property
    def _input_and_output(self) -> tuple[Region, Region]:
        return self._regions()

    @property
    def input(self) -> Region:
        """Items of the input."""
        return self._input_and_output[0]

    @property
    def output(self) -> Region:
        """Items of the output."""
        return self._input_and_output[1]

    @classmethod
    def packed(cls, problem: Problem, rank: int) -> Layout:
        """What the rank contributes, end to end in item order, and what it must end with, likewise.

        That is how every collective of `interlock.collectives` orders its buffers.
        """
        items = problem.items
        ends = (items.contributors, items.destinations)
        given, wanted = (_packed_region(_items_of(sets, rank), items.size_bytes) for sets in ends)
        return cls(rank, lambda: (given, wanted))

    @classmethod
    def all_to_all(
        cls,
        bytes_matrix: NDArray[np.int64],
        rank: int,
        rank_of: Sequence[int] | None = None,
        num_ranks: int | None = None,
    ) -> Layout:
        """Input in the order of destinations, output in the order of sources, each with the rank's own share.

        Buffers follow `bytes_matrix`. Where a problem numbers its `num_ranks` ranks otherwise, `rank_of` gives the
        problem's rank of each row.
        """
        place = np.arange(len(bytes_matrix)) if rank_of is None else np.asarray(rank_of)
        own, count = int(place[rank]), num_ranks or len(bytes_matrix)
        row, column = bytes_matrix[rank], bytes_matrix[:, rank]

        def regions() -> tuple[Region, Region]:
            moves = np.zeros((count, count), np.bool_)
            moves[np.ix_(place, place)] = bytes_matrix > 0
            np.fill_diagonal(moves, False)
            item_of_pair = (np.cumsum(moves.reshape(-1)) - 1).reshape(moves.shape)
            return (
                _region(item_of_pair[own, place], moves[own, place], row),
                _region(item_of_pair[place, own], moves[place, own], column),
            )

        starts = np.zeros((2, count), np.int64)
        starts[0, place], starts[1, place] = _starts(row), _starts(column)
        stays = (int(starts[0, own]), int(starts[1, own]), int(row[rank]))
        return cls(own, regions, stays, PairStarts(starts[0], starts[1]))


def _region(item: NDArray[np.int64], is_item: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Region:
    """Shares of a buffer, in buffer order, as items in item order."""
    order = np.flatnonzero(is_item)
    order = order[np.argsort(item[order], kind="stable")]
    return Region(item[order], _starts(sizes)[order], sizes[order], int(sizes.sum()))


def _items_of(sets: RankSets, rank: int) -> NDArray[np.int64]:
    """Items whose set names the rank, ascending."""
    if sets.shared is not None:
        return np.arange(len(sets)) if rank in sets.shared else np.zeros(0, np.int64)
    ragged = sets.to_ragged()
    items: NDArray[np.int64] = ragged.row_of_value[ragged.values == rank]
    is_first: NDArray[np.bool_] = np.diff(items, prepend=-1) > 0
    return items[is_first]


def _packed_region(item: NDArray[np.int64], size_bytes: NDArray[np.int64]) -> Region:
    sizes = size_bytes[item]
    return Region(item, _starts(sizes), sizes, int(sizes.sum()))


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    starts: NDArray[np.int64] = np.cumsum(sizes) - sizes
    return starts
