"""TACOS' CSV (v1.1): for every link, the chunks it carries, in order. Holds collectives that only copy."""

from __future__ import annotations

from pathlib import Path

from interlock.interchange.contract import Format

__all__ = ["FORMAT"]


def _recognises(path: Path, start: str) -> bool:
    return start.startswith("NPUs Count")


FORMAT = Format(
    "tacos-csv",
    __name__,
    "chunks per link, as TACOS 1.1 writes them",
    _recognises,
    has_chunks=True,
    streams=True,
)
