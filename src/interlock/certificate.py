"""Certificate: what is proven of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.html_text import facts_html
from interlock.units import format_bytes, format_seconds

__all__ = ["Certificate"]


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """What is proven of a plan: it is valid, and no schedule can be faster than the bound.

    `makespan_s` is simulated; `gap` is ``makespan / bound - 1``.
    """

    algorithm: str
    valid: bool
    violations: tuple[str, ...]
    makespan_s: float
    lower_bound_s: float
    binds: str
    scratch_bytes: int  # of the rank that needs most
    method: str  # how contributions were told apart: "exact sets" or "fingerprints"
    tolerance: float | None
    reason: str = ""  # what was chosen, and why

    @property
    def gap(self) -> float:
        """How far the simulated time is above the bound; 0.05 is 5 %."""
        if self.lower_bound_s <= 0.0:
            return 0.0 if self.makespan_s <= 0.0 else float("inf")
        return self.makespan_s / self.lower_bound_s - 1.0

    def facts(self) -> dict[str, str]:
        """By name, in words."""
        return ({"chosen": self.reason} if self.reason else {}) | {
            "valid": "yes" if self.valid else f"NO: {'; '.join(self.violations[:3])}",
            "simulated time": format_seconds(self.makespan_s),
            "lower bound": f"{format_seconds(self.lower_bound_s)} ({self.binds})",
            "gap": f"{100 * self.gap:z.2f} %",
            "scratch, worst rank": format_bytes(self.scratch_bytes),
        }

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {fact}" for name, fact in self.facts().items())
        return f"Certificate({self.algorithm!r}: {facts})"

    def _repr_html_(self) -> str:
        return facts_html(f"Certificate of {self.algorithm}", self.facts())
