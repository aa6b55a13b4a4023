"""Is it right? Executes a schedule symbolically and names every rule it breaks. Knows no producer."""

from interlock.validate.check import check
from interlock.validate.report import Report, Rule, Violation

__all__ = ["Report", "Rule", "Violation", "check"]
