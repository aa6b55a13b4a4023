"""Ours, still local: each server spreads what it owes each other server over its rails, knowing only its own traffic.

A server looks at what it owes the others and at the rates of the rails. All of it is one native call
(`cpp/src/papers/rails_split.cpp`), in these steps:

1. `rail_shares`: every destination server gets a quotient per rail plus a remainder that starts on another rail for
   each pair, so it needs at most one piece per rail;
2. `balance`: a GPU keeps its first bytes up to its rail's share, the rest goes to GPUs below theirs;
3. `cut_slices`: slices follow each other, bytes that are in place first, so that the hops at both ends hide behind the
   wire.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.detours import refuses_apart
from interlock.algorithms.registry import Algorithm, DemandPlanner
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.schedule import CompactSchedule, Schedule, from_native
from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["ALGORITHM", "rails_split", "server_shares"]


def rails_split(problem: Problem, *, seed: int = 0, slices: int | None = None) -> Schedule:
    """Split each pair of servers over the rails; `slices` per rail and destination server, None chooses."""
    assert problem.cluster is not None and problem.demand is not None
    if slices is not None and not 1 <= slices <= 1000:
        raise InvalidInput(f"slices={slices} must be between 1 and 1000")
    return _plan(_rates(problem.cluster), problem.demand, slices)


def prepare(cluster: Cluster) -> DemandPlanner:
    """A planner for one cluster."""
    rates = _rates(cluster)

    def plan_demand(demand: Demand, previous: CompactSchedule | None = None) -> Schedule:
        return _plan(rates, demand, None)

    return plan_demand


def _plan(rates: NDArray[np.float64], demand: Demand, slices: int | None) -> Schedule:
    columns = _core.rails_split_rows(demand.bytes_matrix, rates, slices or 0)
    return from_native(columns, exclusive=np.zeros(len(columns[0]), np.bool_), barriers=np.zeros(0, np.int32))


def _rates(cluster: Cluster) -> NDArray[np.float64]:
    """Of each server's NICs, ``[servers, rails]``."""
    return cluster.nic_bandwidth_bytes_per_s.reshape(cluster.servers, cluster.gpus_per_server)


def server_bytes(demand: NDArray[np.int64], cluster: Cluster) -> NDArray[np.int64]:
    """What each server owes each server, ``[servers, servers]``."""
    width = cluster.gpus_per_server
    owed: NDArray[np.int64] = demand.reshape(cluster.servers, width, cluster.servers, width).sum(axis=(1, 3))
    return owed


def server_shares(owed_bytes: NDArray[np.int64], cluster: Cluster, own: int) -> NDArray[np.int64]:
    """One server's whole plan: bytes on each rail for each server, ``[servers, rails]``."""
    return _core.rail_shares(np.ascontiguousarray(owed_bytes), _rates(cluster), own)


ALGORITHM = Algorithm(
    "rails-split",
    "each server alone, every pair over all rails by their rates (ours)",
    refuses_apart,
    rails_split,
    prepare,
    plans_demands=True,
)
