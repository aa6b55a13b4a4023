"""The bound of a step against an exact program (HiGHS) on small ones, where time goes in slots and bytes flow."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

import interlock as il
from interlock.cost import lower_bound
from interlock.cost.steps import least_end_s

SLOT_BYTES = 1_000_000
FREE = {"message_overhead": 0, "stage_overhead": 0, "scale_out_latency": 0, "scale_up_latency": 0}


def least_slots(tasks: list[tuple[np.ndarray | int, list[int], int]], num_slots: int) -> int:
    """Least makespan in slots; a task is (bytes matrix in slots, or slots of computation; what it is after; ready)."""
    columns: dict[tuple[object, ...], int] = {}

    def column(*key: object) -> int:
        return columns.setdefault(key, len(columns))

    rows: list[tuple[dict[int, float], float, float]] = []
    ranks = next(len(what) for what, _, _ in tasks if not isinstance(what, int))
    for k in range(num_slots):
        for task, (what, after, ready) in enumerate(tasks):
            done = column("done", task, k)
            if isinstance(what, int):
                for before in after:
                    earlier = {column("done", before, k - what): -1.0} if k >= what else {}
                    rows.append(({done: 1.0} | earlier, -np.inf, 0.0))
                if k < ready + what - 1 + (what == 0):
                    rows.append(({done: 1.0}, 0.0, 0.0))
                continue
            for i, j in zip(*np.nonzero(what), strict=True):
                flow = column("flow", task, i, j, k)
                for before in after:
                    earlier = {column("done", before, k - 1): -1.0} if k else {}
                    rows.append(({flow: 1.0} | earlier, -np.inf, 0.0))
                if k < ready:
                    rows.append(({flow: 1.0}, 0.0, 0.0))
                sent = {column("flow", task, i, j, each): -1.0 for each in range(k + 1)}
                rows.append(({done: float(what[i, j])} | sent, -np.inf, 0.0))
        for rank in range(ranks):
            for end in (2, 3):  # of ("flow", task, i, j, k): out of i, into j
                used = {c: 1.0 for key, c in columns.items() if key[0] == "flow" and key[end] == rank and key[4] == k}
                if used:
                    rows.append((used, -np.inf, 1.0))
        for task in range(len(tasks)):
            rows.append(({column("all", k): 1.0, column("done", task, k): -1.0}, -np.inf, 0.0))
    matrix = np.zeros((len(rows), len(columns)))
    for row, (entries, _, _) in enumerate(rows):
        for each, value in entries.items():
            matrix[row, each] = value
    whole = np.array([key[0] != "flow" for key in columns], int)
    gain = np.array([-1.0 if key[0] == "all" else 0.0 for key in columns])
    limits = LinearConstraint(matrix, [row[1] for row in rows], [row[2] for row in rows])
    found = milp(gain, constraints=limits, integrality=whole, bounds=Bounds(0, 1))
    assert found.status == 0, found.message
    return num_slots - round(-found.fun) + 1


def test_no_exact_program_beats_the_bound_and_most_meet_it() -> None:
    rng = random.Random(5)
    met = 0
    for _ in range(8):
        cluster = il.cluster("h200", servers=3, gpus_per_server=1, scale_out_bandwidth="8 Gb/s", **FREE)
        step, tasks = il.step(cluster), []
        for number in range(4):
            after = sorted(rng.sample(range(number), min(number, rng.randint(0, 1))))
            names, ready = [f"{each}" for each in after], rng.choice((0, 0, 1))
            if rng.random() < 0.25 and number not in (0,):
                slots = rng.randint(1, 2)
                step.compute(f"{number}", f"{slots} ms", after=names, ready=f"{ready} ms")
                tasks.append((slots, after, ready))
                continue
            what = np.array([[0 if i == j else rng.choice((0, 0, 1, 2)) for j in range(3)] for i in range(3)])
            what[0, 1] = max(1, what[0, 1])
            step.move(f"{number}", il.traffic.matrix(what * SLOT_BYTES), after=names, ready=f"{ready} ms")
            tasks.append((what, after, ready))
        exact_s = 1e-3 * least_slots(tasks, 16)
        bound_s = lower_bound(step.problem()).seconds
        assert bound_s <= exact_s * (1 + 1e-9)
        met += bound_s >= exact_s * (1 - 1e-9)
    assert met >= 4


def test_jackson_rule_agrees_with_the_best_subset() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        count = int(rng.integers(1, 6))
        head, busy, tail = rng.integers(0, 6, (3, count)).astype(float)
        busy += 1
        subsets = [np.flatnonzero([mask >> each & 1 for each in range(count)]) for mask in range(1, 1 << count)]
        best = max(head[chosen].min() + busy[chosen].sum() + tail[chosen].min() for chosen in subsets)
        assert least_end_s(head, busy, tail) == pytest.approx(best)


def test_the_bound_names_what_binds() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=1, **FREE)
    step = il.step(cluster)
    first = step.move("first", il.traffic.matrix([[0, 50_000_000], [0, 0]]))
    step.compute("work", "5 ms", after=first)
    other = step.move("other", il.traffic.matrix([[0, 50_000_000], [0, 0]]))
    path = lower_bound(step.problem())
    assert path.seconds == pytest.approx(6e-3) and "first - work" in path.binds
    step.move("third", il.traffic.matrix([[0, 500_000_000], [0, 0]]), after=other)
    port = lower_bound(step.problem())
    assert port.seconds == pytest.approx(12e-3) and "3 tasks" in port.binds
