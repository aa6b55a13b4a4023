"""Whether every chunk can get to its ends at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.arcs import ArcSet
from interlock.algorithms.synthesis.goal import Flow, Goal

__all__ = ["unreachable"]


def unreachable(goal: Goal, arcs: ArcSet) -> str | None:
    """A pair of ranks that something must pass between and cannot, in words; None where all is well."""
    if goal.flow is Flow.COLLECT:
        arcs = arcs.reversed()
    if len(goal.size_bytes) == 0:
        return None
    hub = int(goal.root[0])
    outward, inward = _reached(arcs, hub), _reached(arcs.reversed(), hub)
    ends = goal.ends.shared if goal.ends.shared is not None else goal.ends.to_ragged().values
    if outward[ends].all() and inward[goal.root].all() and (goal.flow is not Flow.BOTH or inward[ends].all()):
        return None
    # Not through the first root, but perhaps each by its own way.
    for root in np.unique(ends if goal.flow is Flow.BOTH else goal.root).tolist():
        reached = _reached(arcs, root)
        wanted = _ends_of(goal, root)
        if not reached[wanted].all():
            far = int(wanted[~reached[wanted]][0])
            src, dst = (far, root) if goal.flow is Flow.COLLECT else (root, far)
            return f"nothing leads from rank {src} to rank {dst}"
    return None


def _ends_of(goal: Goal, root: int) -> NDArray[np.int32]:
    if goal.ends.shared is not None:
        return goal.ends.shared
    return goal.ends.to_ragged().take(np.flatnonzero(goal.root == root)).values


def _reached(arcs: ArcSet, start: int) -> NDArray[np.bool_]:
    """Ranks that something from `start` can get to."""
    reached = np.zeros(arcs.num_ranks, np.bool_)
    reached[start] = True
    count = 1
    while True:
        reached[arcs.dst[reached[arcs.src]]] = True
        now = int(reached.sum())
        if now == count:
            return reached
        count = now
