"""Dispatch played backwards: combine, with sums held back until the wire needs them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.moe.message_table import tree_paths
from interlock.ragged import Ragged
from interlock.schedule import Kind, Phase, Pieces, Schedule
from interlock.topology import Cluster

__all__ = ["played_backwards"]

IN_HAND = 2  # slices of a lane whose sums may be under way at once

Ints = NDArray[np.int64]


def played_backwards(schedule: Schedule, cluster: Cluster) -> Schedule:
    """The same messages backwards in time and direction, every copy a reduction."""
    flip = np.arange(schedule.num_messages)[::-1]
    new_row = schedule.num_messages - 1
    row, dep = schedule.deps.row_of_value, schedule.deps.values.astype(np.int64)
    waits, for_ = _paced(schedule)
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


def _paced(schedule: Schedule) -> tuple[Ints, Ints]:
    """Pairs (sum, message) that hold back, backwards, sums which are not yet needed.

    All at once they would share the uplinks and the first slices would leave late. So a slice's sums wait for those of
    the slice before it, and until the one IN_HAND places before it has left; sums inside a server, which go nowhere
    from there, follow their rank's slices one by one.
    """
    sums = np.flatnonzero((schedule.phase == Phase.REDISTRIBUTE) & (schedule.deps.counts == 1))
    wire = schedule.deps.values[schedule.deps.offsets[sums]].astype(np.int64)
    one_of = np.full(schedule.num_messages, -1, np.int64)  # a sum of each wire message, the largest
    by_size = np.argsort(schedule.size_bytes[sums], kind="stable")
    one_of[wire[by_size]] = sums[by_size]
    ahead, before = _later_on_lane(schedule, 1)[wire], _later_on_lane(schedule, IN_HAND)[wire]
    earlier = np.where(ahead >= 0, one_of[ahead], -1)
    near = np.flatnonzero(schedule.phase == Phase.LOCAL)
    home = _spread(schedule, near)
    held, until = np.concatenate([sums, sums, near]), np.concatenate([before, earlier, home])
    return held[until >= 0], until[until >= 0]


def _spread(schedule: Schedule, near: Ints) -> Ints:
    """For each local message a wire message that its source receives, in turn from the last on; or -1."""
    wires = np.flatnonzero(schedule.phase == Phase.SCALE_OUT)
    num_ranks = int(schedule.src.values.max(initial=0)) + 1
    rank = schedule.dst.values[schedule.dst.offsets[wires]]
    received = np.append(wires[np.argsort(rank, kind="stable")], -1)
    end = np.cumsum(np.bincount(rank, minlength=num_ranks))
    home = schedule.src.values[schedule.src.offsets[near]]
    place, of = _place_among(home, num_ranks)
    count = np.bincount(rank, minlength=num_ranks)[home]
    return np.asarray(np.where(count > 0, received[end[home] - 1 - 3 * place * count // (4 * of)], -1), np.int64)


def _place_among(group: NDArray[np.int32], size: int) -> tuple[Ints, Ints]:
    """How many of the same group stand before each row, and how many there are."""
    counts = np.bincount(group, minlength=size)
    order = np.argsort(group, kind="stable")
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place, counts[group]


def _later_on_lane(schedule: Schedule, places: int) -> Ints:
    """For each wire message the one so many places later between the same two ranks, -1 where there is none."""
    wires = np.flatnonzero(schedule.phase == Phase.SCALE_OUT)
    lane = schedule.src.values[wires].astype(np.int64) * 2**31 + schedule.dst.values[schedule.dst.offsets[wires]]
    order = np.lexsort((wires, lane))
    later = np.full(schedule.num_messages, -1, np.int64)
    ahead = order[places:]
    same = lane[ahead] == lane[order[: len(ahead)]]
    later[wires[order[: len(ahead)][same]]] = wires[ahead[same]]
    return later
