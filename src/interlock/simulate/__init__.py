"""How long does a schedule take, and why."""

from interlock.simulate.result import CriticalMessage, Result, Wait
from interlock.simulate.simulator import Forwarding, simulate, slot_makespan_s

__all__ = ["Forwarding", "Result", "CriticalMessage", "Wait", "simulate", "slot_makespan_s"]
