"""The lower bound of any problem."""

from __future__ import annotations

from interlock.cost.bound import Bound
from interlock.cost.two_tier import two_tier_bound
from interlock.errors import InvalidInput
from interlock.problem import Problem

__all__ = ["lower_bound"]


def lower_bound(problem: Problem) -> Bound:
    """A time that no schedule of the problem can beat, and the resource that forces it."""
    if problem.cluster is not None and problem.demand is not None:
        return two_tier_bound(problem.cluster, problem.demand)
    raise InvalidInput(f"{problem.name} has no lower bound yet: only demands on clusters do")
