"""All-to-Allv as items."""

from __future__ import annotations

import numpy as np

from interlock.errors import InvalidInput
from interlock.problem.items import Items, RankSets
from interlock.problem.model import Problem
from interlock.topology import Cluster, Topology
from interlock.traffic import Demand

__all__ = ["check_demand", "demand_problem"]


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
