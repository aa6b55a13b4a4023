"""Oblivious spraying: every flow spreads evenly over all rails, as per-packet spraying does in the mean."""

from __future__ import annotations

import numpy as np

from interlock.algorithms.detours import baseline
from interlock.algorithms.relay import relay
from interlock.algorithms.two_tier import Bytes, local_batch
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["ALGORITHM", "spray"]


def spray(problem: Problem, *, seed: int = 0) -> Schedule:
    """Each flow is cut into one part per rail; what a rail carries for one destination server travels together."""
    assert problem.cluster is not None
    width = problem.cluster.gpus_per_server
    local, far = local_batch(problem)
    parts, rail = cut_evenly(far, width)
    carrier = parts.src // np.int32(width) * np.int32(width) + rail
    return relay(problem, local, parts, carrier.astype(np.int32))


def cut_evenly(far: Bytes, rails: int) -> tuple[Bytes, np.ndarray]:
    """Every row cut into `rails` parts that differ by at most a byte, and the rail of each part."""
    rail = np.tile(np.arange(rails, dtype=np.int32), len(far))
    row = np.repeat(np.arange(len(far)), rails)
    first = far.length[row] * rail // rails
    length = far.length[row] * (rail + 1) // rails - first
    some = length > 0
    row, rail = row[some], rail[some]
    parts = Bytes(far.item[row], far.offset[row] + first[some], length[some], far.src[row], far.dst[row])
    return parts, rail


ALGORITHM = baseline("spray", "every flow evenly over all rails (oblivious)", spray)
