"""Is `adaptive` ever behind? A grid of problems from 1 MB to 8 GB per GPU, half of them with fan_in = 1.

Each problem is planned and simulated with `adaptive` and with every rival that supports it; the ratio is our time over
the best rival's. At most 1.01 is allowed; every point above 1.00 is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

import interlock as il
from common import arguments, loads, report
from interlock.planning import solve
from interlock.problem import demand_problem

RIVALS = ("fast", "no-stage", "direct", "pxn", "spreadout", "forward")
SIZES = ("1 MB", "4 MB", "16 MB", "64 MB", "256 MB", "1 GB", "8 GB")
TOLERANCE = 1e-3
LOADS = loads()
CLUSTERS = {  # servers, scale-out bandwidth, stage overhead
    "2x8": (2, "400 Gb/s", "10 us"),
    "3x8": (3, "400 Gb/s", "10 us"),
    "4x8": (4, "400 Gb/s", "10 us"),
    "8x8": (8, "400 Gb/s", "10 us"),
    "4x8, no stage cost": (4, "400 Gb/s", "0 us"),
    "8x8, no stage cost": (8, "400 Gb/s", "0 us"),
    "4x8, 4.5:1": (4, "800 Gb/s", "10 us"),
    "8x8, 4.5:1": (8, "800 Gb/s", "10 us"),
    "16x8": (16, "400 Gb/s", "10 us"),
}

Point = tuple[str, int | None, str, str, int]


def points(seed: int) -> Iterator[Point]:
    """Cluster, fan-in, load, size, seed."""
    for number, (where, fan_in, load, size) in enumerate(product(CLUSTERS, (None, 1), LOADS, SIZES)):
        yield where, fan_in, load, size, seed + number


def measure(point: Point) -> dict[str, object]:
    """Our time and every rival's, in microseconds."""
    where, fan_in, load, size, seed = point
    servers, scale_out, overhead = CLUSTERS[where]
    cluster = il.cluster("h200", servers=servers, scale_out_bandwidth=scale_out, stage_overhead=overhead, fan_in=fan_in)
    problem = demand_problem(cluster, LOADS[load](cluster, size, seed))
    ours = solve(problem, "adaptive")
    seconds = {name: solve(problem, name).simulate(TOLERANCE).makespan_s for name in RIVALS}
    best = min(seconds, key=lambda name: seconds[name])
    mine = ours.simulate(TOLERANCE).makespan_s
    return {
        "cluster": where,
        "fan-in": "any" if fan_in is None else fan_in,
        "load": load,
        "size": size,
        "seed": seed,
        "way": ours.compact.way.name.lower(),
        "ours us": mine * 1e6,
        "best": best,
        "best us": seconds[best] * 1e6,
        "ratio": mine / seconds[best],
        "why": ours.reason,
    }


def main() -> None:
    """All points, then those above 1.00."""
    options = arguments(__doc__ or "", workers=1, only="")
    chosen = [point for point in points(options.seed) if not options.only or options.only in str(point)]
    if options.workers > 1:
        with ProcessPoolExecutor(options.workers) as pool:
            rows = list(pool.map(measure, chosen, chunksize=8))
    else:
        rows = [measure(point) for point in chosen]
    ratios = np.array([row["ratio"] for row in rows])
    behind = sorted((row for row in rows if row["ratio"] > 1.0), key=lambda row: -row["ratio"])
    report(
        "grid",
        [{key: value for key, value in row.items() if key != "why"} for row in behind],
        options,
        points=len(rows),
        largest=float(ratios.max()),
        median=float(np.median(ratios)),
        above_1_01=int((ratios > 1.01).sum()),
        above_1_00=int((ratios > 1.0).sum()),
        by_way={way: sum(row["way"] == way for row in rows) for way in ("direct", "burst", "staged", "detour")},
        by_best_rival={name: sum(row["best"] == name for row in rows) for name in RIVALS},
    )


if __name__ == "__main__":
    main()
