"""Lowers one rank's share of a schedule to buffers.

Of the schedule's order a rank enforces what it can see: a send waits for the receives it depends on and for everything
of its own before a barrier; a write to bytes that are summed waits for the rank's own earlier reads. Dependencies on
messages of other ranks only pace, and are left to the receivers (see `interlock.runtime.flow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.runtime.pacing import sending_rates
from interlock.runtime.program import Arrival, Buffer, Copy, Program, Receive, Send
from interlock.runtime.runs import Held, Rows, Runs, copies, is_one_run, locate, merge, rows_of, tags
from interlock.schedule import Kind, Phase, RankProgram, Schedule
from interlock.schedule.layout import Layout
from interlock.schedule.levels import is_in_order, levels

__all__ = ["lower"]

PART_BYTES = 64 * 1024  # the most that is sent at a time between servers whose fabric bears few senders
ALIGN_BYTES = 64  # of every region of scratch, so that it can be viewed as any element type

Ints = NDArray[np.int64]


class _Scratch:
    """Hands out aligned regions."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def take(self, sizes: Ints) -> Ints:
        """Starts of new regions of the given sizes."""
        padded = -(-sizes // ALIGN_BYTES) * ALIGN_BYTES
        starts: Ints = self.size_bytes + np.cumsum(padded) - padded
        self.size_bytes += int(padded.sum())
        return starts


@dataclass(slots=True, eq=False)
class _Moves:
    """Where sends read and receives land."""

    source: Runs  # of sends
    must_pack: bool
    lands_in_place: NDArray[np.bool_]  # [receives]
    landing: Ints  # [receives] start in the output or in scratch
    unpacking: list[tuple[Copy, ...]]
    own_copies: tuple[Copy, ...] = ()
    start_copies: tuple[Copy, ...] = ()
    start_zeros: tuple[tuple[int, int, int], ...] = ()


def lower(program: RankProgram, problem: Problem, layout: Layout, *, is_paced: bool = False) -> Program:
    """Lower one rank's program to buffers; `is_paced` where senders keep to rates, on every rank alike."""
    schedule, rank = program.schedule, program.rank
    first_byte = np.cumsum(problem.items.size_bytes) - problem.items.size_bytes
    sends = rows_of(schedule, program.sends, schedule.dst, rank, first_byte)
    receives = rows_of(schedule, program.receives, schedule.src, rank, first_byte)
    scratch = _Scratch()
    are_summed = problem.items.are_reduced
    if are_summed:
        moves = _place_sums(problem, layout, sends, receives, first_byte, scratch)
    else:
        moves = _place_copies(layout, sends, receives, first_byte, scratch)
    num_parts = [_num_parts(problem, rank, rows, is_paced=is_paced) for rows in (sends, receives)]
    made_sends = _make_sends(schedule, sends, moves, scratch, num_parts[0])
    waits, releases = _order(schedule, sends, receives, are_summed=are_summed)
    first, later = _ready_steps(waits, releases, made_sends, len(receives))
    made_receives = _make_receives(schedule, receives, moves, may_add=are_summed)
    arrivals = _arrivals(made_receives, receives, num_parts[1])
    released = releases[len(sends) :]
    queues, awaited, rest = _waiting(schedule, problem, rank, receives, released, arrivals, is_paced=is_paced)
    return Program(
        rank=rank,
        sends=made_sends,
        receives=made_receives,
        waits=waits,
        releases=releases,
        first=first,
        later=later,
        arrivals=arrivals,
        queues=queues,
        shares=_shares(schedule, problem, queues, arrivals),
        awaited=awaited,
        rest=rest,
        rates=sending_rates(schedule, problem.cluster, rank) if is_paced and problem.cluster is not None else {},
        start_copies=moves.start_copies,
        start_zeros=moves.start_zeros,
        own_copies=moves.own_copies,
        input_bytes=layout.input.size_bytes,
        output_bytes=layout.output.size_bytes,
        scratch_bytes=scratch.size_bytes,
    )


def _place_copies(layout: Layout, sends: Rows, receives: Rows, first_byte: Ints, scratch: _Scratch) -> _Moves:
    """Items that are only copied: bytes arrive once, straight into the output where they fit in one run."""
    is_ours, item_start = layout.output.find(receives.item)
    final = item_start + receives.offset
    goal = merge(Runs(receives.row, np.where(is_ours, Buffer.OUTPUT, -1).astype(np.int64), final, receives.length))
    in_place = is_one_run(goal, receives, Buffer.OUTPUT)
    landing = np.zeros(len(receives), np.int64)
    landing[~in_place] = scratch.take(receives.size_bytes[~in_place])
    straight = in_place[goal.row]
    landing[goal.row[straight]] = goal.start[straight]
    staged = landing[receives.row] + receives.within
    piece_in_place = in_place[receives.row]
    own = layout.input
    address = np.concatenate([first_byte[own.item], receives.address])
    order = np.argsort(address, kind="stable")
    held = Held(
        address[order],
        np.concatenate([own.length, receives.length])[order],
        np.concatenate([_all(own.item, Buffer.INPUT), np.where(piece_in_place, Buffer.OUTPUT, Buffer.SCRATCH)])[order],
        np.concatenate([own.start, np.where(piece_in_place, final, staged)])[order],
    )
    rest = is_ours & ~piece_in_place
    unpacking = copies(
        receives.row[rest],
        (_all(final[rest], Buffer.SCRATCH), staged[rest]),
        (_all(final[rest], Buffer.OUTPUT), final[rest]),
        receives.length[rest],
        len(receives),
    )
    return _Moves(locate(sends, held), False, in_place, landing, unpacking, own_copies=_own_copies(layout))


def _own_copies(layout: Layout) -> tuple[Copy, ...]:
    """What the rank itself contributes to its output."""
    given = layout.input
    stays, final = layout.output.find(given.item)
    start = np.append(given.start[stays], layout.own[0])
    final = np.append(final[stays], layout.own[1])
    length = np.append(given.length[stays], layout.own[2])
    some = length > 0
    row = np.zeros(int(some.sum()), np.int64)
    source, target = (_all(row, Buffer.INPUT), start[some]), (_all(row, Buffer.OUTPUT), final[some])
    return copies(row, source, target, length[some], 1)[0]


def _place_sums(
    problem: Problem, layout: Layout, sends: Rows, receives: Rows, first_byte: Ints, scratch: _Scratch
) -> _Moves:
    """Items that are summed: each has one accumulator here, which sends read from and receives write to."""
    items = np.unique(np.concatenate([layout.input.item, layout.output.item, sends.item, receives.item]))
    size_bytes = problem.items.size_bytes[items]
    is_ours, start = layout.output.find(items)
    start[~is_ours] = scratch.take(size_bytes[~is_ours])
    buffer = np.where(is_ours, Buffer.OUTPUT, Buffer.SCRATCH).astype(np.int64)
    given, given_start = layout.input.find(items)
    begin = copies(
        np.zeros(int(given.sum()), np.int64),
        (_all(items[given], Buffer.INPUT), given_start[given]),
        (buffer[given], start[given]),
        size_bytes[given],
        1,
    )[0]
    empty = ~given
    zeros = tuple(zip(buffer[empty].tolist(), start[empty].tolist(), size_bytes[empty].tolist(), strict=True))
    landing = scratch.take(receives.size_bytes)
    place = np.searchsorted(items, receives.item)
    unpacking = copies(
        receives.row,
        (_all(receives.row, Buffer.SCRATCH), landing[receives.row] + receives.within),
        (buffer[place], start[place] + receives.offset),
        receives.length,
        len(receives),
    )
    source = locate(sends, Held(first_byte[items], size_bytes, buffer, start))
    stays = np.zeros(len(receives), np.bool_)
    return _Moves(source, True, stays, landing, unpacking, start_copies=begin, start_zeros=zeros)


def _num_parts(problem: Problem, rank: int, rows: Rows, *, is_paced: bool) -> Ints:
    """How often each message is cut, so that no more than a window of bytes need be on the way."""
    parts = np.ones(len(rows), np.int64)
    if is_paced:
        return parts
    cut = _crosses_limited_fabric(problem, rank, rows)
    parts[cut] = np.maximum(1, -(-rows.size_bytes[cut] // PART_BYTES))
    return parts


def _crosses_limited_fabric(problem: Problem, rank: int, rows: Rows) -> NDArray[np.bool_]:
    """Messages between servers whose fabric bears few senders at a time."""
    if problem.cluster is None or problem.cluster.fabric.fan_in is None:
        return np.zeros(len(rows), np.bool_)
    return np.asarray(problem.cluster.server_of(rows.peer) != rank // problem.cluster.gpus_per_server, np.bool_)


def _parts(tag: int, start: int, size_bytes: int, count: int) -> list[tuple[int, int, int]]:
    """(tag, start, length) of nearly equal parts."""
    ends = [size_bytes * part // count for part in range(count + 1)]
    return [(tag + part, start + ends[part], ends[part + 1] - ends[part]) for part in range(count)]


def _make_sends(schedule: Schedule, rows: Rows, moves: _Moves, scratch: _Scratch, num_parts: Ints) -> tuple[Send, ...]:
    source = moves.source
    in_place = np.zeros(len(rows), np.bool_) if moves.must_pack else is_one_run(source, rows)
    start, buffer = np.zeros(len(rows), np.int64), np.full(len(rows), Buffer.SCRATCH, np.int64)
    start[~in_place] = scratch.take(rows.size_bytes[~in_place])
    lone = in_place[source.row]
    start[source.row[lone]], buffer[source.row[lone]] = source.start[lone], source.buffer[lone]
    rest = source.where(~lone)
    packing = copies(
        rest.row,
        (rest.buffer, rest.start),
        (_all(rest.row, Buffer.SCRATCH), start[rest.row] + rest.within),
        rest.length,
        len(rows),
    )
    columns = (rows.message, rows.peer, rows.size_bytes, buffer, start, schedule.phase[rows.message])
    more = (tags(rows.peer, num_parts), num_parts)
    return tuple(
        Send(message, peer, size, place, begin, phase, packs, tuple(_parts(tag, begin, size, count)))
        for message, peer, size, place, begin, phase, tag, count, packs in zip(
            *(column.tolist() for column in (*columns, *more)), packing, strict=True
        )
    )


def _make_receives(schedule: Schedule, rows: Rows, moves: _Moves, *, may_add: bool) -> tuple[Receive, ...]:
    message = rows.message
    columns = (
        message,
        rows.peer,
        rows.size_bytes,
        np.where(moves.lands_in_place, Buffer.OUTPUT, Buffer.SCRATCH),
        moves.landing,
        schedule.phase[message],
        (schedule.kind[message] == Kind.REDUCE) & may_add,
    )
    return tuple(
        Receive(number, peer, size, place, begin, phase, unpacks, adds)
        for number, peer, size, place, begin, phase, adds, unpacks in zip(
            *(column.tolist() for column in columns), moves.unpacking, strict=True
        )
    )


def _arrivals(receives: tuple[Receive, ...], rows: Rows, num_parts: Ints) -> tuple[Arrival, ...]:
    made = []
    for place, (tag, count) in enumerate(zip(tags(rows.peer, num_parts).tolist(), num_parts.tolist(), strict=True)):
        parts = _parts(tag, receives[place].start, receives[place].size_bytes, count)
        made += [Arrival(place, *part, part is parts[-1]) for part in parts]
    return tuple(made)


def _ready_steps(
    waits: tuple[int, ...], releases: tuple[tuple[int, ...], ...], sends: tuple[Send, ...], num_receives: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Steps that can run at once, the slow links first, and sends that can as well run later."""
    ready = [step for step in range(len(sends)) if waits[step] == 0]
    later = [step for step in ready if sends[step].phase == Phase.LOCAL and not releases[step]]
    urgent = sorted(set(ready) - set(later), key=lambda step: (sends[step].phase != Phase.SCALE_OUT, step))
    barriers = [step for step in range(len(sends) + num_receives, len(waits)) if waits[step] == 0]
    return (*barriers, *urgent), tuple(later)


def _waiting(
    schedule: Schedule,
    problem: Problem,
    rank: int,
    rows: Rows,
    releases: Sequence[tuple[int, ...]],
    arrivals: tuple[Arrival, ...],
    *,
    is_paced: bool,
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Queues of arrivals to be let in a few at a time, arrivals to wait for by peer, and the rest.

    Messages that hold their links alone, or wait for a message from another rank to the same one, stand in one queue.
    On a fabric that bears few senders, other messages between servers queue by peer, unless senders keep to rates:
    then all may come at once. The order respects every dependency, so that whoever waits for the first of a queue
    waits for a message that can come.
    """
    is_ordered = schedule.exclusive[rows.message].copy()
    deps = schedule.deps.take(rows.message)
    dep, earlier = _match(deps.values, rows.message)
    later = deps.row_of_value[dep]
    is_ordered[later[rows.peer[later] != rows.peer[earlier]]] = True
    crosses = _crosses_limited_fabric(problem, rank, rows)
    if is_ordered.any():
        is_ordered |= crosses
    depth = rows.message if is_in_order(schedule) else levels(schedule, problem.topology)[rows.message]
    key = np.where(schedule.exclusive[rows.message], schedule.order[rows.message], depth)
    queue_of = np.where(is_ordered, -1, rows.peer).tolist()
    is_queued, peer = (is_ordered if is_paced else is_ordered | crosses).tolist(), rows.peer.tolist()
    arrivals_of: list[list[int]] = [[] for _ in range(len(rows))]
    for number, arrival in enumerate(arrivals):
        arrivals_of[arrival.place].append(number)
    rest: list[int] = []
    queues: dict[int, list[int]] = {}
    awaited: dict[int, list[int]] = {}
    for place in np.lexsort((rows.message, key)).tolist():
        if is_queued[place]:
            queues.setdefault(queue_of[place], []).extend(arrivals_of[place])
        is_awaited = is_queued[place] or crosses[place] or releases[place]
        (awaited.setdefault(peer[place], []) if is_awaited else rest).extend(arrivals_of[place])
    return tuple(map(tuple, queues.values())), tuple(map(tuple, awaited.values())), tuple(rest)


def _shares(
    schedule: Schedule, problem: Problem, queues: Sequence[Sequence[int]], arrivals: Sequence[Arrival]
) -> tuple[float, ...]:
    """What each queue brings, as a part of what the busiest rank sends or receives between servers.

    If all bytes flow in these proportions nobody is done early, and the busiest rank never waits for bytes that others
    could have had later.
    """
    if problem.cluster is None or not queues:
        return (1.0,) * len(queues)
    single = np.flatnonzero((schedule.src.counts == 1) & (schedule.dst.counts == 1))
    ends = [ends.take(single).values for ends in (schedule.src, schedule.dst)]
    crosses = problem.cluster.server_of(ends[0]) != problem.cluster.server_of(ends[1])
    size_bytes = schedule.size_bytes[single][crosses]
    busiest = max(np.bincount(end[crosses], size_bytes).max(initial=1) for end in ends)
    return tuple(min(1.0, sum(arrivals[number].length for number in queue) / busiest) for queue in queues)


def _order(
    schedule: Schedule, sends: Rows, receives: Rows, *, are_summed: bool
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """How many steps each step waits for, and which steps it releases."""
    num_sends, num_moves = len(sends), len(sends) + len(receives)
    before: list[NDArray[np.integer]] = []
    after: list[NDArray[np.integer]] = []
    # Bytes that are only copied never overwrite anything: their receives need no order of their own.
    for rows, first in ((sends, 0), (receives, num_sends))[: 2 if are_summed else 1]:
        deps = schedule.deps.take(rows.message)
        waiting = first + deps.row_of_value
        for others, others_first in ((sends, 0), (receives, num_sends)):
            dep, other = _match(deps.values, others.message)
            before.append(others_first + other)
            after.append(waiting[dep])
    stage = schedule.stage[np.concatenate([sends.message, receives.message])]
    segment = np.searchsorted(schedule.barriers, stage, side="right")
    for barrier in range(len(schedule.barriers)):
        step = num_moves + barrier
        earlier, later = np.flatnonzero(segment == barrier), np.flatnonzero(segment == barrier + 1)
        before += [earlier, np.full(len(later), step), np.full(min(barrier, 1), step - 1)]
        after += [np.full(len(earlier), step), later, np.full(min(barrier, 1), step)]
    total = num_moves + len(schedule.barriers)
    edges = np.unique(np.stack([np.concatenate(before), np.concatenate(after)], axis=1).astype(np.int64), axis=0)
    released = Ragged.from_counts(np.bincount(edges[:, 0], minlength=total), edges[:, 1].astype(np.int32))
    flat, ends = released.values.tolist(), released.offsets.tolist()
    releases = tuple(tuple(flat[begin:end]) for begin, end in pairwise(ends))
    return tuple(np.bincount(edges[:, 1], minlength=total).tolist()), releases


def _match(values: NDArray[np.integer], keys: Ints) -> tuple[Ints, Ints]:
    """Pairs (k, j) with values[k] == keys[j]; keys ascend and may repeat."""
    first = np.searchsorted(keys, values, side="left")
    count = np.searchsorted(keys, values, side="right") - first
    left = np.repeat(np.arange(len(values)), count)
    right = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(len(left))
    return left, right


def _all(like: NDArray[np.generic], buffer: Buffer) -> Ints:
    return np.full(len(like), buffer, np.int64)
