"""Is it right? Executes a schedule symbolically and names every rule it breaks. Knows no producer."""

from interlock.validate.check import check
from interlock.validate.report import Report, Rule, Violation
from interlock.validate.slot_schedules import ChunkGoal, SlotReport, check_slot_table

__all__ = [
    "ChunkGoal",
    "Report",
    "Rule",
    "SlotReport",
    "Violation",
    "check",
    "check_slot_table",
]
