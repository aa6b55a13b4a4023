"""How far is `adaptive` from the best of everything we have? Clusters of every kind, sizes and loads drawn at random.

Rivals are its own ways, the other algorithms, and `guided` up to 16 ranks, all simulated on the same problem. Regret is
our time over the least of all. Beside it: time over the bound, from 64 MB per GPU on, and what was predicted over what
was simulated. Some ten minutes with the default of 6 problems per kind; `--effort simulate` looks at that effort.
"""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import interlock as il
from common import arguments, report

TOLERANCE = 1e-3
WORST = 12  # cases by name
MOST_GUIDED = 16  # ranks up to which synthesis is among the rivals
LARGE = ("64 MB", "256 MB", "1 GB")
RIVALS = ("fast", "no-stage", "direct", "pxn", "forward", "rails-split")
WAYS = ("direct", "burst", "staged", "detour")
KINDS: dict[str, tuple[str, dict[str, object]]] = {  # preset, overrides
    "18:1": ("b200", {}),
    "9:1": ("h200", {}),
    "4:1": ("h800", {}),
    "2:1": ("h200", {"scale_up_bandwidth": "100 GB/s"}),
    "1:1": ("h200", {"scale_up_bandwidth": "50 GB/s"}),
    "mesh 9:1": ("mi300x", {}),
    "mesh 36:1": ("mi300x-100g", {"fabric": "none"}),
    "mesh 4:1": ("mi300x", {"scale_out_bandwidth": "800 Gb/s"}),
    "rail": ("h200", {"scale_out": "rail"}),
    "rail 2:1": ("h200", {"scale_out": "rail", "scale_up_bandwidth": "100 GB/s"}),
    "rail-spine /2": ("h200", {"scale_out": "rail-spine", "oversubscription": 2.0}),
    "flat /2": ("h200", {"oversubscription": 2.0}),
    "one-to-one": ("h200", {"fan_in": 1}),
    "one-to-one 2:1": ("h200", {"fan_in": 1, "scale_up_bandwidth": "100 GB/s"}),
    "roce-pfc": ("h200", {"fabric": "roce-pfc"}),
    "roce-dcqcn": ("mi300x-100g", {"fabric": "roce-dcqcn"}),
    "faults": ("h200", {}),
}
LOADS = ("random", "zipf 0.6", "zipf 0.9", "zipf 1.2", "hot", "sparse", "balanced")

Draw = tuple[str, int, int, str]  # kind, seed, number, effort


def cluster_of(kind: str, rng: random.Random) -> il.Cluster:
    """A cluster of that kind, of 1 to 12 servers."""
    preset, overrides = KINDS[kind]
    servers = rng.choice((1, 2, 3, 4, 4, 5, 6, 8, 8, 12))
    if kind != "faults":
        return il.cluster(preset, servers=servers, **overrides)
    servers = max(servers, 2)
    dead, slow = rng.sample([(server, gpu) for server in range(servers) for gpu in range(8)], 2)
    faults = [il.dead_nic(*dead), il.slow_nic(*slow, bandwidth="200 Gb/s")]
    return il.cluster(preset, servers=servers, faults=faults)


def demand_of(cluster: il.Cluster, rng: random.Random) -> tuple[str, str, il.Demand]:
    """A load, a size per GPU, and the traffic."""
    size = rng.choice(("1 MB", "4 MB", "16 MB", *LARGE))
    load, seed = rng.choice(LOADS), rng.randrange(1 << 30)
    kind, _, skew = load.partition(" ")
    if kind == "zipf":
        return load, size, il.traffic.zipf(cluster, skew=float(skew), bytes_per_gpu=size, seed=seed)
    made = {
        "random": lambda: il.traffic.random(cluster, bytes_per_gpu=size, seed=seed),
        "hot": lambda: il.traffic.hot_expert(cluster, skew=0.8, bytes_per_gpu=size, seed=seed),
        "sparse": lambda: il.traffic.sparse(cluster, bytes_per_gpu=size, seed=seed),
        "balanced": lambda: il.traffic.uniform(cluster, bytes_per_gpu=size),
    }[kind]()
    return load, size, made


def measure(draw: Draw) -> dict[str, object]:
    """One problem: our time, every rival's, the bound, and what was predicted."""
    kind, seed, number, effort = draw
    rng = random.Random(f"{seed} {kind} {number}")
    cluster = cluster_of(kind, rng)
    load, size, demand = demand_of(cluster, rng)
    while demand.moved_bytes == 0:
        load, size, demand = demand_of(cluster, rng)
    chosen = {"effort": effort} if effort else {}
    plan = il.plan(cluster, demand, algorithm="adaptive", **chosen)
    ours_s = plan.simulate().makespan_s
    times = {}
    for name in RIVALS:
        try:
            times[name] = il.plan(cluster, demand, algorithm=name).simulate(TOLERANCE).makespan_s
        except il.InvalidInput:
            continue
    said = {}
    for way in WAYS:
        try:
            made = il.plan(cluster, demand, algorithm="adaptive", way=way)
            times[f"way {way}"] = made.simulate(TOLERANCE).makespan_s
            said[way] = made.predicted_s / times[f"way {way}"]
        except il.InvalidInput:
            continue
    if cluster.num_ranks <= MOST_GUIDED:
        times["guided"] = il.synthesize(cluster, demand, algorithm="guided").simulate(TOLERANCE).makespan_s
    best = min(times, key=times.__getitem__)
    return {
        "kind": kind,
        "problem": f"{cluster.servers}x{cluster.gpus_per_server}, {load}, {size}",
        "size": size,
        "chosen": plan.reason.split(":")[0],
        "best": best,
        "regret": max(1.0, ours_s / times[best]),
        "over bound": ours_s / plan.bound.seconds,
        "predicted": plan.predicted_s / ours_s,
        "predicted by way": said,
        "seconds": {"adaptive": ours_s} | times,
    }


def main() -> None:
    """A row for each kind of cluster, and the worst cases by name."""
    options = arguments(__doc__ or "", each=6, workers=1, kinds=",".join(KINDS), effort="", cases=False)
    rows, cases = [], []
    with ProcessPoolExecutor(options.workers) as pool:
        for kind in options.kinds.split(","):
            found = list(
                pool.map(measure, [(kind, options.seed, number, options.effort) for number in range(options.each)])
            )
            cases += found
            regret = np.array([case["regret"] for case in found])
            large = np.array([case["over bound"] for case in found if case["size"] in LARGE] or [1.0])
            said = np.array([case["predicted"] for case in found])
            rows.append(
                {
                    "kind": kind,
                    "problems": len(found),
                    "regret mean": float(regret.mean()),
                    "regret worst": float(regret.max()),
                    "over bound mean": float(large.mean()),
                    "over bound worst": float(large.max()),
                    "predicted least": float(said.min()),
                    "predicted most": float(said.max()),
                    "predicted within 10 %": float(np.mean(np.abs(said - 1) <= 0.1)),
                }
            )
            print(
                " ".join(f"{k}={v:.3f}" if isinstance(v, float) else f"{k}={v}" for k, v in rows[-1].items()),
                flush=True,
            )
    cases.sort(key=lambda case: -case["regret"])  # type: ignore[operator, arg-type]
    within = float(np.mean([abs(case["predicted"] - 1) <= 0.1 for case in cases]))  # type: ignore[operator]
    name = "regret_simulate" if options.effort == "simulate" else "regret"
    worst = {f"{case['kind']}, {case['problem']}": f"{case['regret']:.3f} to {case['best']}" for case in cases[:WORST]}
    problems = {"cases": cases} if options.cases else {}
    report(name, rows, options, predicted_within=within, effort=options.effort or "default", worst=worst, **problems)


if __name__ == "__main__":
    main()
