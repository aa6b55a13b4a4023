"""How much of a slice shows: fits `kExposed` of `cpp/src/two_tier/slices.cpp`.

Bursts of problems drawn as `bench_regret.py` draws them, cut as finely as each value of it asks, are simulated; the
least time over all values is 1. The best value is the one with the least mean.
"""

from __future__ import annotations

import math
import random

import numpy as np

import interlock as il
from bench_regret import KINDS, cluster_of, demand_of
from common import arguments, report

EXPOSED = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
TOLERANCE = 1e-3
MOST_SERVERS = 8
MOST_SLICES, LEAST_MOST, MOST_FLOWS = 64, 6, 16  # caps on work, as there


def slices(cluster: il.Cluster, demand: il.Demand, exposed: float) -> int:
    """Of an average lane, as the planner chooses them."""
    servers, width, nics = cluster.servers, cluster.gpus_per_server, cluster.nic_bandwidth_bytes_per_s
    tiles = demand.bytes_matrix.reshape(servers, width, servers, width).astype(np.float64)
    tiles[np.arange(servers), :, np.arange(servers)] = 0
    received, between = tiles.sum(axis=(0, 1)), tiles.sum(axis=(1, 3))
    wire_s = between.sum() / nics.sum()
    restore_s = received.max() * (1 - 1 / width) / cluster.slowest_scale_up_bytes_per_s
    likeness = between.sum() ** 2 / max((between**2).sum(), 1e-300) / (servers * (servers - 1))
    slice_s = max(cluster.message_overhead_s, cluster.scale_out_latency_s / MOST_FLOWS)
    wanted = math.sqrt(exposed * max(wire_s, restore_s) / (slice_s * (servers - 1))) * likeness
    return int(np.clip(round(wanted), 1, max(MOST_SLICES // (servers - 1), LEAST_MOST)))


def times(cluster: il.Cluster, demand: il.Demand) -> list[float]:
    """Of each value, over the least."""
    counts = [slices(cluster, demand, exposed) for exposed in EXPOSED]
    seconds = {
        count: il.plan(cluster, demand, algorithm="adaptive", way="burst", slices=count).simulate(TOLERANCE).makespan_s
        for count in set(counts)
    }
    return [seconds[count] / min(seconds.values()) for count in counts]


def main() -> None:
    """Every kind of cluster, `each` problems."""
    options = arguments(__doc__ or "", each=12)
    found = []
    for kind in KINDS:
        for number in range(options.each):
            rng = random.Random(f"{options.seed} {kind} {number}")
            cluster = cluster_of(kind, rng)
            demand = demand_of(cluster, rng)[2]
            if 1 < cluster.servers <= MOST_SERVERS and demand.moved_bytes:
                found.append(times(cluster, demand))
    over = np.array(found)
    rows: list[dict[str, object]] = [
        {"exposed": exposed, "mean": float(over[:, n].mean()), "worst": float(over[:, n].max())}
        for n, exposed in enumerate(EXPOSED)
    ]
    best = EXPOSED[int(over.mean(axis=0).argmin())]
    report("fit_slices", rows, options, problems=len(found), best=best)


if __name__ == "__main__":
    main()
