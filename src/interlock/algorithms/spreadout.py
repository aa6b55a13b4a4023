"""SpreadOut: in stage k every rank sends to the rank k places on, with a barrier between stages."""

from __future__ import annotations

import numpy as np

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.two_tier import demand_bytes, group, refuses_faults
from interlock.problem import Problem
from interlock.schedule import Batch, Phase, Schedule, assemble

__all__ = ["ALGORITHM", "spreadout"]


def spreadout(problem: Problem, *, seed: int = 0) -> Schedule:
    """Costs the sum over shifts of the largest message of each shift."""
    assert problem.cluster is not None
    rows = demand_bytes(problem)
    shift = (rows.dst - rows.src) % problem.num_ranks
    made = group(rows, shift, rows.src, rows.dst)
    stage, src, dst = made.keys.astype(np.int32).T
    inside = problem.cluster.server_of(src) == problem.cluster.server_of(dst)
    phase = np.where(inside, Phase.LOCAL, Phase.SCALE_OUT).astype(np.uint8)
    barriers = np.unique(stage)[1:].tolist()
    batch = Batch(src.copy(), dst.copy(), made.pieces, phase, np.ascontiguousarray(stage))
    return assemble([batch], barriers)


ALGORITHM = Algorithm(
    "spreadout",
    "shift by shift with barriers",
    lambda problem: refuses_faults(problem, uses_rails_only=False),
    spreadout,
)
