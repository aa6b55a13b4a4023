"""htsim's connection matrix (`.cm`): flows with sizes, started at a time or by a trigger."""

from __future__ import annotations

from pathlib import Path

from interlock.interchange.contract import Format

__all__ = ["FORMAT"]


def _recognises(path: Path, start: str) -> bool:
    return any(line.startswith("Nodes ") for line in start.splitlines()[:64])


FORMAT = Format(
    "htsim",
    __name__,
    "connection matrix for htsim",
    _recognises,
    streams=True,
)
