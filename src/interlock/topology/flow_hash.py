"""How switches spread flows over equal paths: a seeded hash of the five-tuple, the same on every machine.

Protocol and destination port are the same for all RDMA flows, so addresses and source port are what a hash sees.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["flow_hash"]


def flow_hash(
    src: NDArray[np.integer], dst: NDArray[np.integer], port: NDArray[np.integer] | int, seed: int
) -> NDArray[np.uint64]:
    """64 bits per flow (splitmix64)."""
    ends = (np.asarray(src, np.uint64) << np.uint64(32)) ^ np.asarray(dst, np.uint64)
    mixed = _mix(ends ^ np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64))
    return _mix(mixed + np.asarray(port, np.uint64) * np.uint64(0xD1342543DE82EF95))


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return value
