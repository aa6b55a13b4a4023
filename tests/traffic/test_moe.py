"""The synthetic router: popularity, drift, and that counts and tokens tell the same story."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import interlock as il
from interlock.traffic import expert_popularity, moe, moe_routing, token_bytes


def test_training_and_decode_sizes(h200_4x8: il.Cluster) -> None:
    for tokens in (4096, 128):
        matrix = moe(h200_4x8, tokens=tokens, experts=256, top_k=8, hidden=7168, dtype="fp8").bytes_matrix

        assert (matrix.sum(axis=1) == tokens * 8 * 7168).all()
        assert (matrix % 7168 == 0).all()


@pytest.mark.parametrize(
    ("hidden", "dtype", "size"), [(7168, "bf16", 14336), (2048, "fp8", 2048), (4096, "fp32", 16384)]
)
def test_bytes_of_a_token(hidden: int, dtype: str, size: int) -> None:
    assert token_bytes(hidden, dtype) == size


def test_popularity_follows_its_law() -> None:
    zipf = np.sort(expert_popularity(64, skew=0.8))[::-1]
    steep = expert_popularity(4096, skew=0.5, popularity="power-law", seed=1)

    assert zipf[0] / zipf[9] == pytest.approx(10**0.8)
    ordered = np.sort(steep)[::-1]
    slope = np.polyfit(np.log(np.arange(10, 1000)), np.log(ordered[10:1000]), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.08)
    assert zipf.sum() == pytest.approx(1.0) == steep.sum()


def test_popularity_drifts_a_little_every_step_and_much_in_the_end() -> None:
    order = [np.argsort(np.argsort(expert_popularity(256, drift=0.2, step=step))) for step in range(40)]
    near = [np.corrcoef(a, b)[0, 1] for a, b in pairwise(order)]

    assert min(near) > 0.9
    assert np.corrcoef(order[0], order[-1])[0, 1] < 0.75
    assert np.array_equal(expert_popularity(256, drift=0.0, step=7), expert_popularity(256))


def test_counts_and_tokens_agree(h200_4x8: il.Cluster) -> None:
    """The fast generator and the token-by-token one draw the same loads, within what chance allows."""
    options = {"tokens": 2048, "experts": 64, "top_k": 6, "skew": 0.6, "seed": 4}
    counted = moe(h200_4x8, hidden=1, dtype="fp8", **options).bytes_matrix.sum(axis=0)
    routed = moe_routing(h200_4x8, **options).to_demand(1).bytes_matrix.sum(axis=0)

    assert counted.sum() == routed.sum() == 32 * 2048 * 6
    assert np.abs(counted / routed - 1).max() < 0.05


def test_an_expert_serves_a_token_at_most_once(h200_2x4: il.Cluster) -> None:
    """With one expert wildly popular its share saturates at every token."""
    matrix = moe(h200_2x4, tokens=100, experts=8, top_k=4, hidden=1, dtype="fp8", skew=6.0).bytes_matrix
    routing = moe_routing(h200_2x4, tokens=100, experts=8, top_k=4, skew=6.0)

    assert matrix.max() <= 100 and (matrix.sum(axis=1) == 400).all()
    assert routing.expert_loads().max() == 800


def test_all_experts_chosen(h200_2x4: il.Cluster) -> None:
    routing = moe_routing(h200_2x4, tokens=3, experts=8, top_k=8)

    assert (np.sort(routing.experts, axis=1) == np.arange(8)).all()
    assert moe(h200_2x4, tokens=3, experts=8, top_k=8, hidden=1, dtype="fp8").bytes_matrix.tolist() == [[3] * 8] * 8


def test_tokens_choose_in_proportion_to_popularity(h200_4x8: il.Cluster) -> None:
    routing = moe_routing(h200_4x8, tokens=4096, experts=16, top_k=1, skew=1.0, seed=2)
    drawn = routing.expert_loads() / routing.num_tokens

    assert np.abs(drawn - expert_popularity(16, skew=1.0, seed=2)).max() < 0.01


def test_gate_weights_fall_and_add_up_to_one(h200_2x4: il.Cluster) -> None:
    weights = moe_routing(h200_2x4, tokens=50).gate_weights

    assert weights is not None
    assert (np.diff(weights, axis=1) <= 0).all() and np.allclose(weights.sum(axis=1), 1.0)


def test_fewer_experts_than_gpus_are_replicated(h200_4x8: il.Cluster) -> None:
    mixtral = moe(h200_4x8, tokens=1000, experts=8, top_k=2, hidden=1, dtype="fp8").bytes_matrix

    assert (mixtral.sum(axis=0) > 0).all() and mixtral.sum() == 32 * 2000
