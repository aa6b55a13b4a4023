"""How a step is planned: one stream, everything at once, or what it waits for first.

All three put the same lone plans into one schedule. `serial` lets moves follow each other, first ready first served.
`concurrent` starts each when it may, and messages share links. `joint` gives each task a level by its slack on the
critical path: on every link messages stand back for more urgent ones that are under way there, and fill the gaps these
leave; moves that others overtake are cut into shares. No order is best for every step, so the likeliest few are tried,
`serial` and `concurrent` among them, and simulated.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.cost.steps import heads_s, tails_s
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Schedule, resolved_paths
from interlock.simulate import simulate
from interlock.simulate.network import FlowArrays, flow_arrays
from interlock.steps.ledger import Ledger
from interlock.steps.lone import LonePlans
from interlock.steps.rows import Part, StepSchedule, assemble_step, permuted, with_waits

__all__ = ["WAYS", "StepPlan", "concurrent", "joint", "serial"]

DECIDED = 1e-3  # tolerance with which all that is compared is simulated
MOST_LEVELS = 64
MOST_GUESSED = 60  # by the ledger, near the best so far
LEAST_TRIED, MOST_TRIED = 6, 24  # by simulation
MOST_EVENTS = 400_000  # of the simulations of all that is tried, beyond the least
CLOSE = 1.003  # to the critical path by lone plans: nothing better is looked for
BETTER = 0.9999  # than what was best so far, to be worth going on from
CRITICAL = 0.05  # of its own seconds: a task with no more slack is on the critical path

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A schedule of a step, and why it is as it is."""

    schedule: Schedule
    reason: str


def serial(problem: Problem, lone: LonePlans) -> StepPlan:
    """One stream of moves: first ready, first served; ties by the order they were given; computation overlaps."""
    order, _ = stream(problem, lone.seconds)
    made = assemble_step(problem, _whole(problem, lone), _with_alone(problem, lone.seconds, _one_by_one(order)))
    return StepPlan(made.rows, f"serial: {' then '.join(_names(problem, order))}")


def concurrent(problem: Problem, lone: LonePlans) -> StepPlan:
    """Every move as planned alone, from when it may start; messages share links."""
    made = assemble_step(problem, _whole(problem, lone), _with_alone(problem, lone.seconds, {}))
    return StepPlan(made.rows, "concurrent: every move from when it may start")


def joint(problem: Problem, lone: LonePlans) -> StepPlan:
    """The best of `serial`, `concurrent` and the likeliest orders of urgency, simulated."""
    assert problem.step is not None
    if sum(task.is_move for task in problem.step.tasks) < 2:
        return concurrent(problem, lone)
    order, stream_s = stream(problem, lone.seconds)
    search = _Search(problem, lone, stream_s)
    best_s = search.run()
    told = f"; simulated {len(search.seen)} orders, concurrent {search.concurrent_s * 1e6:.0f} us"
    least_s, after = search.ledger.least_s, _after(problem, _with_alone(problem, lone.seconds, _one_by_one(order)))
    if float((heads_s(problem, after, least_s) + least_s).max()) < best_s:  # it could be quicker
        one = serial(problem, lone)
        one_s = simulate(one.schedule, problem, tolerance=DECIDED).makespan_s
        if one_s < best_s:
            return replace(one, reason=f"{one.reason}{told}, serial {one_s * 1e6:.0f} us")
    best = search.best()
    return replace(best, reason=f"{best.reason}{told}, serial {stream_s * 1e6:.0f} us by its moves alone")


WAYS: dict[str, Callable[[Problem, LonePlans], StepPlan]] = {
    "serial": serial,
    "concurrent": concurrent,
    "joint": joint,
}


def stream(problem: Problem, seconds: Floats) -> tuple[list[int], float]:
    """The order in which one stream serves moves, from how long each task takes alone, and when all have ended."""
    assert problem.step is not None
    step, order = problem.step, list[int]()
    left = [len(row) for row in step.after]
    later: list[list[int]] = [[] for _ in step.tasks]
    for number, row in enumerate(step.after):
        for before in row.tolist():
            later[before].append(number)
    ready: list[tuple[float, int]] = []  # moves that may start, by when and number
    ends: list[tuple[float, int]] = []  # tasks under way
    free_s, end_s, is_busy = 0.0, 0.0, False

    def release(number: int, now_s: float) -> None:
        at_s = max(now_s, step.tasks[number].ready_s)
        if step.tasks[number].is_move:
            heapq.heappush(ready, (at_s, number))
        else:
            heapq.heappush(ends, (at_s + float(seconds[number]), number))

    for number, count in enumerate(left):
        if count == 0:
            release(number, 0.0)
    while ready or ends:
        start_s = max(free_s, ready[0][0]) if ready else np.inf
        if not is_busy and ready and (not ends or start_s < ends[0][0]):
            _, number = heapq.heappop(ready)
            order.append(number)
            free_s, is_busy = start_s + float(seconds[number]), True
            heapq.heappush(ends, (free_s, number))
            continue
        end_s, ended = heapq.heappop(ends)
        is_busy = is_busy and not step.tasks[ended].is_move
        for number in later[ended]:
            left[number] -= 1
            if left[number] == 0:
                release(number, end_s)
    return order, end_s


def _after(problem: Problem, more: dict[int, list[int]]) -> Ragged:
    """What each task is after, and what `more` names besides."""
    assert problem.step is not None
    return Ragged.from_lists(sorted({*row.tolist(), *more.get(n, ())}) for n, row in enumerate(problem.step.after))


Levels = tuple[tuple[int, ...], ...]  # tasks by urgency, ascending within a level; those of one share links


@dataclass(frozen=True, slots=True)
class _Option:
    """Levels, into how many shares demands are cut, and whether links go to the first in their order that is ready
    rather than to the first in their order."""

    levels: Levels
    shares: int = 1
    takes_turns: bool = False


class _Search:
    """Levels of urgency, simulated: the likely ones, then those near the best, quickest by the ledger first."""

    def __init__(self, problem: Problem, lone: LonePlans, stream_s: float) -> None:
        assert problem.step is not None
        self.problem, self.lone = problem, lone
        self.seen: set[_Option] = set()
        self.num_events = 0
        self.after = _after(problem, _with_alone(problem, lone.seconds, {}))
        self.ledger = Ledger.of(problem, lone, self.after)
        self.tail_s = tails_s(self.after, self.ledger.least_s)
        self.longest_s = float((heads_s(problem, self.after, lone.seconds) + lone.seconds).max())
        self.stream_s = stream_s
        self._made: dict[int, tuple[StepSchedule, FlowArrays]] = {}
        self._found_rows: tuple[Schedule, Floats] | None = None
        self.moves = tuple(number for number, task in enumerate(problem.step.tasks) if task.is_move)
        self.found = _Option((self.moves,))  # all at once
        self.concurrent_s = self.found_s = self._plain_s()

    def run(self) -> float:
        """Search until nothing near is better, all is well or enough was tried; seconds of the best."""

        def priced(options: Iterable[Levels]) -> list[tuple[float, Levels]]:
            return sorted((self.ledger.makespan_s(levels), levels) for levels in set(options))

        for guessed_s, levels in priced(_likely(self.problem, self.after, self.lone.seconds)):
            for takes_turns in (False, True):
                self._gains(guessed_s, _Option(levels, 1, takes_turns))
        found = True
        while found:
            best = self.found
            near = priced(islice(_neighbours(best.levels), MOST_GUESSED))
            options = [(guessed_s, replace(best, levels=levels)) for guessed_s, levels in near]
            other = [replace(best, takes_turns=not best.takes_turns), *(replace(best, shares=n) for n in (1, 2, 4))]
            options += [(guessed_s, option) for guessed_s, _ in priced([best.levels]) for option in other]
            found = any(self._gains(*option) for option in options)
        return self.found_s

    def best(self) -> StepPlan:
        """The best found: where messages stood back, they list what they waited for; rows in the order they start."""
        best = self.found
        if self._found_rows is None:
            return StepPlan(self._assembled(1)[0].rows, "concurrent: every move from when it may start")
        rows, start_s = self._found_rows
        order = " before ".join(" with ".join(_names(self.problem, level)) for level in best.levels)
        cut = f", demands in {best.shares} shares" if best.shares > 1 else ""
        turns = ", links in turn to whoever is ready" if best.takes_turns else ""
        return StepPlan(permuted(rows, np.argsort(start_s, kind="stable")), f"joint: {order} on every link{cut}{turns}")

    def _gains(self, guessed_s: float, option: _Option) -> bool:
        """Try them; whether they are the best so far. What the ledger takes for slower is not tried, and what turns out
        to be is broken off."""
        least_s = min(self.found_s, self.stream_s)
        is_enough = len(self.seen) >= (LEAST_TRIED if self.num_events >= MOST_EVENTS else MOST_TRIED)
        is_known = option in self.seen or option == _Option((self.moves,))
        if is_known or is_enough or least_s <= CLOSE * self.longest_s or guessed_s > self.found_s:
            return False
        made, arrays = self._assembled(option.shares)
        if option.takes_turns and not made.rows.exclusive.any():
            return False
        self.seen.add(option)
        assert made.rows.tasks is not None
        task = made.rows.tasks.task
        level = np.minimum(self._first_levels(option)[task] + made.share, MOST_LEVELS - 1).astype(np.int32)
        tail_s = np.append(self.tail_s, 0.0)[task]
        start_s, waiting, waited_for, turn, makespan_s, num_events = _core.admit_flows(
            *arrays.arguments, DECIDED, level, tail_s, option.takes_turns, BETTER * self.found_s
        )
        self.num_events += num_events
        if makespan_s >= BETTER * self.found_s:
            return False
        rows = made.rows
        order = np.where(rows.exclusive, turn, rows.order) if option.takes_turns else rows.order
        self.found, self.found_s = option, makespan_s
        self._found_rows = with_waits(replace(rows, order=order), waiting, waited_for), start_s
        return True

    def _first_levels(self, option: _Option) -> NDArray[np.int32]:
        """The level of each task's first share: shares of a task follow each other, and levels too."""
        first = np.zeros(len(self.tail_s), np.int32)
        here = 0
        for level in option.levels:
            first[list(level)] = here
            here += max(len(self.lone.parts(number, option.shares)) for number in level)
        return first

    def _assembled(self, shares: int) -> tuple[StepSchedule, FlowArrays]:
        """All tasks from when they may start, demands in so many shares."""
        if shares not in self._made:
            parts = [part for number in self.moves for part in self.lone.parts(number, shares)]
            made = assemble_step(self.problem, parts, _with_alone(self.problem, self.lone.seconds, {}))
            path = resolved_paths(made.rows, self.problem.topology)
            self._made[shares] = made, flow_arrays(made.rows, path, self.problem.topology)
        return self._made[shares]

    def _plain_s(self) -> float:
        """All at once, without levels."""
        *_, (makespan_s, _, _) = _core.simulate_flows(*self._assembled(1)[1].arguments, DECIDED)
        return makespan_s


def _likely(problem: Problem, after: Ragged, seconds: Floats) -> Iterator[Levels]:
    """By the longest chain behind each task; the critical ones against the rest; one against all."""
    assert problem.step is not None
    moves = [number for number, task in enumerate(problem.step.tasks) if task.is_move]
    tail_s, head_s = tails_s(after, seconds), heads_s(problem, after, seconds)
    by_tail = sorted(moves, key=lambda number: (-tail_s[number], head_s[number], number))
    by_chain = sorted(moves, key=lambda number: (-tail_s[number] - seconds[number], number))
    yield tuple((number,) for number in by_tail)
    slack_s = (head_s + seconds + tail_s).max() - head_s - seconds - tail_s
    critical = tuple(number for number in by_tail if slack_s[number] <= CRITICAL * seconds[number])
    yield _levels([critical, tuple(number for number in by_tail if number not in critical)])
    yield tuple((number,) for number in by_chain)
    for place in range(1, len(moves)):
        yield _levels([tuple(by_tail[:place]), tuple(by_tail[place:])])


def _neighbours(levels: Levels) -> Iterator[Levels]:
    """One task moved to the level before or behind, or to one of its own between two, near places first."""
    for far in range(1, 2 * len(levels)):
        for place, level in enumerate(levels):
            for number in level:
                rest = [tuple(each for each in other if each != number) for other in levels]
                for way in (-far, far):
                    target, between = divmod(2 * place + way, 2)
                    if not 0 <= target < len(levels):
                        continue
                    made = list(rest)
                    if between:
                        made.insert(target + 1, (number,))
                    else:
                        made[target] = (*made[target], number)
                    yield _levels(made)


def _levels(groups: Iterable[tuple[int, ...]]) -> Levels:
    return tuple(tuple(sorted(group)) for group in groups if group)


def _whole(problem: Problem, lone: LonePlans) -> list[Part]:
    assert problem.step is not None
    return [lone.parts(number)[0] for number, task in enumerate(problem.step.tasks) if task.is_move]


def _with_alone(problem: Problem, seconds: Floats, before: dict[int, list[int]]) -> dict[int, list[int]]:
    """Also what computations wait for that are to be alone on a rank: those that could start earlier."""
    assert problem.step is not None
    numbers = [number for number, task in enumerate(problem.step.tasks) if task.alone]
    if len(numbers) < 2:
        return before
    head_s = heads_s(problem, problem.step.after, seconds)
    rank = {number: place for place, number in enumerate(problem.step.in_order)}
    numbers.sort(key=lambda number: (head_s[number], rank[number]))
    for place, number in enumerate(numbers):
        mine = set(problem.step.tasks[number].ranks)
        earlier = [each for each in numbers[:place] if mine & set(problem.step.tasks[each].ranks)]
        before[number] = [*before.get(number, []), *earlier]
    return before


def _one_by_one(order: Sequence[int]) -> dict[int, list[int]]:
    return {later: [earlier] for earlier, later in pairwise(order)}


def _names(problem: Problem, numbers: Sequence[int]) -> list[str]:
    assert problem.step is not None
    return [problem.step.tasks[number].name for number in numbers]
