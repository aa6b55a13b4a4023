"""The work list of a device: the programs of ranks as copies, sums and flags, in an order that cannot get stuck.

Sends put bytes straight into the receiver's memory and raise a flag there; receives wait for that flag. What each rank
waits for is a flag in its own memory. One list holds the work of all ranks of a process: of all ranks of the plan
(virtual ranks), or of a single one whose peers are other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged

__all__ = ["CHUNK", "CHUNK_BYTES", "WAIT", "Flags", "Kind", "Landing", "WorkList", "landings", "make_work"]

CHUNK_BYTES = 32 * 1024  # that one warp moves at a time: enough loads in flight, and parts for all warps of a device
IN_FLIGHT_BYTES = 64 << 20  # what the warps of a large device have in their hands at once: some 2,000 chunks
NUM_BUFFERS = 3  # of a rank: input, output, scratch
OUTPUT, SCRATCH = 1, 2

# As the kernel reads them (`kernels/executor.cu`).
CHUNK = np.dtype(
    [
        ("source", np.int64),
        ("target", np.int64),
        ("bytes", np.int32),
        ("first_wait", np.int32),
        ("end_wait", np.int32),
        ("signal", np.int32),
        ("arrival", np.int32),
        ("rank", np.int16),
        ("arrival_rank", np.int16),
        ("source_space", np.int16),
        ("target_space", np.int16),
        ("kind", np.int32),
    ],
    align=True,
)
WAIT = np.dtype([("flag", np.int32), ("needed", np.uint32)])

Columns = Mapping[str, NDArray[np.generic]]
Ints = NDArray[np.int64]


class Kind(IntEnum):
    """What is done with a chunk."""

    NOTHING = 0  # only waits and signals
    COPY = 1
    COMBINE = 2  # adds to what is there, or takes the larger or smaller
    ZERO = 3


@dataclass(frozen=True)
class Flags:
    """Where the flags of one rank stand: a group for each kind of event, one after the other."""

    num_sends: int
    num_receives: int
    num_barriers: int
    num_ranks: int
    ready: ClassVar[int] = 0
    """First of the peers' flags, by rank: a peer has begun this launch, so its memory may be written."""

    @property
    def arrived(self) -> int:
        """First of the receives' flags: the bytes of a message have landed."""
        return self.num_ranks

    @property
    def placed(self) -> int:
        """First of the receives' flags: what landed is where it belongs."""
        return self.arrived + self.num_receives

    @property
    def sent(self) -> int:
        """First of the sends' flags: the bytes have been read and put."""
        return self.placed + self.num_receives

    @property
    def packed(self) -> int:
        """First of the sends' flags: the bytes lie in one run."""
        return self.sent + self.num_sends

    @property
    def passed(self) -> int:
        """First of the barriers' flags."""
        return self.packed + self.num_sends

    @property
    def started(self) -> int:
        """The flag of the accumulators: each has its first value."""
        return self.passed + self.num_barriers

    def __len__(self) -> int:
        return self.started + 1

    def describe(self, flag: int, columns: Columns) -> str:
        """A flag in words."""
        for first, count, words in (
            (self.ready, self.num_ranks, "rank {0} to begin this launch"),
            (self.started, 1, "its accumulators to be filled"),
            (self.passed, self.num_barriers, "barrier {0}"),
            (self.packed, self.num_sends, "message {tag} to rank {peer} to be packed"),
            (self.sent, self.num_sends, "message {tag} to rank {peer} to be sent"),
            (self.placed, self.num_receives, "message {tag} from rank {peer} to be put in place"),
            (self.arrived, self.num_receives, "message {tag} from rank {peer} to arrive"),
        ):
            if first <= flag < first + count:
                place, end = flag - first, "send" if first in (self.packed, self.sent) else "receive"
                known = {name: columns[f"{end}_{name}"][place] for name in ("tag", "peer") if "{tag}" in words}
                return words.format(place, **known)
        return f"flag {flag}, which does not exist"


@dataclass(frozen=True, slots=True, eq=False)
class Landing:
    """Where each of a rank's sends lands: by send, the receiver's buffer, first byte and flag."""

    buffer: Ints
    start: Ints
    flag: Ints


@dataclass(frozen=True, slots=True, eq=False)
class WorkList:
    """Chunks and what they wait for."""

    chunks: NDArray[np.void]  # of CHUNK
    waits: NDArray[np.void]  # of WAIT
    step: Ints  # [chunks] step of the rank's program; -1 where there is none
    flags_by_rank: Mapping[int, Flags]
    columns_by_rank: Mapping[int, Columns]

    def describe(self, chunk: int, flag: int) -> str:
        """What a chunk does and what it waits for, in words."""
        row = self.chunks[chunk]
        rank, step = int(row["rank"]), int(self.step[chunk])
        flags, columns = self.flags_by_rank[rank], self.columns_by_rank[rank]
        if 0 <= step < flags.num_sends:
            what = f"message {columns['send_tag'][step]} from rank {rank} to rank {columns['send_peer'][step]}"
        elif flags.num_sends <= step < flags.num_sends + flags.num_receives:
            place = step - flags.num_sends
            what = f"message {columns['receive_tag'][place]} from rank {columns['receive_peer'][place]} to rank {rank}"
        else:
            what = f"rank {rank}"
        return f"{what} waited for {flags.describe(flag, columns)}"


def landings(columns_by_rank: Sequence[Columns]) -> list[Landing]:
    """Where the sends of every rank land: (sender, receiver, tag) names a message in the programs of both."""
    by_rank = []
    receives = [_keys(columns["receive_peer"], columns["receive_tag"]) for columns in columns_by_rank]
    orders = [np.argsort(keys, kind="stable") for keys in receives]
    for rank, columns in enumerate(columns_by_rank):
        peer, tag = _ints(columns["send_peer"]), _ints(columns["send_tag"])
        buffer, start, flag = np.zeros((3, len(peer)), np.int64)
        for other in np.unique(peer).tolist():
            mine = np.flatnonzero(peer == other)
            wanted = _keys(np.full(len(mine), rank), tag[mine])
            order, keys = orders[other], receives[other][orders[other]]
            found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            if len(keys) == 0 or (keys[found] != wanted).any():
                raise InvalidInput(f"rank {rank} sends to rank {other}, which does not expect it")
            place = order[found]
            buffer[mine] = _ints(columns_by_rank[other]["receive_buffer"])[place]
            start[mine] = _ints(columns_by_rank[other]["receive_start"])[place]
            flag[mine] = len(columns_by_rank) + place  # see `Flags.arrived`
        by_rank.append(Landing(buffer, start, flag))
    return by_rank


def make_work(
    columns_by_rank: Mapping[int, Columns],
    landing_by_rank: Mapping[int, Landing],
    num_ranks: int,
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> WorkList:
    """The work of the given ranks: of all of them, or of one among other processes, which meets its peers first."""
    meets = len(columns_by_rank) < num_ranks
    parts = [
        _rank_rows(rank, columns, landing_by_rank[rank], num_ranks, meets=meets)
        for rank, columns in columns_by_rank.items()
    ]
    rows = np.concatenate([part.rows for part in parts])
    counts = np.concatenate([part.waits.counts for part in parts])
    flag = np.concatenate([part.waits.values for part in parts])
    waits = Ragged.from_counts(counts, flag)
    flags_by_rank = {rank: part.flags for rank, part in zip(columns_by_rank, parts, strict=True)}
    num_chunks = np.maximum(1, -(-rows["bytes"] // chunk_bytes))
    base = np.zeros(num_ranks + 1, np.int64)
    base[1:] = np.cumsum([len(flags_by_rank[rank]) if rank in flags_by_rank else 0 for rank in range(num_ranks)])
    needed = _needed(columns_by_rank, flags_by_rank, base, rows, num_chunks, chunk_bytes)
    global_flag = base[rows["rank"]][waits.row_of_value] + flag
    row = np.repeat(np.arange(len(rows)), num_chunks)
    part_of_row = np.arange(len(row)) - np.repeat(np.cumsum(num_chunks) - num_chunks, num_chunks)
    if meets:
        # Programs of others are unknown here, but a message waits for none of its round or a later one, on any rank.
        # With sends before receives in every round, the first message that is not done can go on.
        order = np.lexsort((part_of_row, row, rows["place"][row]))
    else:
        turn = _turns(rows, Ragged(waits.offsets, global_flag.astype(np.int32)), base)
        order = np.lexsort((part_of_row, turn[row]))
    row, part_of_row = row[order], part_of_row[order]
    chunks = np.zeros(len(row), CHUNK)
    for name in ("signal", "arrival", "rank", "arrival_rank", "source_space", "target_space", "kind"):
        chunks[name] = rows[name][row]
    offset = part_of_row * chunk_bytes
    chunks["source"], chunks["target"] = rows["source"][row] + offset, rows["target"][row] + offset
    chunks["bytes"] = np.minimum(chunk_bytes, rows["bytes"][row] - offset)
    chunks["first_wait"], chunks["end_wait"] = waits.offsets[row], waits.offsets[row + 1]
    made_waits = np.zeros(len(flag), WAIT)
    made_waits["flag"], made_waits["needed"] = flag, needed[global_flag]
    return WorkList(
        chunks=chunks,
        waits=made_waits,
        step=rows["step"][row],
        flags_by_rank=flags_by_rank,
        columns_by_rank=columns_by_rank,
    )


_ROW = np.dtype(
    [
        ("kind", np.int32),
        ("source", np.int64),
        ("target", np.int64),
        ("bytes", np.int64),
        ("signal", np.int32),
        ("arrival", np.int32),
        ("rank", np.int16),
        ("arrival_rank", np.int16),
        ("source_space", np.int16),
        ("target_space", np.int16),
        ("step", np.int64),  # of the rank's program; -1: none
        ("place", np.float64),  # in the rank's own list: the round of a send, and half a round more for what it brings
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class _RankRows:
    """What one rank does, in rows that are not cut yet, and the flags that each waits for."""

    rows: NDArray[np.void]
    waits: Ragged
    flags: Flags


class _Builder:
    """Collects rows of one rank."""

    def __init__(self, rank: int) -> None:
        self._rank, self._rows, self._counts, self._waits = rank, [], [], []  # type: ignore[var-annotated]

    def add(self, count: int, waits: Ragged, **fields: object) -> None:
        """Rows with the given fields; the others say "none"."""
        rows = np.zeros(count, _ROW)
        rows["rank"], rows["signal"], rows["arrival"], rows["step"] = self._rank, -1, -1, -1
        for name, value in fields.items():
            rows[name] = value
        self._rows.append(rows)
        self._counts.append(waits.counts)
        self._waits.append(waits.values)

    def finish(self, flags: Flags) -> _RankRows:
        """All rows."""
        waits = Ragged.from_counts(np.concatenate(self._counts), np.concatenate(self._waits).astype(np.int32))
        return _RankRows(np.concatenate(self._rows), waits, flags)


def _rank_rows(rank: int, columns: Columns, landing: Landing, num_ranks: int, *, meets: bool) -> _RankRows:
    """The steps of a rank's program as rows. A step is done when its last row has signalled the step's flag."""
    peers, sizes = _ints(columns["send_peer"]), _ints(columns["send_bytes"])
    num_sends, num_receives = len(peers), len(columns["receive_peer"])
    waits = Ragged(_ints(columns["wait_offsets"]), _ints(columns["wait_on"]).astype(np.int32))
    num_barriers = len(waits) - num_sends - num_receives
    flags = Flags(num_sends, num_receives, num_barriers, num_ranks)
    packs = Ragged(_ints(columns["pack_offsets"]), np.arange(len(columns["pack_start"]), dtype=np.int32))
    unpacks = Ragged(_ints(columns["unpack_offsets"]), np.arange(len(columns["unpack_start"]), dtype=np.int32))
    is_packed, is_unpacked = packs.counts > 0, unpacks.counts > 0
    send, receive = np.arange(num_sends), np.arange(num_receives)
    # A receive that nothing must be done for is done when its bytes are there.
    has_row = is_unpacked | (waits.counts[num_sends : num_sends + num_receives] > 0)
    done = np.concatenate(
        [
            flags.sent + send,
            np.where(has_row, flags.placed, flags.arrived) + receive,
            flags.passed + np.arange(num_barriers),
        ]
    )
    starts = len(columns["start_from"]) + len(columns["zero_start"]) > 0
    waiting = Ragged(waits.offsets, done[waits.values].astype(np.int32))
    if starts:
        waiting = _with(waiting, np.full(len(waiting), flags.started))
    is_awaited = np.zeros(len(done), np.bool_)
    is_awaited[waits.values] = True
    send_place = _ints(columns["send_round"]).astype(np.float64)
    receive_place = _ints(columns["receive_round"]).astype(np.float64) + 0.5
    space = rank * NUM_BUFFERS
    builder = _Builder(rank)

    def free(count: int) -> Ragged:
        return Ragged.empty(count)

    builder.add(
        len(columns["start_from"]),
        free(len(columns["start_from"])),
        kind=Kind.COPY,
        source=columns["start_from"],
        target=columns["start_to"],
        bytes=columns["start_bytes"],
        signal=flags.started,
        source_space=space,
        target_space=space + _ints(columns["start_buffer"]),
        place=-1,
    )
    builder.add(
        len(columns["zero_start"]),
        free(len(columns["zero_start"])),
        kind=Kind.ZERO,
        target=columns["zero_start"],
        bytes=columns["zero_bytes"],
        signal=flags.started,
        source_space=space,
        target_space=space + _ints(columns["zero_buffer"]),
        place=-1,
    )
    if meets:
        senders = np.unique(_ints(columns["receive_peer"]))
        builder.add(len(senders), free(len(senders)), arrival=flags.ready + rank, arrival_rank=senders, place=-2)
    pack_send = packs.row_of_value
    builder.add(
        len(pack_send),
        waiting.take(pack_send),
        kind=Kind.COPY,
        source=columns["pack_start"],
        target=columns["pack_to"],
        bytes=columns["pack_bytes"],
        signal=flags.packed + pack_send,
        source_space=space + _ints(columns["pack_buffer"]),
        target_space=space + SCRATCH,
        step=pack_send,
        place=send_place[pack_send],
    )
    one = Ragged.from_counts(is_packed.astype(np.int64), (flags.packed + send[is_packed]).astype(np.int32))
    put_waits = _either(one, waiting, is_packed)
    if meets:
        put_waits = _with(put_waits, flags.ready + peers)
    builder.add(
        num_sends,
        put_waits,
        kind=Kind.COPY,
        source=columns["send_start"],
        target=landing.start,
        bytes=sizes,
        signal=np.where(is_awaited[:num_sends], flags.sent + send, -1),
        arrival=landing.flag,
        arrival_rank=peers,
        source_space=space + _ints(columns["send_buffer"]),
        target_space=peers * NUM_BUFFERS + landing.buffer,
        step=send,
        place=send_place,
    )
    after_arrival = _with(waiting.take(num_sends + receive), flags.arrived + receive)
    unpack_receive = unpacks.row_of_value
    if columns["receive_adds"].any():
        after, before = _one_by_one(columns, unpack_receive, receive_place)
        pairs = Ragged.from_pairs(after, flags.placed + before, num_receives)
        after_arrival = _joined(after_arrival, pairs)
    builder.add(
        len(unpack_receive),
        after_arrival.take(unpack_receive),
        kind=np.where(columns["receive_adds"], Kind.COMBINE, Kind.COPY)[unpack_receive],
        source=columns["unpack_start"],
        target=columns["unpack_to"],
        bytes=columns["unpack_bytes"],
        signal=flags.placed + unpack_receive,
        source_space=space + _ints(columns["receive_buffer"])[unpack_receive],
        target_space=space + _ints(columns["unpack_buffer"]),
        step=num_sends + unpack_receive,
        place=receive_place[unpack_receive],
    )
    bare = np.flatnonzero(has_row & ~is_unpacked)
    builder.add(
        len(bare),
        after_arrival.take(bare),
        signal=flags.placed + bare,
        step=num_sends + bare,
        place=receive_place[bare],
    )
    barrier = np.arange(num_barriers)
    builder.add(
        num_barriers,
        waiting.take(num_sends + num_receives + barrier),
        signal=flags.passed + barrier,
        step=num_sends + num_receives + barrier,
        place=_barrier_places(waits, np.concatenate([send_place, receive_place])),
    )
    kept = len(columns["own_from"])
    builder.add(
        kept,
        free(kept),
        kind=Kind.COPY,
        source=columns["own_from"],
        target=columns["own_to"],
        bytes=columns["own_bytes"],
        source_space=space,
        target_space=space + OUTPUT,
        place=np.inf,
    )
    if meets:
        # A rank is not done before all that lands in its memory has landed.
        landed = Ragged.from_counts(np.array([num_receives]), (flags.arrived + receive).astype(np.int32))
        builder.add(1, landed, place=np.inf)
    return builder.finish(flags)


def _one_by_one(columns: Columns, unpack_receive: Ints, place: NDArray[np.float64]) -> tuple[Ints, Ints]:
    """Receives that must wait for another one, which changes the same bytes before them: (later, earlier) pairs.

    What is added up meets in one accumulator. One after the other it is whole, and the same from run to run.
    """
    start, size = _ints(columns["unpack_to"]), _ints(columns["unpack_bytes"])
    start = start + (_ints(columns["unpack_buffer"]) << 48)  # buffers do not overlap
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate((start + size)[order])
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = start[order][1:] >= reach[:-1]
    cluster = np.empty(len(order), np.int64)  # unpacks that overlap, if only by way of others
    cluster[order] = np.cumsum(is_new)
    order = np.lexsort((unpack_receive, place[unpack_receive], cluster))
    cluster, receive = cluster[order], unpack_receive[order]
    follows = (cluster[1:] == cluster[:-1]) & (receive[1:] != receive[:-1])
    return receive[1:][follows], receive[:-1][follows]


def _barrier_places(waits: Ragged, place: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each barrier after all it waits for, and before later rounds."""
    places = np.zeros(len(waits) - len(place), np.float64)
    for barrier in range(len(places)):
        before = waits[len(place) + barrier]
        own = place[before[before < len(place)]].max(initial=0.0) + 0.25
        places[barrier] = max(own, places[barrier - 1]) if barrier else own
    return places


def _needed(
    columns_by_rank: Mapping[int, Columns],
    flags_by_rank: Mapping[int, Flags],
    base: Ints,
    rows: NDArray[np.void],
    num_chunks: Ints,
    chunk_bytes: int,
) -> NDArray[np.uint32]:
    """Signals that each flag gets in one launch. What arrives is counted from its size, as its sender cuts it."""
    needed = np.zeros(int(base[-1]), np.int64)
    local = rows["signal"] >= 0
    np.add.at(needed, base[rows["rank"][local]] + rows["signal"][local], num_chunks[local])
    for rank, columns in columns_by_rank.items():
        flags, first = flags_by_rank[rank], int(base[rank])
        arrived = first + flags.arrived + np.arange(flags.num_receives)
        needed[arrived] = np.maximum(1, -(-_ints(columns["receive_bytes"]) // chunk_bytes))
        needed[first + flags.ready : first + flags.arrived] = 1
    return needed.astype(np.uint32)


def _turns(rows: NDArray[np.void], waits: Ragged, base: Ints) -> Ints:
    """The place of each row in a list in which nothing waits for a later row.

    The list is filled as a device would take it, `IN_FLIGHT_BYTES` at a time of what can go on; what the longest chains
    wait for goes first, so that they do not end alone.
    """
    num_flags = int(base[-1])
    signaller = np.concatenate([np.flatnonzero(rows["signal"] >= 0), np.flatnonzero(rows["arrival"] >= 0)])
    signals, arrives = rows[rows["signal"] >= 0], rows[rows["arrival"] >= 0]
    raised = np.concatenate(
        [base[signals["rank"]] + signals["signal"], base[arrives["arrival_rank"]] + arrives["arrival"]]
    )
    raises = Ragged.from_counts(
        np.bincount(signaller, minlength=len(rows)), raised[np.argsort(signaller, kind="stable")].astype(np.int32)
    )
    waiter = waits.row_of_value[np.argsort(waits.values, kind="stable")]
    waiters = Ragged.from_counts(np.bincount(waits.values, minlength=num_flags), waiter.astype(np.int32))
    signals_left = np.bincount(raised, minlength=num_flags)

    def take_in_rounds(choose: Callable[[Ints], NDArray[np.bool_]]) -> list[Ints]:
        """Rows in rounds, each of rows whose flags are up after the rounds before; `choose` may put some off."""
        left, waits_left = signals_left.copy(), waits.counts.copy()
        ready, rounds = np.flatnonzero(waits_left == 0), []
        while len(ready):
            chosen = choose(ready)
            rounds.append(ready[chosen])
            up, times = np.unique(raises.take(rounds[-1]).values, return_counts=True)
            left[up] -= times
            freed, times = np.unique(waiters.take(up[left[up] == 0]).values, return_counts=True)
            waits_left[freed] -= times
            ready = np.concatenate([ready[~chosen], freed[waits_left[freed] == 0]])
        return rounds

    levels = take_in_rounds(lambda ready: np.ones(len(ready), np.bool_))
    if sum(map(len, levels)) < len(rows):
        raise InvalidInput("the programs wait for each other in a circle")
    chain = np.zeros(len(rows), np.int64)  # rows that must go one after the other from each row on
    chain_of_flag = np.zeros(num_flags, np.int64)
    for level in reversed(levels):
        after = raises.take(level)
        np.maximum.at(chain, level[after.row_of_value], chain_of_flag[after.values])
        chain[level] += 1
        before = waits.take(level)
        np.maximum.at(chain_of_flag, before.values, chain[level][before.row_of_value])

    def choose(ready: Ints) -> NDArray[np.bool_]:
        order = np.lexsort((ready, -chain[ready]))
        chosen = np.zeros(len(ready), np.bool_)
        before = np.cumsum(rows["bytes"][ready[order]]) - rows["bytes"][ready[order]]
        chosen[order[before < IN_FLIGHT_BYTES]] = True
        return chosen

    turn = np.empty(len(rows), np.int64)
    taken = [np.sort(rows_taken) for rows_taken in take_in_rounds(choose)]
    turn[np.concatenate([*taken, np.zeros(0, np.int64)])] = np.arange(len(rows))
    return turn


def _with(ragged: Ragged, extra: NDArray[np.integer]) -> Ragged:
    """Every row with one value more."""
    counts = ragged.counts + 1
    values = np.empty(int(counts.sum()), np.int32)
    last = np.cumsum(counts) - 1
    is_extra = np.zeros(len(values), np.bool_)
    is_extra[last] = True
    values[is_extra], values[~is_extra] = extra, ragged.values
    return Ragged.from_counts(counts, values)


def _joined(first: Ragged, second: Ragged) -> Ragged:
    """Every row of one with the same row of the other."""
    rows = np.concatenate([first.row_of_value, second.row_of_value])
    values = np.concatenate([first.values, second.values])
    return Ragged.from_counts(first.counts + second.counts, values[np.argsort(rows, kind="stable")])


def _either(chosen: Ragged, otherwise: Ragged, choose: NDArray[np.bool_]) -> Ragged:
    """Rows of `chosen` where asked for, else those of `otherwise`, which may have more rows."""
    counts = np.where(choose, chosen.counts, otherwise.counts[: len(choose)])
    values = np.empty(int(counts.sum()), np.int32)
    is_chosen = np.repeat(choose, counts)
    values[is_chosen] = chosen.values
    values[~is_chosen] = otherwise.take(np.flatnonzero(~choose)).values
    return Ragged.from_counts(counts, values)


def _keys(peer: NDArray[np.generic], tag: NDArray[np.generic]) -> Ints:
    keys: Ints = (_ints(peer) << 32) | _ints(tag)
    return keys


def _ints(column: NDArray[np.generic]) -> Ints:
    return np.asarray(column).astype(np.int64)
