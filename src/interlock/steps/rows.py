"""Puts the lone plans of a step's moves and its computations into one schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.ragged import Ragged, topological_order
from interlock.schedule import Batch, Kind, Phase, Pieces, Schedule, TaskRows, has_place, joined, make_pieces

__all__ = ["Part", "StepSchedule", "assemble_step", "permuted", "with_waits"]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Rows that move a task, or a share of it, with the items they speak of and where its bytes begin in each."""

    task: int
    rows: Schedule
    item: NDArray[np.int32]  # of the step, by item of the rows
    offset: NDArray[np.int64]  # bytes of the item before this part, by item of the rows
    share: int = 0  # which of the task's parts it is


@dataclass(frozen=True, slots=True, eq=False)
class StepSchedule:
    """A step's rows, and which share of its task each belongs to."""

    rows: Schedule
    share: NDArray[np.int32]


class _Writer:
    """Rows one after the other."""

    def __init__(self) -> None:
        self.blocks: list[Schedule] = []
        self.task: list[NDArray[np.int32]] = []
        self.seconds: list[NDArray[np.float64]] = []
        self.share: list[NDArray[np.int32]] = []
        self.deps: list[Ragged] = []
        self.num_rows = 0
        self.num_stages = 0
        self.next_order: dict[int, int] = {}

    def waits(self, ranks: Sequence[int], seconds: float, deps: Sequence[int], task: int = -1) -> list[int]:
        """Rows that take so long at each of the ranks, after the rows `deps`."""
        count = len(ranks)
        after = np.unique(np.array(list(deps), np.int32))
        rows = Ragged.from_counts(np.full(count, len(after)), np.tile(after, count))
        self._add(_waits(np.array(ranks, np.int32)), rows, task, seconds)
        return list(range(self.num_rows - count, self.num_rows))

    def part(self, part: Part, starts: Sequence[int]) -> NDArray[np.int64]:
        """The rows of a part, of which those that wait for nothing wait for `starts`; their places."""
        rows, first = _without_barriers(part.rows), self.num_rows
        deps = rows.deps
        counts = deps.counts
        begin = np.array(sorted(set(starts)), np.int32)
        values = deps.values + np.int32(first)
        if len(begin):
            is_first = counts == 0
            counts = np.where(is_first, len(begin), counts)
            made = np.zeros(int(counts.sum()), np.int32)
            from_start = np.repeat(is_first, counts)
            made[from_start] = np.tile(begin, int(is_first.sum()))
            made[~from_start] = values
            values = made
        self._add(rows, Ragged.from_counts(counts, values), part.task, 0.0, part)
        return np.arange(first, self.num_rows)

    def _add(self, rows: Schedule, deps: Ragged, task: int, seconds: float, part: Part | None = None) -> None:
        count = rows.num_messages
        if part is not None:
            pieces = rows.pieces
            moved = Pieces(
                pieces.offsets, part.item[pieces.item], pieces.offset + part.offset[pieces.item], pieces.length
            )
            # links and connections take one share after the other
            order = np.where(has_place(rows), rows.order + self.next_order.get(task, 0), 0)
            rows = replace(rows, pieces=moved, stage=rows.stage + np.int32(self.num_stages), order=order)
            self.num_stages = int(rows.stage.max(initial=-1)) + 1
            self.next_order[task] = int(order.max(initial=-1)) + 1
        self.blocks.append(rows)
        self.deps.append(deps)
        is_meeting = (rows.kind == Kind.WAIT) & (part is not None)
        self.task.append(np.where(is_meeting, -1, task).astype(np.int32))
        self.seconds.append(np.full(count, seconds))
        self.share.append(np.full(count, 0 if part is None else part.share, np.int32))
        self.num_rows += count

    def take(self) -> StepSchedule:
        """All rows as one schedule."""
        tasks = TaskRows(np.concatenate(self.task), np.concatenate(self.seconds))
        rows = replace(joined(self.blocks, Ragged.concatenate(self.deps)), tasks=tasks)
        return StepSchedule(rows, np.concatenate(self.share))


_COLUMNS = ("kind", "phase", "stage", "slice", "size_bytes", "exclusive", "order")


def assemble_step(
    problem: Problem, parts: Sequence[Part], before: Mapping[int, Sequence[int]] | None = None
) -> StepSchedule:
    """One schedule in which every task starts when it may, and after the tasks that `before` names besides."""
    assert problem.step is not None
    step, more = problem.step, before or {}
    after = [sorted({*row.tolist(), *more.get(number, ())}) for number, row in enumerate(step.after)]
    has_later = {each for row in after for each in row}
    writer, ends = _Writer(), dict[int, list[int]]()
    parts_of: dict[int, list[Part]] = {}
    for part in parts:
        parts_of.setdefault(part.task, []).append(part)
    for number in topological_order(Ragged.from_lists(after)):
        task = step.tasks[number]
        starts = [row for each in after[number] for row in ends[each]]
        if task.ready_s > 0:
            rank = task.ranks[0] if task.ranks else 0
            starts += writer.waits([rank], task.ready_s, [])
        if task.is_move:
            made = [writer.part(part, starts) for part in parts_of.get(number, []) if part.rows.num_messages]
            rows = np.concatenate(made) if made else np.zeros(0, np.int64)
        else:
            rows = np.array(writer.waits(task.ranks, task.seconds, starts, number))
        if number in has_later:
            last = _last(writer, rows, number) if len(rows) else starts
            ends[number] = last if len(last) <= 1 else writer.waits([0], 0.0, last)
    return writer.take()


def with_waits(schedule: Schedule, waiting: NDArray[np.int32], waited_for: NDArray[np.int32]) -> Schedule:
    """The schedule with further dependencies."""
    deps = schedule.deps
    rows = np.concatenate([deps.row_of_value, waiting]).astype(np.int64)
    values = np.concatenate([deps.values, waited_for]).astype(np.int64)
    return replace(schedule, deps=Ragged.from_pairs(rows, values, len(deps)))


def permuted(schedule: Schedule, order: NDArray[np.int64]) -> Schedule:
    """The same rows in another order."""
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    deps = schedule.deps.take(order)
    assert schedule.tasks is not None
    return replace(
        schedule,
        src=schedule.src.take(order),
        dst=schedule.dst.take(order),
        path=schedule.path.take(order),
        deps=Ragged.from_pairs(deps.row_of_value, place[deps.values].astype(np.int64), len(order)),
        pieces=schedule.pieces.take(order),
        tasks=TaskRows(schedule.tasks.task[order], schedule.tasks.seconds[order]),
        **{name: getattr(schedule, name)[order] for name in _COLUMNS},
    )


def _waits(ranks: NDArray[np.int32]) -> Schedule:
    """A row at each of some ranks that carries nothing."""
    pieces = make_pieces(np.zeros(len(ranks) + 1), [])
    return Batch(ranks, ranks, pieces, Phase.LOCAL, kind=Kind.WAIT).rows()


def _last(writer: _Writer, rows: NDArray[np.int64], task: int) -> list[int]:
    """Of the rows of a task, those that no other of them lists."""
    first = int(rows[0])
    is_last = np.ones(writer.num_rows - first, np.bool_)
    of_task = np.concatenate(writer.task)[rows] == task
    for deps, tasks in zip(writer.deps, writer.task, strict=True):
        if len(tasks) and tasks[0] == task:
            listed = deps.values[(tasks == task)[deps.row_of_value]]
            is_last[listed[listed >= first] - first] = False
    last: list[int] = rows[of_task & is_last[rows - first]].tolist()
    return last


def _without_barriers(rows: Schedule) -> Schedule:
    """The same rows with a wait in place of each barrier: it lists what stands before it, and is listed behind it."""
    if not len(rows.barriers):
        return rows
    count, barriers = rows.num_messages, rows.barriers
    behind = np.searchsorted(barriers, rows.stage, side="right")  # barriers that each row stands behind
    meeting = count + np.arange(len(barriers))
    later, before = np.flatnonzero(behind > 0), np.flatnonzero(behind < len(barriers))
    row = np.concatenate([rows.deps.row_of_value, later, meeting[behind[before]], meeting[1:]])
    value = np.concatenate([rows.deps.values.astype(np.int64), meeting[behind[later] - 1], before, meeting[:-1]])
    deps = Ragged.from_pairs(row, value, count + len(barriers))
    return joined([rows, _waits(np.zeros(len(barriers), np.int32))], deps)
