"""Reads MSCCL++ execution plans: executes them symbolically, and lowers them to our schedule."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from functools import partial
from pathlib import Path

from interlock.errors import InvalidInput
from interlock.interchange.contract import ForeignSchedule, Intent
from interlock.interchange.mscclpp.parse import Operation, Stretch, Threadblock, parse_mscclpp
from interlock.interchange.shared.chunks.execution import Execution, ThreadblockProgram, read_program
from interlock.interchange.shared.chunks.goal import Goal
from interlock.interchange.shared.chunks.memory import Clock, Thread, Value, all_seen, later

__all__ = ["read_schedule"]

ADDS = ("re", "res", "rre", "rres", "repkt", "respkt", "recpkt", "recspkt", "glres")
WRITES_PACKETS = ("ppkt", "rppkt", "cpkt", "gstorepkt")
SIGNALS = ("signal", "rlxsignal", "pws", "pwsf")
WAITS = ("wait", "rlxwait")
FLUSHES = ("flush", "pwsf")

Cell = tuple[int, str, int]


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """The schedule in an MSCCL++ execution plan."""
    plan = parse_mscclpp(path)
    if intent.chunk_bytes is not None:
        if intent.chunk_bytes % plan.split:
            raise InvalidInput(
                f"chunk_bytes={intent.chunk_bytes} must be a multiple of {plan.split}, the parts of a chunk in {path}"
            )
        intent = replace(intent, chunk_bytes=intent.chunk_bytes // plan.split)
    adds = any(op.name in ADDS for gpu in plan.blocks for block in gpu for op in block.steps)
    run = partial(_Run, plan.semaphores)
    return read_program("mscclpp-json", plan, run, intent, adds=adds)


class _Run(Execution[Threadblock]):
    """Threadblocks wait for signals, semaphores, packets and barriers."""

    def __init__(
        self, semaphores: list[list[int]], program: ThreadblockProgram[Threadblock], goal: Goal, chunk_bytes: int
    ) -> None:
        super().__init__(program, goal, chunk_bytes)
        self.semaphores = semaphores
        # Signals on their way, by channel pair and receiving rank.
        self.signals: dict[tuple[object, int], deque[tuple[Clock, int | None]]] = defaultdict(deque)
        self.packets: dict[Cell, tuple[Clock, int | None]] = {}
        self.released: dict[tuple[int, int], list[tuple[Clock, int | None]]] = {}
        self.acquired: dict[tuple[int, int], int] = {}
        self.posted: dict[tuple[int, int], tuple[int | None, int]] = {}  # (thread, peer) -> last two puts on ports
        self.barriers: dict[tuple[int, int], list[int]] = {}  # (gpu, barrier) -> threads that have come

    def step(self, thread: Thread, block: Threadblock) -> bool:
        op = block.steps[thread.at]
        thread.where = f"{thread.name}, operation {thread.at}"
        if op.barrier is not None:
            return self._barrier(thread, block, op.barrier)
        blocker = self._blocker(thread, op)
        if blocker is not None:
            return self.wait(thread, blocker)
        self.memory.tick(thread)
        self._take(thread, op)
        if op.sources:
            self._move(thread, op)
        self._give(thread, op)
        thread.at += 1
        return True

    def stuck(self, thread: Thread, block: Threadblock) -> str:
        return f"{thread.name}, operation {thread.at} ({block.steps[thread.at].name}) waits forever"

    def _blocker(self, thread: Thread, op: Operation) -> object | None:
        """What the operation must wait for, if anything."""
        if op.name in WAITS:
            for channel in op.channels:
                if not self.signals[channel.pair, thread.rank]:
                    return channel.pair, thread.rank
        if op.name == "sem_acquire":
            for k in op.semaphores:
                key = (thread.rank, k)
                there = self.semaphores[thread.rank][k] + len(self.released.get(key, ()))
                if there <= self.acquired.get(key, 0):
                    return "semaphore", key
        for cell in self._packet_cells(op):
            if cell not in self.packets:
                return "packet", cell
        return None

    def _packet_cells(self, op: Operation) -> list[Cell]:
        """Chunks that the operation reads as packets."""
        if op.name in ("upkt", "rppkt"):
            packets = op.sources[:1]
        elif op.name in ("repkt", "respkt", "recpkt", "recspkt"):
            packets = op.sources[1:]
        else:
            return []
        return [cell for stretch in packets for cell in self._cells(stretch, stretch.ranks[0])]

    def _take(self, thread: Thread, op: Operation) -> None:
        """Learn from whatever the operation waited for."""
        seen: list[tuple[Clock, int | None]] = []
        if op.name in WAITS:
            seen += [self.signals[channel.pair, thread.rank].popleft() for channel in op.channels]
        if op.name == "sem_acquire":
            for k in op.semaphores:
                key = (thread.rank, k)
                self.acquired[key] = self.acquired.get(key, 0) + 1
                # A counting semaphore does not say who released it: only what all earlier releases saw is certain.
                seen += self.released.get(key, [])[: self.acquired[key]]
        seen += [self.packets[cell] for cell in self._packet_cells(op)]
        for clock, transfer in seen:
            self.memory.join(thread, clock)
            thread.take(transfer)

    def _give(self, thread: Thread, op: Operation) -> None:
        """Flush, signal and release. A signal overtakes no put to the same peer; a release waits for none on a port."""
        if op.name in FLUSHES:
            for channel in op.channels:
                thread.take(self._last_posted(thread, channel.peer))
        if op.name in SIGNALS:
            for channel in op.channels:
                key = (channel.pair, channel.peer)
                last = later(thread.last_transfer, self._last_posted(thread, channel.peer))
                self.signals[key].append((self.memory.snapshot(thread), last))
                self.wake(key)
        if op.name == "sem_release":
            for k in op.semaphores:
                released = self.released.setdefault((thread.rank, k), [])
                released.append((self.memory.snapshot(thread), thread.last_transfer))
                self.wake(("semaphore", (thread.rank, k)))

    def _barrier(self, thread: Thread, block: Threadblock, barrier: tuple[int, int]) -> bool:
        number, size = barrier
        come = self.barriers.setdefault((block.gpu, number), [])
        if thread.id not in come:
            come.append(thread.id)
        if len(come) < size:
            return False
        seen = all_seen(self.threads[other].clock for other in come)
        last: int | None = None
        for other in come:
            last = later(last, self.threads[other].last_transfer)
        for other in come:
            self.memory.join(self.threads[other], seen)
            self.memory.tick(self.threads[other])
            self.threads[other].take(last)
            self.threads[other].at += 1
        self.ready.extend(other for other in come if other != thread.id)
        self.barriers[block.gpu, number] = []
        return True

    def _cells(self, stretch: Stretch, rank: int) -> list[Cell]:
        return [self.address(rank, (stretch.buffer, stretch.first + k)) for k in range(stretch.count)]

    def _move(self, thread: Thread, op: Operation) -> None:
        if op.name in ("put", "pws", "pwsf", "ppkt", "get"):
            posts = op.name != "get" and any(channel.type == "port" for channel in op.channels)
            for source, target in zip(op.sources, op.targets, strict=True):
                values = self._read(thread, source)
                ends = source.ranks[0], target.ranks[0]
                carried = self._posted(thread, *ends, values) if posts else self._carried(thread, *ends, values)
                self._write(thread, op, target, carried)
        elif op.name in ("copy", "cpkt", "upkt"):
            self._write(thread, op, op.targets[0], self._read(thread, op.sources[0]))
        elif op.name in ("rppkt", "gstore", "gstorepkt"):
            values = self._read(thread, op.sources[0])
            for target in op.targets:
                self._spread(thread, op, target, values)
        elif op.name == "glres":
            total = self._gather(thread, op.sources[0])
            self._spread(thread, op, op.targets[0], total)
        else:
            self._add(thread, op)

    def _add(self, thread: Thread, op: Operation) -> None:
        """Sums of local and remote chunks, stored, and sent on where the operation says so."""
        total = self._read(thread, op.sources[0])
        for source in op.sources[1:]:
            values = self._read(thread, source)
            if source.ranks[0] != thread.rank:
                values = self._carried(thread, source.ranks[0], thread.rank, values)
            total = [self.memory.add(thread, a, b) for a, b in zip(total, values, strict=True)]
        self._write(thread, op, op.targets[0], total)
        local = 2 if op.name in ("recpkt", "recspkt") else 1
        for place, target in enumerate(op.targets[1:], 1):
            if place < local:
                self._write(thread, op, target, total, packets=True)
            else:
                self._spread(thread, op, target, total, packets=op.name.endswith("pkt"))

    def _read(self, thread: Thread, stretch: Stretch) -> list[Value | None]:
        return [self.memory.read(thread, cell) for cell in self._cells(stretch, stretch.ranks[0])]

    def _write(
        self, thread: Thread, op: Operation, stretch: Stretch, values: list[Value | None], *, packets: bool = False
    ) -> None:
        for rank in stretch.ranks:
            self._store(thread, op, self._cells(stretch, rank), values, packets=packets)

    def _store(
        self, thread: Thread, op: Operation, cells: list[Cell], values: list[Value | None], *, packets: bool
    ) -> None:
        packets = packets or op.name in WRITES_PACKETS
        seen = (self.memory.snapshot(thread), thread.last_transfer) if packets else None
        for cell, value in zip(cells, values, strict=True):
            self.memory.write(thread, cell, value)
            if seen is not None:
                self.packets[cell] = seen
                self.wake(("packet", cell))

    def _carried(self, thread: Thread, src: int, dst: int, values: list[Value | None]) -> list[Value | None]:
        """Values after a transfer from one rank to another."""
        number = self.moves.send((src,), (dst,), [[value] for value in values], [thread.last_transfer])
        thread.send(number)
        return self.moves.arrived(number)

    def _posted(self, thread: Thread, src: int, dst: int, values: list[Value | None]) -> list[Value | None]:
        """Values after a put on a port: a proxy carries it, and the threadblock goes on.

        Puts to one peer follow each other, the next being posted while one is under way.
        """
        before, last = self.posted.get((thread.id, dst), (None, None))
        number = self.moves.send((src,), (dst,), [[value] for value in values], [thread.last_transfer, before])
        self.posted[thread.id, dst] = (last, number)
        return self.moves.arrived(number)

    def _last_posted(self, thread: Thread, peer: int) -> int | None:
        return self.posted.get((thread.id, peer), (None, None))[1]

    def _gather(self, thread: Thread, stretch: Stretch) -> list[Value | None]:
        """Sums formed in the switch, over all ranks of its group."""
        others = tuple(rank for rank in stretch.ranks if rank != thread.rank)
        held = {rank: [self.memory.read(thread, c) for c in self._cells(stretch, rank)] for rank in stretch.ranks}
        total = held[thread.rank]
        if not others:
            return total
        chunks = [[held[rank][k] for rank in others] for k in range(stretch.count)]
        number = self.moves.send(others, (thread.rank,), chunks, [thread.last_transfer])
        thread.send(number)
        arrived = self.moves.arrived(number)
        return [self.memory.add(thread, mine, other) for mine, other in zip(total, arrived, strict=True)]

    def _spread(
        self, thread: Thread, op: Operation, stretch: Stretch, values: list[Value | None], *, packets: bool = False
    ) -> None:
        """Store at every rank of a stretch; at other ranks that is one transfer."""
        others = tuple(rank for rank in stretch.ranks if rank != thread.rank)
        taken = values
        if others:
            number = self.moves.send((thread.rank,), others, [[value] for value in values], [thread.last_transfer])
            thread.send(number)
            taken = self.moves.arrived(number)
        for rank in stretch.ranks:
            mine = values if rank == thread.rank else taken
            self._store(thread, op, self._cells(stretch, rank), mine, packets=packets)
