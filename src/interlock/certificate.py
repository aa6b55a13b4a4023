"""Certificate: what is proven of a plan."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Certificate"]


@dataclass(frozen=True, slots=True)
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

    @property
    def gap(self) -> float:
        """How far the simulated time is above the bound; 0.05 is 5 %."""
        if self.lower_bound_s <= 0.0:
            return 0.0 if self.makespan_s <= 0.0 else float("inf")
        return self.makespan_s / self.lower_bound_s - 1.0
