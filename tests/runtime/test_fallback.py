"""When a session takes the backend's own call: where the plan at hand is not predicted to gain."""

from __future__ import annotations

import math

import numpy as np
import pytest

import interlock as il
from interlock.execution import MARGIN, native_calls


@pytest.mark.parametrize("algorithm", ["adaptive", "auto"])
def test_a_plan_that_is_predicted_to_gain_is_taken_and_does_gain(algorithm: str) -> None:
    """Scale-up as slow as NICs: bytes between neighbours take both, and end before a server's own ports alone could."""
    cluster = il.cluster("h200", servers=2, scale_up_bandwidth="50 GB/s")
    demand = il.traffic.zipf(cluster, skew=0.4, bytes_per_gpu="256 MB", seed=1)
    plan, native = il.plan(cluster, demand, algorithm=algorithm), native_calls(cluster)(demand)
    assert native.or_faster(plan).plan is plan
    assert plan.simulate(1e-3).makespan_s * MARGIN < native.seconds


@pytest.mark.parametrize("algorithm", ["adaptive", "auto"])
def test_a_plan_that_sends_as_the_backend_does_is_not_taken(algorithm: str) -> None:
    cluster = il.cluster("h200", servers=2)
    demand = il.traffic.zipf(cluster, skew=1.2, bytes_per_gpu="16 kB", seed=1)
    plan = il.plan(cluster, demand, algorithm=algorithm)
    assert "direct: predicted" in plan.reason
    chosen = native_calls(cluster)(demand).or_faster(plan)
    assert chosen.plan is None
    assert "a plan gains nothing" in chosen.reason


def test_where_no_plan_could_win_none_is_made_and_where_one_could_it_is() -> None:
    """What is sure is not compared between ranks either: it must hold whatever algorithm would have planned."""
    cluster = il.cluster("h200", servers=2)
    price = native_calls(cluster)
    small = il.traffic.zipf(cluster, skew=1.2, bytes_per_gpu="2 kB", seed=1)
    at_once = price(small).at_once()
    assert at_once is not None and at_once.plan is None and at_once.is_sure
    assert price(small).or_faster(il.plan(cluster, small, algorithm="adaptive")).plan is None
    large = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="256 MB", seed=1)
    assert price(large).at_once() is None


@pytest.mark.parametrize("overrides", [{}, {"scale_out": "rail-spine", "oversubscription": 2.0}, {"fan_in": 1}])
@pytest.mark.parametrize("kilobytes", [2, 30, 500, 8_000, 120_000])
def test_what_is_native_at_once_is_so_beside_every_way_of_adaptive(
    overrides: dict[str, object], kilobytes: int
) -> None:
    """The least that the ledger tells is no more than the price of any plan that is taken, and direct is one."""
    rng = np.random.default_rng(kilobytes)
    cluster = il.cluster("h200", servers=int(rng.integers(2, 6)), **overrides)  # type: ignore[arg-type]
    price = native_calls(cluster)
    for _ in range(6):
        matrix = rng.random((cluster.num_ranks,) * 2) * (rng.random((cluster.num_ranks,) * 2) < rng.random())
        demand = il.traffic.matrix((matrix * (1000 * kilobytes / max(matrix.sum(axis=1).max(), 1e-9))).astype(np.int64))
        native, plan = price(demand), il.plan(cluster, demand, algorithm="adaptive")
        direct = il.plan(cluster, demand, algorithm="adaptive", way="direct")
        assert direct.predicted_s == native.seconds
        if native.at_once() is not None:
            assert native.or_faster(plan).plan is None


def test_the_call_of_the_backend_is_predicted_as_the_simulator_sees_it() -> None:
    cluster = il.cluster("h200", servers=4, scale_out="rail-spine", oversubscription=2.0)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="64 MB", seed=3)
    simulated = il.plan(cluster, demand, algorithm="direct").simulate(1e-3).makespan_s
    assert native_calls(cluster)(demand).seconds == pytest.approx(simulated, rel=0.1)


def test_where_the_backend_cannot_reach_everybody_a_plan_is_taken() -> None:
    cluster = il.cluster("h200", servers=2, faults=[il.dead_nic(server=0, gpu=1)])
    demand = il.traffic.uniform(cluster, bytes_per_gpu="1 kB")
    native = native_calls(cluster)(demand)
    assert native.seconds == math.inf
    assert native.at_once() is None
    plan = il.plan(cluster, demand)
    assert native.or_faster(plan).plan is plan


def test_a_rail_carries_what_stays_on_it() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, scale_out="rail")
    along = np.zeros((4, 4), np.int64)
    along[0, 2] = 10**6
    across = along.copy()
    across[0, 3] = 1
    price = native_calls(cluster)
    assert price(il.traffic.matrix(along)).seconds == pytest.approx(1e6 / 50e9 + 13e-6, rel=0.05)
    assert price(il.traffic.matrix(across)).seconds == math.inf


def test_a_plan_slower_than_the_backend_is_not_taken_although_a_better_one_could_gain() -> None:
    cluster = il.cluster("h200", servers=4)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="256 MB", seed=1)
    native = native_calls(cluster)(demand)
    assert native.or_faster(il.plan(cluster, demand, algorithm="adaptive", way="direct")).plan is None
    assert native.or_faster(il.plan(cluster, demand, algorithm="fast")).plan is not None
