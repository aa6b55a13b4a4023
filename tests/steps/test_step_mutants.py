"""Schedules of steps broken on purpose; 5,000 of them by `python tests/steps/mutants.py 5000`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.ragged import Ragged
from interlock.schedule import Schedule, TaskRows
from interlock.validate import check
from interlock.validate.report import Rule
from steps.mutants import caught, harmful, small_steps, starts_early


def test_harmful_mutants_of_steps_are_all_caught() -> None:
    cases = small_steps()
    for schedule, problem in cases:
        assert check(schedule, problem).valid and not starts_early(schedule, problem)
    for what, mutant, problem in harmful(cases, 250, seed=1):
        assert caught(mutant, problem), what


def _named(schedule: Schedule, problem: il.Problem) -> set[Rule]:
    return {violation.rule for violation in check(schedule, problem).violations}


def test_broken_steps_are_named() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    step = il.step(cluster)
    first = step.move("first", il.all_gather("1 MiB"), ready="10 us")
    work = step.compute("work", "20 us", after=first, alone=True)
    step.move("second", il.all_gather("1 MiB"), after=work)
    step.compute("more", "20 us", ranks=[0], alone=True)
    plan = il.plan(step, algorithm="concurrent")
    rows, problem = plan.schedule, plan.problem
    tasks = rows.tasks
    assert check(rows, problem).valid

    free = [[] if tasks.task[row] == 2 else deps.tolist() for row, deps in enumerate(rows.deps)]
    assert _named(replace(rows, deps=Ragged.from_lists(free)), problem) >= {Rule.AFTER}
    soon = TaskRows(tasks.task, np.where(tasks.task < 0, 0.0, tasks.seconds))
    assert _named(replace(rows, tasks=soon), problem) == {Rule.NOT_BEFORE_READY}
    short = TaskRows(tasks.task, np.where(tasks.task == 1, 1e-6, tasks.seconds))
    assert _named(replace(rows, tasks=short), problem) == {Rule.COMPUTED}
    swapped = TaskRows(np.array([2, 1, 0, 3, -1], np.int32)[tasks.task], tasks.seconds)
    assert Rule.ITEM_OF_TASK in _named(replace(rows, tasks=swapped), problem)
    assert Rule.STAGE_OF_TASK in _named(replace(rows, stage=np.zeros_like(rows.stage)), problem)
    alone = [[] if tasks.task[row] == 3 else deps.tolist() for row, deps in enumerate(rows.deps)]
    unordered = [[d for d in deps if tasks.task[d] != 3] for deps in alone]
    assert _named(replace(rows, deps=Ragged.from_lists(unordered)), problem) == {Rule.COMPUTES_ALONE}


def test_a_step_is_checked_as_a_step_and_nothing_else() -> None:
    (rows, problem), *_ = small_steps()
    with pytest.raises(il.InvalidInput, match="which task each row"):
        check(replace(rows, tasks=None), problem)


def test_computations_that_are_alone_wait_for_each_other_only_where_they_share_a_rank() -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=3)
    for ranks, is_valid in (([1, 2], True), ([0, 1], False)):
        step = il.step(cluster)
        step.compute("one", "20 us", ranks=[0], alone=True)
        step.compute("other", "20 us", ranks=ranks, alone=True)
        plan = il.plan(step, algorithm="concurrent")
        assert check(plan.schedule, plan.problem).valid
        at_once = replace(plan.schedule, deps=Ragged.empty(plan.schedule.num_messages))
        assert check(at_once, plan.problem).valid is is_valid


@pytest.mark.parametrize(
    ("factor", "is_valid"), [(1 + 1e-13, True), (1 - 1e-13, True), (1 + 1e-9, False), (0.5, False)]
)
def test_computation_takes_its_time_but_for_the_last_digits(factor: float, is_valid: bool) -> None:
    step = il.step(il.cluster("h200", servers=1, gpus_per_server=2))
    step.compute("work", "20 us")
    plan = il.plan(step, algorithm="concurrent")
    tasks = plan.schedule.tasks
    other = replace(plan.schedule, tasks=TaskRows(tasks.task, tasks.seconds * factor))
    assert check(other, plan.problem).valid is is_valid


def test_a_task_with_nothing_to_move_takes_no_time() -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=2)
    step = il.step(cluster)
    step.move("nothing", il.traffic.uniform(cluster, 0))
    step.compute("work", "20 us", ready="5 us")
    times = il.plan(step, algorithm="concurrent").simulate().tasks
    assert (times["nothing"].start_s, times["nothing"].finish_s) == (0.0, 0.0)
    assert times["work"].finish_s == pytest.approx(25e-6)
    assert il.plan(cluster, il.traffic.uniform(cluster, "1 MB")).simulate().tasks == {}
