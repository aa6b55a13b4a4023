"""Plans: reversed, cached, chosen automatically."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import interlock as il
from interlock.algorithms import registry
from interlock.errors import InvalidInput
from interlock.planning import solve
from interlock.problem import Problem
from strategies import collective_problems, demand_problems


@settings(max_examples=60)
@given(demand_problems(max_servers=3, max_gpus=3))
def test_a_reversed_plan_moves_the_transposed_demand(problem: Problem) -> None:
    for name in registry.supported(problem):
        plan = solve(problem, name)
        if len(plan.schedule.path.values):
            with pytest.raises(InvalidInput, match="name their links"):
                plan.reversed()
            continue
        back = plan.reversed()
        assert back.problem.demand == problem.demand.transposed()
        assert back.report.valid, (name, [str(violation) for violation in back.report.violations[:2]])


def test_only_an_all_to_allv_can_be_reversed() -> None:
    ring = il.synthesize(il.topology.ring(4, bandwidth="1 GB/s"), il.all_gather("4 kB"), algorithm="ring")
    with pytest.raises(InvalidInput, match="cannot be reversed"):
        ring.reversed()


def test_a_planner_gives_the_same_plan_for_the_same_bytes(h200_2x4: il.Cluster) -> None:
    replan = il.planner(h200_2x4, algorithm="adaptive")
    first = replan(il.traffic.zipf(h200_2x4, seed=1))
    assert replan(il.traffic.zipf(h200_2x4, seed=1)) is first
    assert replan(il.traffic.zipf(h200_2x4, seed=2)) is not first
    fresh = il.planner(h200_2x4, algorithm="adaptive", cache=False)
    assert fresh(il.traffic.zipf(h200_2x4, seed=1)) is not fresh(il.traffic.zipf(h200_2x4, seed=1))


def test_auto_says_why(h200_4x8: il.Cluster) -> None:
    plan = il.plan(h200_4x8, il.traffic.zipf(h200_4x8, seed=0))
    assert plan.algorithm == "auto" and plan.reason.startswith("adaptive: ") and " us" in plan.reason
    assert plan.certificate().valid and plan.certificate().gap < 0.1


@settings(max_examples=40)
@given(collective_problems())
def test_auto_supports_whatever_anyone_supports(problem: Problem) -> None:
    others = [name for name in registry.supported(problem) if name not in ("auto", "tacos", "two-tree")]
    assert (registry.get("auto").supports(problem) is None) == bool(others)


def test_a_plan_can_be_read_by_columns(h200_2x4: il.Cluster) -> None:
    plan = il.plan(h200_2x4, il.traffic.uniform(h200_2x4, "1 MB"), algorithm="direct")
    assert set(plan.messages) >= {"src", "dst", "stage", "size_bytes"}
    assert np.array_equal(plan.pieces["length"], plan.messages["size_bytes"])
    with pytest.raises(KeyError, match="no column"):
        plan.messages["colour"]
    with pytest.raises(InvalidInput, match="rank=99"):
        plan.for_rank(99)
