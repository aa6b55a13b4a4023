"""What holds for every registered algorithm, whatever the problem."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import interlock as il
from interlock.algorithms import registry
from interlock.errors import InvalidInput
from interlock.planning import solve
from interlock.problem import Problem
from interlock.schedule import check_form
from interlock.validate import check
from strategies import collective_problems, demand_problems

# At least 2,000 problems over all algorithms: every problem is given to every algorithm that supports it.
NUM_PROBLEMS = 1_100


def _prove_all(problem: Problem) -> None:
    for name in registry.names():
        algorithm = registry.get(name)
        reason = algorithm.supports(problem)
        if reason is not None:
            assert reason, name
            continue
        schedule = algorithm.build(problem, seed=0).expand()
        check_form(schedule, problem)
        report = check(schedule, problem)
        assert report.valid, (name, problem.name, [str(violation) for violation in report.violations])


@settings(max_examples=NUM_PROBLEMS)
@given(demand_problems())
def test_every_byte_of_an_all_to_allv_arrives_exactly_once(problem: Problem) -> None:
    _prove_all(problem)


@settings(max_examples=NUM_PROBLEMS)
@given(collective_problems())
def test_every_collective_is_complete(problem: Problem) -> None:
    _prove_all(problem)


@settings(max_examples=60)
@given(demand_problems(max_servers=3, max_gpus=3))
def test_no_algorithm_is_simulated_below_the_bound(problem: Problem) -> None:
    for name in registry.supported(problem):
        plan = solve(problem, name)
        assert plan.simulate().makespan_s >= plan.bound.seconds * (1 - 1e-9), name


@settings(max_examples=60)
@given(demand_problems(max_servers=3, max_gpus=3))
def test_the_same_problem_gives_the_same_schedule(problem: Problem) -> None:
    for name in registry.supported(problem):
        first, second = (registry.get(name).build(problem, seed=3).expand() for _ in range(2))
        assert (first.size_bytes == second.size_bytes).all()
        assert first.src == second.src and first.dst == second.dst and first.deps == second.deps
        assert (first.pieces.item == second.pieces.item).all() and (first.pieces.offset == second.pieces.offset).all()


def test_an_unsupported_problem_is_refused_by_name(h200_2x4: il.Cluster) -> None:
    rails = il.topology.cluster_with(h200_2x4, scale_out="rail")
    with pytest.raises(InvalidInput, match=r"'spreadout' does not support .* rail-only"):
        il.plan(rails, il.traffic.uniform(rails), algorithm="spreadout")


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'spreadout'"):
        registry.get("spredout")
