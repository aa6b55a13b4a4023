"""Harmful mutants of step schedules, judged harmful without the validator: `python tests/steps/mutants.py 5000`."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import interlock as il
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Kind, Pieces, Schedule, TaskRows
from interlock.validate import check

WAYS = ("serial", "concurrent", "joint")


def small_steps() -> list[tuple[Schedule, Problem]]:
    """Steps of some hundred rows, planned in every way."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="1 MB", seed=3)
    layer = il.step(cluster)
    dispatch = layer.move("dispatch", demand)
    experts = layer.compute("experts", "20 us", after=dispatch, alone=True)
    layer.move("combine", demand.transposed(), after=experts)
    layer.move("gradients", il.reduce_scatter("2 MiB", group=[0, 2]), ready="10 us")
    layer.compute("optimizer", "5 us", ranks=[0, 2], after="gradients", alone=True)
    fsdp = il.step(cluster)
    gather = fsdp.move("parameters", il.all_gather("2 MiB"))
    work = fsdp.compute("work", "30 us", after=gather, ready="5 us")
    fsdp.move("gradients", il.reduce_scatter("2 MiB"), after=work)
    fsdp.move("loss", il.all_reduce("1 MiB", group=[1, 3]), after=[gather, work])
    plans = [il.plan(step, algorithm=way) for step in (layer, fsdp) for way in WAYS]
    return [(plan.schedule, plan.problem) for plan in plans]


def harmful(cases: list[tuple[Schedule, Problem]], count: int, seed: int) -> Iterator[tuple[str, Schedule, Problem]]:
    """So many mutants, each surely wrong, with what was done to it."""
    rng = random.Random(seed)
    made = 0
    while made < count:
        schedule, problem = rng.choice(cases)
        kind = rng.choice(list(MUTATIONS))
        mutant = MUTATIONS[kind](schedule, problem, rng)
        if mutant is None or (kind in ORDER and not starts_early(mutant, problem)):
            continue
        made += 1
        yield kind, mutant, problem


def starts_early(schedule: Schedule, problem: Problem) -> bool:
    """Whether some row can start before a row of a task that its own is after, or waits in a circle: by closure."""
    count = schedule.num_messages
    reaches = np.zeros((count, count), np.bool_)  # [row, row that has ended before]
    listed = [set(row.tolist()) for row in schedule.deps]
    left, order = [len(row) for row in listed], [row for row in range(count) if not listed[row]]
    later: list[list[int]] = [[] for _ in range(count)]
    for row, before in enumerate(listed):
        for each in before:
            later[each].append(row)
    for row in order:
        for each in listed[row]:
            reaches[row] |= reaches[each]
            reaches[row, each] = True
        for each in later[row]:
            left[each] -= 1
            if left[each] == 0:
                order.append(each)
    if len(order) < count:
        return True
    task = schedule.tasks.task
    for number, before in enumerate(problem.step.after):
        rows = np.flatnonzero(task == number)
        for each in before.tolist():
            if not reaches[np.ix_(rows, np.flatnonzero(task == each))].all():
                return True
    return False


def _drop_wait(schedule: Schedule, problem: Problem, rng: random.Random) -> Schedule | None:
    lists = [row.tolist() for row in schedule.deps]
    row = rng.randrange(len(lists))
    if not lists[row]:
        return None
    lists[row].remove(rng.choice(lists[row]))
    return replace(schedule, deps=Ragged.from_lists(lists))


def _drop_waits(schedule: Schedule, problem: Problem, rng: random.Random) -> Schedule | None:
    lists = [row.tolist() for row in schedule.deps]
    lists[rng.randrange(len(lists))] = []
    return replace(schedule, deps=Ragged.from_lists(lists))


def _other_wait(schedule: Schedule, problem: Problem, rng: random.Random) -> Schedule | None:
    lists = [row.tolist() for row in schedule.deps]
    row = rng.randrange(len(lists))
    other = rng.randrange(len(lists))
    if not lists[row] or other == row or other in lists[row]:
        return None
    lists[row][rng.randrange(len(lists[row]))] = other
    return replace(schedule, deps=Ragged.from_lists([sorted(each) for each in lists]))


def _computations(schedule: Schedule) -> list[int]:
    return np.flatnonzero((schedule.kind == Kind.WAIT) & (schedule.tasks.task >= 0)).tolist()


def _move_computation(schedule: Schedule, problem: Problem, rng: random.Random) -> Schedule | None:
    row = rng.choice(_computations(schedule))
    ends = schedule.src.values.copy()
    place = schedule.src.offsets[row]
    ends[place] = rng.choice([rank for rank in range(problem.num_ranks) if rank != ends[place]])
    other = schedule.dst.values.copy()
    other[schedule.dst.offsets[row]] = ends[place]
    return replace(schedule, src=Ragged(schedule.src.offsets, ends), dst=Ragged(schedule.dst.offsets, other))


def _shorten(schedule: Schedule, problem: Problem, rng: random.Random) -> Schedule | None:
    waits = np.flatnonzero(schedule.tasks.seconds > 0).tolist()
    seconds = schedule.tasks.seconds.copy()
    seconds[rng.choice(waits)] *= rng.choice((0.0, 0.5, 0.99))
    return replace(schedule, tasks=TaskRows(schedule.tasks.task, seconds))


def _other_item(schedule: Schedule, problem: Problem, rng: random.Random) -> Schedule | None:
    pieces, first = schedule.pieces, problem.step.first_item
    piece = rng.randrange(len(pieces))
    owner = np.searchsorted(first, pieces.item[piece], side="right") - 1
    foreign = [item for item in range(int(first[-1])) if not first[owner] <= item < first[owner + 1]]
    fits = [i for i in foreign if problem.items.size_bytes[i] >= pieces.offset[piece] + pieces.length[piece]]
    if not fits:
        return None
    item = pieces.item.copy()
    item[piece] = rng.choice(fits)
    return replace(schedule, pieces=Pieces(pieces.offsets, item, pieces.offset, pieces.length))


def _other_task(schedule: Schedule, problem: Problem, rng: random.Random) -> Schedule | None:
    task = schedule.tasks.task.copy()
    row = rng.choice(np.flatnonzero(task >= 0).tolist())
    task[row] = rng.choice([number for number in range(len(problem.step.tasks)) if number != task[row]])
    return replace(schedule, tasks=TaskRows(task, schedule.tasks.seconds))


def _lose(schedule: Schedule, problem: Problem, rng: random.Random) -> Schedule | None:
    """A message without bytes of its own any more."""
    pieces = schedule.pieces
    piece = rng.randrange(len(pieces))
    length = pieces.length.copy()
    if length[piece] < 2:
        return None
    length[piece] -= 1
    return replace(schedule, pieces=Pieces(pieces.offsets, pieces.item, pieces.offset, length))


ORDER = {"a wait dropped", "all waits of a row dropped", "a wait for another row"}
MUTATIONS = {
    "a wait dropped": _drop_wait,
    "all waits of a row dropped": _drop_waits,
    "a wait for another row": _other_wait,
    "computation moved": _move_computation,
    "computation or earliest start shortened": _shorten,
    "an item of another task": _other_item,
    "a row of another task": _other_task,
    "a byte lost": _lose,
}


def caught(schedule: Schedule, problem: Problem) -> bool:
    """Whether the validator refuses it, in a report or as malformed."""
    try:
        return not check(schedule, problem).valid
    except il.InvalidInput:
        return True


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    asked = int(sys.argv[1])
    counts: dict[str, int] = {}
    for what, mutant, of in harmful(small_steps(), asked, int(sys.argv[2]) if len(sys.argv) > 2 else 0):
        assert caught(mutant, of), what
        counts[what] = counts.get(what, 0) + 1
    print(f"{sum(counts.values())} harmful mutants, all caught: {counts}")
