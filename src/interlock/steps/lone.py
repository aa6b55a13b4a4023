"""Every move of a step planned as if it were alone, whole or in shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem, demand_problem, task_problem
from interlock.schedule import CompactSchedule, Schedule, resolved_paths
from interlock.simulate import simulate
from interlock.steps.rows import Part
from interlock.topology import Topology
from interlock.traffic import Demand

__all__ = ["LonePlans"]

ALONE = 1e-3  # tolerance with which a lone move is simulated

Planner = Callable[[Problem], CompactSchedule]


@dataclass(frozen=True, eq=False)
class LonePlans:
    """Rows and seconds of each move of a step by itself; made when asked for, and kept."""

    problem: Problem
    plan: Planner
    _parts: dict[tuple[int, int], list[Part]] = field(default_factory=dict)
    _predicted_s: dict[int, float | None] = field(default_factory=dict)

    def parts(self, task: int, shares: int = 1) -> list[Part]:
        """The rows of a move, cut into so many nearly equal shares where it is a demand."""
        assert self.problem.step is not None
        what = self.problem.step.tasks[task].what
        shares = shares if isinstance(what, Demand) else 1
        key = (task, shares)
        if key not in self._parts:
            self._parts[key] = self._whole(task) if shares == 1 else self._cut(task, shares)
        return self._parts[key]

    @cached_property
    def seconds(self) -> NDArray[np.float64]:
        """How long each task takes by itself, ``[num_tasks]``: as its plan predicts, or else simulated."""
        assert self.problem.step is not None
        return np.array(
            [
                self._alone_s(number) if task.is_move else task.seconds
                for number, task in enumerate(self.problem.step.tasks)
            ]
        )

    def _alone_s(self, task: int) -> float:
        rows = self.parts(task)[0].rows
        predicted_s = self._predicted_s[task]
        if predicted_s is None and rows.num_messages:
            return simulate(rows, self.problem.topology, tolerance=ALONE).makespan_s
        return predicted_s or 0.0

    def _whole(self, task: int) -> list[Part]:
        step, cluster = self.problem.step, self.problem.cluster
        assert step is not None and cluster is not None
        made = self.plan(task_problem(cluster, step.tasks[task]))
        rows, self._predicted_s[task] = made.expand(), made.predicted_s
        first, end = step.first_item[task : task + 2].tolist()
        return [Part(task, rows, np.arange(first, end, dtype=np.int32), np.zeros(end - first, np.int64))]

    def _cut(self, task: int, shares: int) -> list[Part]:
        """Shares of a demand: every pair's bytes cut alike."""
        step, cluster = self.problem.step, self.problem.cluster
        assert step is not None and cluster is not None
        demand = step.tasks[task].what
        assert isinstance(demand, Demand)
        whole = demand.bytes_matrix.copy()
        np.fill_diagonal(whole, 0)
        pairs = np.flatnonzero(whole.reshape(-1))
        number = np.zeros(whole.size, np.int32)
        number[pairs] = np.arange(len(pairs), dtype=np.int32) + int(step.first_item[task])
        parts = []
        for share in range(shares):
            before, upto = whole * share // shares, whole * (share + 1) // shares
            mine = upto - before
            mine.flags.writeable = False
            rows = self.plan(demand_problem(cluster, Demand(mine, demand.name))).expand()
            here = np.flatnonzero(mine.reshape(-1))
            parts.append(Part(task, rows, number[here], before.reshape(-1)[here], share))
        return _sharing_alike(parts, self.problem.topology)


def _sharing_alike(parts: list[Part], topology: Topology) -> list[Part]:
    """The parts; where one would have a link for itself that another shares, none has any for itself."""
    alone, shared = set[int](), set[int]()
    for part in parts:
        path = resolved_paths(part.rows, topology)
        is_alone = part.rows.exclusive[path.row_of_value]
        alone.update(path.values[is_alone].tolist())
        shared.update(path.values[~is_alone].tolist())
    if not alone & shared:
        return parts
    return [replace(part, rows=_sharing(part.rows)) for part in parts]


def _sharing(rows: Schedule) -> Schedule:
    """The rows, of which none has a link for itself."""
    return replace(rows, exclusive=np.zeros_like(rows.exclusive), order=np.where(rows.exclusive, 0, rows.order))
