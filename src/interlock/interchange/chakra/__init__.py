"""Chakra execution traces, and the ASTRA-sim configuration that runs them."""

from __future__ import annotations

from pathlib import Path

from interlock.interchange.contract import Format, rows_of
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["FORMAT"]


def _recognises(path: Path, start: str) -> bool:
    """A folder, a trace, or the name that traces of ranks share."""
    if path.is_dir() or path.suffix == ".et":
        return True
    return not path.exists() and path.parent.is_dir() and any(path.parent.glob(f"{path.name}.*.et"))


def _most_bytes(schedule: Schedule, problem: Problem) -> int:
    return 2048 * problem.num_ranks + 128 * rows_of(schedule)


FORMAT = Format(
    "chakra",
    __name__,
    "execution traces and ASTRA-sim configurations, in a folder",
    _recognises,
    is_folder=True,
    holds_steps=True,
    streams=True,
    most_bytes=_most_bytes,
)
