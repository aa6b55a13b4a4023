"""How long does a schedule take, and why."""

from interlock.simulate.result import Result
from interlock.simulate.simulator import simulate

__all__ = ["Result", "simulate"]
