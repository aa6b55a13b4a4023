"""Bytes to chunks: nothing lost, nothing hidden."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.errors import LimitExceeded
from interlock.interchange.shared.chunks.quantise import ChunkPolicy, Quantised, fit_chunks, quantise

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


@given(st.lists(st.integers(1, 10**7), min_size=2, max_size=12), st.sampled_from([0.01, 0.002]))
@settings(max_examples=40)
def test_the_largest_size_that_adds_little_is_chosen(sizes: list[int], most: float) -> None:
    matrix = np.zeros((4, 4), np.int64)
    matrix[~np.eye(4, dtype=bool)] = (sizes * 6)[:12]
    plan = il.plan(CLUSTER, il.traffic.matrix(matrix), "direct")
    made = quantise(plan.schedule, plan.problem, ChunkPolicy(None, 1 << 20, 16, max_added=most))
    assert made.chunk_bytes % 16 == 0
    if made.policy == "padded" and made.chunk_bytes > 16:
        assert made.inflation <= most


def test_larger_chunks_are_tried_before_a_format_refuses() -> None:
    plan = plan_of([[0, 3001, 2000, 1000]] * 4, "direct")
    tried: list[int] = []

    def build(quantised: Quantised) -> int:
        tried.append(quantised.chunk_bytes)
        if quantised.chunk_bytes < 1024:
            raise LimitExceeded("too many")
        return quantised.chunk_bytes

    assert fit_chunks(plan.schedule, plan.problem, ChunkPolicy(None, 1 << 20, 16), build)[1] == 1024
    assert all(b == 2 * a for a, b in itertools.pairwise(tried)) and len(tried) > 2
    with pytest.raises(LimitExceeded, match="never"):
        fit_chunks(plan.schedule, plan.problem, ChunkPolicy(None, 1 << 20, 16), refuse)


def refuse(quantised: Quantised) -> int:
    raise LimitExceeded("never")
