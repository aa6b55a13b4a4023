"""How long does a schedule take, and why."""

from interlock.simulate.critical import CriticalMessage, Wait
from interlock.simulate.result import Result
from interlock.simulate.simulator import Forwarding, simulate
from interlock.simulate.slots import slot_makespan_s

__all__ = ["Forwarding", "Result", "CriticalMessage", "Wait", "simulate", "slot_makespan_s"]
