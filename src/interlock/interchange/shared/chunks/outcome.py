"""What executions of MSCCL and MSCCL++ programs have in common: the first look, and the comparison with the goal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from interlock.interchange.contract import Intent
from interlock.interchange.shared.chunks.buffers import ChunkBuffers
from interlock.interchange.shared.chunks.goal import Goal, matrix_goal, network_of
from interlock.interchange.shared.chunks.memory import Memory, Thread, together
from interlock.interchange.shared.chunks.transfers import Moves
from interlock.traffic import Demand

__all__ = ["AddressOf", "address_in", "check_outputs", "delivered_matrix", "plain_goal"]

AddressOf = Callable[[int, tuple[str, int]], tuple[int, str, int]]


def address_in(buffers: ChunkBuffers, *, in_place: bool) -> AddressOf:
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


def plain_goal(inputs: list[int]) -> Goal:
    """No goal yet: every input chunk is its own."""
    ranks = len(inputs)
    nothing = np.zeros((ranks, ranks), np.int64)
    return matrix_goal(nothing, Demand(nothing.copy()), 1, [0] * ranks, network_of(Intent(), ranks, ""))


def delivered_matrix(
    memory: Memory, inputs: list[int], outputs: list[int], address: AddressOf
) -> NDArray[np.int64] | None:
    """Chunks that go from each rank to each, if no chunk ends in two places."""
    ranks = len(inputs)
    chunks = np.zeros((ranks, ranks), np.int64)
    seen: set[tuple[int, int]] = set()
    for rank, size in enumerate(outputs):
        for k in range(size):
            cell = memory.cells.get(address(rank, ("o", k)))
            if cell is None or cell.value is None or cell.written_by is None:
                continue
            if cell.value.key in seen:
                return None
            seen.add(cell.value.key)
            chunks[cell.value.key[0], rank] += 1
    return chunks if (chunks.sum(axis=1) <= np.array(inputs)).all() and chunks.any() else None


def check_outputs(
    goal: Goal, memory: Memory, moves: Moves, address: AddressOf, threads_of_rank: list[list[Thread]]
) -> None:
    """Compare every output chunk with the one wanted there."""
    for rank, wanted in enumerate(goal.wanted):
        seen = together(thread.clock for thread in threads_of_rank[rank])
        for k, key in enumerate(wanted):
            if key is None:
                continue
            value = memory.final(address(rank, ("o", k)), seen)
            is_padding = goal.piece_of(key) is None and key != (rank, key[1]) and key[0] >= 0
            if value is None:
                if not is_padding:
                    memory.complain(f"output[{k}] of rank {rank} is never written")
                continue
            if value.key != key and not is_padding:
                memory.complain(f"output[{k}] of rank {rank} holds {_of(value.key)} instead of {_of(key)}")
                continue
            if value.contributors != goal.contributors(key) and key[0] < 0:
                lacking = goal.contributors(key) & ~value.contributors
                memory.complain(f"output[{k}] of rank {rank} lacks the contribution of rank {lacking.bit_length() - 1}")
            if value.key == key:
                moves.finish(rank, value)


def _of(key: tuple[int, int]) -> str:
    return f"chunk {key[1]}" if key[0] < 0 else f"chunk {key[1]} of rank {key[0]}"
