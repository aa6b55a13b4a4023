"""Messages in a timetable: valid, and they take exactly what was predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms.adaptive import prepare
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.simulate import simulate
from strategies import demand_problems

KINDS = {
    "rails": {"scale_out": "rail", "scale_up_bandwidth": "100 GB/s"},
    "one sender at a time": {"fan_in": 1, "scale_up_bandwidth": "100 GB/s"},
    "slow inside": {"scale_up_bandwidth": "50 GB/s"},
    "mesh": {"preset": "mi300x", "scale_out_bandwidth": "800 Gb/s"},
}


def detour(kind: str, servers: int, size: str, seed: int, *, skew: float = 1.2, way: str | None = "detour") -> il.Plan:
    wanted = {"preset": "h200", **KINDS[kind]}
    cluster = il.cluster(wanted.pop("preset"), servers=servers, **wanted)
    demand = il.traffic.zipf(cluster, skew=skew, bytes_per_gpu=size, seed=seed)
    return il.plan(cluster, demand, algorithm="adaptive", way=way)


@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_what_it_says(kind: str) -> None:
    timed = 0
    for servers, size, seed in ((2, "1 MB", 1), (2, "256 MB", 2), (3, "16 MB", 3)):
        plan = detour(kind, servers, size, seed)
        assert plan.certificate().valid
        if plan.compact.is_timed:
            timed += 1
            assert plan.schedule.exclusive.all()
            assert plan.simulate().makespan_s == pytest.approx(plan.predicted_s, rel=1e-9)
    assert timed


@settings(max_examples=200)
@given(problem=demand_problems(max_servers=4, max_gpus=3), way=st.sampled_from(["detour", "burst", None]))
def test_any_timetable_is_exact(problem: Problem, way: str | None) -> None:
    assert problem.cluster is not None and problem.demand is not None
    try:
        plan = il.plan(problem.cluster, problem.demand, algorithm="adaptive", way=way)
    except InvalidInput:
        assume(False)
    assert plan.report.valid
    if plan.compact.is_timed:
        assert plan.simulate().makespan_s == pytest.approx(plan.predicted_s, rel=1e-6, abs=1e-12)


def test_who_is_waited_for_goes_first() -> None:
    """Two servers whose GPUs have narrow links: shared evenly, what hops on to the NICs would come too late."""
    plan = detour("mesh", 2, "256 MB", 1).compact
    shared = replace(plan, decision=plan.decision.in_rounds(plan.demand.bytes_matrix, 1))
    timed_s, shared_s = (simulate(each, plan.cluster).makespan_s for each in (plan, shared))
    assert plan.is_timed and not shared.is_timed and timed_s < 0.95 * shared_s


def test_routes_share_no_message() -> None:
    """What is gathered into one message waits for all that it carries."""
    plan = detour("rails", 2, "256 MB", 5)
    assert plan.compact.is_timed and len(plan.schedule.pieces.offset) == plan.schedule.num_messages


def test_turns_that_end_late_are_given_early() -> None:
    """Most hops first, tried once, ends at 1.17 of the bound; backwards and forwards again it is 1.05."""
    report = detour("one sender at a time", 2, "256 MB", 5, skew=0.9).certificate()
    assert report.makespan_s < 1.09 * report.lower_bound_s


def test_one_sender_at_a_time_is_timed_unasked() -> None:
    """Sums are enough to choose where ports have time; a burst loses 18 % to senders that meet at a NIC."""
    cluster = il.cluster("h200", servers=8, fan_in=1)
    plan = il.plan(cluster, il.traffic.uniform(cluster, bytes_per_gpu="16 MB"), algorithm="adaptive")
    assert plan.compact.is_timed and plan.report.valid
    assert plan.simulate().makespan_s == pytest.approx(plan.predicted_s, rel=1e-9)


def test_neighbours_may_take_nics_in_turn() -> None:
    """A GPU that gets most from its neighbours: its slow port alone takes 1.5 of the bound, its NIC helps in turn."""
    cluster = il.cluster("h200", servers=2, **KINDS["one sender at a time"])
    owed = np.full((16, 16), 2**20)
    owed[:8, 0] = 2**26
    plan = il.plan(cluster, il.traffic.matrix(owed), algorithm="adaptive")
    assert plan.compact.is_timed and plan.certificate().makespan_s < 1.1 * plan.bound.seconds


def test_every_server_has_its_share_of_the_search() -> None:
    """On a narrow mesh the first server took all of it, and the second sent as if nothing could move."""
    report = detour("mesh", 2, "256 MB", 19).certificate()
    assert report.makespan_s < 1.5 * report.lower_bound_s  # 4.7 before


def test_timed_bursts_are_planned_anew() -> None:
    """Turns are of single messages: for traffic that has drifted they would be none."""
    made = detour("one sender at a time", 3, "1 MB", 0, way="burst").compact
    assert made.is_timed
    replan = prepare(made.cluster, way="burst", has_time=True)
    assert replan(made.demand, made).is_timed


def test_a_planner_between_two_steps_makes_no_timetable() -> None:
    """It would take longer than what is planned."""
    cluster = il.cluster("h200", servers=8, fan_in=1)
    traffic = il.traffic.uniform(cluster, bytes_per_gpu="16 MB")
    for name in ("adaptive", "auto"):
        plan = il.planner(cluster, name)(traffic)
        assert not plan.compact.is_timed and plan.report.valid
        assert plan.predicted_s > il.plan(cluster, traffic, name).predicted_s


def test_new_traffic_gets_a_timetable_of_its_own() -> None:
    plan = detour("rails", 2, "16 MB", 1)
    assert plan.compact.is_timed
    doubled = il.traffic.matrix(2 * plan.compact.demand.bytes_matrix)
    decision = plan.compact.decision
    assert not decision.scaled(doubled.bytes_matrix).is_timed
    assert not decision.in_rounds(plan.compact.demand.bytes_matrix, 2).is_timed


def test_ranks_open_their_stage_with_the_first_message_that_starts() -> None:
    """Not with the first in turn, which may wait for others; told of turns that were given backwards."""
    cluster = il.cluster(
        "h200", servers=3, gpus_per_server=6, scale_out="rail", scale_up_bandwidth="100 GB/s", stage_overhead="10 us"
    )
    demand = il.traffic.sparse(cluster, bytes_per_gpu="16 MB", seed=0)
    plan = il.plan(cluster, demand, algorithm="adaptive", way="detour")
    assert plan.compact.is_timed
    assert plan.simulate().makespan_s == pytest.approx(plan.predicted_s, rel=1e-9)
