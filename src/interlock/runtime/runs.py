"""Runs of bytes in columns: finding where bytes lie, joining neighbours, turning them into copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged
from interlock.runtime.program import Copy
from interlock.schedule import Schedule

__all__ = ["Held", "Rows", "Runs", "copies", "is_one_run", "locate", "merge", "rows_of", "tags"]

Ints = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Rows:
    """Messages of one direction, one row per peer, with their pieces. Addresses count items laid end to end."""

    message: Ints
    peer: NDArray[np.int32]
    size_bytes: Ints
    row: Ints  # of each piece, and so on
    address: Ints
    item: Ints
    offset: Ints
    length: Ints

    def __len__(self) -> int:
        return len(self.message)

    @property
    def within(self) -> Ints:
        """Where each piece begins inside its message."""
        before = np.cumsum(self.length) - self.length
        first = np.searchsorted(self.row, np.arange(len(self)))
        return np.asarray(before - before[first[self.row]], np.int64) if len(before) else before


@dataclass(slots=True, eq=False)
class Held:
    """Ranges of addresses at a rank, ascending and disjoint, and where they lie."""

    address: Ints
    length: Ints
    buffer: Ints
    start: Ints


@dataclass(slots=True, eq=False)
class Runs:
    """Contiguous runs of bytes by message row, in message order."""

    row: Ints
    buffer: Ints
    start: Ints
    length: Ints

    def where(self, chosen: NDArray[np.bool_]) -> Runs:
        """Only the chosen runs."""
        return Runs(self.row[chosen], self.buffer[chosen], self.start[chosen], self.length[chosen])

    @property
    def within(self) -> Ints:
        """Where each run begins inside its message."""
        before = np.cumsum(self.length) - self.length
        first = np.searchsorted(self.row, self.row)
        return np.asarray(before - before[first], np.int64)


def rows_of(schedule: Schedule, messages: Ints, others: Ragged, rank: int, first_byte: Ints) -> Rows:
    """One row per message and peer on its other side; multicasts and in-switch sums become one-to-one."""
    ends = others.take(messages)
    is_peer = ends.values != rank
    message = messages[ends.row_of_value[is_peer]]
    peer = ends.values[is_peer]
    offsets = schedule.pieces.offsets
    num_pieces = offsets[message + 1] - offsets[message]
    row = np.repeat(np.arange(len(message)), num_pieces)
    piece = np.repeat(offsets[message] - (np.cumsum(num_pieces) - num_pieces), num_pieces) + np.arange(len(row))
    item = schedule.pieces.item[piece].astype(np.int64)
    return Rows(
        message=message,
        peer=peer,
        size_bytes=schedule.size_bytes[message],
        row=row,
        address=first_byte[item] + schedule.pieces.offset[piece],
        item=item,
        offset=schedule.pieces.offset[piece],
        length=schedule.pieces.length[piece],
    )


def tags(peer: NDArray[np.int32], num_parts: Ints) -> Ints:
    """Number the parts with each peer; the first of each message. Both ends count alike, so they agree."""
    order = np.argsort(peer, kind="stable")
    ordered, parts = peer[order], num_parts[order]
    before = np.cumsum(parts) - parts
    tag = np.empty(len(peer), np.int64)
    tag[order] = before - before[np.searchsorted(ordered, ordered)] if len(peer) else before
    return tag


def locate(sends: Rows, held: Held) -> Runs:
    """Where the bytes of each send lie, cut wherever they are not in one place."""
    if len(sends.row) and not len(held.address):
        raise InvalidInput(f"message {sends.message[0]} sends bytes that its source never holds")
    row, address, left, piece = sends.row, sends.address, sends.length, np.arange(len(sends.row))
    parts: list[tuple[Ints, ...]] = []
    while len(row):
        place = np.searchsorted(held.address, address, side="right") - 1
        within = address - held.address[place]
        lost = (place < 0) | (within >= held.length[place])
        if lost.any():
            bad = sends.message[row[np.flatnonzero(lost)[0]]]
            raise InvalidInput(f"message {bad} sends bytes that its source never holds")
        take = np.minimum(left, held.length[place] - within)
        parts.append((piece, address, row, held.buffer[place], held.start[place] + within, take))
        more = take < left
        row, address, left, piece = row[more], (address + take)[more], (left - take)[more], piece[more]
    if not parts:
        none = np.zeros(0, np.int64)
        return Runs(none, none, none, none)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    return merge(Runs(*(column[order] for column in columns[2:])))


def merge(runs: Runs) -> Runs:
    """Join runs of a message that follow each other both in the message and in their buffer."""
    if len(runs.row) < 2:
        return runs
    joins = (
        (runs.row[1:] == runs.row[:-1])
        & (runs.buffer[1:] == runs.buffer[:-1])
        & (runs.start[1:] == runs.start[:-1] + runs.length[:-1])
    )
    first = np.flatnonzero(np.concatenate([[True], ~joins]))
    return Runs(runs.row[first], runs.buffer[first], runs.start[first], np.add.reduceat(runs.length, first))


def is_one_run(runs: Runs, rows: Rows, buffer: int | None = None) -> NDArray[np.bool_]:
    """Messages whose bytes, padding included, are one run (of that buffer, where one is named)."""
    counts = np.bincount(runs.row, minlength=len(rows))
    single: NDArray[np.bool_] = counts == 1
    lone = np.flatnonzero(single[runs.row])
    whole = runs.length[lone] == rows.size_bytes[runs.row[lone]]
    if buffer is not None:
        whole &= runs.buffer[lone] == buffer
    single[runs.row[lone]] = whole
    return single


def copies(
    row: Ints, source: tuple[Ints, Ints], target: tuple[Ints, Ints], length: Ints, num_rows: int
) -> list[tuple[Copy, ...]]:
    """Copies by row, from (buffer, start) to (buffer, start), neighbours on both sides joined."""
    made: list[tuple[Copy, ...]] = [()] * num_rows
    if len(row) == 0:
        return made
    joins = row[1:] == row[:-1]
    for buffer, start in (source, target):
        joins &= (buffer[1:] == buffer[:-1]) & (start[1:] == start[:-1] + length[:-1])
    first = np.flatnonzero(np.concatenate([[True], ~joins]))
    columns = (*(column[first] for column in (*source, *target)), np.add.reduceat(length, first))
    joined = list(zip(*(column.tolist() for column in columns), strict=True))
    owner = row[first]
    starts = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]])).tolist()
    for begin, end in zip(starts, [*starts[1:], len(joined)], strict=True):
        made[int(owner[begin])] = tuple(joined[begin:end])
    return made
