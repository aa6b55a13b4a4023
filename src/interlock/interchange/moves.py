"""Transfers seen while executing a program of chunk moves, and the schedule they amount to.

Our schedules keep one accumulator per rank and chunk: a copy replaces it, a reduce adds to it. A program may keep
several buffers; what it sends and ends with tells which transfers were copies and which were additions. A program that
uses two different sums of one chunk at one rank in turn has no such schedule, and is refused by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from interlock.interchange.goals import Goal
from interlock.interchange.memory import Key, Memory, Value
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Kind, Phase, Pieces, Schedule

__all__ = ["Moves"]


@dataclass(slots=True)
class _Transfer:
    src: tuple[int, ...]
    dst: tuple[int, ...]
    keys: list[Key | None]  # None: contents unknown or undefined
    after: set[int] = field(default_factory=set)  # transfers


@dataclass(frozen=True, slots=True)
class _Use:
    """A value was sent by a transfer, or (None) is there in the end."""

    value: Value
    reader: int | None


class Moves:
    """Collects transfers while a program executes."""

    def __init__(self, goal: Goal, memory: Memory, chunk_bytes: int) -> None:
        self.goal, self.memory, self.chunk_bytes = goal, memory, chunk_bytes
        self.transfers: list[_Transfer] = []
        self.uses: dict[tuple[int, Key], list[_Use]] = defaultdict(list)

    def send(
        self, src: tuple[int, ...], dst: tuple[int, ...], chunks: list[list[Value | None]], after: Iterable[int | None]
    ) -> int:
        """Note a transfer of chunks, each with its value at every source; returns its id."""
        number = len(self.transfers)
        transfer = _Transfer(src, dst, [], {earlier for earlier in after if earlier is not None})
        for values in chunks:
            known = [value for value in values if value is not None]
            transfer.keys.append(known[0].key if known and len(known) == len(src) else None)
            for rank, value in zip(src, values, strict=True):
                if value is not None:
                    self.uses[rank, value.key].append(_Use(value, number))
                    transfer.after |= value.brought_by
        transfer.after.discard(number)
        self.transfers.append(transfer)
        return number

    def arrived(self, transfer: int, values: list[Value | None]) -> Value | None:
        """What the receiver of a transfer now holds, from the values at its sources."""
        if any(value is None for value in values):
            return None
        mask = 0
        for value in values:
            assert value is not None
            mask |= value.contributors
        first = values[0]
        assert first is not None
        return Value(first.key, mask, own=False, brought_by=frozenset((transfer,)))

    def finish(self, rank: int, value: Value) -> None:
        """Note what a destination ends with."""
        self.uses[rank, value.key].append(_Use(value, None))

    def to_schedule(self) -> Schedule:
        """The schedule; refusals go to the memory's violations."""
        kinds = self._kinds()
        rows = _Rows(self, kinds)
        for number in range(len(self.transfers)):
            rows.add(number)
        return rows.build()

    def _kinds(self) -> dict[tuple[int, int, Key], Kind]:
        """(transfer, receiving rank, chunk) -> copy or reduce, for all that are used."""
        kinds: dict[tuple[int, int, Key], Kind] = {}
        for (rank, key), uses in self.uses.items():
            own = bool(self.goal.contributors(key) >> rank & 1)
            held: frozenset[int] = frozenset()
            applied: set[int] = set()
            readers: set[int] = set()
            for use in uses:
                value = use.value
                if (value.own, value.brought_by) != (own, held):
                    fresh = sorted(value.brought_by - held)
                    extends = value.own == own and value.brought_by > held
                    resets = not value.own and not applied & value.brought_by
                    if not fresh or not (extends or resets):
                        self.memory.complain(
                            f"rank {rank} uses two different sums of chunk {key[1]} in turn; a schedule keeps one "
                            "accumulator per chunk and cannot say that"
                        )
                        break
                    starts_empty = not extends or (not own and not held)
                    for place, number in enumerate(fresh):
                        kinds[number, rank, key] = Kind.COPY if starts_empty and place == 0 else Kind.REDUCE
                        self.transfers[number].after |= readers - {number}
                    own, held = value.own, value.brought_by
                    applied |= value.brought_by
                    readers = set()
                if use.reader is not None:
                    readers.add(use.reader)
        return kinds


class _Rows:
    """Columns of the schedule being built."""

    def __init__(self, moves: Moves, kinds: dict[tuple[int, int, Key], Kind]) -> None:
        self.moves, self.kinds = moves, kinds
        self.transfer_of_row: list[int] = []
        self.kind: list[int] = []
        self.size: list[int] = []
        self.pieces: list[list[tuple[int, int, int]]] = []
        self.rows_of_transfer: list[list[int]] = []

    def add(self, number: int) -> None:
        """One row per transfer; two where it copies some chunks and adds others."""
        transfer = self.moves.transfers[number]
        by_kind: dict[int, list[tuple[int, int, int]]] = {}
        wasted = 0
        for key in transfer.keys:
            kinds = {self.kinds.get((number, rank, key)) for rank in transfer.dst} if key is not None else {None}
            used = sorted(kind for kind in kinds if kind is not None)
            piece = self.moves.goal.piece_of(key) if key is not None and used else None
            if piece is None:
                wasted += self.moves.chunk_bytes
                continue
            by_kind.setdefault(used[0], []).append(piece)
        first = len(self.kind)
        for kind, pieces in sorted(by_kind.items()) or [(int(Kind.COPY), [])]:
            self.transfer_of_row.append(number)
            self.kind.append(kind)
            self.pieces.append(_merged(pieces))
            self.size.append(sum(length for _, _, length in pieces))
        self.size[first] += wasted
        self.rows_of_transfer.append(list(range(first, len(self.kind))))

    def build(self) -> Schedule:
        transfers, count = self.moves.transfers, len(self.kind)
        deps = [
            sorted(row for earlier in transfers[t].after for row in self.rows_of_transfer[earlier])
            for t in self.transfer_of_row
        ]
        offsets = np.cumsum([0, *(len(pieces) for pieces in self.pieces)])
        flat = np.array([piece for pieces in self.pieces for piece in pieces], np.int64).reshape(-1, 3)
        kind = np.array(self.kind, np.uint8)
        phase = np.where(kind == Kind.REDUCE, Phase.REDUCE, Phase.SCALE_OUT).astype(np.uint8)
        src = Ragged.from_lists(transfers[t].src for t in self.transfer_of_row)
        dst = Ragged.from_lists(transfers[t].dst for t in self.transfer_of_row)
        return Schedule(
            src=src,
            dst=dst,
            kind=kind,
            phase=phase,
            stage=np.array(_depths(deps), np.int32),
            slice=np.zeros(count, np.int32),
            size_bytes=np.array(self.size, np.int64),
            path=_tree_paths(src, dst, self.moves.goal.problem),
            exclusive=np.zeros(count, np.bool_),
            order=np.zeros(count, np.int64),
            deps=Ragged.from_lists(deps),
            pieces=Pieces(offsets.astype(np.int64), flat[:, 0].astype(np.int32), flat[:, 1].copy(), flat[:, 2].copy()),
        )


def _merged(pieces: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Neighbouring stretches of one item as one."""
    merged: list[tuple[int, int, int]] = []
    for item, offset, length in pieces:
        if merged and merged[-1][0] == item and merged[-1][1] + merged[-1][2] == offset:
            merged[-1] = (item, merged[-1][1], merged[-1][2] + length)
        else:
            merged.append((item, offset, length))
    return merged


def _depths(deps: list[list[int]]) -> list[int]:
    """Longest chain of earlier rows behind each row."""
    depths: list[int] = []
    for row, earlier in enumerate(deps):
        depths.append(max((depths[d] + 1 for d in earlier if d < row), default=0))
    return depths


def _tree_paths(src: Ragged, dst: Ragged, problem: Problem) -> Ragged:
    """Up and down links of in-switch messages; all others are routed by the topology."""
    if src.is_single and dst.is_single:
        return Ragged.empty(len(src))
    ranks = problem.num_ranks
    return Ragged.from_lists(
        [] if len(s) == 1 and len(d) == 1 else [*s.tolist(), *(ranks + d).tolist()]
        for s, d in zip(src, dst, strict=True)
    )
