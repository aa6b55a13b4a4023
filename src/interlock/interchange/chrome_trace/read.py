"""Says that a timeline is no schedule."""

from __future__ import annotations

from pathlib import Path

from interlock.errors import InvalidInput
from interlock.interchange.contract import ForeignSchedule, Intent

__all__ = ["read_schedule"]


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """Refuses: a timeline is a picture of a run."""
    raise InvalidInput(f"{path} is a timeline: it shows when things happened, not what must happen before what")
