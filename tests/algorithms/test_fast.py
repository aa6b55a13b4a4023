"""FAST as published: its three phases, its stages, its pipeline."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import interlock as il
from interlock._native import _core
from interlock.schedule import Phase

SQUARES = st.integers(1, 7).flatmap(lambda n: arrays(np.int64, (n, n), elements=st.integers(0, 2**40) | st.just(0)))


@given(SQUARES)
@settings(max_examples=200)
def test_permutations_add_up_to_the_matrix_and_padding(matrix: np.ndarray) -> None:
    """Every row and column of the sum has the largest sum of the matrix, and no entry is below the matrix's."""
    weight, partner = _core.decompose(matrix)
    total = np.zeros_like(matrix)
    for amount, columns in zip(weight, partner, strict=True):
        assert sorted(columns) == list(range(len(matrix)))
        total[np.arange(len(matrix)), columns] += amount
    most = max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max())
    assert (total >= matrix).all()
    assert (total.sum(axis=0) == most).all() and (total.sum(axis=1) == most).all()
    assert (np.diff(weight) <= 0).all()
    assert len(weight) <= len(matrix) ** 2 - 2 * len(matrix) + 2


@pytest.fixture
def skewed_plan() -> il.Plan:
    """Zipf traffic on four servers."""
    cluster = il.cluster("h200", servers=4, fan_in=1)
    return il.plan(cluster, il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="64 MB", seed=1), algorithm="fast")


def test_every_gpu_carries_an_equal_share_of_each_tile(skewed_plan: il.Plan) -> None:
    """After balance and rail merge a tile is one scalar: its eight rails differ by at most one byte."""
    messages = skewed_plan.messages
    wire = messages["phase"] == Phase.SCALE_OUT
    src, dst, size = (messages[name][wire] for name in ("src", "dst", "size_bytes"))
    carried = np.zeros((4, 4, 8), np.int64)
    np.add.at(carried, (src // 8, dst // 8, src % 8), size)
    assert (src % 8 == dst % 8).all()
    assert (np.ptp(carried, axis=2) <= 1).all()


def test_a_stage_is_one_to_one_and_nobody_receives_from_two(skewed_plan: il.Plan) -> None:
    messages = skewed_plan.messages
    wire = messages["phase"] == Phase.SCALE_OUT
    for end in ("src", "dst"):
        keys = messages["stage"][wire].astype(np.int64) * 64 + messages[end][wire]
        assert len(np.unique(keys)) == wire.sum()
    assert skewed_plan.simulate().peak_fan_in.max() == 1


def test_balance_is_a_barrier_and_one_message_per_pair_of_gpus(skewed_plan: il.Plan) -> None:
    messages, times = skewed_plan.messages, skewed_plan.simulate()
    balance = messages["phase"] == Phase.BALANCE
    pairs = messages["src"][balance].astype(np.int64) * 64 + messages["dst"][balance]
    assert len(np.unique(pairs)) == balance.sum() > 0
    assert times.start_s[~balance].min() >= times.finish_s[balance].max()


def test_padding_is_never_sent(skewed_plan: il.Plan) -> None:
    pieces = skewed_plan.schedule.pieces
    sums = np.add.reduceat(pieces.length, pieces.offsets[:-1])
    assert (sums == skewed_plan.schedule.size_bytes).all()


def test_with_infinite_scale_up_it_takes_the_largest_row_or_column() -> None:
    """T* of the paper: no overheads, nothing exposed, NICs of the busiest server always busy."""
    cluster = il.cluster(
        "h200", servers=4, scale_up_bandwidth="1000000 GB/s", scale_up_latency=0, scale_out_latency=0,
        message_overhead=0, stage_overhead=0, fan_in=1,
    )  # fmt: skip
    plan = il.plan(cluster, il.traffic.random(cluster, bytes_per_gpu="64 MB", seed=2), algorithm="fast")
    matrix = plan.problem.demand.bytes_matrix.reshape(4, 8, 4, 8).sum(axis=(1, 3))
    np.fill_diagonal(matrix, 0)
    busiest = max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max())
    assert plan.simulate().makespan_s == pytest.approx(busiest / (8 * 50e9), rel=1e-4)


def test_redistribution_runs_beside_the_next_stage(skewed_plan: il.Plan) -> None:
    """Stage k + 1 is on the wire while stage k is redistributed."""
    messages, times = skewed_plan.messages, skewed_plan.simulate()
    wire, fan = messages["phase"] == Phase.SCALE_OUT, messages["phase"] == Phase.REDISTRIBUTE
    stage = messages["stage"]
    second = int(stage[wire].min()) + 1
    begins, ends = times.start_s[wire & (stage == second)].min(), times.finish_s[wire & (stage == second)].max()
    moving = fan & (stage == second)
    assert ((times.start_s[moving] < ends) & (times.finish_s[moving] > begins)).any()
