"""Collectives on clusters and switched fabrics: time over the bound, synthesis, messages, and the best baseline.

Seconds of synthesis are the least of `--repeats`; times are simulated and the same everywhere. `--fabrics` random
switched fabrics and `--drawn` random clusters (any collective, group, root, scale-out and size) are drawn from `--seed`
on; `--only-drawn` leaves out the rest and writes no file.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import numpy as np

import interlock as il
from common import arguments, report, show
from interlock.collectives import CollectiveKind, collective
from switched import switched_fabric

BASELINES = ("direct", "ring", "hierarchical", "double-tree", "nvls-tree")
ALL_BASELINES = (*BASELINES, "halving-doubling", "two-tree", "nvls", "multitree", "weighted-direct")
PRESETS = ("a100", "h100", "h200", "b200", "mi300x")
LEAST_BYTES, MOST_BYTES = 2**10, 2**33
BEHIND = 1.01  # of a baseline
FAULTS = {
    "a dead NIC": [il.dead_nic(server=0, gpu=3)],
    "a half-speed NIC": [il.slow_nic(server=1, gpu=5, bandwidth="200 Gb/s")],
    "both": [il.dead_nic(server=2, gpu=1), il.slow_nic(server=0, gpu=5, bandwidth="200 Gb/s")],
}


def drawn_collective(rng: random.Random, cluster: il.Cluster) -> il.Collective:
    """Any kind, of any size, over all ranks or a group that has some or one of each server, whole servers, or any."""
    width, servers = cluster.gpus_per_server, range(cluster.servers)
    some = rng.sample(range(width), rng.randint(1, width))
    whole = rng.sample(servers, rng.randint(1, len(servers)))
    groups = {
        "some of each server": [server * width + gpu for server in servers for gpu in some],
        "one of each": [server * width + rng.randrange(width) for server in servers],
        "whole servers": [server * width + gpu for server in whole for gpu in range(width)],
        "any": rng.sample(range(cluster.num_ranks), rng.randint(2, cluster.num_ranks)),
    }
    group = sorted(groups[rng.choice(list(groups))]) if rng.random() < 0.5 else None
    group = group if group is None or len(group) > 1 else None
    size_bytes = round(LEAST_BYTES * (MOST_BYTES / LEAST_BYTES) ** rng.random())
    root = rng.choice(group or range(cluster.num_ranks))
    kind = rng.choice(list(CollectiveKind))
    return collective(kind, size_bytes, group, root)


def drawn(seed: int, count: int) -> Iterator[dict[str, object]]:
    """Random clusters against every baseline that plans them."""
    for number in range(count):
        rng = random.Random(f"{seed}.{number}")
        servers, gpus = rng.randint(1, 16), rng.choice((4, 6, 8))
        preset, scale_out = rng.choice(PRESETS), rng.choice(("flat", "rail", "rail-spine"))
        cluster = il.cluster(preset, servers=servers, gpus_per_server=gpus, scale_out=scale_out)
        made = drawn_collective(rng, cluster)
        where = {"number": number, "cluster": f"{preset} {servers}x{gpus} {scale_out}", "collective": made.kind}
        what = {"members": len(made.group or range(cluster.num_ranks)), "bytes": made.size_bytes}
        try:
            yield where | what | measured(cluster, made, 1, ALL_BASELINES)
        except il.InvalidInput as refused:
            yield where | what | {"refused": str(refused)}


def behind(row: dict[str, object]) -> float:
    """Time of `auto` over that of the best baseline; 0 where there is none."""
    if row.get("baseline") is None:
        return 0.0
    return float(row["over_bound"]) / float(row["baseline_over_bound"])  # type: ignore[arg-type]


def measured(
    where: il.Cluster | il.Topology, what: il.Collective, repeats: int, others: tuple[str, ...]
) -> dict[str, object]:
    """`auto`, and the best of some baselines."""
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        plan = il.synthesize(where, what)
        took.append(time.perf_counter() - start)
    proof = plan.certificate(tolerance=1e-3)
    assert proof.valid
    times = {}
    for other in others:
        try:
            times[other] = il.synthesize(where, what, algorithm=other).certificate(1e-3).makespan_s
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
    """Clusters, faults, fabrics, random clusters."""
    options = arguments(__doc__ or "", fabrics=60, drawn=200, only_drawn=False)
    random_clusters = list(drawn(options.seed, options.drawn))
    compared = [row for row in random_clusters if behind(row)]
    summary: dict[str, object] = {
        "drawn": len(random_clusters),
        "drawn_behind": [row for row in compared if behind(row) > BEHIND],
        "drawn_worst_behind_baseline": max(map(behind, compared), default=0.0),
        "drawn_most_synthesis_s": max((row.get("synthesis_s", 0.0) for row in random_clusters), default=0.0),  # type: ignore[type-var]
    }
    if options.only_drawn:
        show(random_clusters)
        print(summary)
        return
    rows: list[dict[str, object]] = []
    for preset, counts in (("h200", (2, 4, 8, 16)), ("a100", (4,)), ("mi300x", (4,))):
        for servers in counts:
            for name in ("all-reduce", "all-gather"):
                for size in ("1 MiB", "16 MiB", "1 GiB"):
                    others = BASELINES if servers <= 4 else ()
                    what = {"cluster": f"{preset} {servers}x8", "collective": name, "size": size}
                    cluster = il.cluster(preset, servers=servers)
                    rows.append(what | measured(cluster, collective(name, size), options.repeats, others))
    for words, faults in FAULTS.items():
        cluster = il.cluster("h200", servers=4, faults=faults)
        what = {"cluster": f"h200 4x8, {words}", "collective": "all-reduce", "size": "1 GiB"}
        rows.append(what | measured(cluster, il.all_reduce("1 GiB"), options.repeats, ()))
    fabrics: list[dict[str, object]] = []
    for seed in range(options.seed, options.seed + options.fabrics):
        family, fabric = switched_fabric(seed)
        for name in ("all-gather", "all-reduce", "all-to-all"):
            found = measured(fabric, collective(name, "1 GiB"), 1, ("direct", "ring", "hierarchical"))
            fabrics.append({"seed": seed, "family": family, "ranks": fabric.num_ranks, "collective": name} | found)
    ratio = np.array([row["over_bound"] for row in fabrics], float)
    summary |= {
        "fabrics_mean_over_bound": float(ratio.mean()),
        "fabrics_worst_over_bound": float(ratio.max()),
        "fabrics_worst_behind_baseline": max(map(behind, fabrics)),
        "fabrics_most_synthesis_s": max(float(row["synthesis_s"]) for row in fabrics),  # type: ignore[arg-type]
    }
    report("clusters", rows, options, fabrics=fabrics, **summary)


if __name__ == "__main__":
    main()
