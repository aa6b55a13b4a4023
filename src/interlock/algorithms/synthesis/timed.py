"""Transfers with their times: what every way of synthesis gives, and how it becomes a schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.ragged import Ragged
from interlock.schedule import Chunks, Kind, TransferSchedule

__all__ = ["Timed", "Work", "concatenated", "run", "to_schedule"]


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """Chunks over arcs; those of one message start together."""

    arc: NDArray[np.int32]  # [num_transfers]
    chunk: NDArray[np.int32]
    start_ticks: NDArray[np.int64]
    message: NDArray[np.int32]
    reduces: NDArray[np.bool_]
    makespan_ticks: int

    def rescaled(self, factor: float) -> Timed:
        """The same in ticks of another length."""
        if factor == 1.0:
            return self
        start = np.rint(self.start_ticks * factor).astype(np.int64)
        return replace(self, start_ticks=start, makespan_ticks=round(self.makespan_ticks * factor))

    def backwards(self, held_ticks: NDArray[np.int64]) -> Timed:
        """The same read from the end, summing where it copied; `held_ticks` from start to arrival of each transfer."""
        start = self.makespan_ticks - self.start_ticks - held_ticks
        return replace(self, start_ticks=start, message=_by_start(start, self.message), reduces=~self.reduces)


def _by_start(start_ticks: NDArray[np.int64], message: NDArray[np.int32]) -> NDArray[np.int32]:
    """Messages numbered anew, by start."""
    count = int(message.max(initial=-1)) + 1
    start = np.zeros(count, np.int64)
    start[message] = start_ticks
    number = np.empty(count, np.int32)
    number[np.argsort(start, kind="stable")] = np.arange(count, dtype=np.int32)
    return number[message]


def concatenated(first: Timed, then: Timed) -> Timed:
    """One after the other."""
    return Timed(
        np.concatenate([first.arc, then.arc]),
        np.concatenate([first.chunk, then.chunk]),
        np.concatenate([first.start_ticks, then.start_ticks + first.makespan_ticks]),
        np.concatenate([first.message, then.message + (int(first.message.max(initial=-1)) + 1)]),
        np.concatenate([first.reduces, then.reduces]),
        first.makespan_ticks + then.makespan_ticks,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Transfers that wait for each other: ``after`` lists, for each, those that need it to have arrived."""

    arc: NDArray[np.int32]  # [num_tasks]
    chunk: NDArray[np.int32]
    reduces: NDArray[np.bool_]
    after: Ragged
    lateness: NDArray[np.int64]  # how much later than the first its chunk is meant to be, in ticks
    ease: NDArray[np.float64] | float = 1.0  # which part of a full message may follow

    def __len__(self) -> int:
        return len(self.arc)


def run(
    work: Work,
    arcs: ArcSet,
    ticks: Ticks,
    length: NDArray[np.int64],
    *,
    max_merge: int = 1,
    patience_ticks: int = 0,
    full_ticks: NDArray[np.float64] | None = None,
    rounds: int = 0,
) -> Timed:
    """List-schedule the work: a free lane sends what has most waiting for it; then refine back and forth.

    Messages of several chunks take at most `full_ticks` on each arc.
    """
    lane_arc, lane = arcs.lane_arc, arcs.lane[work.arc]
    if max_merge > 1 and work.reduces.any():
        # A message sums or copies, not both: twin lanes for the two.
        lane = lane + np.int32(len(lane_arc)) * work.reduces
        lane_arc = np.concatenate([lane_arc, lane_arc])
    resources = arcs.resources.take(lane_arc)
    start, message, makespan = _core.list_schedule(
        arcs.num_resources,
        resources.offsets,
        resources.values,
        ticks.overhead[lane_arc],
        ticks.latency[lane_arc],
        lane.astype(np.int32),
        ticks.of_bytes(work.arc, length[work.chunk]),
        work.after.offsets,
        work.after.values,
        work.lateness,
        max_merge,
        patience_ticks,
        np.zeros(0, np.int64) if full_ticks is None else (full_ticks[work.arc] * work.ease).astype(np.int64),
        rounds,
    )
    return Timed(work.arc, work.chunk, np.asarray(start), np.asarray(message), work.reduces, makespan)


def _stages(start_ticks: NDArray[np.int64], shortest_ticks: int) -> NDArray[np.int64]:
    """Number starts (ascending) by stage: one begins with the first start that is not within the one before."""
    stage = np.zeros(len(start_ticks), np.int64)
    first, number = 0, 0
    while first < len(start_ticks):
        last = int(np.searchsorted(start_ticks, start_ticks[first] + max(1, shortest_ticks)))
        stage[first:last] = number
        first, number = last, number + 1
    return stage


def to_schedule(
    timed: Timed, arcs: ArcSet, chunks: Chunks, shortest_ticks: int, *, staged: bool = True
) -> TransferSchedule:
    """Rows ordered by message. Stages are as short as the shortest message, so that none waits within its own; all is
    one stage where to start one costs time (not `staged`)."""
    order = np.argsort(timed.message, kind="stable")
    message = timed.message[order]
    first = np.searchsorted(message, np.arange(int(message.max(initial=-1)) + 1))
    start = timed.start_ticks[order][first]
    stage = _stages(start, shortest_ticks) if staged else np.zeros(len(first))
    kind = np.where(timed.reduces[order][first], Kind.REDUCE, Kind.COPY)
    return TransferSchedule(
        chunks,
        arcs.routes,
        timed.arc[order],
        timed.chunk[order],
        message,
        kind.astype(np.uint8),
        stage.astype(np.int32),
    )
