"""Dispatch played backwards: combine, with sums held back until the wire needs them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.moe.message_table import tree_paths
from interlock.ragged import Ragged
from interlock.schedule import Kind, Phase, Pieces, Schedule
from interlock.topology import Cluster

__all__ = ["played_backwards"]

# Sums under way at once, in multiples of what a scale-up port passes in one latency. Fitted at 4x8 and 8x8; a sum waits
# at one port where it lands and at several where it starts, so these need more to stay busy.
UNDER_WAY_DOWN, UNDER_WAY_UP = 2.0, 5.0

Ints = NDArray[np.int64]


def played_backwards(schedule: Schedule, cluster: Cluster) -> Schedule:
    """The same messages backwards in time and direction, every copy a reduction."""
    flip = np.arange(schedule.num_messages)[::-1]
    new_row = schedule.num_messages - 1
    row, dep = schedule.deps.row_of_value, schedule.deps.values.astype(np.int64)
    waits, for_ = _paced(schedule, cluster)
    row, dep = np.concatenate([row, for_]), np.concatenate([dep, waits])
    src, dst = schedule.dst.take(flip), schedule.src.take(flip)
    lengths = np.diff(schedule.pieces.offsets)[flip]
    held = Ragged(schedule.pieces.offsets, schedule.pieces.item).take(flip)
    last_stage = int(schedule.stage.max(initial=0))
    return Schedule(
        src=src,
        dst=dst,
        kind=np.full(schedule.num_messages, Kind.REDUCE, np.uint8),
        phase=schedule.phase[flip],
        stage=(last_stage - schedule.stage[flip]).astype(np.int32),
        slice=schedule.slice[flip],
        size_bytes=schedule.size_bytes[flip],
        path=tree_paths(dst, src, cluster.num_ranks, toward_many=False),
        exclusive=schedule.exclusive[flip],
        order=(int(schedule.order.max(initial=0)) - schedule.order[flip]).astype(np.int64),
        deps=Ragged.from_pairs(new_row - dep, new_row - row, schedule.num_messages),
        pieces=Pieces(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            held.values,
            np.zeros(len(held.values), np.int64),
            np.full(len(held.values), schedule.pieces.length[0] if len(schedule.pieces) else 0, np.int64),
        ),
        barriers=(last_stage + 1 - schedule.barriers[::-1]).astype(np.int32),
    )


def _paced(schedule: Schedule, cluster: Cluster) -> tuple[Ints, Ints]:
    """Pairs (sum, message) that hold back, backwards, sums which are not yet needed.

    All at once they would share the ports, and those of the first slices would end as late as all others. So every
    port, where they start and where they land, takes them in the order in which the wire needs them, as many at a time
    as hide its latency. Sums that stay inside a server come last.
    """
    rows = _by_need(schedule, cluster)
    landing, adding = schedule.src.values[schedule.src.offsets[rows]], schedule.dst.take(rows)
    rate, size = cluster.scale_up_bandwidth_bytes_per_s, schedule.size_bytes[rows].astype(np.float64)
    in_latency = rate * cluster.scale_up_latency_s
    held, until = _in_turn(landing, size + rate * cluster.message_overhead_s, UNDER_WAY_DOWN * in_latency)
    row = adding.row_of_value
    held_up, until_up = _in_turn(adding.values, size[row], UNDER_WAY_UP * in_latency)
    held, until = np.concatenate([held, row[held_up]]), np.concatenate([until, row[until_up]])
    return rows[held], rows[until]


def _by_need(schedule: Schedule, cluster: Cluster) -> Ints:
    """All sums in the order in which they are needed backwards: by stage, by how much of their lane goes before, and
    among equals one destination server after the other, so that some lanes can start."""
    sums = np.flatnonzero((schedule.phase == Phase.REDISTRIBUTE) & (schedule.deps.counts == 1))
    near = np.flatnonzero(schedule.phase == Phase.LOCAL)
    wire = schedule.deps.values[schedule.deps.offsets[sums]].astype(np.int64)
    start, end = (cluster.server_of(ends.values[ends.offsets[wire]]) for ends in (schedule.dst, schedule.src))
    needed = np.concatenate([_sent_before(schedule)[wire], np.ones(len(near))])
    turn = np.concatenate([(end - start) % cluster.servers, np.zeros(len(near), np.int64)])
    rows = np.concatenate([sums, near])
    return rows[np.lexsort((-schedule.size_bytes[rows], turn, needed, -schedule.stage[rows]))]


def _in_turn(port: NDArray[np.int32], size_bytes: NDArray[np.float64], most_bytes: float) -> tuple[Ints, Ints]:
    """Pairs (later, earlier) of rows at one port, in their order, such that no more than so many bytes lie between."""
    order = np.argsort(port, kind="stable")
    group = port[order]
    end = np.cumsum(size_bytes[order])
    begin = end - size_bytes[order]
    earlier = np.searchsorted(end, begin - most_bytes, side="right") - 1
    waits = (earlier >= 0) & (group[earlier] == group)
    return order[waits], order[earlier[waits]]


def _sent_before(schedule: Schedule) -> NDArray[np.float64]:
    """For each wire message, which part of the bytes between its two ranks is sent before it when played backwards."""
    wires = np.flatnonzero(schedule.phase == Phase.SCALE_OUT)[::-1]
    src, dst = (ends.values[ends.offsets[wires]].astype(np.int64) for ends in (schedule.src, schedule.dst))
    lane = np.unique(src * 2**31 + dst, return_inverse=True)[1].reshape(-1)
    order = np.argsort(lane, kind="stable")
    size = schedule.size_bytes[wires[order]].astype(np.float64)
    of_lane = np.bincount(lane, weights=schedule.size_bytes[wires])
    before = np.cumsum(size) - size - (np.cumsum(of_lane) - of_lane)[lane[order]]
    part = np.ones(schedule.num_messages)
    part[wires[order]] = before / np.maximum(of_lane[lane[order]], 1.0)
    return part
