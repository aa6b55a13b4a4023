"""A simulated timeline as Chrome trace JSON, for Perfetto or chrome://tracing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.files import write_atomically
from interlock.interchange.contract import ExportReport, ForeignSchedule, Intent
from interlock.problem import Problem
from interlock.schedule import Schedule, chrome_trace_lines

__all__ = ["read_schedule", "write_schedule"]


def write_schedule(
    schedule: Schedule,
    problem: Problem,
    path: Path,
    *,
    start_s: NDArray[np.float64],
    finish_s: NDArray[np.float64],
) -> ExportReport:
    """Write one event per message on its sender's tracks; messages that overlap get tracks of their own."""
    if len(start_s) != schedule.num_messages or len(finish_s) != schedule.num_messages:
        raise InvalidInput(f"times of {len(start_s)} messages were given for {schedule.num_messages}")
    names = [] if problem.step is None else [task.name for task in problem.step.tasks]
    lines = chrome_trace_lines(schedule, problem.num_ranks, start_s, finish_s, names)
    write_atomically(path, lambda file: file.writelines(line.encode() for line in lines))
    return ExportReport("chrome-trace", (path,), notes=("times are simulated",))


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """Refuses: a timeline is a picture of a run."""
    raise InvalidInput(f"{path} is a timeline: it shows when things happened, not what must happen before what")
