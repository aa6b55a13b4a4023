"""A detour in a timetable: valid, and it takes exactly what was predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

import interlock as il
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


def detour(kind: str, servers: int, size: str, seed: int) -> il.Plan:
    wanted = {"preset": "h200", **KINDS[kind]}
    cluster = il.cluster(wanted.pop("preset"), servers=servers, **wanted)
    demand = il.traffic.zipf(cluster, skew=1.2, bytes_per_gpu=size, seed=seed)
    return il.plan(cluster, demand, algorithm="adaptive", way="detour")


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
@given(problem=demand_problems(max_servers=4, max_gpus=3))
def test_any_timetable_is_exact(problem: Problem) -> None:
    assert problem.cluster is not None and problem.demand is not None
    try:
        plan = il.plan(problem.cluster, problem.demand, algorithm="adaptive", way="detour")
    except InvalidInput:
        assume(False)
    assert plan.report.valid
    if plan.compact.is_timed:
        assert plan.simulate().makespan_s == pytest.approx(plan.predicted_s, rel=1e-6, abs=1e-12)


def test_who_is_waited_for_goes_first() -> None:
    """Two servers on rails with slow ports inside: shared evenly, what hops on to the NICs would come too late."""
    plan = detour("rails", 2, "256 MB", 5).compact
    shared = replace(plan, decision=plan.decision.in_rounds(plan.demand.bytes_matrix, 1))
    timed_s, shared_s = (simulate(each, plan.cluster).makespan_s for each in (plan, shared))
    assert plan.is_timed and not shared.is_timed and timed_s < 0.95 * shared_s


def test_new_traffic_gets_a_timetable_of_its_own() -> None:
    plan = detour("rails", 2, "16 MB", 1)
    assert plan.compact.is_timed
    doubled = il.traffic.matrix(2 * plan.compact.demand.bytes_matrix)
    decision = plan.compact.decision
    assert not decision.scaled(doubled.bytes_matrix).is_timed
    assert not decision.in_rounds(plan.compact.demand.bytes_matrix, 2).is_timed
