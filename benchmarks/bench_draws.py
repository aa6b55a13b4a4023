"""How far from its bound is `adaptive` on an unlucky draw? Many seeds of the loads that differ most from draw to draw.

500 MB per GPU, without stage cost; a limit is what the load may take over its bound on that fabric.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import numpy as np

import interlock as il
from common import arguments, loads, report

TOLERANCE = 1e-3
FABRICS = {  # scale-out bandwidth, fan-in, limits by servers
    "9:1": ("400 Gb/s", None, {2: 1.06, 4: 1.06, 8: 1.03, 16: 1.03}),
    "4.5:1": ("800 Gb/s", None, {2: 1.10, 4: 1.10, 8: 1.10, 16: 1.10}),
    "9:1, one-to-one": ("400 Gb/s", 1, {2: 1.05, 4: 1.05, 8: 1.05, 16: 1.05}),
}
LOADS = {name: make for name, make in loads().items() if name in ("zipf 1.2", "hot expert")}

Draw = tuple[str, int, str, int]


def measure(draw: Draw) -> float:
    """Time over bound."""
    fabric, servers, load, seed = draw
    bandwidth, fan_in, _ = FABRICS[fabric]
    cluster = il.cluster("h200", servers=servers, scale_out_bandwidth=bandwidth, stage_overhead="0 us", fan_in=fan_in)
    plan = il.plan(cluster, LOADS[load](cluster, "500 MB", seed), algorithm="adaptive")
    return plan.simulate(TOLERANCE).makespan_s / plan.bound.seconds


def main() -> None:
    """A row for each fabric, number of servers and load."""
    options = arguments(__doc__ or "", draws=40, workers=1)
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(options.workers) as pool:
        for fabric, (_, _, limits) in FABRICS.items():
            for servers, limit in limits.items():
                for load in LOADS:
                    draws = [(fabric, servers, load, options.seed + draw) for draw in range(options.draws)]
                    ratios = np.array(list(pool.map(measure, draws)))
                    rows.append(
                        {
                            "fabric": fabric,
                            "servers": servers,
                            "load": load,
                            "limit": limit,
                            "mean": float(ratios.mean()),
                            "worst": float(ratios.max()),
                            "above limit": int((ratios > limit).sum()),
                        }
                    )
    report("draws", rows, options, draws=options.draws)


if __name__ == "__main__":
    main()
