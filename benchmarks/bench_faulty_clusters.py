"""How far above the bound are plans on clusters where NICs and GPUs are slow, dead and missing together?

python benchmarks/bench_faulty_clusters.py --clusters 5000

Simulated. Any preset, scale-out, fan-in and fabric; up to four faults; dense and sparse demands. Half of the clusters
have at least 64 MB per GPU, half any size from 1 kB. "large" are the former, where uplinks are not hashed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

import interlock as il
from common import arguments, report
from interlock.topology import FABRICS, Fault

LARGE_BYTES = 64e6  # per GPU
LIMITS = {"large": 1.25, "any size": 2.0}  # most time over the bound
PRESETS = ("a100", "h100", "h200", "b200", "mi300x")


def faulty_cluster(rng: random.Random) -> il.Cluster:
    """One to four faults at random places, slow NICs from a hundredth of the rate on."""
    servers, gpus = rng.randint(2, 6), rng.randint(1, 8)
    settings: dict[str, object] = {"scale_out": rng.choice(("flat", "rail", "rail-spine"))}
    if rng.random() < 0.3:
        settings["fan_in"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        settings["fabric"] = rng.choice(sorted(FABRICS))
    if settings["scale_out"] != "rail" and rng.random() < 0.3:
        settings["oversubscription"] = rng.choice((2.0, 4.0))
    places = rng.sample([(s, g) for s in range(servers) for g in range(gpus)], min(rng.randint(1, 4), servers * gpus))
    preset = rng.choice(PRESETS)
    rate = il.cluster(preset).scale_out_bandwidth_bytes_per_s
    faults: list[Fault] = []
    for server, gpu in places:
        kind = rng.random()
        if kind < 0.5:
            faults.append(il.slow_nic(server, gpu, rate * 10 ** rng.uniform(-2, -0.1)))
        elif kind < 0.75:
            faults.append(il.dead_nic(server, gpu))
        else:
            faults.append(il.missing_gpu(server, gpu))
    return il.cluster(preset, servers=servers, gpus_per_server=gpus, faults=faults, **settings)  # type: ignore[arg-type]


def demand_on(cluster: il.Cluster, rng: random.Random) -> il.Demand:
    """Even, skewed or sparse, between GPUs that are there."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    shape = (cluster.num_ranks, cluster.num_ranks)
    weights = rng.choice((np.ones(shape), numbers.random(shape), numbers.pareto(1.2, shape)))
    weights = weights * (numbers.random(shape) < rng.choice((0.1, 0.3, 1.0, 1.0)))
    np.fill_diagonal(weights, 0)
    weights[~cluster.present] = 0
    weights[:, ~cluster.present] = 0
    per_gpu = LARGE_BYTES * 10 ** rng.uniform(0, 1) if rng.random() < 0.5 else 10 ** rng.uniform(3, 8.5)
    total = weights.sum()
    scale = per_gpu * cluster.present.sum() / total if total else 0.0
    return il.traffic.matrix((weights * scale).astype(np.int64))


def judged(seed: int, count: int) -> Iterator[dict[str, object]]:
    """One row per cluster whose GPUs can all be reached."""
    for number in range(count):
        rng = random.Random(f"{seed}.{number}")
        try:
            cluster = faulty_cluster(rng)
            demand = demand_on(cluster, rng)
            plan = il.plan(cluster, demand)
        except il.InvalidInput as refused:
            yield {"number": number, "refused": str(refused)}
            continue
        proof = plan.certificate(tolerance=1e-3)
        ratio = proof.makespan_s / proof.lower_bound_s if proof.lower_bound_s else 1.0
        per_gpu = demand.bytes_matrix.sum() / cluster.present.sum()
        is_large = per_gpu >= LARGE_BYTES * 0.999 and cluster.fabric.ecmp_radix is None
        yield {
            "number": number,
            "valid": proof.valid,
            "ratio": ratio,
            "kind": "large" if is_large else "any size",
            "cluster": str(cluster),
            "per_gpu": float(per_gpu),
            "reason": plan.reason,
        }


def main() -> None:
    """Print one row per size, and every cluster above its limit."""
    options = arguments(__doc__ or "", clusters=5000)
    made = list(judged(options.seed, options.clusters))
    refused = [row for row in made if "refused" in row]
    rows, beyond = [], []
    for kind, limit in LIMITS.items():
        own = [row for row in made if "ratio" in row and (kind == "any size" or row["kind"] == kind)]
        ratios = np.array([row["ratio"] for row in own])
        beyond += [{**row, "limit": limit} for row in own if row["ratio"] > limit]  # type: ignore[operator]
        rows.append(
            {
                "size": kind,
                "clusters": len(own),
                "invalid": sum(not row["valid"] for row in own),
                "below_bound": int((ratios < 0.998).sum()),
                "median": float(np.median(ratios)),
                "p99": float(np.quantile(ratios, 0.99)),
                "worst": float(ratios.max()),
                "limit": limit,
                "above_limit": int((ratios > limit).sum()),
            }
        )
    for row in beyond:
        print(row)
    report("faulty_clusters", rows, options, refused=len(refused), beyond=beyond)


if __name__ == "__main__":
    main()
