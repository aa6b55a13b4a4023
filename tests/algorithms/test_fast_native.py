"""FAST's native rows are those of its steps over columns, row for row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from algorithms.fast_oracle import fast_by_columns
from interlock.algorithms import registry
from interlock.planning import solve
from interlock.problem import demand_problem
from interlock.schedule import Schedule
from strategies import clusters

COLUMNS = ("kind", "phase", "stage", "slice", "size_bytes", "exclusive", "order", "barriers")


def check_same(made: Schedule, wanted: Schedule) -> None:
    """Raise unless two schedules are equal, column by column."""
    for name in ("src", "dst", "path", "deps"):
        assert getattr(made, name) == getattr(wanted, name), name
    for name in COLUMNS:
        assert np.array_equal(getattr(made, name), getattr(wanted, name)), name
    for name in ("offsets", "item", "offset", "length"):
        assert np.array_equal(getattr(made.pieces, name), getattr(wanted.pieces, name)), name


@given(cluster=clusters(max_servers=5, max_gpus=4), seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_native_rows_are_those_of_the_steps(cluster: il.Cluster, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.choice([0, 0, 1, 2, 3, 1000, 4099], size=(cluster.num_ranks,) * 2).astype(np.int64)
    matrix *= cluster.present[:, None] & cluster.present[None, :]
    problem = demand_problem(cluster, il.traffic.matrix(matrix))
    if registry.get("fast").supports(problem) is None:
        check_same(solve(problem, "fast").schedule, fast_by_columns(problem))


@pytest.mark.parametrize("servers", [1, 2, 6])
def test_a_planner_makes_the_same_rows(servers: int) -> None:
    cluster = il.cluster("h200", servers=servers)
    traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="64 MB", seed=servers)
    made = il.planner(cluster, algorithm="fast")(traffic)
    check_same(made.schedule, fast_by_columns(made.problem))
    assert made.report.valid
