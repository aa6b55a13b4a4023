"""A static uniform All-to-All with every pair padded to the largest, as solver-made schedules cost under skew.

Solvers give each link one transfer at a time. So does this: every GPU has one partner outside of its server and one
inside at a time, in shifts that are permutations, and goes on as soon as both ends are free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.detours import baseline, pairs_with_detours
from interlock.algorithms.two_tier import demand_bytes, group
from interlock.problem import Problem
from interlock.schedule import Pieces, Schedule

__all__ = ["ALGORITHM", "padded"]


def padded(problem: Problem, *, seed: int = 0) -> Schedule:
    """Every pair of present ranks sends as many bytes as the largest pair; what is not demand is padding."""
    cluster = problem.cluster
    assert cluster is not None
    rows = demand_bytes(problem)
    largest = int(rows.length.max(initial=0))
    here = np.flatnonzero(cluster.present).astype(np.int32)
    src, dst = (axis.reshape(-1) for axis in np.meshgrid(here, here, indexing="ij"))
    src, dst = src[src != dst], dst[src != dst]
    made = group(rows, rows.src, rows.dst)
    pair = src.astype(np.int64) * problem.num_ranks + dst
    counts = np.zeros(len(src), np.int64)
    counts[np.isin(pair, made.keys @ np.array([problem.num_ranks, 1]))] = 1
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pieces = Pieces(offsets, made.pieces.item, made.pieces.offset, made.pieces.length)
    width = cluster.gpus_per_server
    away = (dst // width - src // width) % cluster.servers
    shift = away * width + (dst - src) % width
    before = np.stack([previous(end, away == 0, shift) for end in (src, dst)])
    after = np.nonzero(before >= 0)
    size_bytes = np.full(len(src), largest, np.int64)
    stage = np.zeros(len(src), np.int32)
    return pairs_with_detours(problem, src, dst, pieces, stage, size_bytes, [], follows=(after[1], before[after]))


def previous(end: NDArray[np.int32], inside: NDArray[np.bool_], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """The message before each at one of its ends, in the order of shifts, inside and outside apart; -1: none."""
    order = np.lexsort((shift, inside, end))
    follows = (np.diff(end[order]) == 0) & (inside[order][1:] == inside[order][:-1])
    before = np.full(len(end), -1, np.int64)
    before[order[1:]] = np.where(follows, order[:-1], -1)
    return before


ALGORITHM = baseline(
    "padded", "uniform All-to-All padded to the largest pair (static solvers)", padded, uses_rails_only=False
)
