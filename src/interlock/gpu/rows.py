"""What one rank does on a device, in rows: a copy, a sum or nothing, what it waits for and which flags it raises.

The steps of a rank's program become rows here, one function per kind of step. A step is done when its last row has
signalled the step's flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from interlock.ragged import Ragged

__all__ = [
    "NUM_BUFFERS",
    "OUTPUT",
    "SCRATCH",
    "Columns",
    "Flags",
    "Ints",
    "ChunkAction",
    "Landing",
    "ints",
    "rank_rows",
]

Columns = Mapping[str, NDArray[np.generic]]
Ints = NDArray[np.int64]
NUM_BUFFERS = 3  # of a rank: input, output, scratch
OUTPUT, SCRATCH = 1, 2


def ints(column: NDArray[np.generic]) -> Ints:
    """A column as 64-bit numbers."""
    return np.asarray(column).astype(np.int64)


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


class ChunkAction(IntEnum):
    """What is done with a chunk."""

    NOTHING = 0  # only waits and signals
    COPY = 1
    COMBINE = 2  # adds to what is there, or takes the larger or smaller
    ZERO = 3


@dataclass(frozen=True, slots=True, eq=False)
class Landing:
    """Where each of a rank's sends lands: by send, the receiver's buffer, first byte and flag."""

    buffer: Ints
    start: Ints
    flag: Ints


ROW = np.dtype(
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
class RankRows:
    """What one rank does, in rows that are not cut yet, and the flags that each waits for."""

    rows: NDArray[np.void]
    waits: Ragged
    flags: Flags


def rank_rows(rank: int, columns: Columns, landing: Landing, num_ranks: int, *, meets: bool) -> RankRows:
    """The steps of a rank's program as rows; it meets its peers first where they are other processes."""
    made = _Builder(rank, columns, num_ranks)
    made.add_first_values()
    if meets:
        made.add_meeting()
    made.add_packs()
    made.add_puts(landing, meets=meets)
    made.add_receives()
    made.add_barriers()
    made.add_own()
    if meets:
        made.add_end()
    return made.finish()


class _Builder:
    """Collects the rows of one rank, kind after kind."""

    def __init__(self, rank: int, columns: Columns, num_ranks: int) -> None:
        self._rank, self._columns, self._space = rank, columns, rank * NUM_BUFFERS
        self._rows: list[NDArray[np.void]] = []
        self._row_waits: list[Ragged] = []
        self._num_sends, self._num_receives = len(columns["send_peer"]), len(columns["receive_peer"])
        self._send, self._receive = np.arange(self._num_sends), np.arange(self._num_receives)
        self._waits = Ragged(ints(columns["wait_offsets"]), ints(columns["wait_on"]).astype(np.int32))
        num_barriers = len(self._waits) - self._num_sends - self._num_receives
        self._flags = flags = Flags(self._num_sends, self._num_receives, num_barriers, num_ranks)
        self._packs, self._unpacks = _moves(columns, "pack"), _moves(columns, "unpack")
        # A receive that nothing must be done for is done when its bytes are there.
        own_waits = self._waits.counts[self._num_sends : self._num_sends + self._num_receives]
        self._has_row = (self._unpacks.counts > 0) | (own_waits > 0)
        received = np.where(self._has_row, flags.placed, flags.arrived) + self._receive
        done = np.concatenate([flags.sent + self._send, received, flags.passed + np.arange(num_barriers)])
        self._waiting = Ragged(self._waits.offsets, done[self._waits.values].astype(np.int32))
        if len(columns["start_from"]) + len(columns["zero_start"]) > 0:
            self._waiting = _with(self._waiting, np.full(len(self._waiting), flags.started))
        self._is_awaited = np.zeros(len(done), np.bool_)
        self._is_awaited[self._waits.values] = True
        self._send_place = ints(columns["send_round"]).astype(np.float64)
        self._receive_place = ints(columns["receive_round"]).astype(np.float64) + 0.5

    def _add(self, waits: Ragged, **fields: object) -> None:
        """Rows with the given fields, as many as there are waits; the other fields say "none"."""
        rows = np.zeros(len(waits), ROW)
        rows["rank"], rows["signal"], rows["arrival"], rows["step"] = self._rank, -1, -1, -1
        for name, value in fields.items():
            rows[name] = value
        self._rows.append(rows)
        self._row_waits.append(waits)

    def add_first_values(self) -> None:
        """What accumulators begin with: what the rank contributes, or zero."""
        columns = self._columns
        self._add(
            Ragged.empty(len(columns["start_from"])),
            kind=ChunkAction.COPY,
            source=columns["start_from"],
            target=columns["start_to"],
            bytes=columns["start_bytes"],
            signal=self._flags.started,
            source_space=self._space,
            target_space=self._space + ints(columns["start_buffer"]),
            place=-1,
        )
        self._add(
            Ragged.empty(len(columns["zero_start"])),
            kind=ChunkAction.ZERO,
            target=columns["zero_start"],
            bytes=columns["zero_bytes"],
            signal=self._flags.started,
            source_space=self._space,
            target_space=self._space + ints(columns["zero_buffer"]),
            place=-1,
        )

    def add_meeting(self) -> None:
        """Tell those who send to this rank that its memory may be written."""
        senders = np.unique(ints(self._columns["receive_peer"]))
        ready = self._flags.ready + self._rank
        self._add(Ragged.empty(len(senders)), arrival=ready, arrival_rank=senders, place=-2)

    def add_packs(self) -> None:
        """Bring together the bytes of sends that do not lie in one run."""
        columns, send = self._columns, self._packs.row_of_value
        self._add(
            self._waiting.take(send),
            kind=ChunkAction.COPY,
            source=columns["pack_start"],
            target=columns["pack_to"],
            bytes=columns["pack_bytes"],
            signal=self._flags.packed + send,
            source_space=self._space + ints(columns["pack_buffer"]),
            target_space=self._space + SCRATCH,
            step=send,
            place=self._send_place[send],
        )

    def add_puts(self, landing: Landing, *, meets: bool) -> None:
        """Put the bytes of every send into the receiver's memory and raise its flag."""
        columns, flags, peers = self._columns, self._flags, ints(self._columns["send_peer"])
        is_packed = self._packs.counts > 0
        packed = (flags.packed + self._send[is_packed]).astype(np.int32)
        waits = Ragged.either(is_packed, Ragged.from_counts(is_packed.astype(np.int64), packed), self._waiting)
        self._add(
            _with(waits, flags.ready + peers) if meets else waits,
            kind=ChunkAction.COPY,
            source=columns["send_start"],
            target=landing.start,
            bytes=ints(columns["send_bytes"]),
            signal=np.where(self._is_awaited[: self._num_sends], flags.sent + self._send, -1),
            arrival=landing.flag,
            arrival_rank=peers,
            source_space=self._space + ints(columns["send_buffer"]),
            target_space=peers * NUM_BUFFERS + landing.buffer,
            step=self._send,
            place=self._send_place,
        )

    def add_receives(self) -> None:
        """Copy or add what has landed to where it belongs; some receives only wait."""
        columns, flags, receive = self._columns, self._flags, self._unpacks.row_of_value
        waits = _with(self._waiting.take(self._num_sends + self._receive), flags.arrived + self._receive)
        if columns["receive_adds"].any():
            after, before = _one_by_one(columns, receive, self._receive_place)
            waits = _joined(waits, Ragged.from_pairs(after, flags.placed + before, self._num_receives))
        self._add(
            waits.take(receive),
            kind=np.where(columns["receive_adds"], ChunkAction.COMBINE, ChunkAction.COPY)[receive],
            source=columns["unpack_start"],
            target=columns["unpack_to"],
            bytes=columns["unpack_bytes"],
            signal=flags.placed + receive,
            source_space=self._space + ints(columns["receive_buffer"])[receive],
            target_space=self._space + ints(columns["unpack_buffer"]),
            step=self._num_sends + receive,
            place=self._receive_place[receive],
        )
        bare = np.flatnonzero(self._has_row & (self._unpacks.counts == 0))
        step, place = self._num_sends + bare, self._receive_place[bare]
        self._add(waits.take(bare), signal=flags.placed + bare, step=step, place=place)

    def add_barriers(self) -> None:
        """A row for each barrier, which only waits and signals."""
        barrier = np.arange(self._flags.num_barriers)
        step = self._num_sends + self._num_receives + barrier
        place = _barrier_places(self._waits, np.concatenate([self._send_place, self._receive_place]))
        self._add(self._waiting.take(step), signal=self._flags.passed + barrier, step=step, place=place)

    def add_own(self) -> None:
        """Copy the bytes that stay at this rank, when nothing else is left to do."""
        columns = self._columns
        self._add(
            Ragged.empty(len(columns["own_from"])),
            kind=ChunkAction.COPY,
            source=columns["own_from"],
            target=columns["own_to"],
            bytes=columns["own_bytes"],
            source_space=self._space,
            target_space=self._space + OUTPUT,
            place=np.inf,
        )

    def add_end(self) -> None:
        """A rank is not done before all that lands in its memory has landed."""
        landed = (self._flags.arrived + self._receive).astype(np.int32)
        self._add(Ragged.from_counts(np.array([self._num_receives]), landed), place=np.inf)

    def finish(self) -> RankRows:
        """All rows."""
        counts = np.concatenate([waits.counts for waits in self._row_waits])
        values = np.concatenate([waits.values for waits in self._row_waits]).astype(np.int32)
        return RankRows(np.concatenate(self._rows), Ragged.from_counts(counts, values), self._flags)


def _moves(columns: Columns, kind: str) -> Ragged:
    """Numbers of the copies of each send or receive."""
    return Ragged(ints(columns[f"{kind}_offsets"]), np.arange(len(columns[f"{kind}_start"]), dtype=np.int32))


def _one_by_one(columns: Columns, unpack_receive: Ints, place: NDArray[np.float64]) -> tuple[Ints, Ints]:
    """Receives that must wait for another one, which changes the same bytes before them: (later, earlier) pairs.

    What is added up meets in one accumulator. One after the other it is whole, and the same from run to run.
    """
    start, size = ints(columns["unpack_to"]), ints(columns["unpack_bytes"])
    start = start + (ints(columns["unpack_buffer"]) << 48)  # buffers do not overlap
    order = np.argsort(start, kind="stable")
    end_so_far = np.maximum.accumulate((start + size)[order])
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = start[order][1:] >= end_so_far[:-1]
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


def _with(ragged: Ragged, extra: NDArray[np.integer]) -> Ragged:
    """Every row with one value more."""
    return _joined(ragged, Ragged.single(extra.astype(np.int32)))


def _joined(first: Ragged, second: Ragged) -> Ragged:
    """Every row of one with the same row of the other."""
    rows = np.concatenate([first.row_of_value, second.row_of_value])
    return Ragged.grouped(rows, np.concatenate([first.values, second.values]), len(first))
