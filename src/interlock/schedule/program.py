"""What one rank runs of a schedule: what to copy, send, receive and add, and what waits for what, in columns.

Three buffers: the caller's input and output, and scratch that whoever runs the program owns. Bytes are sent and
received in place where they lie in one run; otherwise they are packed into or landed in scratch. What every column
means is said in `docs/reference/program.md`; the native core (`cpp/src/schedule/rank_program.cpp`) makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.problem import Problem
from interlock.schedule.layout import Layout, Region
from interlock.schedule.link_orders import is_in_order, levels
from interlock.schedule.model import Schedule

__all__ = ["Buffer", "Program", "lower"]

Column = NDArray[Any]
_CLAIMS = ("receive_adds", "receive_queued")


class Buffer(IntEnum):
    """Where bytes lie."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One rank's steps: sends are steps 0 to S - 1, receives S to S + R - 1, then one step per barrier."""

    rank: int
    columns: Mapping[str, Column]  # read-only; `cpp/bindings/program_columns.hpp` names them
    input_bytes: int
    output_bytes: int
    scratch_bytes: int

    @classmethod
    def of(cls, rank: int, native: tuple[dict[str, Any], tuple[int, int, int]]) -> Program:
        """From what the native core made."""
        columns, buffers_bytes = native
        for name in _CLAIMS:
            columns[name] = columns[name].view(np.bool_)
        return cls(rank, columns, *buffers_bytes)

    @property
    def num_sends(self) -> int:
        """Messages it sends, one per peer."""
        return len(self.columns["send_peer"])

    @property
    def num_receives(self) -> int:
        """Messages it receives, one per peer."""
        return len(self.columns["receive_peer"])


_NOTHING = np.zeros(0, np.int64)


def lower(
    schedule: Schedule,
    problem: Problem,
    layout: Layout,
    *,
    rounds: bool = False,
    known_levels: NDArray[np.int64] | None = None,
) -> Program:
    """The program of the rank that `layout` belongs to.

    Rows between other ranks may be missing, unless `rounds` asks for columns that need them. `known_levels` are those
    of the schedule, where somebody has them.
    """
    if known_levels is not None:
        number = known_levels
    else:
        number = _NOTHING if is_in_order(schedule) and not rounds else levels(schedule, problem.topology)
    pieces = schedule.pieces
    native = _core.lower_schedule(
        layout.rank,
        schedule.src.offsets,
        schedule.src.values,
        schedule.dst.offsets,
        schedule.dst.values,
        schedule.kind,
        schedule.phase,
        schedule.stage,
        schedule.size_bytes,
        schedule.exclusive.view(np.uint8),
        schedule.order,
        number,
        schedule.deps.offsets,
        schedule.deps.values,
        pieces.offsets,
        pieces.item,
        pieces.offset,
        pieces.length,
        schedule.barriers,
        problem.items.size_bytes if problem.items.are_reduced else _NOTHING,
        _placed(layout.input),
        _placed(layout.output),
        np.array(layout.own, np.int64),
    )
    return Program.of(layout.rank, native)


def _placed(region: Region) -> NDArray[np.int64]:
    """(item, start, length) of everything in a buffer."""
    return np.stack([region.item, region.start, region.length], axis=1).astype(np.int64)
