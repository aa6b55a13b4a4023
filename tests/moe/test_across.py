"""MoE across servers: schedules like any other, one copy per server on the wire."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.moe.across import (
    _carriers,
    _Copies,
    _take,
    deduplicated_demand,
    ordered_in_lanes,
    plan_combine,
    plan_dispatch,
    server_bound_s,
)
from interlock.planning import Plan
from interlock.problem import dispatch_problem
from interlock.schedule import Kind, Phase
from interlock.traffic import Routing, contiguous_placement, eplb_placement
from interlock.traffic.moe_router import moe_routing


@st.composite
def problems(draw: st.DrawFn) -> tuple[il.Cluster, Routing]:
    """Any tokens on small clusters, with and without able switches, replicas and one-to-one fabrics."""
    servers, gpus = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    cluster = il.cluster(
        "h200",
        servers=servers,
        gpus_per_server=gpus,
        multicasts=draw(st.booleans()),
        reduces=True,
        scale_out=draw(st.sampled_from(["flat", "rail"])),
        fan_in=draw(st.sampled_from([None, 1])),
    )
    num_experts = cluster.num_ranks * draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tokens, top_k = draw(st.integers(1, 40)), draw(st.integers(1, min(4, num_experts)))
    experts = np.stack([rng.permutation(num_experts)[:top_k] for _ in range(tokens)]).astype(np.int32)
    loads = np.bincount(experts.reshape(-1), minlength=num_experts)
    placed = draw(st.sampled_from(["contiguous", "replicated"]))
    placement = contiguous_placement(num_experts, cluster.num_ranks)
    if placed == "replicated":
        placement = eplb_placement(loads, cluster.num_ranks, 1)
    return cluster, Routing(experts, rng.integers(0, cluster.num_ranks, tokens).astype(np.int32), placement)


@settings(max_examples=50)
@given(problems(), st.sampled_from(["adaptive", "no-stage", "forward"]))
def test_dispatch_reaches_every_expert_exactly_once(problem: tuple[il.Cluster, Routing], algorithm: str) -> None:
    cluster, routing = problem
    report = plan_dispatch(cluster, routing, 64, algorithm).report
    assert report.valid, [str(violation) for violation in report.violations[:3]]


@settings(max_examples=50)
@given(problems(), st.sampled_from(["adaptive", "no-stage", "forward"]))
def test_combine_adds_every_partial_exactly_once(problem: tuple[il.Cluster, Routing], algorithm: str) -> None:
    cluster, routing = problem
    plan = plan_combine(cluster, routing, 64, algorithm)
    assert plan.report.valid, [str(violation) for violation in plan.report.violations[:3]]
    assert (plan.schedule.kind == Kind.REDUCE).all()


def test_a_token_crosses_to_a_server_once() -> None:
    cluster = il.cluster("h200", servers=4)
    routing = moe_routing(cluster, tokens=32, experts=64, top_k=6, seed=2)
    schedule = plan_dispatch(cluster, routing, 4096).schedule
    wire = (schedule.phase == Phase.SCALE_OUT)[schedule.pieces.message]
    server = schedule.dst.values[schedule.dst.offsets[schedule.pieces.message[wire]]] // 8
    copies = list(zip(schedule.pieces.item[wire].tolist(), server.tolist(), strict=True))
    assert len(copies) == len(set(copies))
    once = deduplicated_demand(cluster, routing, 4096).bytes_matrix.sum()
    assert schedule.size_bytes[schedule.phase == Phase.SCALE_OUT].sum() == once
    assert once < routing.to_demand(4096).bytes_matrix.sum()


def test_a_lane_keeps_its_copies_and_its_last_message_takes_those_that_need_no_multicast() -> None:
    cluster = il.cluster("h200", servers=4)
    routing = moe_routing(cluster, tokens=64, experts=64, top_k=6, skew=0.8, seed=3)
    problem = dispatch_problem(cluster, routing, 4096)
    copies = _Copies.of(cluster, problem)
    far = _take(copies, copies.src // 8 != copies.server)
    planned = il.plan(cluster, far.demand(cluster, 4096), "adaptive", way="burst", slices=4)
    before = _carriers(planned, far, cluster, 4096)
    wire = planned.schedule
    after = ordered_in_lanes(wire, before, far.item, far.src, far.wanted, cluster)
    assert np.array_equal(np.bincount(before), np.bincount(after))
    for ends in (wire.src, wire.dst):
        assert np.array_equal(ends.values[before], ends.values[after])
    alone = far.wanted == np.uint64(1) << (wire.dst.values[after] % 8).astype(np.uint64)
    is_last = wire.slice[after] == wire.slice.max()
    assert alone[is_last].mean() > 3 * alone[~is_last].mean()


@pytest.mark.parametrize("planned", [plan_dispatch, plan_combine])
@pytest.mark.parametrize(
    ("servers", "skew", "tokens", "seed"),
    [
        (4, 0.0, 256, 0),
        (4, 0.8, 256, 0),
        (8, 0.0, 256, 1),
        (8, 0.8, 256, 1),
        (4, 0.4, 1024, 1),
        (4, 0.8, 1024, 1),
        (4, 0.8, 512, 1),  # where the demand alone would be given turns
        (4, 1.2, 512, 1),
        (8, 0.4, 1024, 1),
        (8, 0.8, 1024, 1),
    ],
)
def test_between_servers_it_takes_little_more_than_the_bound(
    servers: int,
    skew: float,
    tokens: int,
    seed: int,
    planned: Callable[[il.Cluster, Routing, int], Plan],
) -> None:
    cluster = il.cluster("h200", servers=servers)
    routing = moe_routing(cluster, tokens=tokens, experts=256, top_k=8, skew=skew, seed=seed)
    plan = planned(cluster, routing, 2 * 7168)
    result = plan.simulate(1e-3)
    wire = plan.schedule.phase == Phase.SCALE_OUT
    opening_s = cluster.stage_overhead_s + cluster.scale_out_latency_s
    assert (result.finish_s[wire].max() - opening_s) / server_bound_s(cluster, routing, 2 * 7168) < 1.06


def test_what_returns_costs_its_busiest_sender_few_messages() -> None:
    """Skewed routing: what most servers send to one comes back from that one, in slices cut for it."""
    cluster = il.cluster("h200", servers=8)
    routing = moe_routing(cluster, tokens=64, experts=256, top_k=8, skew=1.2, seed=3)
    most = []
    for planned in (plan_dispatch, plan_combine):
        rows = planned(cluster, routing, 14336).schedule
        wires = np.flatnonzero(rows.phase == Phase.SCALE_OUT)
        most.append(int(np.bincount(rows.src.take(wires).values).max()))
    assert most[1] <= 2 * most[0]
