"""What a device costs, as fields of a cluster: measured by running small plans on it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import interlock.topology as topologies
from interlock.collectives import all_gather
from interlock.gpu.executor import Executor
from interlock.planning import Plan, plan, synthesize
from interlock.schedule import levels
from interlock.topology import cluster
from interlock.topology.cluster import MEASURED
from interlock.traffic import matrix

__all__ = ["measure_costs"]

REPEATS = 20
RING = 64  # ranks
WAIT_CYCLES = 2_000_000  # about a millisecond, in which the host queues what is measured


def measure_costs() -> dict[str, object]:
    """Seconds of a launch, a dependent hop and an independent message, and bytes per second of a copy.

    A launch is asked for and run with next to nothing to do. Hops are those of a ring that passes 16 bytes
    on; messages are the pairs of 64 ranks, of 16 bytes. Both have the launch of one message taken off.
    """
    pair = cluster("h200", servers=1, gpus_per_server=2)
    nothing = _launching(plan(pair, matrix(np.array([[0, 16], [0, 0]])), algorithm="direct"))
    ring = topologies.ring(RING, bandwidth="50 GB/s")
    passed_on = synthesize(ring, all_gather(16 * RING), algorithm="ring")
    hops, chain = int(levels(passed_on.schedule, ring).max()) + 1, _launching(passed_on)
    many = cluster("h200", servers=8)
    small = plan(many, matrix(np.full((64, 64), 16)), algorithm="direct")
    pairs, large_bytes = _launching(small), 256 << 20
    large = _launching(plan(pair, matrix(np.array([[0, large_bytes], [0, 0]])), algorithm="direct"))
    least_s, chain_s, pairs_s, large_s = (_device_seconds(launch) for launch in (nothing, chain, pairs, large))
    return {
        "gpu_launch_s": _host_seconds(nothing) + least_s,
        "gpu_hop_s": max(0.0, chain_s - least_s) / (hops - 1),
        "gpu_message_s": max(0.0, pairs_s - least_s) / small.compact.num_messages,
        "gpu_copy_bandwidth_bytes_per_s": large_bytes / large_s,
        "gpu_costs": MEASURED,
    }


def _launching(plan: Plan) -> Callable[[], object]:
    executor = Executor(plan)
    return executor.bind([torch.zeros(size, dtype=torch.uint8, device="cuda") for size in executor.input_bytes])


def _device_seconds(launch: Callable[[], object]) -> float:
    """Of one launch, on the device."""
    launch()
    torch.cuda.synchronize()
    taken = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda._sleep(WAIT_CYCLES)  # type: ignore[no-untyped-call]
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        taken.append(1e-3 * float(begin.elapsed_time(end)))
    return statistics.median(taken)


def _host_seconds(launch: Callable[[], object]) -> float:
    """That the host needs to ask for a launch."""
    taken = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start_s = time.perf_counter()
        launch()
        taken.append(time.perf_counter() - start_s)
    return statistics.median(taken)
