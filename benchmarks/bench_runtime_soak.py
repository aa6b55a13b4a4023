"""Does the runtime wear? Ten thousand collectives with random demands on loopback: bytes, memory, descriptors.

python benchmarks/bench_runtime_soak.py --count 10000
"""

from __future__ import annotations

import time

import interlock as il
from common import arguments, report
from interlock.lab.ranks import Ranks, Seat
from interlock.lab.soak import soak


def main() -> None:
    """Print one row per algorithm."""
    options = arguments(__doc__ or "", count=10_000, ranks=8)
    cluster = il.cluster("h200", servers=2, gpus_per_server=options.ranks // 2, fan_in=2)
    rows = []
    for algorithm in ("adaptive", "no-stage"):
        count = options.count if algorithm == "adaptive" else options.count // 10
        start_s = time.perf_counter()
        with Ranks([Seat()] * options.ranks, timeout_s=300.0) as ranks:
            worn = ranks.call(soak, cluster, algorithm, count, options.seed, timeout_s=36_000.0)
        growth = [late / early - 1 for early, late in (wear.memory_bytes for wear in worn)]
        rows.append(
            {
                "algorithm": algorithm,
                "collectives": count,
                "wrong": sum(wear.num_wrong for wear in worn),
                "memory_growth": max(growth),
                "descriptors_gained": max(wear.descriptors[1] - wear.descriptors[0] for wear in worn),
                "threads_gained": max(wear.threads[1] - wear.threads[0] for wear in worn),
                "seconds": time.perf_counter() - start_s,
            }
        )
    report("runtime_soak", rows, options)


if __name__ == "__main__":
    main()
