"""A simulated timeline as Chrome trace JSON, for Perfetto or chrome://tracing."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.files import write_atomically
from interlock.interchange.foreign import ForeignSchedule, Intent
from interlock.interchange.report import ExportReport
from interlock.problem import Problem
from interlock.schedule import Phase, Schedule

__all__ = ["read_chrome_trace", "write_chrome_trace"]

PHASE_NAMES = [phase.name.lower().replace("_", "-") for phase in Phase]


def write_chrome_trace(
    schedule: Schedule,
    problem: Problem,
    path: Path,
    *,
    start_s: NDArray[np.float64],
    finish_s: NDArray[np.float64],
) -> ExportReport:
    """Write one event per message on its sender's lanes; messages that overlap get lanes of their own."""
    if len(start_s) != schedule.num_messages or len(finish_s) != schedule.num_messages:
        raise InvalidInput(f"times of {len(start_s)} messages were given for {schedule.num_messages}")
    lines = _lines(schedule, problem, start_s, finish_s)
    write_atomically(path, lambda file: file.writelines(lines))
    return ExportReport("chrome-trace", (path,), notes=("times are simulated",))


def _lines(
    schedule: Schedule, problem: Problem, start_s: NDArray[np.float64], finish_s: NDArray[np.float64]
) -> Iterator[bytes]:
    yield b'{"displayTimeUnit":"ns","otherData":{"times":"simulated"},"traceEvents":[\n'
    for rank in range(problem.num_ranks):
        name = {"ph": "M", "pid": rank, "name": "process_name", "args": {"name": f"rank {rank}"}}
        yield json.dumps(name, separators=(",", ":")).encode() + b",\n"
    first_src = schedule.src.values[schedule.src.offsets[:-1]]
    order = np.lexsort((finish_s, start_s, first_src))
    starts_us = (start_s * 1e6).tolist()
    ends_us = (finish_s * 1e6).tolist()
    ranks, phases = first_src.tolist(), schedule.phase.tolist()
    stages, sizes = schedule.stage.tolist(), schedule.size_bytes.tolist()
    src, dst = schedule.src, schedule.dst
    src_at, dst_at = src.offsets.tolist(), dst.offsets.tolist()
    src_values, dst_values = src.values.tolist(), dst.values.tolist()
    busy: list[tuple[float, int]] = []  # (end, lane) of one rank
    free: list[int] = []
    lanes, previous = 0, -1
    separator = b""
    for message in order.tolist():
        rank = ranks[message]
        if rank != previous:
            busy, free, lanes, previous = [], [], 0, rank
        start, end = starts_us[message], ends_us[message]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lanes += 1
            lane = lanes
        heapq.heappush(busy, (end, lane))
        a = "+".join(map(str, src_values[src_at[message] : src_at[message + 1]]))
        b = "+".join(map(str, dst_values[dst_at[message] : dst_at[message + 1]]))
        yield (
            separator
            + (
                f'{{"ph":"X","pid":{rank},"tid":{lane},"name":"{a}->{b} stage {stages[message]}",'
                f'"cat":"{PHASE_NAMES[phases[message]]}","ts":{start:.6f},"dur":{max(0.0, end - start):.6f},'
                f'"args":{{"message":{message},"bytes":{sizes[message]},"stage":{stages[message]}}}}}'
            ).encode()
        )
        separator = b",\n"
    yield b"\n]}\n"


def read_chrome_trace(path: Path, intent: Intent) -> ForeignSchedule:
    """Refuses: a timeline is a picture of a run."""
    raise InvalidInput(f"{path} is a timeline: it shows when things happened, not what must happen before what")
