"""Does the runtime wear? Ten thousand collectives with random demands on loopback: bytes, memory, descriptors.

python benchmarks/bench_runtime_soak.py --count 10000
"""

from __future__ import annotations

import time

import interlock as il
from common import arguments, report
from interlock.lab.ranks import RankProcesses, Seat
from interlock.torch import AllToAll
from rank_soak import soak, soak_under_way

UNDER_WAY = {  # most of them at a time, and threads that make them
    "two threads": (0, 2),
    "8 under way": (8, 1),
    "two threads, 8 under way": (8, 2),
}
WAYS = ("adaptive", "no-stage", *UNDER_WAY)


def main() -> None:
    """Print one row per algorithm, and per way to make calls."""
    options = arguments(__doc__ or "", count=10_000, ranks=8, only="")
    cluster = il.cluster("h200", servers=2, gpus_per_server=options.ranks // 2, fan_in=2)
    rows = []
    for ways in WAYS:
        if options.only and options.only != ways:
            continue
        count = options.count // 10 if ways == "no-stage" else options.count
        start_s = time.perf_counter()
        with RankProcesses([Seat()] * options.ranks, timeout_s=300.0) as ranks:
            if ways in UNDER_WAY:
                arguments_of = (soak_under_way, AllToAll, cluster, count, *UNDER_WAY[ways], options.seed)
            else:
                arguments_of = (soak, cluster, ways, count, options.seed)
            worn = ranks.call(*arguments_of, timeout_s=36_000.0)
        growth = [late / early - 1 for early, late in (wear.memory_bytes for wear in worn)]
        rows.append(
            {
                "calls": ways,
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
