"""The rules for rows of a step, each broken alone; and what stands just within a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Kind, Pieces, Schedule, TaskRows, check_form


@pytest.fixture(scope="module")
def made() -> tuple[Schedule, Problem]:
    step = il.step(il.cluster("h200", servers=2, gpus_per_server=1))
    sent = step.move("send", il.traffic.matrix([[0, 500], [700, 0]]))
    step.compute("work", "1 us", ranks=[1], after=sent)
    plan = il.plan(step, algorithm="serial")
    return plan.schedule, plan.problem


def with_tasks(
    task: tuple[str, int] | None = None, seconds: tuple[str, float] | None = None
) -> Callable[..., Schedule]:
    """A schedule whose first message, or first wait, has another task or other seconds."""

    def change(rows: Schedule) -> Schedule:
        columns = [rows.tasks.task.copy(), rows.tasks.seconds.copy()]
        for column, said in zip(columns, (task, seconds), strict=True):
            if said is not None:
                column[first_row(rows, said[0])] = said[1]
        return replace(rows, tasks=TaskRows(*columns))

    return change


def first_row(rows: Schedule, kind: str) -> int:
    return int(np.argmax((rows.kind == Kind.WAIT) == (kind == "wait")))


def with_bytes(rows: Schedule) -> Schedule:
    size = rows.size_bytes.copy()
    size[first_row(rows, "wait")] = 1
    return replace(rows, size_bytes=size)


def with_links(rows: Schedule) -> Schedule:
    lists = [row.tolist() for row in rows.path]
    lists[first_row(rows, "wait")] = [0]
    return replace(rows, path=Ragged.from_lists(lists))


def with_another_end(rows: Schedule) -> Schedule:
    ends = rows.dst.values.copy()
    ends[first_row(rows, "wait")] ^= 1
    return replace(rows, dst=Ragged.single(ends))


def shorter(name: str) -> Callable[[Schedule], Schedule]:
    return lambda rows: replace(rows, tasks=replace(rows.tasks, **{name: getattr(rows.tasks, name)[:-1].copy()}))


WRONG: dict[str, tuple[Callable[[Schedule], Schedule], str]] = {
    "no tasks": (lambda rows: replace(rows, tasks=None), "waits and tasks belong"),
    "tasks too short": (shorter("task"), "column 'task' has"),
    "seconds too short": (shorter("seconds"), "column 'seconds' has"),
    "a task too many": (with_tasks(("wait", 2)), "task=2 must be below 2, or -1"),
    "a task below none": (with_tasks(("wait", -2)), "task=-2 must be below 2, or -1"),
    "a message of no task": (with_tasks(("message", -1)), "task=-1 must be a task"),
    "a message with seconds": (with_tasks(None, ("message", 1e-6)), "and 0 for a message"),
    "seconds below 0": (with_tasks(None, ("wait", -1e-9)), "at least 0"),
    "seconds without end": (with_tasks(None, ("wait", np.inf)), "at least 0"),
    "a wait with bytes": (with_bytes, "size_bytes=1 must be 0, as it is a wait"),
    "a wait with links": (with_links, "path=1 must be empty, as it is a wait"),
    "a wait between two": (with_another_end, "the rank of src, as it is a wait"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_broken_rule_of_steps_is_named(made: tuple[Schedule, Problem], name: str) -> None:
    rows, problem = made
    change, words = WRONG[name]
    check_form(rows, problem)
    with pytest.raises(il.InvalidInput, match=words):
        check_form(change(rows), problem)


@pytest.mark.parametrize(
    "change",
    [
        with_tasks(("wait", -1)),  # a wait may be of no task
        with_tasks(("wait", 0), ("wait", 0.0)),  # and take no time
        with_tasks(("message", 1)),  # the last task
    ],
)
def test_what_stands_just_within_a_rule_of_steps_passes(
    made: tuple[Schedule, Problem], change: Callable[[Schedule], Schedule]
) -> None:
    check_form(change(made[0]), made[1])


def test_waits_and_tasks_are_refused_outside_of_steps(made: tuple[Schedule, Problem], h200_2x4: il.Cluster) -> None:
    plan = il.plan(h200_2x4, il.traffic.uniform(h200_2x4, "1 MB"), algorithm="direct")
    count = plan.schedule.num_messages
    tasks = TaskRows(np.zeros(count, np.int32), np.zeros(count))
    with pytest.raises(il.InvalidInput, match="waits and tasks belong"):
        check_form(replace(plan.schedule, tasks=tasks), plan.problem)


def test_what_stands_just_within_a_rule_passes(h200_2x4: il.Cluster) -> None:
    """Barriers one apart, the last rank, item and link, a message of nothing and one that is all of its pieces."""
    plan = il.plan(h200_2x4, il.traffic.uniform(h200_2x4, "1 MB"), algorithm="direct")
    rows = replace(plan.schedule, barriers=np.array([1, 2, 3], np.int32))
    assert rows.pieces.item.max() == len(plan.problem.items) - 1 and rows.src.values.max() == 7
    last_link = plan.problem.topology.num_links - 1
    lists = [row.tolist() for row in rows.path]
    check_form(replace(rows, path=Ragged.from_lists([*lists[:-1], [last_link]])), plan.problem)
    size, offsets = rows.size_bytes.copy(), rows.pieces.offsets.copy()
    size[-1], offsets[-1] = 0, offsets[-2]  # the last one carries nothing
    last = int(offsets[-1])
    kept = Pieces(offsets, rows.pieces.item[:last], rows.pieces.offset[:last], rows.pieces.length[:last])
    check_form(replace(rows, size_bytes=size, pieces=kept), plan.problem)
    size = size.copy()
    size[-2] -= 1
    with pytest.raises(il.InvalidInput, match=f"message {len(size) - 2}: size_bytes=.* at least the sum"):
        check_form(replace(rows, size_bytes=size, pieces=kept), plan.problem)


@pytest.mark.parametrize("column", ["src", "dst", "path", "deps"])
def test_offsets_that_do_not_rise_from_nothing_to_all_values_are_refused(h200_2x4: il.Cluster, column: str) -> None:
    plan = il.plan(h200_2x4, il.traffic.uniform(h200_2x4, "1 MB"), algorithm="pxn")
    ragged: Ragged = getattr(plan.schedule, column)
    offsets = ragged.offsets
    bent = [np.append(offsets[:-1], offsets[-1] + 1), np.append(1, offsets[1:])]
    bent.append(np.concatenate([offsets[:1], [offsets[-1] + 1], offsets[2:]]))
    for wrong in bent:
        broken = replace(plan.schedule, **{column: Ragged(wrong.astype(np.int64), ragged.values)})
        with pytest.raises(il.InvalidInput, match=f"column '{column}': offsets must rise"):
            check_form(broken, plan.problem)
