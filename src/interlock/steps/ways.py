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
from interlock.problem import Problem
from interlock.schedule import Schedule, resolved_paths
from interlock.simulate import simulate
from interlock.simulate.network import flow_arrays
from interlock.steps.ledger import Ledger
from interlock.steps.lone import LonePlans
from interlock.steps.rows import Part, StepSchedule, assemble_step, permuted, with_waits

__all__ = ["WAYS", "Way", "concurrent", "joint", "serial"]

TRIED = 1e-2  # tolerance with which orders are tried
DECIDED = 1e-3  # and with which the best of them are set against serial and concurrent
MOST_LEVELS = 64
MOST_GUESSED = 60  # by the ledger, near the best so far
MOST_TRIED = 24  # by simulation
MOST_ROWS_TRIED = 250_000  # rows of all that is tried: about a second
CLOSE = 1.003  # to the critical path by lone plans: nothing better is looked for
BETTER = 0.9999  # than what was best so far, to be worth going on from
CRITICAL = 0.05  # of its own seconds: a task with no more slack is on the critical path

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Way:
    """A schedule of a step, its seconds where they are known, and why it is as it is."""

    schedule: Schedule
    reason: str
    makespan_s: float | None = None


def serial(problem: Problem, lone: LonePlans) -> Way:
    """One stream of moves: first ready, first served; ties by the order they were given; computation overlaps."""
    order = stream_order(problem, lone.seconds)
    before = {later: [earlier] for earlier, later in pairwise(order)}
    made = assemble_step(problem, _whole(problem, lone), _with_alone(problem, lone.seconds, before))
    return Way(made.rows, f"serial: {' then '.join(_names(problem, order))}")


def concurrent(problem: Problem, lone: LonePlans) -> Way:
    """Every move as planned alone, from when it may start; messages share links."""
    made = assemble_step(problem, _whole(problem, lone), _with_alone(problem, lone.seconds, {}))
    return Way(made.rows, "concurrent: every move from when it may start")


def joint(problem: Problem, lone: LonePlans) -> Way:
    """The best of `serial`, `concurrent` and the likeliest orders of urgency, simulated."""
    assert problem.step is not None
    ways = [_timed(problem, way(problem, lone)) for way in (serial, concurrent)]
    if sum(task.is_move for task in problem.step.tasks) > 1:
        ways = [*(_timed(problem, way) for way in _tries(problem, lone)[:2]), *ways]
    best = min(ways, key=_seconds)
    times = ", ".join(f"{way.reason.split(':')[0]} {_seconds(way) * 1e6:.0f} us" for way in ways)
    return replace(best, reason=f"{best.reason}; simulated {times}")


WAYS: dict[str, Callable[[Problem, LonePlans], Way]] = {"serial": serial, "concurrent": concurrent, "joint": joint}


def stream_order(problem: Problem, seconds: Floats) -> list[int]:
    """Moves in the order in which one stream serves them, from how long each task takes alone."""
    assert problem.step is not None
    step, order = problem.step, list[int]()
    left = [len(row) for row in step.after]
    later: list[list[int]] = [[] for _ in step.tasks]
    for number, row in enumerate(step.after):
        for before in row.tolist():
            later[before].append(number)
    ready: list[tuple[float, int]] = []  # moves that may start, by when and number
    ends: list[tuple[float, int]] = []  # tasks under way
    free_s, is_busy = 0.0, False

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
        now_s, ended = heapq.heappop(ends)
        is_busy = is_busy and not step.tasks[ended].is_move
        for number in later[ended]:
            left[number] -= 1
            if left[number] == 0:
                release(number, now_s)
    return order


def tails_s(problem: Problem, seconds: Floats) -> Floats:
    """The longest chain of tasks after each, by their own seconds."""
    assert problem.step is not None
    tail_s = np.zeros(len(seconds))
    for number in reversed(problem.step.in_order):
        for before in problem.step.after[number].tolist():
            tail_s[before] = max(tail_s[before], tail_s[number] + seconds[number])
    return tail_s


def heads_s(problem: Problem, seconds: Floats) -> Floats:
    """When each task could start at the earliest, by the seconds of those before it."""
    assert problem.step is not None
    head_s = np.array([task.ready_s for task in problem.step.tasks])
    for number in problem.step.in_order:
        for before in problem.step.after[number].tolist():
            head_s[number] = max(head_s[number], head_s[before] + seconds[before])
    return head_s


Levels = tuple[tuple[int, ...], ...]  # tasks by urgency; those of one level share links


def _tries(problem: Problem, lone: LonePlans) -> list[Way]:
    """Levels of urgency, simulated: the likely ones, then those near the best, quickest by the ledger first."""
    rows = sum(part.rows.num_messages for part in _whole(problem, lone))
    most = max(4, min(MOST_TRIED, MOST_ROWS_TRIED // max(1, rows)))
    longest_s = float((heads_s(problem, lone.seconds) + lone.seconds + tails_s(problem, lone.seconds)).max())
    ledger = Ledger.of(problem, lone)
    seen: dict[tuple[Levels, int], Way] = {}

    def gains(levels: Levels, shares: int) -> bool:
        """Try them; whether they are the best so far."""
        if (levels, shares) in seen or len(seen) >= most or least_s() <= CLOSE * longest_s:
            return False
        before_s = least_s()
        seen[levels, shares] = urgent_first(problem, lone, levels, shares)
        return _seconds(seen[levels, shares]) < BETTER * before_s

    def least_s() -> float:
        return min((_seconds(way) for way in seen.values()), default=np.inf)

    for levels in _likely(problem, lone.seconds):
        gains(levels, 1)
    found = True
    while found:
        levels, shares = min(seen, key=lambda key: _seconds(seen[key]))
        near = sorted(set(islice(_neighbours(levels), MOST_GUESSED)), key=lambda each: (ledger.makespan_s(each), each))
        options = [*((levels, more) for more in (1, 2, 4)), *((each, shares) for each in near)]
        found = any(gains(*option) for option in options)
    return sorted(seen.values(), key=_seconds)


def _likely(problem: Problem, seconds: Floats) -> Iterator[Levels]:
    """By the longest chain behind each task; the critical ones against the rest; one against all."""
    assert problem.step is not None
    moves = [number for number, task in enumerate(problem.step.tasks) if task.is_move]
    tail_s, head_s = tails_s(problem, seconds), heads_s(problem, seconds)
    by_tail = sorted(moves, key=lambda number: (-tail_s[number], head_s[number], number))
    by_chain = sorted(moves, key=lambda number: (-tail_s[number] - seconds[number], number))
    yield tuple((number,) for number in by_tail)
    slack_s = (head_s + seconds + tail_s).max() - head_s - seconds - tail_s
    critical = tuple(number for number in by_tail if slack_s[number] <= CRITICAL * seconds[number])
    yield _levels([critical, tuple(number for number in by_tail if number not in critical)])
    yield tuple((number,) for number in by_chain)
    for place in range(1, len(moves)):
        yield (tuple(by_tail[:place]), tuple(by_tail[place:]))


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


def urgent_first(problem: Problem, lone: LonePlans, levels: Levels, shares: int = 1) -> Way:
    """On every link tasks of a level go before those of later ones; demands in shares, one behind the other."""
    parts: list[Part] = []
    first = 0
    for level in levels:
        for number in level:
            for share, part in enumerate(lone.parts(number, shares)):
                parts.append(replace(part, level=min(first + share, MOST_LEVELS - 1)))
        first = 1 + max((part.level for part in parts), default=0)
    made = assemble_step(problem, parts, _with_alone(problem, lone.seconds, {}))
    schedule, makespan_s = _admitted(problem, made)
    order = " before ".join(" with ".join(_names(problem, level)) for level in levels)
    cut = f", demands in {shares} shares" if shares > 1 else ""
    return Way(schedule, f"joint: {order} on every link{cut}", makespan_s)


def _admitted(problem: Problem, made: StepSchedule) -> tuple[Schedule, float]:
    """The schedule with what each message waits for when it stands back, in the order rows start."""
    path = resolved_paths(made.rows, problem.topology)
    arrays = flow_arrays(made.rows, path, problem.topology)
    start_s, _, waiting, waited_for, makespan_s = _core.admit_flows(*arrays.arguments, TRIED, made.level)
    rows = with_waits(made, waiting, waited_for)
    return permuted(rows, np.argsort(start_s, kind="stable")), makespan_s


def _whole(problem: Problem, lone: LonePlans) -> list[Part]:
    assert problem.step is not None
    return [lone.parts(number)[0] for number, task in enumerate(problem.step.tasks) if task.is_move]


def _with_alone(problem: Problem, seconds: Floats, before: dict[int, list[int]]) -> dict[int, list[int]]:
    """Also what computations wait for that are to be alone on a rank: those that could start earlier."""
    assert problem.step is not None
    numbers = [number for number, task in enumerate(problem.step.tasks) if task.alone]
    if len(numbers) < 2:
        return before
    head_s = heads_s(problem, seconds)
    rank = {number: place for place, number in enumerate(problem.step.in_order)}
    numbers.sort(key=lambda number: (head_s[number], rank[number]))
    for place, number in enumerate(numbers):
        mine = set(problem.step.tasks[number].ranks)
        earlier = [each for each in numbers[:place] if mine & set(problem.step.tasks[each].ranks)]
        before[number] = [*before.get(number, []), *earlier]
    return before


def _timed(problem: Problem, way: Way) -> Way:
    return replace(way, makespan_s=simulate(way.schedule, problem, tolerance=DECIDED).makespan_s)


def _seconds(way: Way) -> float:
    assert way.makespan_s is not None
    return way.makespan_s


def _names(problem: Problem, numbers: Sequence[int]) -> list[str]:
    assert problem.step is not None
    return [problem.step.tasks[number].name for number in numbers]
