"""The byte matrix of nccl-tests' alltoallv: what is moved, not how."""

from __future__ import annotations

from pathlib import Path

from interlock.interchange.contract import Format
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["FORMAT"]


def _recognises(path: Path, start: str) -> bool:
    words = start.split("\n", 1)[0].replace(",", " ").split()
    return bool(words) and all(word.isdigit() for word in words)


def _most_bytes(schedule: Schedule, problem: Problem) -> int:
    return 20 * problem.num_ranks**2


FORMAT = Format(
    "nccl-tests",
    __name__,
    "byte matrix for nccl-tests' alltoallv",
    _recognises,
    is_readable=False,
    streams=True,
    most_bytes=_most_bytes,
)
