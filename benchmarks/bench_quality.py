"""How near the bound is `adaptive`, and how does the strongest FAST compare?

Simulated makespan over the proven bound, 500 MB per GPU, servers of 8, in one run: fabrics without a fan-in limit at
9:1, 4.5:1 and 2:1, and with fan_in = 1 at 9:1, without and with 10 us per stage. Then faults on flat and rail-only
fabrics with the healthy plan's time beside, and corner cases.
"""

from __future__ import annotations

import numpy as np

import interlock as il
from common import arguments, loads, report
from interlock.planning import solve
from interlock.problem import demand_problem

# title, fan-in, scale-out bandwidth, stage overhead, {servers: most time over the bound}
TABLES = (
    ("9:1", None, "400 Gb/s", "0 us", {2: 1.06, 4: 1.06, 8: 1.03, 16: 1.03, 40: 1.03}),
    ("4.5:1", None, "800 Gb/s", "0 us", dict.fromkeys((2, 4, 8, 16, 40), 1.10)),
    ("2:1", None, "1800 Gb/s", "0 us", dict.fromkeys((2, 4, 8, 16, 40), 1.25)),
    ("9:1, one-to-one", 1, "400 Gb/s", "0 us", dict.fromkeys((2, 4, 8, 16, 40), 1.05)),
    ("9:1, one-to-one, 10 us", 1, "400 Gb/s", "10 us", {2: 1.06, 4: 1.06, 8: 1.06, 16: 1.09, 40: 1.15}),
)
LOADS = loads()
SPARSE_LIMIT = 1.06
EXACT_UP_TO = 16  # servers; larger ones are simulated with a tolerance of 1e-3


def over_bound(plan: il.Plan, servers: int) -> float:
    """Simulated time over the bound; refuses an invalid plan."""
    certificate = plan.certificate(None if servers <= EXACT_UP_TO else 1e-3)
    assert certificate.valid, certificate.violations
    return certificate.makespan_s / certificate.lower_bound_s


def quality(options: object, servers: list[int], seed: int) -> list[dict[str, object]]:
    """One row per fabric and size: the worst of every load, and what FAST reaches."""
    rows = []
    for title, fan_in, scale_out, overhead, limits in TABLES:
        for count in servers:
            cluster = il.cluster(
                "h200", servers=count, scale_out_bandwidth=scale_out, stage_overhead=overhead, fan_in=fan_in
            )
            row: dict[str, object] = {"fabric": title, "servers": count, "limit": limits[count]}
            most_stages = 0
            for name, make in LOADS.items():
                plan = il.plan(cluster, make(cluster, "500 MB", seed), algorithm="adaptive")
                row[name] = over_bound(plan, count)
                most_stages = max(most_stages, plan.num_stages)
            row["stages"] = most_stages
            demand = il.traffic.zipf(cluster, 0.8, "500 MB", seed)
            row["fast, zipf 0.8"] = over_bound(il.plan(cluster, demand, algorithm="fast"), count)
            rows.append(row)
            print(*(f"{key} {value:.3f}" if isinstance(value, float) else value for key, value in row.items()))
    return rows


def faults(seed: int) -> list[dict[str, object]]:
    """That cluster's own bound; beside it the plan made for a healthy cluster, run on the broken one."""
    slow, dead = il.slow_nic(server=1, gpu=3, bandwidth="200 Gb/s"), il.dead_nic(server=0, gpu=5)
    rows = []
    for scale_out in ("flat", "rail"):
        for servers, limit in ((4, 1.08), (8, 1.06)):
            for name, broken in (("half", [slow]), ("dead", [dead]), ("both", [slow, dead])):
                cluster = il.cluster("h200", servers=servers, scale_out=scale_out, faults=broken)
                row: dict[str, object] = {"fabric": scale_out, "servers": servers, "fault": name, "limit": limit}
                for load, make in LOADS.items():
                    made = il.plan(cluster, make(cluster, "500 MB", seed), algorithm="adaptive")
                    row[load] = over_bound(made, servers)
                if name == "half":
                    healthy = il.cluster("h200", servers=servers, scale_out=scale_out)
                    demand = il.traffic.random(cluster, "500 MB", seed)
                    unaware = il.plan(healthy, demand, algorithm="adaptive", way="burst")
                    problem = demand_problem(cluster, demand)
                    aware = solve(problem, "adaptive")
                    late = il.Plan(problem, unaware.compact, "adaptive, unaware").simulate(1e-3)
                    row["unaware, random"] = late.makespan_s / aware.bound.seconds
                rows.append(row)
    return rows


def corners() -> list[dict[str, object]]:
    """Without overheads: huge pairs, one server, one GPU each, empty rows and columns, a single entry."""
    still = {"message_overhead": 0, "stage_overhead": 0, "scale_up_latency": 0, "scale_out_latency": 0}
    two, one, thin = (
        il.cluster("h200", servers=2, **still),
        il.cluster("h200", servers=1, **still),
        il.cluster("h200", servers=8, gpus_per_server=1, **still),
    )
    rng = np.random.default_rng(0)
    huge = rng.integers(2**32, 2**36, (16, 16))
    holes = rng.integers(0, 10**9, (16, 16))
    holes[[2, 9]] = 0
    holes[:, [1, 14]] = 0
    single = np.zeros((16, 16), np.int64)
    single[1, 11] = 4 * 10**9
    cases = {
        "above 2^32 per pair": (two, huge),
        "one server": (one, rng.integers(0, 10**9, (8, 8))),
        "one GPU per server": (thin, rng.integers(0, 10**9, (8, 8))),
        "empty rows and columns": (two, holes),
        "a single entry": (two, single),
    }
    return [
        {
            "corner": name,
            "over bound": over_bound(il.plan(cluster, il.traffic.matrix(matrix), algorithm="adaptive"), 2),
            "limit": 1.06,
        }
        for name, (cluster, matrix) in cases.items()
    ]


def main() -> None:
    """Three tables, and whether every figure is within its limit."""
    options = arguments(__doc__ or "", servers="2,4,8,16,40")
    rows = quality(options, [int(count) for count in options.servers.split(",")], options.seed)
    broken, odd = faults(options.seed), corners()
    figures = [
        (value, SPARSE_LIMIT if key.startswith("sparse") and row["fabric"] == "9:1" else row["limit"], key, row)
        for row in [*rows, *broken]
        for key, value in row.items()
        if key in LOADS
    ]
    missed = [
        f"{row['fabric']}, {row['servers']}x8, {key}: {value:.3f}"
        for value, limit, key, row in figures
        if value > limit
    ]
    missed += [f"{row['corner']}: {row['over bound']:.3f}" for row in odd if row["over bound"] > row["limit"]]
    report("quality", rows, options, faults=broken, corners=odd, missed=missed)


if __name__ == "__main__":
    main()
