"""Demand: the bytes each rank owes each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interlock.errors import InvalidInput
from interlock.html_text import facts_html
from interlock.traffic.unevenness import Unevenness
from interlock.units import format_bytes

__all__ = ["MAX_RANKS", "MAX_TOTAL_BYTES", "Demand", "HasRanks", "matrix"]

MAX_TOTAL_BYTES = 2**62
MAX_RANKS = 8192


class HasRanks(Protocol):
    """What a generator needs to know of a cluster or a graph."""

    @property
    def num_ranks(self) -> int:
        """GPUs, missing ones included."""
        ...

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which GPUs are there."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """An All-to-Allv: ``bytes_matrix[i, j]`` bytes go from rank i to rank j. The diagonal stays where it is."""

    bytes_matrix: NDArray[np.int64]  # [num_ranks, num_ranks]
    name: str = "matrix"
    seed: int | None = None

    def __post_init__(self) -> None:
        held = self.bytes_matrix
        if not isinstance(held, np.ndarray):
            raise InvalidInput(f"bytes_matrix must be a NumPy array, not {type(held).__name__}; use matrix()")
        if held.dtype != np.int64 or held.ndim != 2 or held.shape[0] != held.shape[1]:
            raise InvalidInput(
                f"bytes_matrix must be square int64, not {held.dtype} of shape {held.shape}; use matrix()"
            )
        if held.size and held.min() < 0:
            raise InvalidInput(f"bytes_matrix holds {held.min()}; bytes must be at least 0")
        if held.sum(dtype=np.float64) > MAX_TOTAL_BYTES:
            raise InvalidInput(f"bytes_matrix adds up to more than 2^62 bytes (largest entry {held.max()})")
        if held.flags.writeable or not held.flags.c_contiguous:
            # The caller may change its array afterwards, and keeps it as it is.
            held = np.array(held, order="C")
            held.flags.writeable = False
            object.__setattr__(self, "bytes_matrix", held)

    @property
    def num_ranks(self) -> int:
        """Rows of the matrix."""
        return len(self.bytes_matrix)

    @property
    def moved_bytes(self) -> int:
        """All bytes off the diagonal."""
        return int(self.bytes_matrix.sum()) - int(np.trace(self.bytes_matrix))

    @property
    def largest_rank_bytes(self) -> int:
        """The most any rank sends or receives, itself included: nccl-tests' S of an All-to-Allv."""
        return int(max(self.bytes_matrix.sum(axis=0).max(), self.bytes_matrix.sum(axis=1).max()))

    @property
    def unevenness(self) -> Unevenness:
        """How unlike receivers and pairs are."""
        return Unevenness.of(self.bytes_matrix)

    def transposed(self) -> Demand:
        """What goes back: combine after dispatch."""
        return Demand(np.ascontiguousarray(self.bytes_matrix.T), f"{self.name}, transposed", self.seed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Demand) and np.array_equal(self.bytes_matrix, other.bytes_matrix)

    __hash__ = None  # type: ignore[assignment]

    def facts(self) -> dict[str, str]:
        """What is moved, and how unevenly, in words."""
        sent, received = self.bytes_matrix.sum(axis=1), self.bytes_matrix.sum(axis=0)
        mean = max(float(sent.mean()), 1e-9)
        drawn = "" if self.seed is None else f", seed {self.seed}"
        talking = 100 * float((self.bytes_matrix > 0).mean())
        each = f"a GPU sends at most {float(sent.max()) / mean:.2f} and receives at most"
        return {
            "traffic": f"{self.name}{drawn}: {format_bytes(float(sent.sum()))} in all, {format_bytes(mean)} per GPU",
            "most": f"{each} {float(received.max()) / mean:.2f} times the mean; {talking:.0f} % of pairs talk",
        }

    def _repr_html_(self) -> str:
        return facts_html(f"Demand of {self.num_ranks} ranks", self.facts())

    def __repr__(self) -> str:
        return f"Demand({self.name!r}, {self.num_ranks} ranks, {self.moved_bytes} bytes)"


def matrix(array: ArrayLike, name: str = "matrix") -> Demand:
    """Demand from any square matrix of whole numbers of bytes.

    >>> matrix([[0, 5], [3, 0]]).moved_bytes
    8
    """
    try:
        given = np.asarray(array)
    except ValueError:
        raise InvalidInput("the demand matrix has rows of unequal length; it must be square") from None
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.shape[0] == 0:
        raise InvalidInput(f"the demand matrix has shape {given.shape}; it must be square and not empty")
    if given.shape[0] > MAX_RANKS:
        raise InvalidInput(f"the demand matrix has {given.shape[0]} ranks; at most {MAX_RANKS} are supported")
    if given.dtype.kind not in "iu":
        raise InvalidInput(f"the demand matrix holds {given.dtype}; bytes must be whole numbers")
    if given.dtype.kind == "i" and (given < 0).any():
        row, col = map(int, np.argwhere(given < 0)[0])
        raise InvalidInput(f"demand[{row}, {col}]={given[row, col]} is negative; bytes must be at least 0")
    if (given > MAX_TOTAL_BYTES).any() or float(given.sum(dtype=np.float64)) > MAX_TOTAL_BYTES:
        raise InvalidInput(f"the demand matrix adds up to more than 2^62 bytes (largest entry {given.max()})")
    own = np.array(given, np.int64, order="C")
    own.flags.writeable = False
    return Demand(own, name)
