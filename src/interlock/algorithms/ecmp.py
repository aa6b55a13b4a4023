"""ECMP: each flow takes a rail by hash, and flows that collide share it.

A flow is what one rank owes another. Its rail is a seeded hash of its ends; where a fabric has a spine, its leaf
uplinks are one aggregate, so collisions are those of rails and NICs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.detours import refuses_two_tier
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.relay import relay
from interlock.algorithms.two_tier import local_batch
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["ALGORITHM", "ecmp"]


def ecmp(problem: Problem, *, seed: int = 0) -> Schedule:
    """One rail per flow, by hash."""
    assert problem.cluster is not None
    width = np.int32(problem.cluster.gpus_per_server)
    local, far = local_batch(problem)
    rail = hashed(far.src, far.dst, seed) % np.uint64(width)
    return relay(problem, local, far, far.src // width * width + rail.astype(np.int32), flows=far.item)


def hashed(src: NDArray[np.int32], dst: NDArray[np.int32], seed: int) -> NDArray[np.uint64]:
    """A 64-bit hash of each flow's ends (splitmix64), the same on every machine."""
    mixed = (src.astype(np.uint64) << np.uint64(32)) ^ dst.astype(np.uint64) ^ np.uint64(seed * 0x9E3779B9 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed


ALGORITHM = Algorithm(
    "ecmp",
    "one rail per flow, by hash",
    lambda problem: refuses_two_tier(problem, uses_rails_only=True),
    ecmp,
    detours=True,
)
