"""Transfers seen while executing a program of chunk moves, and the schedule they amount to.

Our schedules keep one accumulator per rank and chunk: a copy replaces it, a reduce adds to it. A program may keep
several buffers; what it sends and ends with tells which transfers were copies and which were additions. Where ranks
swap sums of one chunk, no order of additions to single accumulators says the same. Then sums are followed contribution
by contribution instead: what a message carries of a sum are the contributions in it, each an item of its own. That
proves as much, but such messages count larger than they are, and the reader says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from interlock.interchange.shared.chunks.goal import SUM, Goal
from interlock.interchange.shared.chunks.memory import Key, Memory, Value
from interlock.interchange.shared.sequence import executable_order
from interlock.problem import Items, Problem, RankSets
from interlock.ragged import Ragged
from interlock.schedule import Kind, Phase, Pieces, Schedule

__all__ = ["SWAPPED", "LoweredSchedule", "TransferLog"]

SWAPPED = "ranks swap sums: contributions are followed one by one, and simulated messages count larger than they are"

Piece = tuple[int, int, int]  # item, offset, length


@dataclass(frozen=True, slots=True, eq=False)
class LoweredSchedule:
    """A schedule, the problem in whose items it is written, and whether sums had to be taken apart."""

    schedule: Schedule
    problem: Problem
    is_taken_apart: bool


@dataclass(slots=True)
class _Transfer:
    src: tuple[int, ...]
    dst: tuple[int, ...]
    keys: list[Key | None]  # None: contents unknown or undefined
    masks: list[int]  # contributions in each chunk
    after: set[int] = field(default_factory=set)  # transfers


class _Use(NamedTuple):
    """A value was sent by a transfer, or (None) is there in the end."""

    value: Value
    reader: int | None


class TransferLog:
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
        transfer = _Transfer(src, dst, [], [], {earlier for earlier in after if earlier is not None})
        for values in chunks:
            known = [value for value in values if value is not None]
            transfer.keys.append(known[0].key if known and len(known) == len(src) else None)
            mask = 0
            for rank, value in zip(src, values, strict=True):
                if value is not None:
                    self.uses[rank, value.key].append(_Use(value, number))
                    transfer.after |= value.brought_by
                    mask |= value.contributors
            transfer.masks.append(mask)
        transfer.after.discard(number)
        self.transfers.append(transfer)
        return number

    def arrived(self, transfer: int) -> list[Value | None]:
        """What the receivers of a transfer now hold."""
        sent, brought_by = self.transfers[transfer], frozenset((transfer,))
        return [
            None if key is None else Value(key, mask, own=False, brought_by=brought_by)
            for key, mask in zip(sent.keys, sent.masks, strict=True)
        ]

    def finish(self, rank: int, value: Value) -> None:
        """Note what a destination ends with."""
        self.uses[rank, value.key].append(_Use(value, None))

    def lower(self) -> LoweredSchedule:
        """The schedule, with sums in accumulators if that can be, otherwise taken apart."""
        kinds, order, conflict = self._kinds()
        after = [transfer.after | extra for transfer, extra in zip(self.transfers, order, strict=True)]
        if conflict is None and _is_acyclic(after):
            rows = _Rows(self, kinds, after)
            return LoweredSchedule(rows.build(), self.goal.problem, is_taken_apart=False)
        if any(len(transfer.src) > 1 for transfer in self.transfers):
            self.memory.complain(conflict or "sums that ranks swap also pass through a switch: no schedule says that")
        apart = _Apart(self.goal)
        copies = dict.fromkeys(kinds, Kind.COPY)
        rows = _Rows(self, copies, [transfer.after for transfer in self.transfers], apart)
        return LoweredSchedule(rows.build(), apart.problem, is_taken_apart=True)

    def _kinds(self) -> tuple[dict[tuple[int, int, Key], Kind], list[set[int]], str | None]:
        """(transfer, receiving rank, chunk) -> copy or reduce, for all that are used.

        Also, for each transfer, those that must have read what it changes; and why there is no such schedule, if so.
        """
        kinds: dict[tuple[int, int, Key], Kind] = {}
        order: list[set[int]] = [set() for _ in self.transfers]
        conflict: str | None = None
        for (rank, key), uses in self.uses.items():
            for use in uses:
                for number in use.value.brought_by:
                    kinds.setdefault((number, rank, key), Kind.COPY)
            if key[0] == SUM and not self._accumulate(rank, key, uses, kinds, order):
                conflict = f"rank {rank} uses two different sums of chunk {key[1]} in turn"
        return kinds, order, conflict

    def _accumulate(
        self,
        rank: int,
        key: Key,
        uses: list[_Use],
        kinds: dict[tuple[int, int, Key], Kind],
        order: list[set[int]],
    ) -> bool:
        """Find the one accumulator's history in the values that are used; False if there is none."""
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
                    return False
                starts_empty = not extends or (not own and not held)
                for place, number in enumerate(fresh):
                    kinds[number, rank, key] = Kind.COPY if starts_empty and place == 0 else Kind.REDUCE
                    order[number] |= readers - {number}
                own, held = value.own, value.brought_by
                applied |= value.brought_by
                readers = set()
            if use.reader is not None:
                readers.add(use.reader)
        return True


class _Apart:
    """A problem whose sums are taken apart: one item per sum and contributor."""

    def __init__(self, goal: Goal) -> None:
        items = goal.problem.items
        contributors, destinations = items.contributors.to_ragged(), items.destinations.to_ragged()
        whole = contributors.row_of_value
        self.first = contributors.offsets.tolist()
        self.place = [{int(r): k for k, r in enumerate(ranks)} for ranks in contributors]
        made = Items(items.size_bytes[whole], RankSets.one(contributors.values), RankSets.of(destinations.take(whole)))
        known = goal.problem
        self.problem = Problem(known.topology, made, known.cluster, known.demand, known.collective)

    def pieces(self, piece: Piece, mask: int) -> list[Piece]:
        """A piece of a sum as pieces of the contributions in it."""
        item, offset, length = piece
        ranks = [rank for rank in self.place[item] if mask >> rank & 1]
        return [(self.first[item] + self.place[item][rank], offset, length) for rank in ranks]


class _Rows:
    """Columns of the schedule being built."""

    def __init__(
        self,
        moves: TransferLog,
        kinds: dict[tuple[int, int, Key], Kind],
        after: list[set[int]],
        apart: _Apart | None = None,
    ) -> None:
        self.moves, self.kinds, self.after, self.apart = moves, kinds, after, apart
        self.transfer_of_row: list[int] = []
        self.kind: list[int] = []
        self.size: list[int] = []
        self.pieces: list[list[Piece]] = []
        self.rows_of_transfer: list[list[int]] = []
        for number in range(len(moves.transfers)):
            self._add(number)

    def _add(self, number: int) -> None:
        """One row per transfer; two where it copies some chunks and adds others."""
        transfer = self.moves.transfers[number]
        by_kind: dict[int, list[Piece]] = {}
        wasted = 0
        for key, mask in zip(transfer.keys, transfer.masks, strict=True):
            kinds = {self.kinds.get((number, rank, key)) for rank in transfer.dst} if key is not None else {None}
            used = sorted(kind for kind in kinds if kind is not None)
            piece = self.moves.goal.piece_of(key) if key is not None and used else None
            if piece is None:
                wasted += self.moves.chunk_bytes
                continue
            parts = [piece] if self.apart is None else self.apart.pieces(piece, mask)
            by_kind.setdefault(used[0], []).extend(parts)
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
            sorted(row for earlier in self.after[t] for row in self.rows_of_transfer[earlier])
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
            stage=np.zeros(count, np.int32),  # one kernel, launched once
            slice=np.zeros(count, np.int32),
            size_bytes=np.array(self.size, np.int64),
            path=_tree_paths(src, dst, self.moves.goal.problem),
            exclusive=np.zeros(count, np.bool_),
            order=np.zeros(count, np.int64),
            deps=Ragged.from_lists(deps),
            pieces=Pieces(offsets.astype(np.int64), flat[:, 0].astype(np.int32), flat[:, 1].copy(), flat[:, 2].copy()),
        )


def _is_acyclic(after: list[set[int]]) -> bool:
    """Whether transfers can be put in an order; most wait only for earlier ones."""
    if all(max(earlier, default=-1) < number for number, earlier in enumerate(after)):
        return True
    return len(executable_order(after)) == len(after)


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Neighbouring stretches of one item as one."""
    merged: list[Piece] = []
    for item, offset, length in pieces:
        if merged and merged[-1][0] == item and merged[-1][1] + merged[-1][2] == offset:
            merged[-1] = (item, merged[-1][1], merged[-1][2] + length)
        else:
            merged.append((item, offset, length))
    return merged


def _tree_paths(src: Ragged, dst: Ragged, problem: Problem) -> Ragged:
    """Up and down links of in-switch messages; all others are routed by the topology."""
    if src.is_single and dst.is_single:
        return Ragged.empty(len(src))
    ranks = problem.num_ranks
    return Ragged.from_lists(
        [] if len(s) == 1 and len(d) == 1 else [*s.tolist(), *(ranks + d).tolist()]
        for s, d in zip(src, dst, strict=True)
    )
