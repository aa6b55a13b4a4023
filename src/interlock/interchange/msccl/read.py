"""Reads MSCCL XML: executes it symbolically, and lowers it to our schedule."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from interlock.interchange.contract import ForeignSchedule, Intent
from interlock.interchange.msccl.parse import ADDS, RECEIVES, SENDS, Instruction, Threadblock, parse_msccl_xml
from interlock.interchange.shared.chunks.execution import Execution, ThreadblockProgram, read_program
from interlock.interchange.shared.chunks.goal import Goal
from interlock.interchange.shared.chunks.memory import Clock, Thread, Value

__all__ = ["read_schedule"]


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """The schedule in an MSCCL XML file."""
    program = parse_msccl_xml(path)
    adds = any(step.type in ADDS for gpu in program.blocks for block in gpu for step in block.steps)
    return read_program("msccl-xml", program, _Run, intent, adds=adds)


class _Run(Execution[Threadblock]):
    """Threadblocks wait for messages of connections, and for steps of other threadblocks."""

    def __init__(self, program: ThreadblockProgram[Threadblock], goal: Goal, chunk_bytes: int) -> None:
        super().__init__(program, goal, chunk_bytes)
        self.mail: dict[tuple[int, int, int], deque[tuple[int, list[Value | None], Clock]]] = {}
        self.done: dict[tuple[int, int], list[tuple[int, Clock, int | None]]] = {}  # (gpu, tb) -> posted steps

    def execute(self) -> None:
        """Advance all threadblocks; what is sent must also be received."""
        super().execute()
        for (src, dst, channel), waiting in self.mail.items():
            if waiting:
                self.memory.complain(
                    f"{len(waiting)} sends from gpu {src} to gpu {dst} on channel {channel} are never received"
                )

    def step(self, thread: Thread, block: Threadblock) -> bool:
        step = block.steps[thread.at]
        awaited: tuple[int, Clock, int | None] | None = None
        if step.waits_for is not None:
            posted = self.done.get((block.gpu, step.waits_for[0]), [])
            awaited = next((entry for entry in posted if entry[0] >= step.waits_for[1]), None)
            if awaited is None:
                return self.wait(thread, (block.gpu, step.waits_for[0]))
        inbox = None
        if step.type in RECEIVES:
            assert block.receive is not None
            connection = (block.receive, block.gpu, block.channel)
            inbox = self.mail.get(connection)
            if not inbox:
                return self.wait(thread, connection)
        thread.where = f"{thread.name}, step {thread.at}"
        self.memory.tick(thread)
        waits = [thread.taken, thread.last_but_one_sent]  # a send is done when it has left for its connection's queue
        if awaited is not None:
            self.memory.join(thread, awaited[1])
            waits.append(awaited[2])
            thread.take(awaited[2])
        arrived: list[Value | None] | None = None
        if inbox:
            number, arrived, seen = inbox.popleft()
            self.memory.join(thread, seen)
            thread.take(number)
            waits.append(number)
            if len(arrived) != step.count:
                self.memory.complain(f"{thread.where} receives {step.count} chunks, but {len(arrived)} were sent")
                arrived = (arrived + [None] * step.count)[: step.count]
        if step.type != "nop":
            self._move(thread, block, step, arrived, waits)
        if step.is_waited_for:
            posted = self.done.setdefault((block.gpu, block.id), [])
            posted.append((thread.at, self.memory.snapshot(thread), thread.last_transfer))
            self.wake((block.gpu, block.id))
        thread.at += 1
        return True

    def _move(
        self,
        thread: Thread,
        block: Threadblock,
        step: Instruction,
        arrived: list[Value | None] | None,
        waits: list[int | None],
    ) -> None:
        gpu, results = block.gpu, []
        for k in range(step.count):
            source = self.address(gpu, (step.source[0], step.source[1] + k))
            target = self.address(gpu, (step.target[0], step.target[1] + k))
            if step.type in ("s", "cpy"):
                value = self.memory.read(thread, source)
            elif step.type == "re":
                value = self.memory.add(thread, self.memory.read(thread, target), self.memory.read(thread, source))
            else:
                assert arrived is not None
                value = arrived[k]
                if step.type in ADDS:
                    value = self.memory.add(thread, self.memory.read(thread, source), value)
            if step.type in ("r", "rcs", "rrc", "rrcs", "cpy", "re"):
                self.memory.write(thread, target, value)
            results.append(value)
        if step.type in SENDS:
            assert block.send is not None
            number = self.moves.send((gpu,), (block.send,), [[value] for value in results], waits)
            box = self.mail.setdefault((gpu, block.send, block.channel), deque())
            box.append((number, self.moves.arrived(number), self.memory.snapshot(thread)))
            self.wake((gpu, block.send, block.channel))
            thread.send(number)

    def stuck(self, thread: Thread, block: Threadblock) -> str:
        step, what = block.steps[thread.at], f"{thread.name}, step {thread.at} never runs"
        if step.waits_for is not None and not any(
            posted[0] >= step.waits_for[1] for posted in self.done.get((block.gpu, step.waits_for[0]), [])
        ):
            return (
                f"{what}: step {step.waits_for[1]} of threadblock {step.waits_for[0]}, which it waits for, does not end"
            )
        return f"{what}: gpu {block.receive} sends it nothing (more) on channel {block.channel}"
