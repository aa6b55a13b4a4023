"""Is it right? Executes a schedule symbolically and names every rule it breaks. Knows no producer."""

from interlock.validate.check import check
from interlock.validate.report import Report, Rule, Violation
from interlock.validate.slots import ChunkGoal, SlotReport, Transfers, check_slot_table, check_transfers

__all__ = [
    "ChunkGoal",
    "Report",
    "Rule",
    "SlotReport",
    "Transfers",
    "Violation",
    "check",
    "check_slot_table",
    "check_transfers",
]
