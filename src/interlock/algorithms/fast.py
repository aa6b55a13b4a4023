"""FAST, as published: balance inside servers, one-to-one stages between them, redistribute (docs/papers/fast.md).

In its strongest form: balance is one message per pair of GPUs for all destinations together, stages are sorted by size,
and no NIC waits for others once its own stages allow it to go on. Its authors plan in microseconds, so all of it is one
native call (`cpp/src/papers/fast.cpp`), in these steps:

1. `sum_tiles`: rank-to-rank bytes as ``[servers, servers]``; what stays inside a server runs beside the first stage;
2. `balance`: every GPU of a server holds an equal share of each tile; one above the mean hands its last bytes to those
   below it;
3. `one_to_one_stages`: padded with virtual traffic, the tiles are a sum of permutations of servers, largest first;
   virtual traffic is never sent;
4. `cut_into_stages`: each GPU's share of a tile is cut where stages end, destination GPUs in index order;
5. `pipeline`: balance before a barrier, then stage k + 1 on the NICs while stage k is redistributed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.detours import baseline, has_dead_nics, through_live_nics
from interlock.algorithms.registry import DemandPlanner
from interlock.problem import Problem
from interlock.schedule import CompactSchedule, Phase, Schedule, from_native
from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["ALGORITHM", "fast"]

FIRST_STAGE = 1  # stage 0 is balance
SCALE_OUT = int(Phase.SCALE_OUT)  # arrays compare with plain numbers faster


def fast(problem: Problem, *, seed: int = 0) -> Schedule:
    """Two-tier All-to-All: balance inside servers, then permute between them."""
    assert problem.cluster is not None and problem.demand is not None
    return _plan(problem.cluster, *_carriers(problem.cluster), problem.demand)


def prepare(cluster: Cluster) -> DemandPlanner:
    """A planner for one cluster; the way around dead NICs is found here."""
    carriers = _carriers(cluster)

    def plan_demand(demand: Demand, previous: CompactSchedule | None = None) -> Schedule:
        return _plan(cluster, *carriers, demand)

    return plan_demand


def _plan(cluster: Cluster, out_gpu: NDArray[np.int32], in_gpu: NDArray[np.int32], demand: Demand) -> Schedule:
    # Where the NICs of a server share a link, none may claim it: a barrier keeps stages apart there.
    shares_links = cluster.scale_out == "flat" and cluster.oversubscription > 1.0
    columns = _core.fast_rows(demand.bytes_matrix, cluster.servers, out_gpu, in_gpu, not shares_links)
    on_wire = columns[2] == SCALE_OUT
    if shares_links:
        return from_native(columns, exclusive=np.zeros_like(on_wire), barriers=np.unique(columns[3][on_wire]))
    return from_native(columns, exclusive=on_wire, barriers=np.array([FIRST_STAGE] if on_wire.any() else [], np.int32))


def _carriers(cluster: Cluster) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """GPUs whose NICs take what each GPU of a server sends to another; nothing where those are its own and its peer."""
    if not has_dead_nics(cluster):
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    width = cluster.gpus_per_server
    src, dst, gpu = (
        axis.reshape(-1).astype(np.int32) for axis in np.indices((cluster.servers, cluster.servers, width))
    )
    carrier, landing = through_live_nics(cluster, src * width + gpu, dst * width + gpu)
    return carrier % width, landing % width


ALGORITHM = baseline("fast", "balance, then one-to-one stages, then redistribution (FAST as published)", fast, prepare)
