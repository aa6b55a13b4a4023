"""What an export tells its caller."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ExportReport"]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Files written, how bytes became chunks (None: they stayed bytes), and what the format could not say."""

    format: str
    files: tuple[Path, ...]
    chunk_bytes: int | None = None
    chunk_policy: str | None = None  # "exact", "fixed" or "padded"
    inflation: float = 0.0  # added bytes over true bytes, rounding to chunks and padding together
    notes: tuple[str, ...] = ()
