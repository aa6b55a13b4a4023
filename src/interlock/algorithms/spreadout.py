"""SpreadOut: in stage k every rank sends to the rank k places on, with a barrier between stages."""

from __future__ import annotations

import numpy as np

from interlock.algorithms.detours import baseline, pairs_with_detours
from interlock.algorithms.two_tier import demand_bytes, group
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["ALGORITHM", "spreadout"]


def spreadout(problem: Problem, *, seed: int = 0) -> Schedule:
    """Costs the sum over shifts of the largest message of each shift."""
    assert problem.cluster is not None
    rows = demand_bytes(problem)
    shift = (rows.dst - rows.src) % problem.num_ranks
    made = group(rows, shift, rows.src, rows.dst)
    stage, src, dst = made.keys.astype(np.int32).T
    barriers = np.unique(stage)[1:].tolist()
    ends = (src.copy(), dst.copy())
    return pairs_with_detours(problem, *ends, made.pieces, np.ascontiguousarray(stage), made.pieces.length, barriers)


ALGORITHM = baseline("spreadout", "shift by shift with barriers", spreadout, uses_rails_only=False)
