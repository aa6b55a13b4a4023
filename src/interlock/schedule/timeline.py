"""A timeline of messages as Chrome trace JSON, for Perfetto or chrome://tracing."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from interlock.schedule.model import Phase, Schedule

__all__ = ["chrome_trace_lines", "lanes"]

PHASE_NAMES = [phase.name.lower().replace("_", "-") for phase in Phase]


def chrome_trace_lines(
    schedule: Schedule, num_ranks: int, start_s: NDArray[np.float64], finish_s: NDArray[np.float64]
) -> Iterator[str]:
    """Lines of one JSON object: an event per message on its sender's lanes."""
    yield '{"displayTimeUnit":"ns","otherData":{"times":"simulated"},"traceEvents":['
    separator = "\n"
    for rank in range(num_ranks):
        name = {"ph": "M", "pid": rank, "name": "process_name", "args": {"name": f"rank {rank}"}}
        yield separator + json.dumps(name, separators=(",", ":"))
        separator = ",\n"
    starts_us, ends_us = (start_s * 1e6).tolist(), (finish_s * 1e6).tolist()
    phases, stages, sizes = schedule.phase.tolist(), schedule.stage.tolist(), schedule.size_bytes.tolist()
    src_at, dst_at = schedule.src.offsets.tolist(), schedule.dst.offsets.tolist()
    src, dst = schedule.src.values.tolist(), schedule.dst.values.tolist()
    for message, rank, lane in lanes(schedule, start_s, finish_s):
        start, end, stage = starts_us[message], ends_us[message], stages[message]
        senders = "+".join(map(str, src[src_at[message] : src_at[message + 1]]))
        receivers = "+".join(map(str, dst[dst_at[message] : dst_at[message + 1]]))
        yield (
            f'{separator}{{"ph":"X","pid":{rank},"tid":{lane},"name":"{senders}->{receivers} stage {stage}",'
            f'"cat":"{PHASE_NAMES[phases[message]]}","ts":{start:.6f},"dur":{max(0.0, end - start):.6f},'
            f'"args":{{"message":{message},"bytes":{sizes[message]},"stage":{stage}}}}}'
        )
        separator = ",\n"
    yield "\n]}\n"


def lanes(
    schedule: Schedule, start_s: NDArray[np.float64], finish_s: NDArray[np.float64]
) -> Iterator[tuple[int, int, int]]:
    """(message, sending rank, lane from 1): messages of a rank that overlap in time are on different lanes."""
    sender = schedule.src.values[schedule.src.offsets[:-1]]
    order = np.lexsort((finish_s, start_s, sender))
    ranks, starts, ends = sender.tolist(), start_s.tolist(), finish_s.tolist()
    busy: list[tuple[float, int]] = []  # (end, lane) of one rank
    free: list[int] = []
    num_lanes, previous = 0, -1
    for message in order.tolist():
        rank = ranks[message]
        if rank != previous:
            busy, free, num_lanes, previous = [], [], 0, rank
        while busy and busy[0][0] <= starts[message]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            num_lanes += 1
            lane = num_lanes
        heapq.heappush(busy, (ends[message], lane))
        yield message, rank, lane
