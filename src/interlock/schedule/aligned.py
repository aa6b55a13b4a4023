"""Cuts on rows or on 16 bytes, which is what a GPU copies fastest.

Algorithms decide in bytes. Afterwards every place at which an item is cut moves to the nearest multiple of `align`, in
all messages alike; where a part would become empty, to a multiple of 16, or it stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.errors import InvalidInput
from interlock.schedule.model import CompactSchedule, Schedule, Wrapped

__all__ = ["VECTOR_BYTES", "Aligned", "align_rows", "check_align"]

VECTOR_BYTES = 16  # the most that one load or store of a GPU's thread moves
MOST_BYTES = 1 << 31


def check_align(align: int) -> int:
    """Raise unless it is a number of bytes that plans can be cut on."""
    if isinstance(align, bool) or not isinstance(align, int) or not 1 <= align <= MOST_BYTES:
        raise InvalidInput(f"align={str(align)[:64]} must be a whole number of bytes from 1 to 2^31")
    return align


def align_rows(rows: Schedule, align: int) -> Schedule:
    """The same messages with their cuts moved. It takes all of them: another set of cuts moves otherwise."""
    if align == 1:
        return rows
    pieces = rows.pieces
    size_bytes, offset, length = _core.align_cuts(
        pieces.offsets, rows.size_bytes, pieces.item, pieces.offset, pieces.length, align
    )
    return replace(rows, size_bytes=size_bytes, pieces=replace(pieces, offset=offset, length=length))


@dataclass(frozen=True, eq=False)
class Aligned(Wrapped):
    """Any schedule, with cuts that are moved when its rows are written out."""

    compact: CompactSchedule
    align: int

    @cached_property
    def schedule(self) -> Schedule:
        """All rows."""
        return align_rows(self.compact.expand(), self.align)

    def expand(self) -> Schedule:
        return self.schedule

    def decided(self) -> tuple[NDArray[np.generic], ...]:
        """What the algorithm decided, and where it is cut."""
        return (*self.compact.decided(), np.array([self.align]))
