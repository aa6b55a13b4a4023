"""Items sorted into streams: all that flows along the same kind of trees.

A stream has roots, each with a number of bytes. Its bytes are spread from the roots along trees that reach every
destination, or added up along trees that start at every contributor, or both, and then the roots are free to choose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Items, RankSets

__all__ = ["Stream", "sort_into_streams"]


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """`root_bytes` per rank, or None where the sum may be formed anywhere; no contributors: nothing is added up."""

    total_bytes: float
    root_bytes: NDArray[np.float64] | None  # [num_ranks]
    contributors: NDArray[np.int32] | None
    destinations: NDArray[np.int32] | None

    @property
    def is_unicast(self) -> bool:
        """Whether every byte goes from one rank to one rank."""
        ends = self.destinations if self.contributors is None else self.contributors
        return self.root_bytes is not None and ends is not None and len(ends) == 1

    @property
    def is_all_reduce(self) -> bool:
        """Whether the same ranks contribute and receive, and the sum may be formed anywhere."""
        if self.contributors is None or self.destinations is None:
            return False
        return np.array_equal(self.contributors, self.destinations)


def sort_into_streams(items: Items, num_ranks: int) -> list[Stream]:
    """Streams of all items. Plain items that share their destinations share a stream; so do sums for one rank that
    share their contributors; so do sums for several ranks that share both."""
    if items.are_reduced and not items.destinations.is_single:
        return _free_rooted(items)
    if items.are_reduced:
        made = _rooted(items.size_bytes, items.destinations, items.contributors, num_ranks)
        return [Stream(total, root, ends, None) for total, root, ends in made]
    by_destination = _rooted(items.size_bytes, items.contributors, items.destinations, num_ranks)
    if items.destinations.is_single and len(by_destination) > 1:
        by_origin = _rooted(items.size_bytes, items.destinations, items.contributors, num_ranks)
        if len(by_origin) < len(by_destination):
            return [Stream(total, root, ends, None) for total, root, ends in by_origin]
    return [Stream(total, root, None, ends) for total, root, ends in by_destination]


def _rooted(
    size_bytes: NDArray[np.int64], roots: RankSets, ends: RankSets, num_ranks: int
) -> list[tuple[float, NDArray[np.float64], NDArray[np.int32]]]:
    root = roots.to_ragged().values
    made = []
    for members, which in _equal_sets(ends):
        root_bytes = np.zeros(num_ranks)
        np.add.at(root_bytes, root[which], size_bytes[which])
        made.append((float(root_bytes.sum()), root_bytes, members))
    return made


def _free_rooted(items: Items) -> list[Stream]:
    made = []
    for contributors, which in _equal_sets(items.contributors):
        for destinations, among in _equal_sets(_chosen(items.destinations, which)):
            total = float(items.size_bytes[which][among].sum())
            made.append(Stream(total, None, contributors, destinations))
    return made


def _chosen(sets: RankSets, which: NDArray[np.int64]) -> RankSets:
    if sets.shared is not None:
        return RankSets.same(sets.shared, len(which))
    assert sets.rows is not None
    return RankSets.of(sets.rows.take(which))


def _equal_sets(sets: RankSets) -> list[tuple[NDArray[np.int32], NDArray[np.int64]]]:
    """Each distinct set and the items that have it, in order of first appearance."""
    if sets.shared is not None:
        return [(np.unique(sets.shared), np.arange(len(sets)))]
    assert sets.rows is not None
    if sets.rows.is_single:
        ranks, of = np.unique(sets.rows.values, return_inverse=True)
        order = np.argsort(of, kind="stable")
        ends = np.cumsum(np.bincount(of, minlength=len(ranks)))
        return [(ranks[i : i + 1], rows) for i, rows in enumerate(np.split(order, ends[:-1]))]
    members_by_key: dict[bytes, NDArray[np.int32]] = {}
    rows_by_key: dict[bytes, list[int]] = {}
    for row, given in enumerate(sets.rows):
        members = np.unique(given)
        key = members.tobytes()
        members_by_key.setdefault(key, members)
        rows_by_key.setdefault(key, []).append(row)
    return [(members, np.array(rows_by_key[key], np.int64)) for key, members in members_by_key.items()]
