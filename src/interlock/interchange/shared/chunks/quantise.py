"""Bytes to uniform chunks, for formats that know nothing else; what that adds is counted and reported, never hidden.

An item of S bytes becomes ceil(S / c) chunks of c bytes. A boundary inside an item, where a message takes only part of
it, moves to the nearest chunk boundary: the same byte always moves to the same place, so what was cut in two stays cut
in two, at every hop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, LimitExceeded
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["ChunkPolicy", "Quantised", "fit_chunks", "quantise"]

Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class ChunkPolicy:
    """How to choose the chunk size.

    `chunk_bytes` fixes it. Otherwise the largest size that divides every boundary is taken ("exact", no padding) if no
    rank then holds more than `max_chunks_per_rank`. If not, sizes are doublings of `alignment`, at least `least_bytes`:
    the largest that adds no more than `max_added` of all bytes, or the least that respects the limit if all add more.
    """

    chunk_bytes: int | None = None
    max_chunks_per_rank: int = 1024
    alignment: int = 1
    least_bytes: int = 1
    max_added: float = 0.01

    def __post_init__(self) -> None:
        if self.chunk_bytes is not None and (self.chunk_bytes < 1 or self.chunk_bytes % self.alignment):
            raise InvalidInput(
                f"chunk_bytes={self.chunk_bytes} must be a positive multiple of {self.alignment} for this format"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """Items and pieces in whole chunks. Pieces that shrank to nothing are left out, row by row."""

    chunk_bytes: int
    item_chunks: NDArray[np.int64]  # [num_items]
    message: NDArray[np.int64]
    item: NDArray[np.int32]
    first: NDArray[np.int64]  # first chunk within the item
    count: NDArray[np.int64]  # chunks, at least 1
    policy: str  # "exact", "fixed" or "padded"
    true_bytes: int
    padded_bytes: int

    @property
    def inflation(self) -> float:
        """Added bytes over true bytes, of all items once: 0.02 is 2 % more."""
        return self.padded_bytes / self.true_bytes - 1.0 if self.true_bytes else 0.0


def quantise(schedule: Schedule, problem: Problem, policy: ChunkPolicy) -> Quantised:
    """Cut items and pieces into chunks of one size."""
    chunk_bytes, how = _choose(schedule, problem, policy)
    sizes = problem.items.size_bytes
    item_chunks = -(-sizes // chunk_bytes)
    pieces = schedule.pieces
    size = sizes[pieces.item]
    first = _boundary(pieces.offset, size, chunk_bytes)
    end = _boundary(pieces.offset + pieces.length, size, chunk_bytes)
    kept = np.flatnonzero(end > first)
    return Quantised(
        chunk_bytes=chunk_bytes,
        item_chunks=item_chunks,
        message=pieces.message[kept],
        item=pieces.item[kept],
        first=first[kept],
        count=(end - first)[kept],
        policy=how,
        true_bytes=int(sizes.sum()),
        padded_bytes=int(item_chunks.sum()) * chunk_bytes,
    )


def _boundary(at: NDArray[np.int64], size: NDArray[np.int64], chunk_bytes: int) -> NDArray[np.int64]:
    """The chunk boundary of a byte boundary: ends of items up, others to the nearest."""
    last = -(-size // chunk_bytes)
    nearest = np.minimum((at + chunk_bytes // 2) // chunk_bytes, last)
    moved: NDArray[np.int64] = np.where(at == size, last, nearest)
    return moved


def _choose(schedule: Schedule, problem: Problem, policy: ChunkPolicy) -> tuple[int, str]:
    if len(problem.items) == 0:
        return policy.alignment, "exact"
    if policy.chunk_bytes is not None:
        return policy.chunk_bytes, "fixed"
    marks = np.concatenate([problem.items.size_bytes, schedule.pieces.offset, schedule.pieces.length])
    common = int(np.gcd.reduce(marks))
    fits = _most_chunks(problem, common) <= policy.max_chunks_per_rank
    if fits and common % policy.alignment == 0 and common >= policy.least_bytes:
        return common, "exact"
    return _least_fitting(problem, policy), "padded"


def _most_chunks(problem: Problem, chunk_bytes: int) -> int:
    """Chunks of the rank that holds or receives most."""
    chunks = -(-problem.items.size_bytes // chunk_bytes)
    most = 0
    for sets in (problem.items.contributors, problem.items.destinations):
        if sets.shared is not None:
            most = max(most, int(chunks.sum()))
            continue
        rows = sets.to_ragged()
        weights = chunks[rows.row_of_value].astype(np.float64)
        most = max(most, int(np.bincount(rows.values, weights=weights, minlength=problem.num_ranks).max()))
    return most


def _least_fitting(problem: Problem, policy: ChunkPolicy) -> int:
    sizes = problem.items.size_bytes
    size, largest = policy.alignment, int(sizes.max())
    while size < policy.least_bytes or (size < largest and _most_chunks(problem, size) > policy.max_chunks_per_rank):
        size *= 2
    if _most_chunks(problem, size) > policy.max_chunks_per_rank:
        raise LimitExceeded(
            f"a rank sends or receives {_most_chunks(problem, size)} items, one chunk each at least; at most "
            f"{policy.max_chunks_per_rank} chunks per rank fit this format"
        )
    allowed = int(sizes.sum() * (1 + policy.max_added))
    while size < largest and int((-(-sizes // (2 * size))).sum()) * 2 * size <= allowed:
        size *= 2
    return size


def fit_chunks(
    schedule: Schedule, problem: Problem, policy: ChunkPolicy, build: Callable[[Quantised], Built]
) -> tuple[Quantised, Built]:
    """What `build` makes of the chunks; where it meets a limit of its format, chunks twice as large are tried.

    Larger chunks mean fewer moves: short pieces grow together or vanish. The last size makes every item one chunk.
    """
    first: LimitExceeded | None = None
    largest = int(problem.items.size_bytes.max(initial=1))
    while True:
        try:
            quantised = quantise(schedule, problem, policy)
        except LimitExceeded as refusal:
            raise first or refusal from None
        try:
            return quantised, build(quantised)
        except LimitExceeded as refusal:
            first = first or refusal
            if policy.chunk_bytes is not None or quantised.chunk_bytes >= largest:
                raise first from None
            policy = replace(policy, least_bytes=2 * quantised.chunk_bytes)
