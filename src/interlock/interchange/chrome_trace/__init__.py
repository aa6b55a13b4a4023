"""A simulated timeline as Chrome trace JSON, for Perfetto or chrome://tracing."""

from __future__ import annotations

from pathlib import Path

from interlock.interchange.contract import Format, rows_of
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["FORMAT"]


def _recognises(path: Path, start: str) -> bool:
    return start.startswith(("{", "[")) and '"traceEvents"' in start


def _most_bytes(schedule: Schedule, problem: Problem) -> int:
    return 512 * problem.num_ranks + 128 * rows_of(schedule)


FORMAT = Format(
    "chrome-trace",
    __name__,
    "simulated timeline for Perfetto",
    _recognises,
    is_readable=False,
    needs_times=True,
    holds_steps=True,
    streams=True,
    most_bytes=_most_bytes,
)
