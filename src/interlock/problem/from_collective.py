"""Collectives as items: contributors are the precondition, destinations the postcondition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective, CollectiveKind
from interlock.errors import InvalidInput
from interlock.problem.items import Items, RankSets, check_count
from interlock.problem.model import Problem
from interlock.topology import Cluster, Topology
from interlock.units import MAX_BYTES

__all__ = ["MAX_CHUNKS", "check_chunks", "collective_problem"]

MAX_CHUNKS = 2**20


def collective_problem(
    topology: Topology, collective: Collective, chunks: int = 1, cluster: Cluster | None = None
) -> Problem:
    """A collective on a topology, each rank's share cut into `chunks` items of nearly equal size.

    Items are numbered share by share, chunk by chunk: item ``share * chunks + chunk`` where none is empty. The shares
    of a group follow its order; those of an All-to-All are its pairs, row by row, without the diagonal.

    >>> from interlock.collectives import all_gather
    >>> from interlock.topology import ring
    >>> len(collective_problem(ring(4, bandwidth="50 GB/s"), all_gather("1 MiB"), chunks=2).items)
    8
    """
    group = np.arange(topology.num_ranks, dtype=np.int32)
    if collective.group is not None:
        group = np.array(collective.group, np.int32)
        if group.max() >= topology.num_ranks:
            raise InvalidInput(f"group names rank {group.max()} but the topology has {topology.num_ranks} ranks")
    check_chunks(chunks)
    if collective.is_rooted and collective.root not in group:
        raise InvalidInput(f"root={collective.root} but the topology has {topology.num_ranks} ranks, numbered from 0")
    return Problem(topology, _items(collective, group, chunks), cluster=cluster, collective=collective)


def check_chunks(chunks: int) -> int:
    """A number of chunks, if it is one."""
    if isinstance(chunks, bool) or not isinstance(chunks, int) or not 1 <= chunks <= MAX_CHUNKS:
        raise InvalidInput(f"chunks={chunks!r} must be a whole number between 1 and {MAX_CHUNKS}")
    return chunks


def _items(collective: Collective, group: NDArray[np.int32], chunks: int) -> Items:
    kind = collective.kind
    root = np.array([collective.root], np.int32)
    if kind is CollectiveKind.ALL_TO_ALL:
        return _all_to_all(collective.size_bytes, group, chunks)
    if kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        sizes = _cut(np.array([collective.size_bytes]), chunks)
        at_root, everyone = RankSets.same(root, chunks), RankSets.same(group, chunks)
        ends = (at_root, everyone) if kind is CollectiveKind.BROADCAST else (everyone, at_root)
        return Items.of(sizes, *ends)

    check_count(len(group) * chunks)
    shares, owners = _even(collective.size_bytes, len(group)), group
    if kind in (CollectiveKind.GATHER, CollectiveKind.SCATTER):  # the root's own share stays where it is
        shares, owners = shares[group != root], group[group != root]
    num_items = len(owners) * chunks
    sizes, owner = _cut(shares, chunks), RankSets.one(np.repeat(owners, chunks))
    everyone, at_root = RankSets.same(group, num_items), RankSets.same(root, num_items)
    contributors, destinations = {
        CollectiveKind.ALL_GATHER: (owner, everyone),
        CollectiveKind.REDUCE_SCATTER: (everyone, owner),
        CollectiveKind.ALL_REDUCE: (everyone, everyone),
        CollectiveKind.GATHER: (owner, at_root),
        CollectiveKind.SCATTER: (at_root, owner),
    }[kind]
    return Items.of(sizes, contributors, destinations)


def _all_to_all(size_bytes: int, group: NDArray[np.int32], chunks: int) -> Items:
    count = len(group)
    check_count(count * (count - 1) * chunks)
    if size_bytes * count > MAX_BYTES:
        raise InvalidInput(f"size={size_bytes} from each of {count} ranks is more than 2^62 bytes in all")
    peer = np.arange(count * (count - 1), dtype=np.int32).reshape(count, count - 1) % np.int32(max(1, count - 1))
    peer += peer >= np.arange(count, dtype=np.int32)[:, None]  # skip the diagonal
    sizes = _cut(_even(size_bytes, count)[peer.reshape(-1)], chunks)
    src = np.repeat(group, (count - 1) * chunks)
    dst = np.repeat(group[peer.reshape(-1)], chunks)
    return Items.of(sizes, RankSets.one(src), RankSets.one(dst))


def _even(total: int, parts: int) -> NDArray[np.int64]:
    """`total` cut into `parts` that differ by at most one byte, larger ones first."""
    quotient, rest = divmod(total, parts)
    return np.full(parts, quotient, np.int64) + (np.arange(parts) < rest)


def _cut(sizes: NDArray[np.int64], chunks: int) -> NDArray[np.int64]:
    """Every size cut into `chunks` that differ by at most one byte, larger ones first: ``[len(sizes) * chunks]``."""
    if chunks == 1:
        return sizes
    rest = (sizes % chunks)[:, None]
    return ((sizes // chunks)[:, None] + (np.arange(chunks) < rest)).reshape(-1)
