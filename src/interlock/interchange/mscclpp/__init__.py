"""MSCCL++ JSON: execution plans."""

from __future__ import annotations

from pathlib import Path

from interlock.interchange.contract import Format

__all__ = ["FORMAT"]


def _recognises(path: Path, start: str) -> bool:
    return start.startswith(("{", "[")) and '"traceEvents"' not in start


FORMAT = Format(
    "mscclpp-json",
    __name__,
    "execution plans for MSCCL++",
    _recognises,
    has_chunks=True,
    leaves_chunk_bytes_open=True,
)
