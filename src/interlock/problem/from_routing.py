"""MoE layers as items, one per token: dispatch to the ranks of its experts, combine back from them.

A rank sends one partial result per token however many of the token's experts it holds, with gate weights applied before
the network. What stays on the token's own rank is no item.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.problem.items import Items, RankSets
from interlock.problem.model import Problem
from interlock.ragged import Ragged
from interlock.topology import Cluster
from interlock.traffic import Routing

__all__ = ["combine_problem", "dispatch_problem"]


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
