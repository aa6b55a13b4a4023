"""What is to be moved as items: All-to-Allvs, collectives and MoE layers.

Of a collective, contributors are the precondition and destinations the postcondition. A layer has an item per token:
dispatch to the ranks of its experts, combine back from them. A rank sends one partial result per token however many of
the token's experts it holds, with gate weights applied before the network. What stays on the token's own rank is no
item.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective, CollectiveKind
from interlock.errors import InvalidInput, check_whole
from interlock.problem.model import Items, Problem, RankSets, check_count
from interlock.ragged import Ragged
from interlock.topology import Cluster, Topology
from interlock.traffic import Demand, Routing
from interlock.units import MAX_BYTES

__all__ = [
    "MAX_CHUNKS",
    "check_chunks",
    "check_demand",
    "collective_ends",
    "collective_problem",
    "combine_problem",
    "demand_problem",
    "dispatch_problem",
]

MAX_CHUNKS = 2**20


def demand_problem(where: Cluster | Topology, demand: Demand) -> Problem:
    """An All-to-Allv on a cluster or any graph: one item per pair of ranks with bytes to move, row by row."""
    if not isinstance(where, Cluster | Topology):
        raise InvalidInput(f"cluster={str(where)[:64]!r} must be a cluster or a graph; see il.cluster, il.topology")
    if not isinstance(demand, Demand):
        raise InvalidInput(f"traffic={str(demand)[:64]!r} must be a demand; see il.traffic, or il.synthesize")
    cluster = where if isinstance(where, Cluster) else None
    topology = where.topology if isinstance(where, Cluster) else where
    if cluster is not None:
        check_demand(cluster, demand)
    elif demand.num_ranks != topology.num_ranks:
        raise InvalidInput(
            f"the demand has {demand.num_ranks} ranks but the topology has {topology.num_ranks}; they must match"
        )
    off_diagonal = demand.bytes_matrix.copy()
    np.fill_diagonal(off_diagonal, 0)
    src, dst = np.nonzero(off_diagonal)
    items = Items(
        off_diagonal[src, dst],
        RankSets.one(src.astype(np.int32)),
        RankSets.one(dst.astype(np.int32)),
    )
    return Problem(topology, items, cluster=cluster, demand=demand)


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
    return check_whole(chunks, "chunks", 1, MAX_CHUNKS)


def _items(collective: Collective, group: NDArray[np.int32], chunks: int) -> Items:
    kind, root = collective.kind, collective.root
    if kind is CollectiveKind.ALL_TO_ALL:
        return _all_to_all(collective.size_bytes, group, chunks)
    if kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):  # one share, of the root
        shares, owners = np.array([collective.size_bytes]), np.array([root], np.int32)
    else:
        check_count(len(group) * chunks)
        shares, owners = _even(collective.size_bytes, len(group)), group
    if kind in (CollectiveKind.GATHER, CollectiveKind.SCATTER):  # the root's own share stays where it is
        shares, owners = shares[group != root], group[group != root]
    return Items.of(_cut(shares, chunks), *collective_ends(kind, np.repeat(owners, chunks), group, root))


def collective_ends(
    kind: CollectiveKind, owners: NDArray[np.int32], group: NDArray[np.int32], root: int
) -> tuple[RankSets, RankSets]:
    """Contributors and destinations of a collective's shares, which belong to `owners`; of all but an All-to-All."""
    owner, everyone = RankSets.one(owners), RankSets.same(group, len(owners))
    at_root = RankSets.same(np.array([root], np.int32), len(owners))
    return {
        CollectiveKind.ALL_GATHER: (owner, everyone),
        CollectiveKind.REDUCE_SCATTER: (everyone, owner),
        CollectiveKind.ALL_REDUCE: (everyone, everyone),
        CollectiveKind.GATHER: (owner, at_root),
        CollectiveKind.SCATTER: (at_root, owner),
        CollectiveKind.BROADCAST: (at_root, everyone),
        CollectiveKind.REDUCE: (everyone, at_root),
    }[kind]


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


def dispatch_problem(cluster: Cluster, routing: Routing, bytes_per_token: int) -> Problem:
    """Every token to the distinct other ranks that hold its experts."""
    token, ranks = _remote(cluster, routing)
    sizes = np.full(len(token), _checked(bytes_per_token), np.int64)
    items = Items.of(sizes, RankSets.one(routing.rank_of_token[token]), RankSets.of(ranks))
    return Problem(cluster.topology, items, cluster=cluster, routing=routing)


def combine_problem(cluster: Cluster, routing: Routing, bytes_per_token: int) -> Problem:
    """Every token's result, summed over the ranks that hold its experts (its own included), back to its rank."""
    token, _ = _remote(cluster, routing)
    contributors = routing.ranks_of_token().take(token)
    sizes = np.full(len(token), _checked(bytes_per_token), np.int64)
    items = Items.of(sizes, RankSets.of(contributors), RankSets.one(routing.rank_of_token[token]))
    return Problem(cluster.topology, items, cluster=cluster, routing=routing)


def _remote(cluster: Cluster, routing: Routing) -> tuple[NDArray[np.int64], Ragged]:
    """Tokens that leave their rank, and the other ranks each of them goes to."""
    if routing.num_ranks != cluster.num_ranks:
        raise InvalidInput(
            f"the routing has {routing.num_ranks} ranks but the cluster has {cluster.num_ranks}; they must match"
        )
    used = np.zeros(cluster.num_ranks, np.bool_)
    used[routing.rank_of_token] = True
    used[routing.placement.ranks_of_expert.values] = True
    if (used & ~cluster.present).any():
        missing = int(np.flatnonzero(used & ~cluster.present)[0])
        raise InvalidInput(f"the routing uses rank {missing}, whose GPU is missing")
    ranks = routing.ranks_of_token()
    is_remote = ranks.values != routing.rank_of_token[ranks.row_of_value]
    counts = np.add.reduceat(is_remote.astype(np.int64), ranks.offsets[:-1])
    token = np.flatnonzero(counts > 0)
    return token, Ragged.from_counts(counts[token], ranks.values[is_remote])


def _checked(bytes_per_token: int) -> int:
    is_whole = isinstance(bytes_per_token, int | np.integer) and not isinstance(bytes_per_token, bool)
    if not is_whole or not 1 <= bytes_per_token <= 2**40:
        raise InvalidInput(f"bytes_per_token={bytes_per_token!r} must be a whole number between 1 and 2^40")
    return int(bytes_per_token)
