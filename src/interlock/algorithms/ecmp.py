"""ECMP: each flow takes a path by hash, and flows that collide share it.

On a Clos (a fabric with `ecmp_radix`) a flow goes from its own NIC to its destination's, and the leaves hash it to an
uplink. Elsewhere a spine is one aggregate, and the flow takes a rail by a seeded hash. What one rank owes another is
`flows` flows, as libraries open several connections to give the hash more to tell apart.
"""

from __future__ import annotations

import numpy as np

from interlock.algorithms.detours import baseline, pairs_with_detours
from interlock.algorithms.relay import relay
from interlock.algorithms.spray import cut_evenly
from interlock.algorithms.two_tier import Bytes, demand_bytes, local_batch
from interlock.errors import check_whole
from interlock.problem import Problem
from interlock.schedule import Pieces, Schedule
from interlock.topology.uplinks import flow_hash

__all__ = ["ALGORITHM", "ecmp"]


def ecmp(problem: Problem, *, seed: int = 0, flows: int = 1) -> Schedule:
    """One path per flow, by hash; `flows` per pair of ranks."""
    cluster = problem.cluster
    assert cluster is not None
    check_whole(flows, "flows", 1, 1024)
    if cluster.fabric.ecmp_radix is not None and cluster.scale_out != "rail":
        return straight(problem, cut_evenly(demand_bytes(problem), flows)[0])
    width = np.int32(cluster.gpus_per_server)
    local, far = local_batch(problem)
    far, port = cut_evenly(far, flows)
    rail = flow_hash(far.src, far.dst, port, seed) % np.uint64(width)
    turn = far.item.astype(np.int64) * flows + port
    return relay(problem, local, far, far.src // width * width + rail.astype(np.int32), flows=turn)


def straight(problem: Problem, rows: Bytes) -> Schedule:
    """Every row a message from its rank to its destination."""
    offsets = np.arange(len(rows) + 1, dtype=np.int64)
    pieces = Pieces(offsets, rows.item.astype(np.int32), rows.offset, rows.length)
    return pairs_with_detours(problem, rows.src, rows.dst, pieces, np.zeros(len(rows), np.int32), rows.length, [])


ALGORITHM = baseline("ecmp", "one path per flow, by hash: an uplink of a Clos, elsewhere a rail", ecmp)
