"""Proven lower bounds, and predictions in microseconds that algorithms may use."""

from interlock.cost.bound import Bound
from interlock.cost.bounds import lower_bound

__all__ = ["Bound", "lower_bound"]
