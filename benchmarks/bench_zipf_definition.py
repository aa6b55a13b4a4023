"""Which Zipf demand fits what is published of FAST's: sampled per pair, or weighted by a pair's place?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import interlock as il
from common import arguments, report

GPUS = 8


def placed(servers: int, seed: int) -> NDArray[np.float64]:
    """The rejected reading: the k-th largest pair weighs k^-0.8."""
    ranks = servers * GPUS
    weights = np.arange(1, ranks * ranks + 1, dtype=np.float64) ** -0.8
    return np.random.default_rng(seed).permutation(weights).reshape(ranks, ranks)


def moved_share(matrix: NDArray[np.generic], servers: int) -> float:
    """Share of the bytes between servers above the mean of their server pair: what balancing moves."""
    rows = matrix.reshape(servers, GPUS, servers, GPUS).sum(axis=3).transpose(0, 2, 1).astype(float)
    rows[np.arange(servers), np.arange(servers)] = 0
    return float(np.maximum(rows - rows.mean(axis=2, keepdims=True), 0).sum() / rows.sum())


def best_rate(matrix: NDArray[np.generic], servers: int) -> float:
    """The rate no algorithm exceeds, over that of balanced traffic: mean over largest load of a server."""
    between = matrix.reshape(servers, GPUS, servers, GPUS).sum(axis=(1, 3)).astype(float)
    np.fill_diagonal(between, 0)
    return float(between.sum() / servers / max(between.sum(axis=0).max(), between.sum(axis=1).max()))


def main() -> None:
    options = arguments(__doc__ or "", draws=10)
    eight, four = il.cluster("h200", servers=8), il.cluster("h200", servers=4)
    rows = []
    for reading, at_eight, at_four in (
        ("random", lambda s: il.traffic.random(eight, seed=s), lambda s: il.traffic.random(four, seed=s)),
        ("sample", lambda s: il.traffic.zipf(eight, 0.8, seed=s), lambda s: il.traffic.zipf(four, 0.8, seed=s)),
        ("place", lambda s: placed(8, s), lambda s: placed(4, s)),
    ):
        seeds = range(options.seed, options.seed + options.draws)
        big = [getattr(at_eight(s), "bytes_matrix", at_eight(s)) for s in seeds]
        small = [getattr(at_four(s), "bytes_matrix", at_four(s)) for s in seeds]
        rows.append(
            {
                "reading": reading,
                "moved at 8x8 %": 100 * float(np.mean([moved_share(m, 8) for m in big])),
                "largest over median at 4x8": float(np.mean([m.max() / np.median(m) for m in small])),
                "rate over balanced at 4x8, at most": float(np.mean([best_rate(m, 4) for m in small])),
            }
        )
    report(
        "zipf_definition", rows, options, published="moved 8.3 (random), 18.5 (Zipf 0.8); rate 0.92 and 0.81 at 512 MB"
    )


if __name__ == "__main__":
    main()
