"""How long a step takes by its ports alone: every channel does its work in order of urgency, whatever the others do.

Tasks of one level share a channel evenly. A task ends when all its channels are done, and not before its own seconds
have passed. Nothing is simulated: a guess tells which levels of urgency are worth simulating first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import resolved_paths
from interlock.steps.lone import LonePlans

__all__ = ["Ledger"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """What each task asks of each channel that two or more of them use."""

    problem: Problem
    after: Ragged  # what each task waits for
    seconds: Floats  # [num_tasks], of each alone
    least_s: Floats  # [num_tasks], of each by its busiest channel: never more than it takes
    work_s: Floats  # [num_channels, num_tasks]

    @classmethod
    def of(cls, problem: Problem, lone: LonePlans, after: Ragged) -> Ledger:
        """Read off the rows of the lone plans."""
        assert problem.step is not None
        topology = problem.topology
        work_s = np.zeros((len(problem.step.tasks), topology.num_links))
        for number, task in enumerate(problem.step.tasks):
            if task.is_move:
                rows = lone.parts(number)[0].rows
                path = resolved_paths(rows, topology)
                bytes_ = np.repeat(rows.size_bytes, path.counts)
                work_s[number] = np.bincount(path.values, bytes_, topology.num_links) / topology.bandwidth_bytes_per_s
        busiest = work_s.max(axis=1, initial=0.0)
        matters = ((work_s > 0.02 * busiest[:, None]) & (work_s > 0)).sum(axis=0) > 1
        least_s = np.maximum(busiest, [task.seconds for task in problem.step.tasks])
        return cls(problem, after, lone.seconds, least_s, np.ascontiguousarray(work_s[:, matters].T))

    def makespan_s(self, levels: Sequence[Sequence[int]]) -> float:
        """When all tasks have ended, with the moves of earlier levels first at every channel."""
        step = self.problem.step
        assert step is not None
        level_of = np.full(len(step.tasks), -1, np.int32)
        for level, numbers in enumerate(levels):
            level_of[list(numbers)] = level
        ready_s = np.array([task.ready_s for task in step.tasks])
        return _core.step_makespan_s(
            self.work_s, self.seconds, ready_s, level_of, self.after.offsets, self.after.values
        )
