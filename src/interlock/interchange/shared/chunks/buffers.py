"""Finds the goal of a chunk program: from its collective's name, from the user, or from what the program does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import CollectiveKind, collective
from interlock.errors import InvalidInput
from interlock.interchange.contract import Intent
from interlock.interchange.shared.chunks.goal import Goal, collective_goal, matrix_goal, network_of
from interlock.traffic import Demand

__all__ = ["ChunkBuffers", "choose_goal", "infer_chunk_bytes"]


@dataclass(frozen=True, slots=True)
class ChunkBuffers:
    """What a file says of its buffers: chunks per rank, the collective's name (ours, or "all-to-allv", "custom")."""

    file: str
    inputs: list[int]
    outputs: list[int]
    collective: str
    chunk_bytes: int | None  # where the file says it


def choose_goal(
    buffers: ChunkBuffers, intent: Intent, delivered: NDArray[np.int64] | None
) -> tuple[Goal, int, list[str]]:
    """The goal, the chunk size, and notes on what was inferred.

    `delivered` is the chunk matrix that the program moves, where it only copies and delivers every input chunk to one
    rank: then it may be an All-to-Allv in chunk-matrix form.
    """
    network = network_of(intent, len(buffers.inputs), buffers.file)
    named = _named(buffers, intent)
    notes: list[str] = []
    if intent.demand is not None:
        return _demand_goal(buffers, intent, delivered, intent.demand)
    chunk_bytes = intent.chunk_bytes or buffers.chunk_bytes
    if chunk_bytes is None:
        chunk_bytes = 1
        notes.append("the file does not say how large a chunk is; each counts as one byte (say --chunk-bytes)")
    if delivered is not None and named in (None, CollectiveKind.ALL_REDUCE) and intent.collective is None:
        notes.append(
            "nothing is added and every chunk goes to one rank: read as an All-to-Allv in chunk-matrix form; "
            "say --demand to compare it with yours"
        )
        demand = Demand(delivered * chunk_bytes, "chunk matrix of the file")
        return matrix_goal(delivered, demand, chunk_bytes, buffers.outputs, network), chunk_bytes, notes
    if named is None:
        raise InvalidInput(
            f"{buffers.file}: collective {buffers.collective!r} does not say what must arrive where; say it with "
            "--demand or --collective"
        )
    goal = collective_goal(named, buffers.inputs, buffers.outputs, chunk_bytes, network, intent.root)
    return goal, chunk_bytes, notes


def _named(buffers: ChunkBuffers, intent: Intent) -> CollectiveKind | None:
    if intent.collective is not None:
        return collective(intent.collective, 0).kind
    try:
        return CollectiveKind(buffers.collective)
    except ValueError:
        return None


def _demand_goal(
    buffers: ChunkBuffers, intent: Intent, delivered: NDArray[np.int64] | None, demand: Demand
) -> tuple[Goal, int, list[str]]:
    ranks, notes = len(buffers.inputs), []
    if demand.num_ranks != ranks:
        raise InvalidInput(f"{buffers.file} has {ranks} GPUs but the demand has {demand.num_ranks} ranks")
    matrix = delivered
    chunk_bytes = intent.chunk_bytes or buffers.chunk_bytes
    if chunk_bytes is None:
        if delivered is None:
            raise InvalidInput(f"{buffers.file} does not say how large a chunk is; say it with --chunk-bytes")
        chunk_bytes = infer_chunk_bytes(demand, delivered)
        if chunk_bytes is None:
            raise InvalidInput(
                f"{buffers.file}: no chunk size makes the demand into the chunks that the file moves; if it pads, say "
                "--chunk-bytes"
            )
        notes.append(f"chunks of {chunk_bytes} bytes turn the demand into the file's chunk matrix")
    if matrix is None:
        matrix = -(-demand.bytes_matrix // chunk_bytes)
    network = network_of(intent, ranks, buffers.file)
    return matrix_goal(matrix, demand, chunk_bytes, buffers.outputs, network), chunk_bytes, notes


def infer_chunk_bytes(demand: Demand, chunks: NDArray[np.int64]) -> int | None:
    """The least chunk size that turns every pair's bytes into the file's number of chunks; None if there is none.

    >>> from interlock.traffic import matrix
    >>> infer_chunk_bytes(matrix([[0, 100], [50, 0]]), np.array([[1, 2], [1, 1]]))
    50
    """
    wanted = demand.bytes_matrix.copy()
    moved = chunks.copy()
    np.fill_diagonal(wanted, 0)
    np.fill_diagonal(moved, 0)
    if ((wanted > 0) != (moved > 0)).any():
        return None
    some = wanted > 0
    if not some.any():
        return 1
    low = int((-(-wanted[some] // moved[some])).max())
    several = some & (moved > 1)
    high = int((-(-wanted[several] // (moved[several] - 1)) - 1).min()) if several.any() else low
    return low if low <= high else None
