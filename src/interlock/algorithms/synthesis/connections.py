"""Whether every chunk can get to its ends at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.arcs import ArcSet
from interlock.algorithms.synthesis.goal import Direction, TreeGoal

__all__ = ["all_can_meet_at", "reached", "unreachable"]


def unreachable(goal: TreeGoal, arcs: ArcSet) -> str | None:
    """A pair of ranks that something must pass between and cannot, in words; None where all is well."""
    if len(goal.size_bytes) == 0 or all_can_meet_at(int(goal.root[0]), goal, arcs):
        return None
    # Not all by way of the first root, but perhaps each by its own.
    if goal.direction is Direction.IN:
        arcs = arcs.reversed()
    for root in np.unique(_ends(goal) if goal.direction is Direction.IN_AND_OUT else goal.root).tolist():
        wanted = _ends_of(goal, root)
        missed = wanted[~reached(arcs, root)[wanted]]
        if len(missed):
            src, dst = (int(missed[0]), root) if goal.direction is Direction.IN else (root, int(missed[0]))
            return f"nothing leads from rank {src} to rank {dst}"
    return None


def all_can_meet_at(hub: int, goal: TreeGoal, arcs: ArcSet, among: NDArray[np.int64] | None = None) -> bool:
    """Whether everything could go by way of one rank, over all arcs or some: then every chunk can reach its ends."""
    outward, inward = reached(arcs, hub, among), reached(arcs.reversed(), hub, among)
    if goal.direction is Direction.IN:
        outward, inward = inward, outward
    ends = _ends(goal)
    return bool(
        outward[ends].all()
        and inward[goal.root].all()
        and (goal.direction is not Direction.IN_AND_OUT or inward[ends].all())
    )


def reached(arcs: ArcSet, start: int, among: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
    """Ranks that something from `start` can get to, over all arcs or some."""
    src, dst = (arcs.src, arcs.dst) if among is None else (arcs.src[among], arcs.dst[among])
    found = np.zeros(arcs.num_ranks, np.bool_)
    found[start] = True
    count = 1
    while True:
        found[dst[found[src]]] = True
        now = int(found.sum())
        if now == count:
            return found
        count = now


def _ends(goal: TreeGoal) -> NDArray[np.int32]:
    return goal.ends.shared if goal.ends.shared is not None else goal.ends.to_ragged().values


def _ends_of(goal: TreeGoal, root: int) -> NDArray[np.int32]:
    if goal.ends.shared is not None:
        return goal.ends.shared
    return goal.ends.to_ragged().take(np.flatnonzero(goal.root == root)).values
