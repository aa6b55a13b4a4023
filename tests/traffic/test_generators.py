"""Demand generators: sizes, skew, seeds, missing GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import interlock as il
from interlock.problem import demand_problem
from interlock.traffic import kinds, parse

WORDS = [
    "uniform",
    "balanced",
    "random",
    "zipf:0.4",
    "zipf:0.8",
    "zipf:1.2",
    "hot:0.8",
    "lognormal:1",
    "sparse:0.05",
    "moe",
]


@pytest.mark.parametrize("words", WORDS)
def test_a_gpu_sends_what_was_asked_on_average(words: str, h200_4x8: il.Cluster) -> None:
    demand = parse(words, h200_4x8, "512 MB", seed=3)

    assert demand.bytes_matrix.dtype == np.int64 and demand.bytes_matrix.shape == (32, 32)
    assert demand.bytes_matrix.sum() / 32 == pytest.approx(512e6, rel=1e-4)
    assert demand.bytes_matrix.min() >= 0


@pytest.mark.parametrize("words", WORDS[2:])
def test_the_same_seed_gives_the_same_bytes(words: str, h200_4x8: il.Cluster) -> None:
    assert parse(words, h200_4x8, "1 MB", 5) == parse(words, h200_4x8, "1 MB", 5)
    assert parse(words, h200_4x8, "1 MB", 5) != parse(words, h200_4x8, "1 MB", 6)


@pytest.mark.parametrize("words", WORDS)
def test_a_missing_gpu_neither_sends_nor_receives(words: str) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4, faults=[il.missing_gpu(1, 1)])
    matrix = parse(words, cluster, "1 MB").bytes_matrix

    assert matrix[5].sum() == 0 == matrix[:, 5].sum()
    assert matrix.sum() > 6e6
    assert len(demand_problem(cluster, parse(words, cluster, "1 MB")).items) > 0


def test_kinds_are_all_understood(h200_2x4: il.Cluster) -> None:
    assert {word.split(":")[0] for word in WORDS} == set(kinds())


def moved_share(matrix: NDArray[np.int64], servers: int, gpus: int) -> float:
    """Share of the bytes between servers that FAST's balance phase moves: above the mean of each server pair."""
    rows = matrix.reshape(servers, gpus, servers, gpus).sum(axis=3).transpose(0, 2, 1).astype(float)
    rows[np.arange(servers), np.arange(servers)] = 0
    return float(np.maximum(rows - rows.mean(axis=2, keepdims=True), 0).sum() / rows.sum())


def test_zipf_is_as_skewed_as_fast_reports() -> None:
    """The notes on FAST have 8.3 % (random) and 18.5 % (Zipf 0.8) of the bytes moved at 8 x 8."""
    cluster = il.cluster("h200", servers=8)
    shares = {}
    for words in ("random", "zipf:0.8"):
        drawn = [moved_share(parse(words, cluster, "512 MB", seed).bytes_matrix, 8, 8) for seed in range(5)]
        shares[words] = np.mean(drawn)

    assert shares["random"] == pytest.approx(0.083, abs=0.01)
    assert shares["zipf:0.8"] == pytest.approx(0.185, abs=0.01)


def test_zipf_without_skew_is_uniform_per_pair(h200_4x8: il.Cluster) -> None:
    matrix = il.traffic.zipf(h200_4x8, skew=0.0, bytes_per_gpu="512 MB").bytes_matrix

    assert matrix.max() / matrix.mean() == pytest.approx(2.0, rel=0.05)
    assert np.median(matrix) / matrix.mean() == pytest.approx(1.0, abs=0.1)


def test_a_hot_expert_is_hot_for_every_sender(h200_4x8: il.Cluster) -> None:
    matrix = il.traffic.hot_expert(h200_4x8, skew=0.8).bytes_matrix
    hottest = matrix.sum(axis=0).argmax()

    assert (matrix.argmax(axis=1) == hottest).all()
    assert matrix[:, hottest].mean() / np.median(matrix) > 5


def test_sparse_traffic_is_sparse(h200_4x8: il.Cluster) -> None:
    share = (il.traffic.sparse(h200_4x8, density=0.05).bytes_matrix > 0).mean()

    assert 0.03 < share < 0.07
    assert il.traffic.sparse(h200_4x8, density=0.0).moved_bytes == 0


def test_lognormal_shape(h200_4x8: il.Cluster) -> None:
    logs = np.log(il.traffic.lognormal(h200_4x8, sigma=1.5).bytes_matrix)

    assert logs.std() == pytest.approx(1.5, rel=0.1)
