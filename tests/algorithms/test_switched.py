"""`auto` and `weighted-direct` on switched fabrics."""

from __future__ import annotations

import random

import numpy as np
import pytest

import interlock as il
from bench_faulty_clusters import demand_on, faulty_cluster
from interlock.algorithms.synthesis.budget import Budget, SearchBound
from interlock.algorithms.synthesis.goal import TreeGoal, goal_of
from interlock.algorithms.synthesis.graph import graph_of
from interlock.algorithms.synthesis.paths import sharing_paths
from interlock.problem import demand_problem
from interlock.simulate import simulate
from switched import switched_fabric


@pytest.mark.parametrize("seed", range(100, 108))
@pytest.mark.parametrize("make", [il.all_gather, il.all_reduce, il.all_to_all])
def test_auto_is_near_the_bound_and_not_behind_what_needs_no_search(seed: int, make: object) -> None:
    _, fabric = switched_fabric(seed)
    collective = make("64 MiB")  # type: ignore[operator]
    proof = il.synthesize(fabric, collective).certificate(tolerance=1e-3)
    assert proof.valid and proof.makespan_s <= 1.12 * proof.lower_bound_s
    for other in ("direct", "ring"):
        try:
            theirs = il.synthesize(fabric, collective, algorithm=other).certificate(tolerance=1e-3)
        except il.InvalidInput:
            continue
        assert proof.makespan_s <= 1.01 * theirs.makespan_s, other


def test_auto_searches_where_uplinks_are_unlike_and_ranks_are_few() -> None:
    ranks, leaves, spines = 24, 4, [28, 29]
    up = [(rank, ranks + rank // 6, 50e9) for rank in range(ranks)]
    up += [
        (ranks + leaf, spine, 150e9 if spine == 28 or leaf % 2 else 50e9) for leaf in range(leaves) for spine in spines
    ]
    src, dst, rate = (list(column) for column in zip(*up, strict=True))
    fabric = il.topology.from_edges(src + dst, dst + src, bandwidth=rate * 2, num_ranks=ranks)
    collective = il.all_to_all("64 MiB")
    direct, found = (il.synthesize(fabric, collective, name).certificate(tolerance=1e-3) for name in ("direct", "auto"))
    assert found.valid and found.makespan_s <= 0.9 * direct.makespan_s


def test_a_slow_rank_owns_nothing() -> None:
    fabric = il.topology.from_edges(
        [*range(8), *[8] * 8],
        [*[8] * 8, *range(8)],
        bandwidth=[25e9, *[50e9] * 7] * 2,
        num_ranks=8,
    )
    plan = il.synthesize(fabric, il.all_reduce("64 MiB"), algorithm="weighted-direct")
    proof = plan.certificate()
    assert proof.valid and proof.makespan_s <= 1.06 * proof.lower_bound_s
    sums = plan.schedule.kind == 1
    assert 0 not in plan.schedule.dst.values[sums]


@pytest.mark.parametrize("slices", [0, 1.5, True])
def test_slices_are_counted(slices: object) -> None:
    with pytest.raises(il.InvalidInput, match="slices="):
        il.synthesize(
            il.topology.switch(4, bandwidth="50 GB/s"), il.all_reduce("4 MB"), "weighted-direct", slices=slices
        )


def test_a_trunk_carries_as_many_messages_at_once_as_it_has_room_for() -> None:
    fabric = il.topology.clos(2, 8, 2, bandwidth="50 GB/s", latency="1 us")  # trunks of 200 GB/s
    proof = il.synthesize(fabric, il.all_to_all("1 GiB"), "guided").certificate(tolerance=1e-3)
    assert proof.valid and proof.makespan_s <= 1.12 * proof.lower_bound_s


@pytest.mark.parametrize("number", [23, 281, 1604, 4196])  # the last with one sender at a time
def test_unlike_nics_share_a_narrow_uplink(number: int) -> None:
    rng = random.Random(f"0.{number}")
    cluster = faulty_cluster(rng)
    assert cluster.scale_out == "flat" and cluster.oversubscription == 2.0
    proof = il.plan(cluster, demand_on(cluster, rng)).certificate(tolerance=1e-3)
    assert proof.valid and proof.makespan_s <= 1.25 * proof.lower_bound_s


@pytest.mark.parametrize("number", [225, 845, 2446])
def test_a_stage_that_opens_late_is_counted(number: int) -> None:
    rng = random.Random(f"0.{number}")
    cluster = faulty_cluster(rng)
    plan = il.plan(cluster, demand_on(cluster, rng), "guided")
    assert plan.problem.topology.stage_overhead_s > 0
    proof = plan.certificate(tolerance=1e-3)
    assert proof.valid and proof.makespan_s <= 1.7 * proof.lower_bound_s


@pytest.mark.parametrize("seed", [0, 52, 62])
def test_messages_that_share_links_take_as_long_as_planned(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks, switches = int(rng.integers(4, 9)), int(rng.integers(2, 5))
    ports = [(rank, ranks + int(rng.integers(switches)), rng.choice([25e9, 50e9, 100e9])) for rank in range(ranks)]
    trunks = [(ranks + k, ranks + int(rng.integers(k)), rng.choice([50e9, 100e9, 200e9])) for k in range(1, switches)]
    src, dst, rate = (np.array(column) for column in zip(*ports, *trunks, strict=True))
    fabric = il.topology.from_edges(
        np.concatenate([src, dst]), np.concatenate([dst, src]), np.tile(rate, 2), latency="1 us", num_ranks=ranks
    )
    weights = rng.pareto(1.2, (ranks, ranks)) * 1e8
    problem = demand_problem(fabric, il.traffic.matrix(weights.astype(np.int64)))
    goal = goal_of(problem)
    assert isinstance(goal, TreeGoal)
    answers = list(sharing_paths(goal.in_pairs(), graph_of(fabric), Budget(100_000, SearchBound(0.0))))
    assert answers
    for answer in answers:
        took_s = simulate(answer.compact(staged=True, reason=""), fabric).makespan_s
        assert took_s == pytest.approx(answer.makespan_s, rel=0.02)
