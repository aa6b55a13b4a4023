"""A paper's claim and what we found: published figure, ours, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Claim", "Status", "judge", "judge_over_baseline", "within"]


class Status(StrEnum):
    """The badge of a claim."""

    REPRODUCED = "reproduced"
    BEATEN = "beaten"
    NOT_REACHED = "not reached"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of `interlock reproduce`; field names are those of `--json`."""

    paper: str
    claim: str
    published: str
    ours: float
    unit: str
    status: Status
    note: str = ""  # how ours was made, and why it differs where it does

    @property
    def words(self) -> str:
        """Our figure, rounded for reading.

        >>> Claim("tacos", "time", "10016", 10016.25, "us", Status.REPRODUCED).words
        '10016 us'
        """
        return f"{self.ours:.0f} {self.unit}" if abs(self.ours) >= 1000 else f"{self.ours:.4g} {self.unit}"


def judge(
    ours: float, low: float, high: float | None = None, *, slack: float = 0.1, less_is_better: bool = False
) -> Status:
    """Reproduced inside the published band widened by `slack`; beaten on its better side; else not reached.

    >>> judge(1.25, 1.2, 1.3), judge(2.0, 1.2, 1.3), judge(0.9, 1.2, 1.3)
    (<Status.REPRODUCED: 'reproduced'>, <Status.BEATEN: 'beaten'>, <Status.NOT_REACHED: 'not reached'>)
    """
    top = low if high is None else high
    if low * (1 - slack) <= ours <= top * (1 + slack):
        return Status.REPRODUCED
    is_better = ours < low if less_is_better else ours > top
    return Status.BEATEN if is_better else Status.NOT_REACHED


def judge_over_baseline(ours: float, low: float, high: float | None, slack: float) -> Status:
    """The verdict on a speed-up over a baseline that we had to model.

    Far above the published band our baseline may be worse than theirs, so nothing is claimed from it.

    >>> judge_over_baseline(1.25, 1.2, 1.3, 0.1), judge_over_baseline(9.0, 1.2, 1.3, 0.1)
    (<Status.REPRODUCED: 'reproduced'>, <Status.NOT_COMPARABLE: 'not comparable'>)
    """
    if high is None:
        return Status.REPRODUCED if ours >= low * (1 - slack) else Status.NOT_REACHED
    verdict = judge(ours, low, high, slack=slack)
    return Status.NOT_COMPARABLE if verdict is Status.BEATEN else verdict


def within(ours: float, published: float, slack: float) -> Status:
    """Reproduced within `slack` (a share of the published figure), otherwise not; a model has nothing to beat."""
    return Status.REPRODUCED if abs(ours - published) <= slack * abs(published) else Status.NOT_REACHED
