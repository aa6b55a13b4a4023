"""Reads MSCCL XML: executes it symbolically, and lowers it to our schedule."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from interlock.interchange.contract import ForeignSchedule, Intent
from interlock.interchange.msccl.parse import ADDS, RECEIVES, SENDS, Block, Instruction, Program, parse_msccl_xml
from interlock.interchange.shared.chunks.buffers import choose_goal
from interlock.interchange.shared.chunks.goal import Goal
from interlock.interchange.shared.chunks.memory import Clock, Memory, Thread, Value
from interlock.interchange.shared.chunks.outcome import address_in, check_outputs, delivered_matrix, plain_goal
from interlock.interchange.shared.chunks.transfers import SWAPPED, Moves

__all__ = ["read_schedule"]


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """The schedule in an MSCCL XML file."""
    program = parse_msccl_xml(path)
    first = delivered = None
    if not any(step.type in ADDS for gpu in program.blocks for block in gpu for step in block.steps):
        first = _Run(program, plain_goal(program.buffers.inputs), 1)
        first.execute()
        delivered = delivered_matrix(first.memory, program.buffers.inputs, program.buffers.outputs, first.address)
    goal, chunk_bytes, notes = choose_goal(program.buffers, intent, delivered)
    if first is not None and not goal.is_sum:
        run = first  # it moved the same chunks, whatever they are meant for
        run.goal = run.moves.goal = goal
        run.moves.chunk_bytes = chunk_bytes
    else:
        run = _Run(program, goal, chunk_bytes)
        run.execute()
    run.finish()
    made = run.moves.lower()
    notes = [*program.notes, *notes, *([SWAPPED] if made.is_taken_apart else [])]
    return ForeignSchedule("msccl-xml", made.schedule, made.problem, tuple(run.memory.violations), tuple(notes))


class _Run:
    """One symbolic execution: threadblocks advance as long as their messages and dependencies are there."""

    def __init__(self, program: Program, goal: Goal, chunk_bytes: int) -> None:
        self.program, self.goal = program, goal
        self.address = address_in(program.buffers, in_place=program.in_place)
        self.memory = Memory()
        self.moves = Moves(goal, self.memory, chunk_bytes)
        self.mail: dict[tuple[int, int, int], deque[tuple[int, list[Value | None], Clock]]] = {}
        self.done: dict[tuple[int, int], list[tuple[int, Clock, int | None]]] = {}  # (gpu, tb) -> posted steps
        self.threads: list[Thread] = []
        self.block_of: list[Block] = []
        self.ready: deque[int] = deque()
        self.waiting: dict[tuple[int, ...], list[int]] = {}  # a connection or a threadblock -> threads
        for gpu, blocks in enumerate(program.blocks):
            for block in blocks:
                self.threads.append(Thread(len(self.threads), gpu, f"gpu {gpu}, threadblock {block.id}"))
                self.block_of.append(block)
            for k in range(program.buffers.inputs[gpu]):
                key = goal.key_of_input(gpu, k)
                self.memory.start(self.address(gpu, ("i", k)), Value(key, 1 << gpu, own=True))

    def execute(self) -> None:
        """Advance all threadblocks until none can."""
        self.ready.extend(range(len(self.threads)))
        while self.ready:
            number = self.ready.popleft()
            thread, block = self.threads[number], self.block_of[number]
            while thread.at < len(block.steps) and self._step(thread, block):
                pass
        for thread, block in zip(self.threads, self.block_of, strict=True):
            if thread.at < len(block.steps):
                self.memory.complain(f"{thread.name}, step {thread.at} never runs: {self._why(block, thread.at)}")
        for (src, dst, channel), waiting in self.mail.items():
            if waiting:
                self.memory.complain(
                    f"{len(waiting)} sends from gpu {src} to gpu {dst} on channel {channel} are never received"
                )

    def finish(self) -> None:
        """Compare outputs with the goal."""
        by_gpu: list[list[Thread]] = [[] for _ in self.program.blocks]
        for thread in self.threads:
            by_gpu[thread.rank].append(thread)
        check_outputs(self.goal, self.memory, self.moves, self.address, by_gpu)

    def _step(self, thread: Thread, block: Block) -> bool:
        step = block.steps[thread.at]
        awaited: tuple[int, Clock, int | None] | None = None
        if step.waits_for is not None:
            posted = self.done.get((block.gpu, step.waits_for[0]), [])
            awaited = next((entry for entry in posted if entry[0] >= step.waits_for[1]), None)
            if awaited is None:
                self.waiting.setdefault((block.gpu, step.waits_for[0]), []).append(thread.id)
                return False
        inbox = None
        if step.type in RECEIVES:
            assert block.receive is not None
            connection = (block.receive, block.gpu, block.channel)
            inbox = self.mail.get(connection)
            if not inbox:
                self.waiting.setdefault(connection, []).append(thread.id)
                return False
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
            self.ready.extend(self.waiting.pop((block.gpu, block.id), ()))
        thread.at += 1
        return True

    def _move(
        self,
        thread: Thread,
        block: Block,
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
            self.ready.extend(self.waiting.pop((gpu, block.send, block.channel), ()))
            thread.send(number)

    def _why(self, block: Block, at: int) -> str:
        step = block.steps[at]
        if step.waits_for is not None and not any(
            posted[0] >= step.waits_for[1] for posted in self.done.get((block.gpu, step.waits_for[0]), [])
        ):
            return f"step {step.waits_for[1]} of threadblock {step.waits_for[0]}, which it waits for, does not end"
        return f"gpu {block.receive} sends it nothing (more) on channel {block.channel}"
