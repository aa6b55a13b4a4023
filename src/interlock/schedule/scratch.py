"""Where bytes wait on their way: the one rule for scratch, for validator, exporters and runtime alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.problem import Problem, RankSets
from interlock.ragged import Ragged
from interlock.schedule.model import Schedule

__all__ = ["ScratchSpans", "scratch_spans"]


@dataclass(frozen=True, slots=True, eq=False)
class ScratchSpans:
    """Bytes ``[first_byte, end_byte)`` of `item` occupy `rank` from `first_stage` to `last_stage`, both included."""

    rank: NDArray[np.int32]
    item: NDArray[np.int32]
    first_byte: NDArray[np.int64]
    end_byte: NDArray[np.int64]
    first_stage: NDArray[np.int32]
    last_stage: NDArray[np.int32]
    high_water_bytes: NDArray[np.int64]  # [num_ranks], most in any one stage

    def __len__(self) -> int:
        return len(self.rank)


def scratch_spans(schedule: Schedule, problem: Problem) -> ScratchSpans:
    """List what waits where and for how long, item by item.

    Bytes brought to a rank that is neither contributor nor destination of their item wait in its scratch from the stage
    of the message that brings them to the stage of the last message that takes them away. Bytes that nobody takes away
    count in the stage that brings them.
    """
    items = problem.items
    contributors, destinations = rows_of(items.contributors), rows_of(items.destinations)
    return ScratchSpans(
        *_core.scratch_spans(
            schedule.src.offsets,
            schedule.src.values,
            schedule.dst.offsets,
            schedule.dst.values,
            schedule.stage,
            schedule.pieces.offsets,
            schedule.pieces.item,
            schedule.pieces.offset,
            schedule.pieces.length,
            items.size_bytes,
            contributors.offsets,
            contributors.values,
            destinations.offsets,
            destinations.values,
            problem.num_ranks,
        )
    )


def rows_of(sets: RankSets) -> Ragged:
    """One row per item, or one row for all of them, as the native core takes sets of ranks."""
    if sets.shared is not None:
        return Ragged.from_counts(np.array([len(sets.shared)]), sets.shared)
    return sets.to_ragged()
