"""When a session takes the backend's own call: where the plan at hand is not predicted to gain."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.execution import MARGIN, choose_faster, native_at_once, native_seconds, surely_native_bytes


@pytest.mark.parametrize("algorithm", ["adaptive", "auto"])
def test_a_plan_that_is_predicted_to_gain_is_taken_and_does_gain(algorithm: str) -> None:
    """Scale-up as slow as NICs: bytes between neighbours take both, and end before a server's own ports alone could."""
    cluster = il.cluster("h200", servers=2, scale_up_bandwidth="50 GB/s")
    demand = il.traffic.zipf(cluster, skew=0.4, bytes_per_gpu="256 MB", seed=1)
    plan = il.plan(cluster, demand, algorithm=algorithm)
    assert choose_faster(cluster, demand, plan).plan is plan
    assert plan.simulate(1e-3).makespan_s * MARGIN < native_seconds(cluster, demand.bytes_matrix)


@pytest.mark.parametrize("algorithm", ["adaptive", "auto"])
def test_a_plan_that_sends_as_the_backend_does_is_not_taken(algorithm: str) -> None:
    cluster = il.cluster("h200", servers=2)
    plan = il.plan(cluster, il.traffic.zipf(cluster, skew=1.2, bytes_per_gpu="64 kB", seed=1), algorithm=algorithm)
    assert "direct: predicted" in plan.reason
    assert plan.problem.demand is not None
    chosen = choose_faster(cluster, plan.problem.demand, plan)
    assert chosen.plan is None
    assert "a plan gains nothing" in chosen.reason


def test_where_no_plan_could_win_none_is_made_and_where_one_could_it_is() -> None:
    """What is sure is not compared between ranks either: it must hold whatever algorithm would have planned."""
    cluster = il.cluster("h200", servers=2)
    small = il.traffic.zipf(cluster, skew=1.2, bytes_per_gpu="2 kB", seed=1)
    at_once = native_at_once(cluster, small)
    assert at_once is not None and at_once.plan is None and at_once.is_sure
    assert choose_faster(cluster, small, il.plan(cluster, small, algorithm="adaptive")).plan is None
    large = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="256 MB", seed=1)
    assert native_at_once(cluster, large) is None


@pytest.mark.parametrize("servers", [2, 4, 9])
def test_what_is_native_by_its_size_alone_is_so_by_the_whole_estimate(servers: int) -> None:
    cluster = il.cluster("h200", servers=servers)
    cluster = cluster.with_(message_overhead_s=1e-7, stage_overhead_s=5e-6)
    limit, rng = surely_native_bytes(cluster), np.random.default_rng(servers)
    assert limit > 1000
    for _ in range(50):
        matrix = rng.random((cluster.num_ranks,) * 2) * (rng.random((cluster.num_ranks,) * 2) < rng.random())
        matrix[rng.integers(cluster.num_ranks), rng.integers(cluster.num_ranks)] += 50 * rng.random()
        most = max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max())
        demand = il.traffic.matrix((matrix * (limit / most)).astype(np.int64))
        assert native_at_once(cluster, demand) is not None


def test_a_plan_slower_than_the_backend_is_not_taken_although_a_better_one_could_gain() -> None:
    cluster = il.cluster("h200", servers=4)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="256 MB", seed=1)
    slow = il.plan(cluster, demand, algorithm="adaptive", way="direct")
    assert choose_faster(cluster, demand, slow).plan is None
    assert choose_faster(cluster, demand, il.plan(cluster, demand, algorithm="fast")).plan is not None
