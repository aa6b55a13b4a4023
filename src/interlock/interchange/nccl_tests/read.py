"""Says that a byte matrix is no schedule."""

from __future__ import annotations

from pathlib import Path

from interlock.errors import InvalidInput
from interlock.interchange.contract import ForeignSchedule, Intent
from interlock.traffic import read_demand

__all__ = ["read_schedule"]


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """Refuses: a matrix is checked as traffic, but there is no schedule in it."""
    demand = read_demand(path)
    raise InvalidInput(
        f"{path} is a byte matrix of {demand.num_ranks} ranks: it says what to move, not how; plan it with "
        "`interlock plan --traffic`"
    )
