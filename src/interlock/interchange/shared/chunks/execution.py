"""Runs MSCCL and MSCCL++ programs symbolically: a first look at what they do, then the comparison with their goal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from interlock.interchange.contract import ForeignSchedule, Intent
from interlock.interchange.shared.chunks.goal import ChunkBuffers, Goal, choose_goal, matrix_goal, network_of
from interlock.interchange.shared.chunks.memory import Memory, Thread, Value, all_seen, chunk_name
from interlock.interchange.shared.chunks.transfers import SWAPPED, TransferLog
from interlock.traffic import Demand

__all__ = ["Execution", "ThreadblockProgram", "read_program"]

AddressOf = Callable[[int, tuple[str, int]], tuple[int, str, int]]


class _Threadblock(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def steps(self) -> Sequence[object]: ...


BlockT = TypeVar("BlockT", bound=_Threadblock)


@dataclass(frozen=True, slots=True, eq=False)
class ThreadblockProgram(Generic[BlockT]):
    """All threadblocks and what is said of the buffers."""

    buffers: ChunkBuffers
    in_place: bool
    scratch: list[int]
    blocks: list[list[BlockT]]  # per GPU
    notes: list[str]


class Execution(ABC, Generic[BlockT]):
    """One symbolic execution: threadblocks advance as long as what they wait for is there."""

    def __init__(self, program: ThreadblockProgram[BlockT], goal: Goal, chunk_bytes: int) -> None:
        self.program, self.goal = program, goal
        self.address = _address_in(program.buffers, in_place=program.in_place)
        self.memory = Memory()
        self.moves = TransferLog(goal, self.memory, chunk_bytes)
        self.threads: list[Thread] = []
        self.block_of: list[BlockT] = []
        self.ready: deque[int] = deque()
        self.waiting: dict[object, list[int]] = {}  # what is waited for -> threads
        for gpu, blocks in enumerate(program.blocks):
            for block in blocks:
                self.threads.append(Thread(len(self.threads), gpu, f"gpu {gpu}, threadblock {block.id}"))
                self.block_of.append(block)
            for k in range(program.buffers.inputs[gpu]):
                value = Value(goal.key_of_input(gpu, k), 1 << gpu, own=True)
                self.memory.start(self.address(gpu, ("i", k)), value)

    @abstractmethod
    def step(self, thread: Thread, block: BlockT) -> bool:
        """Execute the thread's next step; False if it must wait."""

    @abstractmethod
    def stuck(self, thread: Thread, block: BlockT) -> str:
        """Why a thread's next step never runs."""

    def execute(self) -> None:
        """Advance all threadblocks until none can."""
        self.ready.extend(range(len(self.threads)))
        while self.ready:
            number = self.ready.popleft()
            thread, block = self.threads[number], self.block_of[number]
            while thread.at < len(block.steps) and self.step(thread, block):
                pass
        for thread, block in zip(self.threads, self.block_of, strict=True):
            if thread.at < len(block.steps):
                self.memory.complain(self.stuck(thread, block))

    def wait(self, thread: Thread, awaited: object) -> bool:
        """Let the thread go on when what it waits for is there; False, for `step`."""
        self.waiting.setdefault(awaited, []).append(thread.id)
        return False

    def wake(self, awaited: object) -> None:
        """It is there: those who wait for it go on."""
        self.ready.extend(self.waiting.pop(awaited, ()))

    def check_outputs(self) -> None:
        """Compare every output chunk with the one wanted there."""
        goal, memory = self.goal, self.memory
        threads_of: list[list[Thread]] = [[] for _ in self.program.blocks]
        for thread in self.threads:
            threads_of[thread.rank].append(thread)
        for rank, wanted in enumerate(goal.wanted):
            seen = all_seen(thread.clock for thread in threads_of[rank])
            for k, key in enumerate(wanted):
                if key is None:
                    continue
                value = memory.final(self.address(rank, ("o", k)), seen)
                is_padding = goal.piece_of(key) is None and key != (rank, key[1]) and key[0] >= 0
                if value is None:
                    if not is_padding:
                        memory.complain(f"output[{k}] of rank {rank} is never written")
                    continue
                if value.key != key and not is_padding:
                    memory.complain(
                        f"output[{k}] of rank {rank} holds {chunk_name(value.key)} instead of {chunk_name(key)}"
                    )
                    continue
                if value.contributors != goal.contributors(key) and key[0] < 0:
                    lacking = goal.contributors(key) & ~value.contributors
                    memory.complain(
                        f"output[{k}] of rank {rank} lacks the contribution of rank {lacking.bit_length() - 1}"
                    )
                if value.key == key:
                    self.moves.finish(rank, value)


def read_program(
    format_name: str,
    program: ThreadblockProgram[BlockT],
    execution: Callable[[ThreadblockProgram[BlockT], Goal, int], Execution[BlockT]],
    intent: Intent,
    *,
    adds: bool,
) -> ForeignSchedule:
    """The schedule of a program; one that adds nothing may show by what it does what it is for."""
    first = delivered = None
    if not adds:
        first = execution(program, _plain_goal(program.buffers.inputs), 1)
        first.execute()
        delivered = _delivered(first)
    goal, chunk_bytes, notes = choose_goal(program.buffers, intent, delivered)
    if first is not None and not goal.is_sum:
        run = first  # it moved the same chunks, whatever they are meant for
        run.goal = run.moves.goal = goal
        run.moves.chunk_bytes = chunk_bytes
    else:
        run = execution(program, goal, chunk_bytes)
        run.execute()
    run.check_outputs()
    made = run.moves.lower()
    notes = [*program.notes, *notes, *([SWAPPED] if made.is_taken_apart else [])]
    return ForeignSchedule(format_name, made.schedule, made.problem, tuple(run.memory.violations), tuple(notes))


def _address_in(buffers: ChunkBuffers, *, in_place: bool) -> AddressOf:
    """Where a chunk lies; in-place programs have their input inside their output, or the other way round."""
    name, inputs = buffers.collective, buffers.inputs
    gathers, scatters = name in ("all-gather", "gather"), name in ("reduce-scatter", "scatter")
    share = max(inputs) // len(inputs)

    def address(rank: int, place: tuple[str, int]) -> tuple[int, str, int]:
        buffer, k = place
        if not in_place or buffer == "s":
            return rank, buffer, k
        if gathers:
            return rank, "o", k + rank * inputs[rank] if buffer == "i" else k
        if scatters:
            return rank, "i", k + rank * share if buffer == "o" else k
        return rank, "o", k

    return address


def _plain_goal(inputs: list[int]) -> Goal:
    """No goal yet: every input chunk is its own."""
    ranks = len(inputs)
    nothing = np.zeros((ranks, ranks), np.int64)
    return matrix_goal(nothing, Demand(nothing.copy()), 1, [0] * ranks, network_of(Intent(), ranks, ""))


def _delivered(run: Execution[BlockT]) -> NDArray[np.int64] | None:
    """Chunks that go from each rank to each, if no chunk ends in two places."""
    inputs, outputs = run.program.buffers.inputs, run.program.buffers.outputs
    ranks = len(inputs)
    chunks = np.zeros((ranks, ranks), np.int64)
    seen: set[tuple[int, int]] = set()
    for rank, size in enumerate(outputs):
        for k in range(size):
            cell = run.memory.cells.get(run.address(rank, ("o", k)))
            if cell is None or cell.value is None or cell.written_by is None:
                continue
            if cell.value.key in seen:
                return None
            seen.add(cell.value.key)
            chunks[cell.value.key[0], rank] += 1
    return chunks if (chunks.sum(axis=1) <= np.array(inputs)).all() and chunks.any() else None
