"""Problem: a topology and the items to be moved on it, checked once.

An item has a size, contributors (one, its origin; or several, whose values are summed) and destinations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective, CollectiveKind
from interlock.errors import InvalidInput
from interlock.ragged import Ragged
from interlock.topology import Cluster, Topology
from interlock.traffic import Demand

__all__ = ["Items", "Problem", "RankSets", "collective_problem", "demand_problem"]

MAX_ITEMS = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class RankSets:
    """A set of ranks per item: `rows`, or one `shared` set for every item."""

    num_items: int
    rows: Ragged | None = None
    shared: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, rows: Ragged) -> RankSets:
        """One set per item."""
        return cls(len(rows), rows=rows)

    @classmethod
    def one(cls, ranks: NDArray[np.int32]) -> RankSets:
        """One rank per item."""
        return cls.of(Ragged.single(ranks))

    @classmethod
    def same(cls, ranks: NDArray[np.int32], num_items: int) -> RankSets:
        """The same set for every item."""
        return cls(num_items, shared=np.ascontiguousarray(ranks, np.int32))

    def __len__(self) -> int:
        return self.num_items

    def __getitem__(self, item: int) -> NDArray[np.int32]:
        if self.shared is not None:
            return self.shared
        assert self.rows is not None
        return self.rows[item]

    @property
    def is_single(self) -> bool:
        """Whether every item has exactly one rank."""
        if self.shared is not None:
            return len(self.shared) == 1
        assert self.rows is not None
        return self.rows.is_single

    def to_ragged(self) -> Ragged:
        """All sets written out."""
        if self.rows is not None:
            return self.rows
        assert self.shared is not None
        counts = np.full(self.num_items, len(self.shared))
        return Ragged.from_counts(counts, np.tile(self.shared, self.num_items))


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Everything to be moved."""

    size_bytes: NDArray[np.int64]  # [num_items]
    contributors: RankSets
    destinations: RankSets

    def __len__(self) -> int:
        return len(self.size_bytes)

    @property
    def are_reduced(self) -> bool:
        """Whether any item is a sum of several contributions."""
        return not self.contributors.is_single

    @property
    def origin(self) -> NDArray[np.int32]:
        """The one contributor of each item; only for items that are not reduced."""
        return self.contributors.to_ragged().values


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What must be moved, and on what. `cluster`, `demand` and `collective` say where it came from."""

    topology: Topology
    items: Items
    cluster: Cluster | None = None
    demand: Demand | None = None
    collective: Collective | None = None

    @property
    def num_ranks(self) -> int:
        """GPUs of the topology."""
        return self.topology.num_ranks

    @property
    def name(self) -> str:
        """One line for tables."""
        what = self.demand.name if self.demand is not None else (self.collective.kind if self.collective else "items")
        where = (
            f"{self.cluster.servers}x{self.cluster.gpus_per_server} {self.cluster.name}"
            if self.cluster
            else self.topology.name
        )
        return f"{what} on {where}"


def demand_problem(cluster: Cluster, demand: Demand) -> Problem:
    """An All-to-Allv on a cluster: one item per pair of ranks with bytes to move, row by row."""
    check_demand(cluster, demand)
    off_diagonal = demand.bytes_matrix.copy()
    np.fill_diagonal(off_diagonal, 0)
    src, dst = np.nonzero(off_diagonal)
    items = Items(
        off_diagonal[src, dst],
        RankSets.one(src.astype(np.int32)),
        RankSets.one(dst.astype(np.int32)),
    )
    return Problem(cluster.topology, items, cluster=cluster, demand=demand)


def check_demand(cluster: Cluster, demand: Demand) -> None:
    """Raise unless the demand fits the cluster."""
    if demand.num_ranks != cluster.num_ranks:
        raise InvalidInput(
            f"the demand has {demand.num_ranks} ranks but the cluster has {cluster.num_ranks} "
            f"({cluster.servers} servers x {cluster.gpus_per_server} GPUs); they must match"
        )
    if not cluster.present.all():
        missing = np.flatnonzero(~cluster.present)
        touched = missing[(demand.bytes_matrix[missing].sum(axis=1) + demand.bytes_matrix[:, missing].sum(axis=0)) > 0]
        if len(touched):
            raise InvalidInput(
                f"the demand names rank {touched[0]}, whose GPU is missing; its row and column must be 0"
            )


def collective_problem(
    topology: Topology, collective: Collective, chunks: int = 1, cluster: Cluster | None = None
) -> Problem:
    """A collective on a topology, each rank's share cut into `chunks` items of nearly equal size."""
    group = np.arange(topology.num_ranks, dtype=np.int32)
    if collective.group is not None:
        group = np.array(collective.group, np.int32)
        if group.max() >= topology.num_ranks:
            raise InvalidInput(f"group names rank {group.max()} but the topology has {topology.num_ranks} ranks")
    if isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 1:
        raise InvalidInput(f"chunks={chunks!r} must be a whole number of at least 1")
    if collective.is_rooted and collective.root not in group:
        raise InvalidInput(f"root={collective.root} is not a rank of the group")
    items = _collective_items(collective, group, chunks)
    return Problem(topology, items, cluster=cluster, collective=collective)


def _collective_items(collective: Collective, group: NDArray[np.int32], chunks: int) -> Items:
    kind, count = collective.kind, len(group)
    root = np.array([collective.root], np.int32)
    if kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        sizes = _even(collective.size_bytes, chunks)
        here, there = RankSets.same(root, chunks), RankSets.same(group, chunks)
        return _nonempty(sizes, here, there) if kind is CollectiveKind.BROADCAST else _nonempty(sizes, there, here)
    if kind is CollectiveKind.ALL_TO_ALL:
        src, dst = np.repeat(group, count), np.tile(group, count)
        shares = np.tile(_even(collective.size_bytes, count), count)
        moves = src != dst
        return _pairs(src[moves], dst[moves], shares[moves], chunks)
    shares = _even(collective.size_bytes, count)
    sizes = np.concatenate([_even(int(share), chunks) for share in shares])
    owner = np.repeat(group, chunks)
    num_items = count * chunks
    everyone = RankSets.same(group, num_items)
    if kind is CollectiveKind.ALL_GATHER:
        return _nonempty(sizes, RankSets.one(owner), everyone)
    if kind is CollectiveKind.REDUCE_SCATTER:
        return _nonempty(sizes, everyone, RankSets.one(owner))
    if kind is CollectiveKind.ALL_REDUCE:
        return _nonempty(sizes, everyone, everyone)
    moves = owner != collective.root
    at_root = RankSets.same(root, int(moves.sum()))
    if kind is CollectiveKind.GATHER:
        return _nonempty(sizes[moves], RankSets.one(owner[moves]), at_root)
    return _nonempty(sizes[moves], at_root, RankSets.one(owner[moves]))


def _pairs(src: NDArray[np.int32], dst: NDArray[np.int32], sizes: NDArray[np.int64], chunks: int) -> Items:
    cut = np.stack([_even_each(sizes, chunks, k) for k in range(chunks)], axis=1).reshape(-1)
    return _nonempty(cut, RankSets.one(np.repeat(src, chunks)), RankSets.one(np.repeat(dst, chunks)))


def _even(total: int, parts: int) -> NDArray[np.int64]:
    """`total` cut into `parts` that differ by at most one byte, larger ones first."""
    quotient, rest = divmod(total, parts)
    return np.full(parts, quotient, np.int64) + (np.arange(parts) < rest)


def _even_each(totals: NDArray[np.int64], parts: int, part: int) -> NDArray[np.int64]:
    return totals // parts + (part < totals % parts)


def _nonempty(sizes: NDArray[np.int64], contributors: RankSets, destinations: RankSets) -> Items:
    """Items without those of no bytes."""
    if len(sizes) > MAX_ITEMS:
        raise InvalidInput(f"{len(sizes)} items are above the limit of {MAX_ITEMS}")
    keep = np.flatnonzero(sizes > 0)
    if len(keep) == len(sizes):
        return Items(sizes, contributors, destinations)
    return Items(sizes[keep], _take(contributors, keep), _take(destinations, keep))


def _take(sets: RankSets, keep: NDArray[np.int64]) -> RankSets:
    if sets.shared is not None:
        return RankSets.same(sets.shared, len(keep))
    assert sets.rows is not None
    return RankSets.of(sets.rows.take(keep))
