"""Executes programs of chunk moves symbolically: what every buffer holds, and whether anything orders its uses.

A thread is one threadblock of one rank. Every use of a chunk is checked against the last write and the reads since: if
no chain of program order, messages, signals and dependencies puts one before the other, the program has a race, however
the one order executed here turns out. Threads carry sparse vector clocks for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from interlock.errors import LimitExceeded

__all__ = ["Clock", "Key", "Memory", "Thread", "Value", "all_seen", "chunk_name", "later"]

MAX_CLOCK_WORK = 40_000_000
MAX_VIOLATIONS = 100

Clock = dict[int, int]  # thread -> how far it had come
Key = tuple[int, int]  # (origin rank or -1 for a sum, chunk index): which chunk a value is of
Address = tuple[int, str, int]  # rank, buffer, chunk


class Value(NamedTuple):
    """Contents of a chunk: whose contributions, and how they came to this rank.

    `own` says whether this rank's own contribution is in it; `brought_by` are the transfers that brought the others.
    """

    key: Key
    contributors: int  # bit mask of ranks
    own: bool
    brought_by: frozenset[int] = frozenset()


@dataclass(slots=True)
class Thread:
    """One threadblock: where it stands and what it has seen."""

    id: int
    rank: int
    name: str  # for messages: "gpu 0, threadblock 3"
    clock: Clock = field(default_factory=dict)
    at: int = 0  # next step
    where: str = ""  # for messages: "gpu 0, threadblock 3, step 5"
    taken: int | None = None  # last transfer it took in or heard of
    sent: tuple[int | None, int | None] = (None, None)  # its last but one transfer, and its last

    @property
    def last_transfer(self) -> int | None:
        """The last one it sent or took in."""
        return later(self.taken, self.sent[1])

    @property
    def last_but_one_sent(self) -> int | None:
        """What must have arrived where a send is done when it has left: the last one may still be under way."""
        return self.sent[0]

    def take(self, transfer: int | None) -> None:
        """It took in a transfer, or waited for one who had."""
        self.taken = later(self.taken, transfer)

    def send(self, transfer: int) -> None:
        """It sent a transfer."""
        self.sent = (self.sent[1], transfer)


def later(a: int | None, b: int | None) -> int | None:
    """The later of two transfers, which are numbered in the order of execution."""
    return b if a is None else a if b is None else max(a, b)


def all_seen(clocks: Iterable[Clock]) -> Clock:
    """What any of the threads with these clocks has seen."""
    seen: Clock = {}
    for clock in clocks:
        for thread, time in clock.items():
            if seen.get(thread, 0) < time:
                seen[thread] = time
    return seen


@dataclass(slots=True)
class _Cell:
    value: Value | None = None
    written_by: tuple[int, int] | None = None  # thread and its time
    written_at: str = ""
    read_by: dict[int, tuple[int, str]] | None = None  # since it was written


class Memory:
    """All buffers of all ranks; collects violations instead of raising them."""

    def __init__(self) -> None:
        self.cells: dict[Address, _Cell] = {}
        self.violations: list[str] = []
        self.work = 0

    def start(self, address: Address, value: Value) -> None:
        """Contents before the program runs."""
        self.cells[address] = _Cell(value)

    def tick(self, thread: Thread) -> None:
        """The thread begins its next step."""
        thread.clock[thread.id] = thread.clock.get(thread.id, 0) + 1

    def snapshot(self, thread: Thread) -> Clock:
        """What the thread has seen up to now, to be handed to another one."""
        self._count(len(thread.clock))
        return dict(thread.clock)

    def join(self, thread: Thread, seen: Clock) -> None:
        """The thread waits for another one, and has now seen what that one had."""
        self._count(len(seen))
        clock = thread.clock
        for other, time in seen.items():
            if clock.get(other, 0) < time:
                clock[other] = time

    def read(self, thread: Thread, address: Address) -> Value | None:
        """A chunk's contents; None, with a violation, if nothing was ever put there."""
        cell = self.cells.get(address)
        if cell is None or cell.value is None:
            self.complain(f"{thread.where} reads {_name(address)}, where nothing was put before")
            return None
        if not self._ordered(thread, cell.written_by):
            self.complain(
                f"{thread.where} reads {_name(address)} without waiting for {cell.written_at}, which writes it"
            )
        if cell.read_by is None:
            cell.read_by = {}
        cell.read_by[thread.id] = (thread.clock.get(thread.id, 0), thread.where)
        return cell.value

    def write(self, thread: Thread, address: Address, value: Value | None) -> None:
        """Replace a chunk's contents."""
        cell = self.cells.get(address)
        if cell is None:
            cell = self.cells[address] = _Cell()
        if not self._ordered(thread, cell.written_by):
            self.complain(
                f"{thread.where} overwrites {_name(address)} without waiting for {cell.written_at}, which writes it"
            )
        for other, (time, place) in (cell.read_by or {}).items():
            if not self._ordered(thread, (other, time)):
                self.complain(f"{thread.where} overwrites {_name(address)} without waiting for {place}, which reads it")
        cell.value = value
        cell.written_by = (thread.id, thread.clock.get(thread.id, 0))
        cell.written_at = thread.where
        cell.read_by = None

    def add(self, thread: Thread, a: Value | None, b: Value | None) -> Value | None:
        """The sum of two values at one rank."""
        if a is None or b is None:
            return a if b is None else b
        if a.key != b.key:
            self.complain(f"{thread.where} adds {chunk_name(b.key)} to {chunk_name(a.key)}")
            return a
        if a.contributors & b.contributors:
            twice = (a.contributors & b.contributors).bit_length() - 1
            self.complain(f"{thread.where} adds rank {twice}'s contribution to {chunk_name(a.key)} a second time")
        return Value(a.key, a.contributors | b.contributors, a.own or b.own, a.brought_by | b.brought_by)

    def final(self, address: Address, seen: Clock) -> Value | None:
        """A chunk's contents at the end; one of the rank's own threads, who have `seen` that, must have waited."""
        cell = self.cells.get(address)
        if cell is None or cell.value is None:
            return None
        if cell.written_by is not None and seen.get(cell.written_by[0], 0) < cell.written_by[1]:
            self.complain(
                f"{_name(address)} is written by {cell.written_at}, but no threadblock of rank {address[0]} waits for "
                "it: the rank may finish before its data arrives"
            )
        return cell.value

    def complain(self, text: str) -> None:
        """Note a violation; only the first hundred are kept."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(text)

    def _ordered(self, thread: Thread, event: tuple[int, int] | None) -> bool:
        return event is None or event[0] == thread.id or thread.clock.get(event[0], 0) >= event[1]

    def _count(self, entries: int) -> None:
        self.work += 1 + entries
        if self.work > MAX_CLOCK_WORK:
            raise LimitExceeded("the program's threadblocks wait for each other too often to be checked")


def _name(address: Address) -> str:
    names = {"i": "input", "o": "output", "s": "scratch"}
    return f"{names.get(address[1], address[1])}[{address[2]}] of rank {address[0]}"


def chunk_name(key: Key) -> str:
    """As messages name a chunk."""
    return f"chunk {key[1]}" if key[0] < 0 else f"chunk {key[1]} of rank {key[0]}"
