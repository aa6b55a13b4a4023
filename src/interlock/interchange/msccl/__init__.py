"""MSCCL XML: algorithms for RCCL, Azure's executor and microsoft/msccl."""

from __future__ import annotations

from pathlib import Path

from interlock.interchange.contract import Format

__all__ = ["FORMAT"]


def _recognises(path: Path, start: str) -> bool:
    return start.startswith("<")


FORMAT = Format(
    "msccl-xml",
    __name__,
    "algorithms for RCCL and MSCCL",
    _recognises,
    has_chunks=True,
    leaves_chunk_bytes_open=True,
    has_flavors=True,
)
