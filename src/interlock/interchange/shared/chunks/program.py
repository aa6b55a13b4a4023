"""A schedule as moves of chunks between buffers, with what must be done before what at each rank.

Lowering works on its own copy of everything; the schedule is only read. Each rank keeps one accumulator per chunk:
first the input, then the output at destinations and scratch elsewhere. Input is never overwritten, scratch never
reused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from interlock.errors import LimitExceeded
from interlock.interchange.shared.chunks.layout import ChunkLayout
from interlock.interchange.shared.chunks.quantise import Quantised
from interlock.interchange.shared.sequence import Sequence
from interlock.problem import Problem, RankSets
from interlock.schedule import Kind, Schedule

__all__ = ["ChunkProgram", "LocalCopy", "Place", "Run", "Transfer", "lower"]

MAX_CHUNK_MOVES = 1_000_000  # about a kilobyte of memory each

Place = tuple[str, int]  # buffer ("i", "o", "s") and chunk


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive chunks that move together. `added_to` is where the receiver's accumulator lies, for a reduction."""

    source: Place
    target: Place
    added_to: Place | None
    count: int
    send_event: int
    receive_event: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message between two ranks; members of one in-switch message share it."""

    message: int
    src: int
    dst: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """Chunks copied within a rank."""

    rank: int
    source: Place
    target: Place
    count: int
    event: int


@dataclass(slots=True)
class ChunkProgram:
    """All moves, in an order that can be executed one after the other.

    Both tables name events of the same rank. ``waits_for[event]``: whatever wrote what the event reads, and read or
    wrote what it overwrites. ``paced_after[event]``: what goes before it on a link or stands before its barrier.
    """

    layout: ChunkLayout
    transfers: list[Transfer] = field(default_factory=list)
    copies: list[LocalCopy] = field(default_factory=list)
    waits_for: list[set[int]] = field(default_factory=list)
    paced_after: dict[int, set[int]] = field(default_factory=dict)
    scratch_chunks: list[int] = field(default_factory=list)  # [num_ranks]


def lower(
    schedule: Schedule, problem: Problem, quantised: Quantised, layout: ChunkLayout, sequence: Sequence, max_run: int
) -> ChunkProgram:
    """Lower a schedule; runs have at most `max_run` chunks."""
    legs = (schedule.src.counts * schedule.dst.counts)[quantised.message].astype(np.float64)
    moves = int((quantised.count * legs).sum()) + sum(own.count for own in layout.own_shares)  # and what stays in place
    if moves > MAX_CHUNK_MOVES:
        raise LimitExceeded(
            f"the schedule moves {moves} chunks of {quantised.chunk_bytes} bytes; at most {MAX_CHUNK_MOVES} are "
            "written; use larger chunks"
        )
    builder = _Builder(problem, quantised, layout, max_run)
    starts = np.searchsorted(quantised.message, np.arange(schedule.num_messages + 1)).tolist()
    item, first, count = quantised.item.tolist(), quantised.first.tolist(), quantised.count.tolist()
    kinds = schedule.kind.tolist()
    for message in sequence.order.tolist():
        held = range(starts[message], starts[message + 1])
        if not held:
            continue
        pieces = [(item[p], first[p], count[p]) for p in held]
        for src in schedule.src[message].tolist():
            for dst in schedule.dst[message].tolist():
                builder.transfer(message, src, dst, pieces, reduces=kinds[message] == Kind.REDUCE)
    builder.finish()
    _pace(builder, sequence)
    _keep_barriers(builder, sequence)
    return builder.program


class _Builder:
    def __init__(self, problem: Problem, quantised: Quantised, layout: ChunkLayout, max_run: int) -> None:
        self.program = ChunkProgram(layout, scratch_chunks=[0] * problem.num_ranks)
        self.layout, self.max_run = layout, max_run
        self.item_chunks = quantised.item_chunks.tolist()
        self.input_at, self.output_at = layout.input_at.tolist(), layout.output_at.tolist()
        self.contributes = _Membership(problem.items.contributors, problem.num_ranks)
        self.receives = _Membership(problem.items.destinations, problem.num_ranks)
        self.places: dict[tuple[int, int], list[Place | None]] = {}  # (rank, item) -> place of each chunk
        self.writer: list[dict[Place, int]] = [{} for _ in range(problem.num_ranks)]
        self.readers: list[dict[Place, list[int]]] = [{} for _ in range(problem.num_ranks)]
        self.problem = problem

    def transfer(self, message: int, src: int, dst: int, pieces: list[tuple[int, int, int]], *, reduces: bool) -> None:
        """Move pieces from one rank to another."""
        cells: list[tuple[Place, Place, Place | None]] = []
        for item, first, count in pieces:
            here, there = self._places(src, item), self._places(dst, item)
            lands_in_output = self.receives.has(dst, item)
            for chunk in range(first, first + count):
                source, held = here[chunk], there[chunk]
                if source is None:
                    raise LimitExceeded(
                        f"message {message} sends chunk {chunk} of item {item} from rank {src}, which does not hold "
                        "it: its boundaries do not survive rounding to chunks; use smaller chunks"
                    )
                target = self._target(dst, item, chunk, held, lands_in_output=lands_in_output)
                cells.append((source, target, held if reduces else None))
                there[chunk] = target
        self._record(message, src, dst, cells)

    def _places(self, rank: int, item: int) -> list[Place | None]:
        places = self.places.get((rank, item))
        if places is None:
            size = self.item_chunks[item]
            if self.contributes.has(rank, item):
                at = self.input_at[item]
                places = [("i", at + chunk) for chunk in range(size)]
            else:
                places = [None] * size
            self.places[rank, item] = places
        return places

    def _target(self, rank: int, item: int, chunk: int, held: Place | None, *, lands_in_output: bool) -> Place:
        if lands_in_output:
            return "o", self.output_at[item] + chunk
        if held is not None and held[0] == "s":
            return held
        place = ("s", self.program.scratch_chunks[rank])
        self.program.scratch_chunks[rank] += 1
        return place

    def _record(self, message: int, src: int, dst: int, cells: list[tuple[Place, Place, Place | None]]) -> None:
        runs = []
        for begin, end in _consecutive(cells, self.max_run):
            source, target, added_to = cells[begin]
            send = self._event(src, reads=[cell[0] for cell in cells[begin:end]], writes=[])
            added = [cell[2] for cell in cells[begin:end] if cell[2] is not None]
            receive = self._event(dst, reads=added, writes=[cell[1] for cell in cells[begin:end]])
            runs.append(Run(source, target, added_to, end - begin, send, receive))
        self.program.transfers.append(Transfer(message, src, dst, tuple(runs)))

    def _event(self, rank: int, reads: list[Place], writes: list[Place]) -> int:
        event = len(self.program.waits_for)
        waits: set[int] = set()
        writer, readers = self.writer[rank], self.readers[rank]
        for place in reads:
            if place in writer:
                waits.add(writer[place])
            readers.setdefault(place, []).append(event)
        for place in writes:
            if place in writer:
                waits.add(writer[place])
            waits.update(readers.pop(place, ()))
            writer[place] = event
        waits.discard(event)
        self.program.waits_for.append(waits)
        return event

    def finish(self) -> None:
        """Own shares, and accumulators that never left the input."""
        for own in self.layout.own_shares:
            self._copy(own.rank, [(("i", own.input_at + k), ("o", own.output_at + k), None) for k in range(own.count)])
        by_rank: dict[int, list[tuple[Place, Place, Place | None]]] = {}
        for item, rank in self.receives.pairs():
            if not self.contributes.has(rank, item):
                continue
            for chunk, place in enumerate(self._places(rank, item)):
                target = ("o", self.output_at[item] + chunk)
                if place is not None and place != target:
                    by_rank.setdefault(rank, []).append((place, target, None))
        for rank, cells in sorted(by_rank.items()):
            self._copy(rank, cells)

    def _copy(self, rank: int, cells: list[tuple[Place, Place, Place | None]]) -> None:
        for begin, end in _consecutive(cells, self.max_run):
            source, target, _ = cells[begin]
            event = self._event(rank, [c[0] for c in cells[begin:end]], [c[1] for c in cells[begin:end]])
            self.program.copies.append(LocalCopy(rank, source, target, end - begin, event))


def _consecutive(cells: list[tuple[Place, Place, Place | None]], most: int) -> Iterable[tuple[int, int]]:
    """Stretches where source, target and accumulator all advance by one chunk."""
    begin = 0
    for k in range(1, len(cells) + 1):
        if k == len(cells) or k - begin == most or not _follows(cells[k - 1], cells[k]):
            yield begin, k
            begin = k


def _follows(a: tuple[Place, Place, Place | None], b: tuple[Place, Place, Place | None]) -> bool:
    return all(
        (x is None and y is None) or (x is not None and y is not None and x[0] == y[0] and x[1] + 1 == y[1])
        for x, y in zip(a, b, strict=True)
    )


def _pace(builder: _Builder, sequence: Sequence) -> None:
    """Neighbours on a link that share a sender or a receiver wait for each other there."""
    first_last: dict[int, tuple[Transfer, Transfer]] = {}
    for transfer in builder.program.transfers:
        first = first_last.get(transfer.message, (transfer, transfer))[0]
        first_last[transfer.message] = (first, transfer)
    paced_after = builder.program.paced_after
    for before, after in zip(sequence.paced_before.tolist(), sequence.paced_after.tolist(), strict=True):
        if before not in first_last or after not in first_last:
            continue
        earlier, later = first_last[before][1], first_last[after][0]
        if earlier.src == later.src:
            paced_after.setdefault(later.runs[0].send_event, set()).add(earlier.runs[-1].send_event)
        if earlier.dst == later.dst:
            paced_after.setdefault(later.runs[0].receive_event, set()).add(earlier.runs[-1].receive_event)


def _keep_barriers(builder: _Builder, sequence: Sequence) -> None:
    """A rank's first send to each peer after a barrier waits for its last moves with each peer before it."""
    if not len(sequence.epoch) or sequence.epoch.max() == sequence.epoch.min():
        return
    epochs = sequence.epoch.tolist()
    now: dict[int, int] = {}  # rank -> epoch
    last: dict[int, dict[tuple[bool, int], int]] = {}  # rank -> (is send, peer) -> event
    before: dict[int, list[int]] = {}  # rank -> events to wait for
    started: dict[int, set[int]] = {}
    for transfer in builder.program.transfers:
        epoch = epochs[transfer.message]
        for rank in (transfer.src, transfer.dst):
            if now.setdefault(rank, epoch) < epoch:
                now[rank], before[rank], started[rank] = epoch, list(last.get(rank, {}).values()), set()
        if transfer.src in before and transfer.dst not in started[transfer.src]:
            started[transfer.src].add(transfer.dst)
            builder.program.paced_after.setdefault(transfer.runs[0].send_event, set()).update(before[transfer.src])
        last.setdefault(transfer.src, {})[True, transfer.dst] = transfer.runs[-1].send_event
        last.setdefault(transfer.dst, {})[False, transfer.src] = transfer.runs[-1].receive_event


class _Membership:
    """Whether a rank is in an item's set."""

    def __init__(self, sets: RankSets, num_ranks: int) -> None:
        self.num_ranks, self.num_items = num_ranks, len(sets)
        self.shared = None if sets.shared is None else frozenset(sets.shared.tolist())
        rows: NDArray[np.int64] = np.zeros(0, np.int64)
        if sets.rows is not None:
            rows = sets.rows.row_of_value * num_ranks + sets.rows.values
        self.pairs_: frozenset[int] = frozenset(rows.tolist())

    def has(self, rank: int, item: int) -> bool:
        """Whether it is."""
        return rank in self.shared if self.shared is not None else item * self.num_ranks + rank in self.pairs_

    def pairs(self) -> Iterable[tuple[int, int]]:
        """All (item, rank), ascending."""
        if self.shared is not None:
            ranks = sorted(self.shared)
            return ((item, rank) for item in range(self.num_items) for rank in ranks)
        return (divmod(pair, self.num_ranks) for pair in sorted(self.pairs_))
