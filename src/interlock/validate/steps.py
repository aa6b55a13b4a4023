"""What is asked of a step's schedule beyond its collectives: rule 13 of `interlock.schedule.spec`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interlock._native import _core
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Kind, Schedule
from interlock.schedule.spec import check_form
from interlock.validate.report import Rule, Violation

__all__ = ["check_step"]

SLACK = 1e-12  # of the seconds that are compared: sums of floats differ in their last digits


def check_step(schedule: Schedule, problem: Problem) -> list[Violation]:
    """Violations of what a step asks for, at most some hundred; its collectives are checked apart."""
    check_form(schedule, problem)
    return [*_items_of_tasks(schedule, problem), *_computed(schedule, problem), *_ordered(schedule, problem)]


def _items_of_tasks(schedule: Schedule, problem: Problem) -> Iterator[Violation]:
    """Messages carry items of their own task, in stages of their own."""
    assert problem.step is not None and schedule.tasks is not None
    task, pieces = schedule.tasks.task, schedule.pieces
    is_message = schedule.kind != Kind.WAIT
    owner = np.searchsorted(problem.step.first_item, pieces.item, side="right") - 1
    wrong = np.flatnonzero(owner != task[pieces.message])
    for piece in wrong[:10].tolist():
        message = int(pieces.message[piece])
        text = (
            f"message {message} of task {_name(problem, int(task[message]))} carries item {pieces.item[piece]} of task"
        )
        yield _broken(
            Rule.ITEM_OF_TASK, message, f"{text} {_name(problem, int(owner[piece]))}", item=int(pieces.item[piece])
        )
    stage = schedule.stage[is_message].astype(np.int64)
    pairs = np.unique(stage * (len(problem.step.tasks) + 1) + task[is_message])
    shared = np.flatnonzero(np.diff(pairs // (len(problem.step.tasks) + 1)) == 0)
    if len(shared):
        number = int(pairs[shared[0]] // (len(problem.step.tasks) + 1))
        yield _broken(Rule.STAGE_OF_TASK, None, f"stage {number} belongs to two tasks; every task opens its own")


def _computed(schedule: Schedule, problem: Problem) -> Iterator[Violation]:
    """Every rank of a computation has a wait of it, and a move has none."""
    assert problem.step is not None and schedule.tasks is not None
    waits = np.flatnonzero((schedule.kind == Kind.WAIT) & (schedule.tasks.task >= 0))
    task, seconds = schedule.tasks.task[waits], schedule.tasks.seconds[waits]
    rank = schedule.src.values[schedule.src.offsets[waits]]
    for number, each in enumerate(problem.step.tasks):
        mine = task == number
        if each.is_move and mine.any():
            row = int(waits[mine][0])
            yield _broken(Rule.COMPUTED, row, f"row {row} computes for task {each.name!r}, which is a move")
        if each.is_move:
            continue
        counts = np.bincount(rank[mine], minlength=problem.num_ranks)
        asked = np.zeros(problem.num_ranks, np.int64)
        asked[list(each.ranks)] = 1
        for at in np.flatnonzero(counts != asked)[:5].tolist():
            text = f"task {each.name!r} computes {counts[at]} times at rank {at}; {asked[at]} are asked for"
            yield _broken(Rule.COMPUTED, None, text, rank=at)
        short = np.flatnonzero(mine & (np.abs(seconds - each.seconds) > SLACK * each.seconds))
        for row in waits[short][:5].tolist():
            took = float(schedule.tasks.seconds[row])
            text = f"row {row} computes {took:g} s for task {each.name!r}, which takes {each.seconds:g} s"
            yield _broken(Rule.COMPUTED, row, text)


def _ordered(schedule: Schedule, problem: Problem) -> Iterator[Violation]:
    """Nothing starts before what it is after, nor before its earliest start."""
    step, tasks = problem.step, schedule.tasks
    assert step is not None and tasks is not None
    after, ready_s = _without_empty(schedule, problem)
    rows, before, earliest_s, is_cyclic = _order(schedule, after)
    if is_cyclic:
        yield _broken(Rule.ACYCLIC, None, "dependencies form a cycle")
        return
    for row, task in zip(rows.tolist()[:20], before.tolist()[:20], strict=True):
        mine = _name(problem, int(tasks.task[row]))
        yield _broken(
            Rule.AFTER, row, f"row {row} of task {mine} may start before task {_name(problem, task)} has ended"
        )
    owned = np.flatnonzero(tasks.task >= 0)
    early = owned[earliest_s[owned] < ready_s[tasks.task[owned]] * (1 - SLACK)]
    for row in early[:20].tolist():
        number = int(tasks.task[row])
        text = f"row {row} of task {_name(problem, number)} may start at {earliest_s[row]:g} s"
        yield _broken(Rule.NOT_BEFORE_READY, row, f"{text}, before {ready_s[number]:g} s")
    yield from _alone(schedule, problem)


def _without_empty(schedule: Schedule, problem: Problem) -> tuple[Ragged, np.ndarray]:
    """What each task is after and its earliest start, with tasks that have nothing to do passed over."""
    step, tasks = problem.step, schedule.tasks
    assert step is not None and tasks is not None
    count = len(step.tasks)
    has_rows = np.bincount(tasks.task[tasks.task >= 0], minlength=count) > 0
    ready_s = np.array([task.ready_s for task in step.tasks])
    if has_rows.all():
        return step.after, ready_s
    after = [set(row.tolist()) for row in step.after]
    for number in step.in_order:
        for before in [each for each in after[number] if not has_rows[each]]:
            after[number] |= after[before]
            after[number].discard(before)
            ready_s[number] = max(ready_s[number], ready_s[before])
    return Ragged.from_lists([sorted(each) for each in after]), ready_s


def _alone(schedule: Schedule, problem: Problem) -> Iterator[Violation]:
    """Of two computations that are to be alone and share a rank, one comes after the other."""
    assert problem.step is not None
    numbers = [number for number, task in enumerate(problem.step.tasks) if task.alone]
    pairs = [
        (a, b)
        for place, a in enumerate(numbers)
        for b in numbers[place + 1 :]
        if set(problem.step.tasks[a].ranks) & set(problem.step.tasks[b].ranks)
    ]
    if not pairs:
        return
    count = len(problem.step.tasks)
    comes_after = np.zeros((count, count), np.bool_)
    everyone = Ragged.from_lists([[b for b in numbers if b != a] if a in numbers else [] for a in range(count)])
    rows, before, _, _ = _order(schedule, everyone)
    comes_after[np.ix_(numbers, numbers)] = True
    assert schedule.tasks is not None
    comes_after[schedule.tasks.task[rows], before] = False
    for a, b in pairs:
        if not comes_after[a, b] and not comes_after[b, a]:
            text = f"tasks {_name(problem, a)} and {_name(problem, b)} compute at a rank of both, in no certain order"
            yield _broken(Rule.COMPUTES_ALONE, None, text)


def _order(schedule: Schedule, after: Ragged) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    assert schedule.tasks is not None
    return _core.check_step_order(
        schedule.deps.offsets,
        schedule.deps.values,
        schedule.tasks.task,
        schedule.tasks.seconds,
        after.offsets,
        after.values,
    )


def _name(problem: Problem, task: int) -> str:
    assert problem.step is not None
    return repr(problem.step.tasks[task].name) if task >= 0 else "none"


def _broken(rule: Rule, message: int | None, text: str, rank: int | None = None, item: int | None = None) -> Violation:
    return Violation(rule, message, rank, item, None, None, text)
