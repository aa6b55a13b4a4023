"""A static uniform All-to-All with every pair padded to the largest, as solver-made schedules cost under skew."""

from __future__ import annotations

import numpy as np

from interlock.algorithms.detours import pairs_with_detours, refuses_two_tier
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.two_tier import demand_bytes, group
from interlock.problem import Problem
from interlock.schedule import Pieces, Schedule

__all__ = ["ALGORITHM", "padded"]


def padded(problem: Problem, *, seed: int = 0) -> Schedule:
    """Every pair of present ranks sends as many bytes as the largest pair; what is not demand is padding."""
    assert problem.cluster is not None
    rows = demand_bytes(problem)
    largest = int(rows.length.max(initial=0))
    here = np.flatnonzero(problem.cluster.present).astype(np.int32)
    src, dst = (axis.reshape(-1) for axis in np.meshgrid(here, here, indexing="ij"))
    src, dst = src[src != dst], dst[src != dst]
    made = group(rows, rows.src, rows.dst)
    pair = src.astype(np.int64) * problem.num_ranks + dst
    counts = np.zeros(len(src), np.int64)
    counts[np.isin(pair, made.keys @ np.array([problem.num_ranks, 1]))] = 1
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pieces = Pieces(offsets, made.pieces.item, made.pieces.offset, made.pieces.length)
    size_bytes = np.full(len(src), largest, np.int64)
    return pairs_with_detours(problem, src, dst, pieces, np.zeros(len(src), np.int32), size_bytes, [])


ALGORITHM = Algorithm(
    "padded",
    "uniform All-to-All padded to the largest pair (static solvers)",
    lambda problem: refuses_two_tier(problem, uses_rails_only=False),
    padded,
    detours=True,
)
