"""How uneven traffic is: between receivers, which is what a router's popularity makes, and between pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Unevenness", "gini"]


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
    def words(self) -> str:
        """As commands print it.

        >>> Unevenness.of(np.array([[0, 3], [1, 0]])).words
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
