"""How far from its bound is `adaptive` where each two GPUs of a server have a link of their own?

MI300X servers, 500 MB per GPU, any fan-in, without stage cost. Beside it `direct`, which waits for those links.
"""

from __future__ import annotations

import numpy as np

import interlock as il
from common import arguments, report

TOLERANCE = 1e-3
SERVERS = (1, 2, 4)
SKEWS = (0.8, 1.2)


def over_bound(servers: int, skew: float, seed: int, algorithm: str) -> float:
    """Simulated time over the bound."""
    cluster = il.cluster("mi300x", servers=servers, fan_in=None, stage_overhead="0 us")
    plan = il.plan(cluster, il.traffic.zipf(cluster, skew, "500 MB", seed), algorithm=algorithm)
    return plan.simulate(TOLERANCE).makespan_s / plan.bound.seconds


def main() -> None:
    """A row for each number of servers and skew."""
    options = arguments(__doc__ or "", draws=20)
    rows: list[dict[str, object]] = []
    for servers in SERVERS:
        for skew in SKEWS:
            seeds = [options.seed + draw for draw in range(options.draws)]
            ours = np.array([over_bound(servers, skew, seed, "adaptive") for seed in seeds])
            straight = np.array([over_bound(servers, skew, seed, "direct") for seed in seeds])
            rows.append(
                {
                    "servers": servers,
                    "load": f"zipf {skew}",
                    "mean": float(ours.mean()),
                    "worst": float(ours.max()),
                    "direct, mean": float(straight.mean()),
                }
            )
    report("mesh", rows, options, draws=options.draws)


if __name__ == "__main__":
    main()
