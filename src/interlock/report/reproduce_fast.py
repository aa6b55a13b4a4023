"""FAST's speed-up table and its synthesis times, our simulated and measured figures beside the published ones."""

from __future__ import annotations

import time

from interlock.planning import planner, solve
from interlock.problem import demand_problem
from interlock.report.claims import Claim, Status, judge, judge_over_baseline
from interlock.topology import Cluster, cluster
from interlock.traffic import Demand, random, uniform, zipf

__all__ = ["claims"]

# (what it stands for, our baseline, published band on random traffic, on skewed traffic)
Band = tuple[float, float | None]
NVIDIA: tuple[tuple[str, str, Band, Band], ...] = (
    ("NCCL with PXN", "pxn", (1.01, 1.1), (1.2, 1.3)),
    ("DeepEP", "forward", (1.5, 1.9), (1.2, 1.5)),
    ("TACCL, padded", "padded", (1.5, 1.7), (3.0, None)),
)
AMD: tuple[tuple[str, str, Band, Band], ...] = (
    ("SpreadOut", "spreadout", (1.9, 2.1), (2.5, 2.8)),
    ("RCCL", "direct", (1.1, 10.0), (1.3, 2.6)),
    ("TACCL, padded", "padded", (1.3, 1.8), (2.9, 3.8)),
    ("TE-CCL, padded", "padded", (1.6, 2.3), (3.6, 4.7)),
)
# Balanced traffic, GB/s per GPU: (what it stands for, our algorithm, published); on MI300X from the authors' logs.
BALANCED_NVIDIA = (
    ("FAST", "fast", 58.0),
    ("NCCL with PXN", "pxn", 58.0),
    ("DeepEP", "forward", 60.0),
    ("TACCL, padded", "padded", 59.0),
)
BALANCED_AMD = (
    ("FAST", "fast", 13.80),
    ("SpreadOut", "spreadout", 9.48),
    ("RCCL", "direct", 0.25),
    ("no-stage", "no-stage", 13.27),
)
# How our baselines differ from what was run in the paper; that this explains the figures is supposed, not tested.
WHY = {
    "pxn": "cause not tested; pxn is NCCL's routes alone, without its channels and buffers",
    "forward": "cause not tested; forward is DeepEP's routes alone, without its kernels and buffers",
    "padded": "cause not tested; padded sends everything at once, and incast may cost it more than TACCL",
    "spreadout": "cause not tested; ours has a barrier after every stage, theirs is not known",
    "no-stage": "cause not tested; what several senders cost a receiver is our fabric's loss curve",
    "direct": "cause not tested; incast costs what our fabric's loss curve says",
}
PLANNINGS = 200
PLANNING_US = {2: 3.1, 4: 25.0, 8: 221.0, 12: 805.0, 40: 77_000.0}  # servers of 8: published synthesis time


def claims(quick: bool = True) -> list[Claim]:
    """Speed-ups on both clusters, ours over FAST, balanced traffic, planning times."""
    size = "512 MB"
    made = []
    for name, where, rows, balanced in (
        ("H200", cluster("h200", servers=4), NVIDIA, BALANCED_NVIDIA),
        ("MI300X", cluster("mi300x-100g", servers=4), AMD, BALANCED_AMD),
    ):
        loads = {"random": random(where, size, seed=1), "skewed": zipf(where, 0.8, size, seed=1)}
        for load, demand in loads.items():
            bands = [
                (what, algorithm, plain if load == "random" else skewed) for what, algorithm, plain, skewed in rows
            ]
            made += _speedups(where, demand, f"{name}, {load}", bands)
        made += _balanced(where, name, balanced)
    return made + [
        _planning(servers, published) for servers, published in PLANNING_US.items() if not quick or servers < 40
    ]


def _seconds(where: Cluster, demand: Demand, algorithm: str) -> float:
    return float(solve(demand_problem(where, demand), algorithm).simulate(1e-3).makespan_s)


def _speedups(where: Cluster, demand: Demand, title: str, rows: list[tuple[str, str, Band]]) -> list[Claim]:
    fast_s, ours_s = _seconds(where, demand, "fast"), _seconds(where, demand, "adaptive")
    made = []
    for what, algorithm, (low, high) in rows:
        baseline_s = _seconds(where, demand, algorithm)
        band = f"{low}-{high}" if high is not None else f">{low}"
        status = judge_over_baseline(baseline_s / fast_s, low, high, slack=0.15)
        note = f"simulated, 512 MB per GPU; adaptive (ours): {baseline_s / ours_s:.2f}x"
        note += "" if status is Status.REPRODUCED else f"; {WHY[algorithm]}"
        made.append(Claim("fast", f"{title}: FAST over {what}", band, baseline_s / fast_s, "x", status, note))
    made.append(
        Claim(
            "fast",
            f"{title}: adaptive over FAST",
            "1 (itself)",
            fast_s / ours_s,
            "x",
            judge(fast_s / ours_s, 1.0, slack=0.0),
        )
    )
    return made


def _balanced(where: Cluster, name: str, rows: tuple[tuple[str, str, float], ...]) -> list[Claim]:
    """FAST's own measure, all bytes over GPUs and time, of each algorithm."""
    demand = uniform(where, "512 MB")
    per_gpu = int(demand.bytes_matrix.sum()) / where.num_ranks / 1e9
    ours = per_gpu / _seconds(where, demand, "adaptive")
    made = []
    for what, algorithm, published in rows:
        rate = per_gpu / _seconds(where, demand, algorithm)
        status = judge(rate, published, slack=0.15)
        if algorithm != "fast" and status is not Status.REPRODUCED:
            status = Status.NOT_COMPARABLE  # a baseline that we had to model
        note = f"simulated, 512 MB per GPU; adaptive (ours): {ours:.4g} GB/s"
        note += "; published: the authors' logs" if rows is BALANCED_AMD else ""
        note += "" if status is Status.REPRODUCED else f"; {WHY.get(algorithm, 'cause not tested')}"
        claim = f"{name}, balanced: throughput per GPU of {what}"
        made.append(Claim("fast", claim, f"{published:g}", rate, "GB/s", status, note))
    return made


def _planning(servers: int, published_us: float) -> Claim:
    where = cluster("h200", servers=servers)
    demand = zipf(where, 0.8, "512 MB", seed=0)
    plan = planner(where, "adaptive", cache=False)
    plan(demand)
    seconds = []
    for _ in range(PLANNINGS):
        start = time.perf_counter()
        plan(demand)
        seconds.append(time.perf_counter() - start)
    ours = 1e6 * min(seconds)
    status = judge(ours, published_us, less_is_better=True)
    note = "measured here, adaptive, least of 200; theirs on their machine"
    return Claim("fast", f"planning time, {servers * 8} GPUs", f"{published_us:g}", ours, "us", status, note)
