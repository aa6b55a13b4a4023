"""Demand: the bytes each rank owes each rank, and how uneven they are between receivers and between pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interlock.errors import InvalidInput
from interlock.html_text import facts_html
from interlock.units import format_bytes

__all__ = ["MAX_RANKS", "MAX_TOTAL_BYTES", "Demand", "HasRanks", "Unevenness", "gini", "matrix"]

MAX_TOTAL_BYTES = 2**62
MAX_RANKS = 8192


@dataclass(frozen=True, slots=True)
class Unevenness:
    """Gini coefficient (0: all alike) and largest over mean, of what ranks receive and of pairs of ranks."""

    received_gini: float
    received_peak: float
    pairs_gini: float
    pairs_peak: float

    @classmethod
    def of(cls, bytes_matrix: NDArray[np.int64]) -> Unevenness:
        """Of a byte matrix; what stays at a rank counts as received, not as a pair; idle ranks do not count."""
        busy = (bytes_matrix.sum(axis=0) + bytes_matrix.sum(axis=1)) > 0
        held = bytes_matrix[np.ix_(busy, busy)].astype(np.float64)
        received = held.sum(axis=0)
        pairs = held[~np.eye(len(held), dtype=np.bool_)]
        return cls(gini(received), _peak(received), gini(pairs), _peak(pairs))

    @property
    def summary(self) -> str:
        """As commands print it.

        >>> Unevenness.of(np.array([[0, 3], [1, 0]])).summary
        'ranks receive Gini 0.25, max/mean 1.50; pairs Gini 0.25, max/mean 1.50'
        """
        received = f"ranks receive Gini {self.received_gini:.2f}, max/mean {self.received_peak:.2f}"
        return f"{received}; pairs Gini {self.pairs_gini:.2f}, max/mean {self.pairs_peak:.2f}"


def gini(values: ArrayLike) -> float:
    """Gini coefficient of amounts that are not negative: half the mean difference of two of them over the mean.

    >>> gini([1, 1, 1]), gini([0, 0, 3])
    (0.0, 0.6666666666666666)
    """
    ascending = np.sort(np.asarray(values, np.float64))
    total = ascending.sum()
    if total <= 0:
        return 0.0
    count = len(ascending)
    return float(((2 * np.arange(1, count + 1) - count - 1) * ascending).sum() / (count * total))


def _peak(values: NDArray[np.float64]) -> float:
    mean = values.mean() if len(values) else 0.0
    return float(values.max() / mean) if mean > 0 else 1.0


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
