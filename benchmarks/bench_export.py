"""How long does it take to export a schedule of a million messages, in each format that streams?"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

import interlock as il
from common import arguments, report
from interlock.interchange import FORMATS, export_schedule
from interlock.planning import Plan


def plans(servers: int, ranks: int, seed: int) -> dict[str, Plan]:
    """An All-to-Allv without dependencies, and a ring whose every message waits for another."""
    cluster = il.cluster("h200", servers=servers)
    ring = il.topology.ring(ranks, bandwidth="50 GB/s", message_overhead="0.5 us")
    return {
        "all-to-allv, direct": il.plan(cluster, il.traffic.random(cluster, seed=seed), "direct"),
        "all-gather, ring": il.synthesize(ring, il.all_gather(ranks * 65536), "ring"),
    }


def main() -> None:
    options = arguments(__doc__ or "", servers=126, ranks=708)
    rows: list[dict[str, object]] = []
    for name, plan in plans(options.servers, options.ranks, options.seed).items():
        schedule, problem = plan.schedule, plan.problem
        start_s = np.random.default_rng(options.seed).random(schedule.num_messages)
        for format_ in (f for f in FORMATS.values() if f.streams):
            if format_.name == ("tacos-csv" if problem.collective is None else "nccl-tests"):
                continue  # one holds collectives only, the other demands only
            times: dict[str, object] = {"start_s": start_s, "finish_s": start_s + 1e-3} if format_.needs_times else {}
            with tempfile.TemporaryDirectory() as folder:
                start, busy = time.perf_counter(), time.process_time()
                made = export_schedule(format_.name, schedule, problem, Path(folder) / "out", **times)
                row = {
                    "schedule": name,
                    "messages": schedule.num_messages,
                    "format": format_.name,
                    "wall_s": time.perf_counter() - start,
                    "cpu_s": time.process_time() - busy,
                    "MB": sum(file.stat().st_size for file in made.files) / 1e6,
                }
            rows.append(row)
    report("export", rows, options)


if __name__ == "__main__":
    main()
