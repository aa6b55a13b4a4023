"""What does planning gain on routing as it was measured, not only on Zipf between pairs?

Simulated times of `direct`, `fast` and `adaptive` on H200 servers of 8: published routing profiles (Gini of tokens per
expert by kind of attention), the shared routing traces where they are there, and Zipf 0.8 between pairs, as in the
FAST paper. 256 experts, top 8, 4,096 tokens of 14 kB per GPU; traces have 64 experts, top 6, tokens sent 64 times.
Geometric means and least over the seeds, traces over layers.
"""

from __future__ import annotations

import numpy as np

import interlock as il
from bench_rails import BYTES_PER_TOKEN, TRACE, traced
from common import arguments, report
from interlock.traffic.moe_router import PROFILES

LAYERS = (5, 10, 20)
TIMED = ("direct", "fast", "adaptive")


def loads(cluster: il.Cluster, seeds: range) -> dict[str, list[il.Demand]]:
    """Draws of every load."""
    made = {
        name: [il.traffic.moe(cluster, profile=name, seed=seed) for seed in seeds]
        for name in PROFILES
        if name != "gdn"  # published in one band with mla
    }
    if TRACE.exists():
        for task in ("intent", "summary"):
            routings = [traced(task, cluster.num_ranks, layer) for layer in LAYERS]
            made[f"trace {task}"] = [routing.to_demand(64 * BYTES_PER_TOKEN) for routing in routings]
    made["zipf 0.8"] = [il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="470 MB", seed=seed) for seed in seeds]
    return made


def main() -> None:
    """One row per size and load."""
    options = arguments(__doc__ or "", servers="4,8,16")
    rows: list[dict[str, object]] = []
    for servers in map(int, options.servers.split(",")):
        cluster = il.cluster("h200", servers=servers)
        for name, draws in loads(cluster, range(options.seed, options.seed + options.repeats)).items():
            times = np.array([[seconds(cluster, demand, how) for how in TIMED] for demand in draws])
            uneven = [demand.unevenness for demand in draws]
            over_direct, over_fast = (times[:, place] / times[:, 2] for place in (0, 1))
            rows.append(
                {
                    "servers": servers,
                    "load": name,
                    "received_gini": float(np.mean([each.received_gini for each in uneven])),
                    "received_peak": float(np.mean([each.received_peak for each in uneven])),
                    "pairs_gini": float(np.mean([each.pairs_gini for each in uneven])),
                    "over_direct": float(np.exp(np.log(over_direct).mean())),
                    "over_direct_least": float(over_direct.min()),
                    "over_fast": float(np.exp(np.log(over_fast).mean())),
                    "over_fast_least": float(over_fast.min()),
                    "draws": len(draws),
                }
            )
    report("profiles", rows, options)


def seconds(cluster: il.Cluster, demand: il.Demand, algorithm: str) -> float:
    """Simulated time."""
    return float(il.plan(cluster, demand, algorithm=algorithm).simulate(1e-3).makespan_s)


if __name__ == "__main__":
    main()
