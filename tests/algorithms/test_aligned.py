"""Plans cut on rows or 16 bytes are as right as others, and cut there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms import registry
from interlock.errors import InvalidInput
from interlock.planning import solve
from interlock.problem import Problem
from strategies import demand_problems

ROW = 4096


@settings(max_examples=40)
@given(demand_problems(max_servers=3, max_gpus=3), st.sampled_from([16, 48, 4096, 1 << 20]), st.data())
def test_aligned_plans_are_valid(problem: Problem, align: int, data: st.DataObject) -> None:
    plan = solve(problem, data.draw(st.sampled_from(registry.supported(problem))), align=align)
    assert plan.report.valid, [str(violation) for violation in plan.report.violations]


def _rows(cluster: il.Cluster, seed: int) -> il.Demand:
    matrix = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="96 MB", seed=seed).bytes_matrix
    return il.traffic.matrix(matrix // ROW * ROW)


@pytest.mark.parametrize("name", ["adaptive", "auto", "fast", "rails-split", "no-stage", "pxn", "guided"])
def test_rows_stay_whole(h200_2x4: il.Cluster, name: str) -> None:
    demand = _rows(h200_2x4, 1)
    plan = il.plan(h200_2x4, demand, name, align=ROW)
    assert (np.asarray(plan.pieces["offset"]) % ROW == 0).all()
    assert (np.asarray(plan.pieces["length"]) % ROW == 0).all()
    assert plan.certificate().valid and plan.parameters == {"align": ROW}
    anywhere = il.plan(h200_2x4, demand, name)
    assert plan.simulate().makespan_s <= anywhere.simulate().makespan_s * 1.01


def test_where_nothing_is_asked_cuts_fall_anywhere(h200_2x4: il.Cluster) -> None:
    plan = il.plan(h200_2x4, _rows(h200_2x4, 1), "adaptive")
    assert (np.asarray(plan.pieces["offset"]) % 16 != 0).any()


@settings(max_examples=15)
@given(demand_problems(max_servers=3, max_gpus=3), st.sampled_from([16, 100, 4096]))
def test_both_ends_of_a_message_cut_it_alike(problem: Problem, align: int) -> None:
    for way in ("burst", "staged", "detour", None):
        try:
            plan = solve(problem, "adaptive", align=align, way=way)
        except InvalidInput:  # a way that cannot carry this
            continue
        ends: tuple[set[object], set[object]] = (set(), set())
        for rank in range(problem.num_ranks):
            columns = plan.program(rank).columns
            for told, end in zip(ends, ("send", "receive"), strict=True):
                rows = zip(*(columns[f"{end}_{name}"].tolist() for name in ("peer", "tag", "bytes")), strict=True)
                told |= {((rank, peer) if end == "send" else (peer, rank), tag, size) for peer, tag, size in rows}
        assert ends[0] == ends[1], way


def test_planners_keep_to_the_alignment_and_warm_starts_too(h200_2x4: il.Cluster) -> None:
    replan = il.planner(h200_2x4, "adaptive", cache=False, align=ROW)
    first = replan(_rows(h200_2x4, 1))
    drifted = replan(il.traffic.matrix(first.problem.demand.bytes_matrix + ROW), first)  # type: ignore[union-attr]
    assert (np.asarray(drifted.pieces["offset"]) % ROW == 0).all() and drifted.certificate().valid
    loose = il.plan(h200_2x4, _rows(h200_2x4, 1), "adaptive", previous=first)
    assert (np.asarray(loose.pieces["offset"]) % ROW != 0).any()
    assert loose.digest != first.digest


@pytest.mark.parametrize("align", [0, -16, 1.5, True, 1 << 40])
def test_an_alignment_that_is_none_is_refused(h200_2x4: il.Cluster, align: int) -> None:
    with pytest.raises(InvalidInput, match=r"align=.* must be a whole number of bytes"):
        il.plan(h200_2x4, il.traffic.uniform(h200_2x4), align=align)


def test_a_scratch_limit_and_an_alignment_exclude_each_other(h200_2x4: il.Cluster) -> None:
    with pytest.raises(InvalidInput, match="cannot be combined with scratch_bytes"):
        il.plan(h200_2x4, il.traffic.uniform(h200_2x4), "adaptive", align=16, scratch_bytes=1 << 20)
