"""The byte matrix of nccl-tests' alltoallv: what is moved, not how."""

from __future__ import annotations

from pathlib import Path

from interlock.errors import InvalidInput
from interlock.files import write_atomically
from interlock.interchange.contract import ExportReport, ForeignSchedule, Intent
from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.traffic import read_demand

__all__ = ["read_schedule", "write_schedule"]

GRAIN = 16  # nccl-tests truncate every entry to a multiple of this


def write_schedule(schedule: Schedule, problem: Problem, path: Path) -> ExportReport:
    """Write the demand, one row per sender."""
    if problem.demand is None:
        raise InvalidInput(f"nccl-tests' matrix holds the demand of an All-to-Allv; not {problem.name}")
    matrix = problem.demand.bytes_matrix
    lines = ((" ".join(map(str, row.tolist())) + "\n").encode() for row in matrix)
    write_atomically(path, lambda file: file.writelines(lines))
    notes = ["holds what is moved, not the schedule"]
    lost = int((matrix % GRAIN).sum())
    if lost:
        notes.append(
            f"nccl-tests truncate entries to multiples of {GRAIN} bytes: {lost} bytes in all would not be moved"
        )
    return ExportReport("nccl-tests", (path,), notes=tuple(notes))


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """Refuses: a matrix is checked as traffic, but there is no schedule in it."""
    demand = read_demand(path)
    raise InvalidInput(
        f"{path} is a byte matrix of {demand.num_ranks} ranks: it says what to move, not how; plan it with "
        "`interlock plan --traffic`"
    )
