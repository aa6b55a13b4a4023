"""Plans: reversed, cached, chosen automatically."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms import registry
from interlock.errors import InvalidInput
from interlock.planning import solve
from interlock.problem import Problem, demand_problem
from strategies import collective_problems, demand_problems


@settings(max_examples=60)
@given(demand_problems(max_servers=3, max_gpus=3))
def test_a_reversed_plan_moves_the_transposed_demand(problem: Problem) -> None:
    for name in registry.supported(problem):
        back = solve(problem, name).reversed()
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


@settings(max_examples=60)
@given(demand_problems(max_servers=4, max_gpus=3), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_a_warm_start_moves_the_new_bytes(problem: Problem, percent: int, seed: int) -> None:
    """Whatever became of the traffic, the plan that starts from the last one is valid for the new."""
    assert problem.cluster is not None and problem.demand is not None
    matrix = problem.demand.bytes_matrix
    change = 1 + percent / 100 * np.random.default_rng(seed).uniform(-1, 1, matrix.shape)
    drifted = demand_problem(problem.cluster, il.traffic.matrix((matrix * change).astype(np.int64)))
    for name in ("adaptive", "auto", "direct"):
        chosen = registry.get(name)
        if chosen.supports(problem) is None and chosen.supports(drifted) is None:
            warm = solve(drifted, name, previous=solve(problem, name))
            assert warm.report.valid, (name, [str(violation) for violation in warm.report.violations[:2]])


@pytest.mark.parametrize(("servers", "fan_in"), [(4, None), (9, 1)])
def test_a_warm_start_keeps_the_decisions_after_a_drift_but_not_after_a_jump(servers: int, fan_in: int | None) -> None:
    """One sender at a time with more ranks than have a timetable, which is made anew."""
    cluster = il.cluster("h200", servers=servers, fan_in=fan_in)
    before = il.traffic.zipf(cluster, 0.8, "64 MB", seed=1)
    noise = np.random.default_rng(0).uniform(0.95, 1.05, before.bytes_matrix.shape)
    drifted = il.traffic.matrix((before.bytes_matrix * noise).astype(np.int64))
    jumped = il.traffic.zipf(cluster, 0.8, "64 MB", seed=2)
    replan = il.planner(cluster, algorithm="adaptive")
    first = replan(before)
    warm, cold = replan(drifted, first), replan(jumped, first)
    slices = first.compact.decision.slice_bytes().tolist()
    assert warm.compact.decision.slice_bytes().tolist() == slices
    assert cold.compact.decision.slice_bytes().tolist() != slices
    assert warm.certificate().valid
    assert warm.simulate().makespan_s < 1.01 * il.plan(cluster, drifted, algorithm="adaptive").simulate().makespan_s


def test_a_warm_start_forgets_a_plan_of_another_cluster() -> None:
    healthy = il.cluster("h200", servers=2)
    broken = il.cluster("h200", servers=2, faults=[il.dead_nic(server=0, gpu=5)])
    traffic = il.traffic.zipf(healthy, 0.8, "64 MB", seed=1)
    plan = il.plan(broken, traffic, algorithm="adaptive", previous=il.plan(healthy, traffic, algorithm="adaptive"))
    cold = il.planner(broken, algorithm="adaptive")(traffic)  # who is handed a plan is asked between two steps
    assert plan.certificate().valid
    assert plan.simulate().makespan_s == cold.simulate().makespan_s


def test_a_plan_its_certificate_and_its_page_say_what_was_chosen(h200_4x8: il.Cluster) -> None:
    plan = il.plan(h200_4x8, il.traffic.zipf(h200_4x8, 0.8, "64 MB", seed=1))
    assert plan.reason.startswith("adaptive: ")
    assert plan.reason in repr(plan)
    proof = plan.certificate()
    assert proof.reason == plan.reason
    assert plan.reason in repr(proof) and plan.reason in proof._repr_html_()


def test_a_certificate_without_a_reason_says_nothing_of_a_choice(h200_4x8: il.Cluster) -> None:
    plan = il.plan(h200_4x8, il.traffic.uniform(h200_4x8), algorithm="direct")
    assert not plan.reason and repr(plan).endswith(" messages)")
    assert "chosen" not in plan.certificate().facts()


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
        plan.program(99)


@pytest.mark.parametrize("algorithm", ["adaptive", "auto"])
def test_simulating_the_ways_is_never_slower_than_predicting(algorithm: str) -> None:
    cluster = il.cluster("mi300x", servers=2, gpus_per_server=4, scale_out_bandwidth="800 Gb/s")
    demand = il.traffic.zipf(cluster, skew=1.2, bytes_per_gpu="4 MB", seed=3)
    simulated = il.plan(cluster, demand, algorithm=algorithm, effort="simulate")
    assert simulated.certificate().valid
    fastest = min(
        il.plan(cluster, demand, algorithm="adaptive", way=way).simulate(1e-3).makespan_s
        for way in ("direct", "burst", "staged", "detour")
    )
    assert simulated.simulate(1e-3).makespan_s <= fastest
    assert ": simulated " in simulated.reason
    assert simulated.cluster is cluster
    with pytest.raises(InvalidInput, match="effort='much'"):
        il.plan(cluster, demand, effort="much")
    for refused in ({"algorithm": "fast"}, {"algorithm": "adaptive", "way": "burst"}):
        with pytest.raises(InvalidInput, match="effort='simulate' chooses among the ways"):
            il.plan(cluster, demand, effort="simulate", **refused)  # type: ignore[arg-type]


def test_simulating_tries_others_that_are_quick_to_make() -> None:
    cluster = il.cluster("h200", servers=8, fabric="roce-pfc")
    demand = il.traffic.zipf(cluster, skew=0.9, bytes_per_gpu="1 MB", seed=1)
    plan = il.plan(cluster, demand, effort="simulate")
    assert "rails-split" in plan.reason
    other = il.plan(cluster, demand, algorithm="rails-split").simulate(1e-3).makespan_s
    assert plan.simulate(1e-3).makespan_s <= other * 1.001


def test_a_plan_that_was_compared_says_how_long_it_takes() -> None:
    broken = il.cluster("h200", servers=2, faults=[il.dead_nic(server=0, gpu=5)])
    plan = il.plan(broken, il.traffic.zipf(broken, 0.8, "4 MB", seed=1))
    assert plan.predicted_s == pytest.approx(plan.simulate().makespan_s, rel=0.01)


def test_a_plan_that_was_simulated_says_how_long_it_takes() -> None:
    cluster = il.cluster("mi300x", servers=1)
    plan = il.plan(cluster, il.traffic.sparse(cluster, bytes_per_gpu="16 MB", seed=3), effort="simulate")
    assert plan.predicted_s == pytest.approx(plan.simulate().makespan_s, rel=0.01)


def test_a_comparison_is_the_same_on_any_number_of_threads(
    h200_2x4: il.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.comparison.EXACT_ROWS", 0)
    tables = []
    for cores in (1, 4):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        made = il.compare(h200_2x4, il.traffic.zipf(h200_2x4, seed=3), ["direct", "spreadout", "fast", "adaptive"])
        tables.append(
            [(row.algorithm, row.makespan_s, row.valid, row.scratch_bytes, row.stages) for row in made.results]
        )
        assert [plan.algorithm for plan in made.plans] == [row.algorithm for row in made.results]
    assert tables[0] == tables[1]


def test_a_saved_plan_still_says_why(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster))
    plan.save(tmp_path / "x.ilk")
    loaded = il.load(tmp_path / "x.ilk")
    assert loaded.reason == plan.reason
    assert plan.reason.startswith("adaptive")
    assert loaded.certificate() == plan.certificate()
