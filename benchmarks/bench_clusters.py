"""Collectives on clusters and switched fabrics: time over the bound, synthesis, messages, and the best baseline.

Seconds of synthesis are the least of `--repeats`; times are simulated and the same everywhere. `--fabrics` random
switched fabrics are drawn from `--seed` on.
"""

from __future__ import annotations

import time

import numpy as np

import interlock as il
from common import arguments, report
from switched import switched_fabric

BASELINES = ("direct", "ring", "hierarchical", "double-tree", "nvls-tree")
MAKE = {"all-reduce": il.all_reduce, "all-gather": il.all_gather, "all-to-all": il.all_to_all}
FAULTS = {
    "a dead NIC": [il.dead_nic(server=0, gpu=3)],
    "a half-speed NIC": [il.slow_nic(server=1, gpu=5, bandwidth="200 Gb/s")],
    "both": [il.dead_nic(server=2, gpu=1), il.slow_nic(server=0, gpu=5, bandwidth="200 Gb/s")],
}


def measured(
    where: il.Cluster | il.Topology, name: str, size: str, repeats: int, others: tuple[str, ...]
) -> dict[str, object]:
    """`auto`, and the best of some baselines."""
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        plan = il.synthesize(where, MAKE[name](size))
        took.append(time.perf_counter() - start)
    proof = plan.certificate(tolerance=1e-3)
    assert proof.valid
    times = {}
    for other in others:
        try:
            times[other] = il.synthesize(where, MAKE[name](size), algorithm=other).certificate(1e-3).makespan_s
        except il.InvalidInput:
            continue
    best = min(times, key=times.__getitem__, default=None)
    num_ranks = where.num_ranks
    return {
        "over_bound": proof.makespan_s / proof.lower_bound_s,
        "synthesis_s": min(took),
        "messages_per_rank": plan.compact.num_messages / num_ranks,
        "baseline": best,
        "baseline_over_bound": None if best is None else times[best] / proof.lower_bound_s,
    }


def main() -> None:
    """Clusters, faults, fabrics."""
    options = arguments(__doc__ or "", fabrics=60)
    rows: list[dict[str, object]] = []
    for preset, counts in (("h200", (2, 4, 8, 16)), ("a100", (4,)), ("mi300x", (4,))):
        for servers in counts:
            for name in ("all-reduce", "all-gather"):
                for size in ("1 MiB", "16 MiB", "1 GiB"):
                    others = BASELINES if servers <= 4 else ()
                    what = {"cluster": f"{preset} {servers}x8", "collective": name, "size": size}
                    cluster = il.cluster(preset, servers=servers)
                    rows.append(what | measured(cluster, name, size, options.repeats, others))
    for words, faults in FAULTS.items():
        cluster = il.cluster("h200", servers=4, faults=faults)
        what = {"cluster": f"h200 4x8, {words}", "collective": "all-reduce", "size": "1 GiB"}
        rows.append(what | measured(cluster, "all-reduce", "1 GiB", options.repeats, ()))
    fabrics: list[dict[str, object]] = []
    for seed in range(options.seed, options.seed + options.fabrics):
        family, fabric = switched_fabric(seed)
        for name in ("all-gather", "all-reduce", "all-to-all"):
            found = measured(fabric, name, "1 GiB", 1, ("direct", "ring", "hierarchical"))
            fabrics.append({"seed": seed, "family": family, "ranks": fabric.num_ranks, "collective": name} | found)
    ratio = np.array([row["over_bound"] for row in fabrics], float)
    behind = [
        float(row["over_bound"]) / float(row["baseline_over_bound"])  # type: ignore[arg-type]
        for row in fabrics
        if row["baseline"] is not None
    ]
    summary = {
        "fabrics_mean_over_bound": float(ratio.mean()),
        "fabrics_worst_over_bound": float(ratio.max()),
        "fabrics_worst_behind_baseline": max(behind),
        "fabrics_most_synthesis_s": max(float(row["synthesis_s"]) for row in fabrics),  # type: ignore[arg-type]
    }
    report("clusters", rows, options, fabrics=fabrics, **summary)


if __name__ == "__main__":
    main()
