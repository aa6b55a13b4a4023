"""Bytes to chunks: nothing lost, nothing hidden."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.interchange.shared.chunks.layout import pad_to_equal_sums
from interlock.interchange.shared.chunks.quantise import ChunkPolicy, quantise

CLUSTER = il.cluster("h200", servers=2, gpus_per_server=2)


def plan_of(matrix: list[list[int]], algorithm: str) -> il.Plan:
    return il.plan(CLUSTER, il.traffic.matrix(np.array(matrix, np.int64)), algorithm)


@given(
    matrix=st.lists(st.lists(st.integers(0, 10_000), min_size=4, max_size=4), min_size=4, max_size=4),
    chunk_bytes=st.integers(1, 5_000),
    algorithm=st.sampled_from(["direct", "pxn", "no-stage", "spray"]),
)
@settings(max_examples=60)
def test_every_chunk_of_every_item_goes_the_way_of_its_bytes(
    matrix: list[list[int]], chunk_bytes: int, algorithm: str
) -> None:
    plan = plan_of(matrix, algorithm)
    made = quantise(plan.schedule, plan.problem, ChunkPolicy(chunk_bytes))
    sizes = plan.problem.items.size_bytes
    assert (made.item_chunks * chunk_bytes >= sizes).all() and ((made.item_chunks - 1) * chunk_bytes < sizes).all()
    destinations = plan.problem.items.destinations.to_ragged().values
    for item in range(len(sizes)):
        taken = np.zeros(made.item_chunks[item], np.int64)
        for k in np.flatnonzero(made.item == item):
            if plan.schedule.dst.values[made.message[k]] == destinations[item]:
                taken[made.first[k] : made.first[k] + made.count[k]] += 1
        assert (taken == 1).all()
    if made.true_bytes:
        assert made.inflation == made.padded_bytes / made.true_bytes - 1


@pytest.mark.parametrize(
    ("policy", "how"),
    [(ChunkPolicy(), "exact"), (ChunkPolicy(500), "fixed"), (ChunkPolicy(max_chunks_per_rank=7), "padded")],
)
def test_the_policy_is_said(policy: ChunkPolicy, how: str) -> None:
    plan = plan_of([[0, 3000, 2000, 1000]] * 4, "direct")
    made = quantise(plan.schedule, plan.problem, policy)
    assert made.policy == how
    assert (made.inflation == 0) == (how != "padded")


def test_exactness_can_be_demanded() -> None:
    plan = plan_of([[0, 3001, 2000, 1000]] * 4, "direct")
    with pytest.raises(il.InvalidInput, match="cuts its items at multiples of 1 bytes"):
        quantise(plan.schedule, plan.problem, ChunkPolicy(max_chunks_per_rank=100, must_be_exact=True))


@given(
    st.integers(1, 7).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 50), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
@settings(max_examples=100)
def test_padding_makes_all_sums_equal_and_adds_the_least_between_ranks(rows: list[list[int]]) -> None:
    true = np.array(rows, np.int64)
    padded = pad_to_equal_sums(true)
    total = padded.sum(axis=0)[0]
    assert (padded.sum(axis=0) == total).all() and (padded.sum(axis=1) == total).all()
    assert total % len(true) == 0 and total >= max(true.sum(axis=0).max(), true.sum(axis=1).max())
    added = padded - true
    assert (added >= 0).all()
    between = added.sum() - np.trace(added)
    assert between == np.abs(true.sum(axis=0) - true.sum(axis=1)).sum() // 2
