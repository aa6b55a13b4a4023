"""Our planner: valid in every way, near the bound, strict where the fabric asks for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms import adaptive, registry
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.schedule import Phase, check_form
from interlock.validate import check
from strategies import demand_problems

LOADS = {
    "random": lambda cluster: il.traffic.random(cluster, bytes_per_gpu="500 MB", seed=1),
    "zipf": lambda cluster: il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="500 MB", seed=2),
    "hot expert": lambda cluster: il.traffic.hot_expert(cluster, skew=0.8, bytes_per_gpu="500 MB", seed=3),
    "uniform": lambda cluster: il.traffic.uniform(cluster, bytes_per_gpu="500 MB"),
}


@pytest.mark.parametrize("way", ["burst", "staged", "detour"])
@settings(max_examples=400)
@given(problem=demand_problems(max_servers=5, max_gpus=3))
def test_every_way_moves_every_byte_once(way: str, problem: Problem) -> None:
    algorithm = registry.get("adaptive")
    if algorithm.supports(problem) is not None:
        return
    try:
        schedule = algorithm.build(problem, way=way).expand()
    except InvalidInput as error:
        assert way == "detour" and "cannot carry" in str(error)
        return
    check_form(schedule, problem)
    report = check(schedule, problem)
    assert report.valid, [str(violation) for violation in report.violations]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize(
    ("servers", "fan_in", "most"), [(2, None, 1.03), (4, None, 1.03), (8, None, 1.03), (8, 1, 1.05)]
)
def test_it_stays_near_the_bound(servers: int, fan_in: int | None, most: float, load: str) -> None:
    cluster = il.cluster("h200", servers=servers, stage_overhead="0 us", fan_in=fan_in)
    certificate = il.plan(cluster, LOADS[load](cluster), algorithm="adaptive").certificate()
    assert certificate.valid
    assert certificate.makespan_s <= most * certificate.lower_bound_s


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("servers", [3, 8, 16])
def test_stages_are_few_and_one_to_one(servers: int, load: str) -> None:
    cluster = il.cluster("h200", servers=servers, fan_in=1)
    plan = il.plan(cluster, LOADS[load](cluster), algorithm="adaptive", way="staged")
    segments = plan.compact.decision.segments()
    assert plan.num_stages <= 2.5 * servers + 4
    for end in (0, 1):
        assert len(np.unique(segments[:, [2, end]], axis=0)) == len(segments)
    assert plan.simulate(tolerance=1e-3).peak_fan_in.max() == 1


def test_balanced_traffic_pays_for_nothing() -> None:
    """Nothing is balanced or redistributed where every pair is equal."""
    cluster = il.cluster("h200", servers=4)
    plan = il.plan(cluster, il.traffic.uniform(cluster, bytes_per_gpu="500 MB"), algorithm="adaptive")
    assert set(plan.messages["phase"]) == {Phase.LOCAL, Phase.SCALE_OUT}


def test_lanes_that_are_alike_do_not_wait_all_at_once() -> None:
    """Each has one slice at a time on the wire: were they cut alike, the NIC would idle while all wait for arrivals."""
    cluster = il.cluster("h800", servers=5)
    plan = il.plan(cluster, il.traffic.uniform(cluster, bytes_per_gpu="1 MB"), algorithm="adaptive", way="burst")
    sent = plan.messages
    is_first = (sent["src"] == 0) & (sent["phase"] == Phase.SCALE_OUT) & (sent["slice"] == 0)
    assert len(set(sent["size_bytes"][is_first])) == np.count_nonzero(is_first) == 4


def test_the_smallest_traffic_goes_direct_and_the_reason_says_so() -> None:
    cluster = il.cluster("h200", servers=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster, bytes_per_gpu="64 kB"), algorithm="adaptive")
    assert plan.compact.way is adaptive.Way.DIRECT
    assert plan.compact.reason.startswith("direct: predicted direct ")


def test_a_tolerated_fan_in_is_kept() -> None:
    """On a fabric that takes three senders, no receiver sees four."""
    cluster = il.cluster("h200", servers=8, fan_in=3)
    plan = il.plan(cluster, LOADS["random"](cluster), algorithm="adaptive", way="staged")
    assert plan.certificate(tolerance=1e-3).valid
    assert 2 <= plan.simulate(tolerance=1e-3).peak_fan_in.max() <= 3


@settings(max_examples=100)
@given(problem=demand_problems(max_servers=4, max_gpus=3), share=st.integers(0, 8))
def test_a_scratch_limit_is_kept(problem: Problem, share: int) -> None:
    """What waits at any GPU stays within the limit, or there is no way to."""
    algorithm = registry.get("adaptive")
    if algorithm.supports(problem) is not None:
        return
    free = check(algorithm.build(problem).expand(), problem)
    limit = int(free.scratch_bytes.max(initial=0)) * share // 8
    try:
        schedule = algorithm.build(problem, scratch_bytes=limit).expand()
    except InvalidInput as error:
        assert "must wait somewhere" in str(error)
        return
    report = check(schedule, problem)
    assert report.valid, [str(violation) for violation in report.violations]
    assert report.scratch_bytes.max(initial=0) <= limit


def test_a_scratch_limit_costs_little_time() -> None:
    cluster = il.cluster("h200", servers=4)
    demand = LOADS["zipf"](cluster)
    free = il.plan(cluster, demand, algorithm="adaptive").certificate()
    limited = il.plan(cluster, demand, algorithm="adaptive", scratch_bytes=free.scratch_bytes // 4).certificate()
    assert limited.valid and limited.scratch_bytes <= free.scratch_bytes // 4
    assert limited.makespan_s < 1.15 * free.makespan_s
    with pytest.raises(InvalidInput, match="scratch_bytes=-1"):
        il.plan(cluster, demand, algorithm="adaptive", scratch_bytes=-1)


@pytest.mark.parametrize("scale_out", ["flat", "rail"])
@pytest.mark.parametrize(("servers", "most"), [(4, 1.08), (8, 1.06)])
def test_faults_cost_no_more_than_the_lost_rate(scale_out: str, servers: int, most: float) -> None:
    faults = [il.slow_nic(server=1, gpu=3, bandwidth="200 Gb/s"), il.dead_nic(server=0, gpu=5)]
    for broken in (faults[:1], faults[1:], faults):
        cluster = il.cluster("h200", servers=servers, scale_out=scale_out, faults=broken)
        demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="500 MB", seed=4)
        certificate = il.plan(cluster, demand, algorithm="adaptive").certificate()
        assert certificate.valid
        assert certificate.makespan_s <= most * certificate.lower_bound_s


def test_a_dead_nic_carries_nothing_and_a_slow_one_half() -> None:
    faults = [il.slow_nic(server=1, gpu=3, bandwidth="200 Gb/s"), il.dead_nic(server=0, gpu=5)]
    cluster = il.cluster("h200", servers=8, faults=faults)
    plan = il.plan(cluster, il.traffic.random(cluster, bytes_per_gpu="500 MB"), algorithm="adaptive")
    messages = plan.messages
    wire = messages["phase"] == Phase.SCALE_OUT
    sent = np.bincount(messages["src"][wire], weights=messages["size_bytes"][wire], minlength=64).reshape(8, 8)
    assert sent[0, 5] == 0
    assert sent[1, 3] == pytest.approx(0.5 * np.delete(sent[1], 3).mean(), rel=0.05)
