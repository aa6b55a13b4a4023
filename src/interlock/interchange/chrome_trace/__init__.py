"""A simulated timeline as Chrome trace JSON, for Perfetto or chrome://tracing."""

from __future__ import annotations

from pathlib import Path

from interlock.interchange.contract import Format

__all__ = ["FORMAT"]


def _recognises(path: Path, start: str) -> bool:
    return start.startswith(("{", "[")) and '"traceEvents"' in start


FORMAT = Format(
    "chrome-trace",
    __name__,
    "simulated timeline for Perfetto",
    _recognises,
    is_readable=False,
    needs_times=True,
    streams=True,
)
