"""How long does a schedule take, and why."""

from interlock.simulate.critical import Step, Wait
from interlock.simulate.result import Result
from interlock.simulate.simulator import Forwarding, simulate

__all__ = ["Forwarding", "Result", "Step", "Wait", "simulate"]
