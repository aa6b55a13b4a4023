"""What is said of a broken step: which rows, how many of them, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Kind, Pieces, Schedule, TaskRows
from interlock.validate import Violation, check
from interlock.validate.report import Rule
from interlock.validate.steps import check_step

CLUSTER = il.cluster("h200", servers=1, gpus_per_server=8)


def planned(fill: Callable[[il.Step], None], cluster: il.Cluster = CLUSTER) -> tuple[Schedule, Problem]:
    step = il.step(cluster)
    fill(step)
    plan = il.plan(step, algorithm="concurrent")
    assert check(plan.schedule, plan.problem).valid
    return plan.schedule, plan.problem


def free(schedule: Schedule) -> Schedule:
    """With nothing waiting for anything."""
    return replace(schedule, deps=Ragged.empty(schedule.num_messages))


def said(schedule: Schedule, problem: Problem, rule: Rule) -> list[Violation]:
    found = check_step(schedule, problem)
    assert {violation.rule for violation in found} == {rule}
    return found


def test_five_ranks_that_do_not_compute_as_often_as_asked_are_named() -> None:
    rows, problem = planned(lambda step: step.compute("work", "20 us"))
    at_zero = replace(
        rows,
        src=Ragged(rows.src.offsets, np.zeros_like(rows.src.values)),
        dst=Ragged(rows.dst.offsets, np.zeros_like(rows.dst.values)),
    )
    found = said(at_zero, problem, Rule.COMPUTED)
    assert [violation.rank for violation in found] == [0, 1, 2, 3, 4]
    assert found[0].text == "task 'work' computes 8 times at rank 0; 1 are asked for"
    assert found[4].text == "task 'work' computes 0 times at rank 4; 1 are asked for"


def test_five_rows_that_take_another_time_are_named() -> None:
    rows, problem = planned(lambda step: step.compute("work", "20 us"))
    half = replace(rows, tasks=TaskRows(rows.tasks.task, rows.tasks.seconds / 2))
    found = said(half, problem, Rule.COMPUTED)
    assert [violation.message for violation in found] == [0, 1, 2, 3, 4]
    assert found[1].text == "row 1 computes 1e-05 s for task 'work', which takes 2e-05 s"
    nearly = replace(rows, tasks=TaskRows(rows.tasks.task, np.nextafter(rows.tasks.seconds, 1.0)))
    assert check_step(nearly, problem) == []  # the last digit is nobody's fault


def test_a_move_that_computes_is_named_once() -> None:
    def fill(step: il.Step) -> None:
        step.move("move", il.all_gather("1 MiB"))
        step.compute("work", "20 us")

    rows, problem = planned(fill)
    task = np.where(rows.kind == Kind.WAIT, 0, rows.tasks.task).astype(np.int32)
    found = check_step(replace(rows, tasks=TaskRows(task, rows.tasks.seconds)), problem)
    first = int(np.flatnonzero(rows.kind == Kind.WAIT)[0])
    assert found[0].text == f"row {first} computes for task 'move', which is a move"
    assert [violation.text for violation in found[1:6]] == [
        f"task 'work' computes 0 times at rank {rank}; 1 are asked for" for rank in range(5)
    ]


def test_twenty_tasks_that_start_before_what_they_are_after_are_named() -> None:
    def fill(step: il.Step) -> None:
        work = step.compute("work", "20 us")
        for number in range(25):
            step.compute(f"then {number}", "20 us", ranks=[0], after=work)

    rows, problem = planned(fill)
    found = said(free(rows), problem, Rule.AFTER)
    later = [int(np.flatnonzero(rows.tasks.task == number)[0]) for number in range(1, 21)]
    assert [violation.message for violation in found] == later
    assert found[1].text == f"row {later[1]} of task 'then 1' may start before task 'work' has ended"


def test_twenty_rows_that_start_before_they_are_ready_are_named() -> None:
    rows, problem = planned(lambda step: step.move("move", il.all_to_all("1 MiB"), ready="10 us"))
    found = said(free(rows), problem, Rule.NOT_BEFORE_READY)
    mine = np.flatnonzero(rows.tasks.task == 0)
    assert len(mine) > 20 and [violation.message for violation in found] == mine[:20].tolist()
    assert found[0].text == f"row {mine[0]} of task 'move' may start at 0 s, before 1e-05 s"


@pytest.mark.parametrize(("share", "is_early"), [(1.0, False), (1 - 1e-13, False), (1 - 1e-11, True)])
def test_a_start_may_be_early_by_the_last_digits_alone(share: float, is_early: bool) -> None:
    rows, problem = planned(lambda step: step.move("move", il.all_to_all("1 MiB"), ready="10 us"))
    wait = rows.tasks.task < 0
    other = replace(rows, tasks=TaskRows(rows.tasks.task, np.where(wait, rows.tasks.seconds * share, 0.0)))
    assert bool(check_step(other, problem)) is is_early


def test_tasks_without_rows_hand_on_what_they_are_after_and_when_they_are_ready() -> None:
    """One row computes, nothing moves after it, and one row computes after that."""

    def fill(step: il.Step) -> None:
        step.compute("first", "20 us", ranks=[0])
        step.move("nothing", il.traffic.uniform(CLUSTER, 0), after="first", ready="30 us")
        step.move("nothing either", il.traffic.uniform(CLUSTER, 0), after="nothing", ready="5 us")
        step.compute("last", "20 us", ranks=[0], after="nothing either", ready="1 us")

    rows, problem = planned(fill)
    last = int(np.flatnonzero(rows.tasks.task == 3)[0])
    found = check_step(free(rows), problem)
    assert [violation.text for violation in found] == [
        f"row {last} of task 'last' may start before task 'first' has ended",
        f"row {last} of task 'last' may start at 0 s, before 3e-05 s",
    ]


def test_ten_pieces_of_another_task_are_named() -> None:
    def fill(step: il.Step) -> None:
        step.move("one", il.all_to_all("1 MiB"))
        step.move("two", il.all_to_all("1 MiB"))

    rows, problem = planned(fill)
    pieces, count = rows.pieces, int(problem.step.first_item[1])
    swapped = np.where(pieces.item < count, pieces.item + count, pieces.item - count).astype(np.int32)
    broken = replace(rows, pieces=Pieces(pieces.offsets, swapped, pieces.offset, pieces.length))
    found = said(broken, problem, Rule.ITEM_OF_TASK)
    assert [violation.item for violation in found] == swapped[:10].tolist()
    first = int(rows.pieces.message[0])
    mine, other = ("one", "two") if rows.tasks.task[first] == 0 else ("two", "one")
    assert found[0].text == f"message {first} of task {mine!r} carries item {swapped[0]} of task {other!r}"


@pytest.mark.parametrize("shared", [3, 7])
def test_a_stage_of_two_tasks_is_named(shared: int) -> None:
    def fill(step: il.Step) -> None:
        for name in ("one", "two", "three"):
            step.move(name, il.all_to_all("1 MiB"))

    rows, problem = planned(fill)
    stage = np.where(rows.tasks.task == 2, 9, shared).astype(np.int32)
    found = said(replace(rows, stage=stage), problem, Rule.STAGE_OF_TASK)
    assert [violation.text for violation in found] == [f"stage {shared} belongs to two tasks; every task opens its own"]


def test_every_pair_that_computes_at_once_where_it_must_be_alone_is_named_once() -> None:
    def fill(step: il.Step) -> None:
        step.compute("beside", "20 us")
        for name, ranks in (("one", [0, 1]), ("two", [1, 2]), ("three", [2, 3])):
            step.compute(name, "20 us", ranks=ranks, alone=True)

    rows, problem = planned(fill)
    found = said(free(rows), problem, Rule.COMPUTES_ALONE)
    assert [violation.text for violation in found] == [
        "tasks 'one' and 'two' compute at a rank of both, in no certain order",
        "tasks 'two' and 'three' compute at a rank of both, in no certain order",
    ]


def test_a_circle_is_named_and_nothing_else() -> None:
    rows, problem = planned(lambda step: step.compute("work", "20 us"))
    circle = replace(rows, deps=Ragged.from_lists([[1], [0], *([] for _ in range(rows.num_messages - 2))]))
    assert [violation.text for violation in said(circle, problem, Rule.ACYCLIC)] == ["dependencies form a cycle"]
