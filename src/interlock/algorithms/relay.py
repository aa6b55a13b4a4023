"""Schedules for an All-to-Allv once every byte has a carrier: the GPU whose NIC takes it to the other server.

Three hops where needed: to the carrier over scale-up, along the carrier's rail, and on to the final GPU over scale-up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.detours import through_live_nics
from interlock.algorithms.two_tier import Bytes, Group, dependencies, group
from interlock.problem import Problem
from interlock.schedule import Batch, Phase, Schedule, assemble

__all__ = ["relay"]

ROUND_TRIP_BYTES = 250_000  # 5 us at 400 Gb/s


def relay(
    problem: Problem,
    local: Batch,
    far: Bytes,
    carrier: NDArray[np.int32],
    *,
    flows: NDArray[np.int64] | None = None,
    window_bytes: int | None = None,
) -> Schedule:
    """Local traffic, then balance, wire and redistribution for the bytes in `far`.

    Parameters
    ----------
    carrier
        Rank at the source server that sends each row, ``[len(far)]``; its bytes land on the same GPU index.
        Where the NIC of either is dead, a neighbour's is taken.
    flows
        Rows with equal numbers travel together; None merges all rows with the same carrier and destination server.
    window_bytes
        What a connection (two ranks, one hop) has under way at most, in the order of `flows`; None: all at once.
        Those to carriers open slowly: many share a port, and NICs wait for the first bytes.
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
    of, on = wire.message[moved], len(local) + hop.message
    hop_deps = None
    if window_bytes is not None:
        waiting, ahead = queued(wire, window_bytes, opens_slowly=False)
        of, on = np.concatenate([of, waiting]), np.concatenate([on, first_wire + ahead])
        waiting, ahead = queued(hop, window_bytes, opens_slowly=True)
        hop_deps = dependencies(waiting, len(local) + ahead, len(hop))
    wire_deps = dependencies(of, on, len(wire))
    fan_deps = dependencies(fan.message, first_wire + wire.message[misplaced], len(fan))
    return assemble(
        [
            local,
            hop.to_batch(Phase.BALANCE, hop_deps),
            wire.to_batch(Phase.SCALE_OUT, wire_deps),
            fan.to_batch(Phase.REDISTRIBUTE, fan_deps),
        ]
    )


def queued(messages: Group, window_bytes: int, *, opens_slowly: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Messages that wait for one before them on their connection, and that one: the last a window before their end.

    A window is at most a quarter of what the connection carries, so that a short one keeps its order too; where it
    opens slowly, at most half of what has been sent; but never less than a round trip holds.
    """
    is_first = np.append(True, (messages.keys[1:, :2] != messages.keys[:-1, :2]).any(axis=1))[: len(messages)]
    first = np.flatnonzero(is_first)
    connection = np.cumsum(is_first) - 1
    offset = np.append(0, np.cumsum(messages.pieces.length))[messages.pieces.offsets]
    begin, end = offset[first], offset[1:]
    most = (np.append(begin[1:], end[-1:]) - begin)[connection] // 4
    if opens_slowly:
        most = np.minimum(most, (end - begin[connection]) // 2)
    window = np.minimum(np.maximum(most, ROUND_TRIP_BYTES), window_bytes)
    on = np.searchsorted(end, end - window, side="right") - 1
    waiting = np.flatnonzero(on >= first[connection])
    return waiting, on[waiting]
