"""How long a step takes by its ports alone: every channel does its work in order of urgency, whatever the others do.

A task ends when all its channels are done, and not before its own seconds have passed. Nothing is simulated: a guess
takes some ten microseconds per task, and tells which levels of urgency are worth simulating.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.schedule import resolved_paths
from interlock.steps.lone import LonePlans

__all__ = ["Ledger"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """What each task asks of each channel that two or more of them use."""

    problem: Problem
    seconds: Floats  # [num_tasks], of each alone
    work_s: Floats  # [num_tasks, num_channels]

    @classmethod
    def of(cls, problem: Problem, lone: LonePlans) -> Ledger:
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
        return cls(problem, lone.seconds, work_s[:, matters])

    def makespan_s(self, levels: Sequence[Sequence[int]]) -> float:
        """When all tasks have ended, with the moves of earlier levels first at every channel."""
        step = self.problem.step
        assert step is not None
        count = len(step.tasks)
        level_of = np.full(count, -1)
        for level, numbers in enumerate(levels):
            level_of[list(numbers)] = level
        left = [len(row) for row in step.after]
        ready_s = np.array([task.ready_s for task in step.tasks])
        later: list[list[int]] = [[] for _ in range(count)]
        for number, row in enumerate(step.after):
            for before in row.tolist():
                later[before].append(number)
        rest = self.work_s.copy()
        ends_s = np.full(count, np.inf)  # when a task under way has spent its own seconds
        starts = {number: float(ready_s[number]) for number in range(count) if left[number] == 0}
        under_way: list[int] = []
        now_s = 0.0
        while starts or under_way:
            for number in [each for each, at_s in starts.items() if at_s <= now_s]:
                ends_s[number] = now_s + self.seconds[number]
                under_way.append(number)
                del starts[number]
            order = sorted(under_way, key=lambda number: level_of[number])
            cumulated = np.cumsum(rest[order], axis=0) if order else rest[:0]
            finish_s = np.empty(len(order))
            place = 0
            while place < len(order):
                last = place
                while last + 1 < len(order) and level_of[order[last + 1]] == level_of[order[place]]:
                    last += 1
                for each in range(place, last + 1):
                    used = rest[order[each]] > 0
                    busy_s = float(cumulated[last][used].max()) if used.any() else 0.0
                    finish_s[each] = max(now_s + busy_s, ends_s[order[each]])
                place = last + 1
            next_s = min([*finish_s.tolist(), *(at_s for at_s in starts.values())])
            if order and next_s > now_s:
                before = cumulated - rest[order]
                rest[order] -= np.clip(next_s - now_s - before, 0.0, rest[order])
            now_s = max(now_s, next_s)
            for number in [order[place] for place in range(len(order)) if finish_s[place] <= now_s]:
                under_way.remove(number)
                rest[number] = 0.0
                for each in later[number]:
                    left[each] -= 1
                    if left[each] == 0:
                        starts[each] = max(now_s, float(ready_s[each]))
        return now_s
