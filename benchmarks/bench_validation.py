"""What does it cost to check a schedule, per row, and how does that grow?

All-to-Allv relayed over rails (`pxn`), and an All-Gather and an All-Reduce round a ring with exclusive links; the
All-Reduce also as a slot table, which is read as a stream. Rows are messages and pieces together; building schedules is
not timed. The check runs on one core: its processor time is what it costs where other work shares the machine.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

import interlock as il
from common import arguments, fitted_exponent, report, timed
from interlock.algorithms import registry
from interlock.problem import Problem, collective_problem, demand_problem
from interlock.ragged import Ragged
from interlock.schedule import Chunks, CompactSchedule, Kind, Pieces, Schedule, SlotSchedule
from interlock.topology import from_edges
from interlock.validate import check


def relayed_all_to_all(servers: int, seed: int) -> tuple[Schedule, Problem]:
    """Every pair of ranks, by way of the sender's NIC on the receiver's rail."""
    cluster = il.cluster("h200", servers=servers)
    problem = demand_problem(cluster, il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="512 MB", seed=seed))
    return registry.get("pxn").build(problem, seed=seed).expand(), problem


def ring_collective(num_ranks: int, is_all_reduce: bool) -> tuple[Schedule, Problem]:
    """Chunks round a ring; for All-Reduce first as partial sums, then as copies."""
    node = np.arange(num_ranks)
    topology = from_edges(node, (node + 1) % num_ranks, bandwidth="50 GB/s")
    collective = il.all_reduce("1 GiB") if is_all_reduce else il.all_gather("1 GiB")
    problem = collective_problem(topology, collective)
    steps = 2 * (num_ranks - 1) if is_all_reduce else num_ranks - 1
    step, rank = (grid.reshape(-1) for grid in np.mgrid[:steps, :num_ranks])
    chunk = ((rank - step - is_all_reduce) % num_ranks).astype(np.int32)
    count = len(rank)
    # The message one step earlier at the rank before brought the chunk; rows are step by step.
    waits = np.flatnonzero(step > 0)
    before = ((step[waits] - 1) * num_ranks + (rank[waits] - 1) % num_ranks).astype(np.int32)
    sums = is_all_reduce & (step < num_ranks - 1)
    schedule = Schedule(
        src=Ragged.single(rank.astype(np.int32)),
        dst=Ragged.single(((rank + 1) % num_ranks).astype(np.int32)),
        kind=np.where(sums, Kind.REDUCE, Kind.COPY).astype(np.uint8),
        phase=np.zeros(count, np.uint8),
        stage=step.astype(np.int32),
        slice=np.zeros(count, np.int32),
        size_bytes=problem.items.size_bytes[chunk],
        path=Ragged.single(rank.astype(np.int32)),
        exclusive=np.ones(count, np.bool_),
        order=step.astype(np.int64),
        deps=Ragged.from_counts((step > 0).astype(np.int64), before),
        pieces=Pieces(np.arange(count + 1), chunk, np.zeros(count, np.int64), problem.items.size_bytes[chunk]),
    )
    return schedule, problem


def ring_table(num_ranks: int) -> tuple[SlotSchedule, Problem]:
    """The same All-Reduce as a chunk per slot and link."""
    node = np.arange(num_ranks)
    topology = from_edges(node, (node + 1) % num_ranks, bandwidth="50 GB/s")
    problem = collective_problem(topology, il.all_reduce("1 GiB"))
    slot, link = np.mgrid[: 2 * (num_ranks - 1), :num_ranks]
    table = ((link - slot - 1) % num_ranks).astype(np.uint16)
    chunks = Chunks(node.astype(np.int32), np.zeros(num_ranks, np.int64), problem.items.size_bytes)
    return SlotSchedule(chunks, topology.link_src, topology.link_dst, table, num_ranks - 1), problem


def processor_s(schedule: CompactSchedule, problem: Problem, repeats: int) -> float:
    """Median processor time of a check."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        check(schedule, problem)
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def main() -> None:
    """Time the checks at doubling sizes."""
    options = arguments(__doc__ or "", largest=1.0)
    scale = options.largest
    cases = {
        "all-to-all, relayed": [
            lambda servers=servers: relayed_all_to_all(servers, options.seed)
            for servers in (8, 16, 32, 64, int(128 * scale))
        ],
        "all-gather, ring": [
            lambda ranks=ranks: ring_collective(ranks, False) for ranks in (128, 256, 512, 1024, int(2048 * scale))
        ],
        "all-reduce, ring": [
            lambda ranks=ranks: ring_collective(ranks, True) for ranks in (128, 256, 512, int(1024 * scale))
        ],
        "all-reduce, ring, slot table": [
            lambda ranks=ranks: ring_table(ranks) for ranks in (512, 1024, 2048, int(4096 * scale))
        ],
    }
    rows: list[dict[str, object]] = []
    growth = {}
    for name, builders in cases.items():
        sizes, seconds = [], []
        for build in builders:
            schedule, problem = build()
            found = check(schedule, problem)
            if not found.valid:
                raise SystemExit(f"{name}: {found}")
            wall = timed(lambda schedule=schedule, problem=problem: check(schedule, problem), options.repeats)
            cpu_s = processor_s(schedule, problem, options.repeats)
            sizes.append(found.num_rows)
            seconds.append(cpu_s)
            rows.append(
                {
                    "schedule": name,
                    "ranks": problem.num_ranks,
                    "rows": found.num_rows,
                    "median_ms": 1e3 * wall["median_s"],
                    "least_ms": 1e3 * wall["least_s"],
                    "most_ms": 1e3 * wall["most_s"],
                    "ns_per_row": 1e9 * wall["median_s"] / found.num_rows,
                    "cpu_ns_per_row": 1e9 * cpu_s / found.num_rows,
                }
            )
        growth[name] = fitted_exponent(sizes, seconds)
    report("validation", rows, options, growth_exponent=growth)


if __name__ == "__main__":
    main()
