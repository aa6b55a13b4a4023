"""Schedules as plain lists, easy to build by hand and easy to break."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from interlock.problem import Items, Problem, RankSets
from interlock.problem.step import StepTasks
from interlock.ragged import Ragged
from interlock.schedule import Kind, Pieces, Schedule, TaskRows
from interlock.topology import Topology
from interlock.validate import Report, check

COPY, REDUCE, WAIT = int(Kind.COPY), int(Kind.REDUCE), int(Kind.WAIT)


@dataclass
class Row:
    """One message. `order` None means not exclusive; `padding` is its size beyond the pieces."""

    src: list[int]
    dst: list[int]
    pieces: list[tuple[int, int, int]]  # item, offset, length
    deps: list[int] = field(default_factory=list)
    kind: int = COPY
    stage: int = 0
    path: list[int] = field(default_factory=list)
    order: int | None = None
    padding: int = 0
    task: int = -1  # of a step
    seconds: float = 0.0  # of a wait


@dataclass
class Case:
    """A problem and a schedule for it."""

    name: str
    topology: Topology
    sizes: list[int]
    contributors: list[list[int]]
    destinations: list[list[int]]
    rows: list[Row] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    step: StepTasks | None = None

    @classmethod
    def of(cls, schedule: Schedule, problem: Problem, name: str = "") -> Case:
        """A schedule's rows as lists, of any algorithm."""
        items = problem.items
        case = cls(
            name,
            problem.topology,
            items.size_bytes.tolist(),
            [items.contributors[item].tolist() for item in range(len(items))],
            [items.destinations[item].tolist() for item in range(len(items))],
            barriers=schedule.barriers.tolist(),
            step=problem.step,
        )
        tasks = schedule.tasks
        pieces = schedule.pieces
        for row in range(schedule.num_messages):
            own = slice(pieces.offsets[row], pieces.offsets[row + 1])
            carried = list(
                zip(pieces.item[own].tolist(), pieces.offset[own].tolist(), pieces.length[own].tolist(), strict=True)
            )
            case.send(
                schedule.src[row].tolist(),
                schedule.dst[row].tolist(),
                *carried,
                deps=schedule.deps[row].tolist(),
                kind=int(schedule.kind[row]),
                stage=int(schedule.stage[row]),
                path=schedule.path[row].tolist(),
                order=int(schedule.order[row]) if schedule.exclusive[row] else None,
                padding=int(schedule.size_bytes[row]) - sum(length for _, _, length in carried),
                task=-1 if tasks is None else int(tasks.task[row]),
                seconds=0.0 if tasks is None else float(tasks.seconds[row]),
            )
        return case

    def send(self, src: int | list[int], dst: int | list[int], *pieces: tuple[int, int, int], **rest: object) -> int:
        """Add a message; give its number."""
        ends = [[end] if isinstance(end, int) else list(end) for end in (src, dst)]
        self.rows.append(Row(ends[0], ends[1], list(pieces), **rest))  # type: ignore[arg-type]
        return len(self.rows) - 1

    def whole(self, item: int) -> tuple[int, int, int]:
        """The piece that is all of an item."""
        return (item, 0, self.sizes[item])

    def clone(self) -> Case:
        """A copy to break; the topology is shared."""
        other = copy.copy(self)
        other.rows = [Row(list(r.src), list(r.dst), list(r.pieces), list(r.deps), r.kind, r.stage, list(r.path),
                          r.order, r.padding, r.task, r.seconds) for r in self.rows]  # fmt: skip
        other.barriers = list(self.barriers)
        return other

    @property
    def problem(self) -> Problem:
        contributors = RankSets.of(_ragged(self.contributors))
        destinations = RankSets.of(_ragged(self.destinations))
        return Problem(self.topology, Items(np.array(self.sizes, np.int64), contributors, destinations), step=self.step)

    @property
    def schedule(self) -> Schedule:
        rows = self.rows
        flat = [piece for row in rows for piece in row.pieces]
        item, offset, length = zip(*flat, strict=True) if flat else ((), (), ())
        sums = [sum(piece[2] for piece in row.pieces) + row.padding for row in rows]
        return Schedule(
            src=_ragged([row.src for row in rows]),
            dst=_ragged([row.dst for row in rows]),
            kind=np.array([row.kind for row in rows], np.uint8),
            phase=np.zeros(len(rows), np.uint8),
            stage=np.array([row.stage for row in rows], np.int32),
            slice=np.zeros(len(rows), np.int32),
            size_bytes=np.array(sums, np.int64),
            path=_ragged([row.path for row in rows]),
            exclusive=np.array([row.order is not None for row in rows], np.bool_),
            order=np.array([row.order or 0 for row in rows], np.int64),
            deps=_ragged([row.deps for row in rows]),
            pieces=Pieces(
                np.cumsum([0, *(len(row.pieces) for row in rows)]).astype(np.int64),
                np.array(item, np.int32),
                np.array(offset, np.int64),
                np.array(length, np.int64),
            ),
            barriers=np.array(self.barriers, np.int32),
            tasks=self.tasks,
        )

    @property
    def tasks(self) -> TaskRows | None:
        if self.step is None:
            return None
        task, seconds = [row.task for row in self.rows], [row.seconds for row in self.rows]
        return TaskRows(np.array(task, np.int32), np.array(seconds, np.float64))

    def check(self) -> Report:
        """What the validator says."""
        return check(self.schedule, self.problem)

    def rules(self) -> set[str]:
        """Names of the rules the validator finds broken."""
        return {str(violation.rule) for violation in self.check().violations}


def _ragged(rows: list[list[int]]) -> Ragged:
    """What Ragged.from_lists does, faster on a handful of rows."""
    offsets = np.array([0, *accumulate(map(len, rows))], np.int64)
    return Ragged(offsets, np.array([value for row in rows for value in row], np.int32))
