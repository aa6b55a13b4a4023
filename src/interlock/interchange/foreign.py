"""What a reader returns: another tool's schedule as ours."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["ForeignSchedule", "Intent"]


@dataclass(frozen=True, slots=True)
class Intent:
    """What the user says about a file that does not say it itself. `collective` is a name like "all-gather"."""

    demand: Demand | None = None
    collective: str | None = None
    size_bytes: int | None = None  # of the collective, as nccl-tests count it
    chunk_bytes: int | None = None
    cluster: Cluster | None = None  # where it would run
    root: int = 0  # of rooted collectives


@dataclass(frozen=True, slots=True, eq=False)
class ForeignSchedule:
    """A schedule in our form, with what was wrong beyond its deliveries and what had to be inferred."""

    format: str
    schedule: Schedule
    problem: Problem
    violations: tuple[str, ...] = ()  # races, deadlocks, misplaced data: anything our form cannot hold
    notes: tuple[str, ...] = field(default=())
