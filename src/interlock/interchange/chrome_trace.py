"""A simulated timeline as Chrome trace JSON, for Perfetto or chrome://tracing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.files import write_atomically
from interlock.interchange.foreign import ForeignSchedule, Intent
from interlock.interchange.report import ExportReport
from interlock.problem import Problem
from interlock.schedule import Schedule, chrome_trace_lines

__all__ = ["read_chrome_trace", "write_chrome_trace"]


def write_chrome_trace(
    schedule: Schedule,
    problem: Problem,
    path: Path,
    *,
    start_s: NDArray[np.float64],
    finish_s: NDArray[np.float64],
) -> ExportReport:
    """Write one event per message on its sender's lanes; messages that overlap get lanes of their own."""
    if len(start_s) != schedule.num_messages or len(finish_s) != schedule.num_messages:
        raise InvalidInput(f"times of {len(start_s)} messages were given for {schedule.num_messages}")
    lines = chrome_trace_lines(schedule, problem.num_ranks, start_s, finish_s)
    write_atomically(path, lambda file: file.writelines(line.encode() for line in lines))
    return ExportReport("chrome-trace", (path,), notes=("times are simulated",))


def read_chrome_trace(path: Path, intent: Intent) -> ForeignSchedule:
    """Refuses: a timeline is a picture of a run."""
    raise InvalidInput(f"{path} is a timeline: it shows when things happened, not what must happen before what")
