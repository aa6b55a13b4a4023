"""Schedules for an All-to-Allv once every byte has a carrier: the GPU whose NIC takes it to the other server.

Three hops where needed: to the carrier over scale-up, along the carrier's rail, and on to the final GPU over scale-up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.detours import through_live_nics
from interlock.algorithms.two_tier import Bytes, dependencies, group
from interlock.problem import Problem
from interlock.schedule import Batch, Phase, Schedule, assemble

__all__ = ["relay"]


def relay(
    problem: Problem,
    local: Batch,
    far: Bytes,
    carrier: NDArray[np.int32],
    *,
    flows: NDArray[np.integer] | None = None,
    in_turn: bool = False,
) -> Schedule:
    """Local traffic, then balance, wire and redistribution for the bytes in `far`.

    Parameters
    ----------
    carrier
        Rank at the source server that sends each row, ``[len(far)]``; its bytes land on the same GPU index.
        Where the NIC of either is dead, a neighbour's is taken.
    flows
        Rows with equal numbers travel together; None merges all rows with the same carrier and destination server.
    in_turn
        Whether messages follow each other in the order of `flows`: hops, those from one GPU to another; on the wire,
        those of an item, which has a connection (a slice) of its own. Otherwise all go at once. What has landed is
        handed on as it comes.
    """
    assert problem.cluster is not None
    width = np.int32(problem.cluster.gpus_per_server)
    carrier, landing = through_live_nics(problem.cluster, carrier, far.dst // width * width + carrier % width)
    moved, misplaced = carrier != far.src, landing != far.dst
    hopping, landed = far.where(moved), far.where(misplaced)
    kept_apart = np.zeros(len(far), np.int64) if flows is None else flows
    ranks = problem.num_ranks
    hop = group(hopping, hopping.src, carrier[moved], kept_apart[moved], num_ranks=ranks)
    wire = group(far, carrier, landing, kept_apart, num_ranks=ranks)
    fan = group(landed, landing[misplaced], landed.dst, carrier[misplaced], kept_apart[misplaced], num_ranks=ranks)
    first_wire = len(local) + len(hop)
    wire_deps = dependencies(wire.message[moved], len(local) + hop.message, len(wire))
    fan_deps = dependencies(fan.message, first_wire + wire.message[misplaced], len(fan))
    return assemble(
        [
            local,
            hop.to_batch(Phase.BALANCE, in_turn=in_turn),
            wire.to_batch(Phase.SCALE_OUT, wire_deps, in_turn=in_turn, slice_=wire.item if in_turn else 0),
            fan.to_batch(Phase.REDISTRIBUTE, fan_deps),
        ]
    )
