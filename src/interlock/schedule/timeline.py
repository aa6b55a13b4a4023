"""A timeline of messages as Chrome trace JSON, for Perfetto or chrome://tracing."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from interlock.schedule.model import Kind, Phase, Schedule

__all__ = ["chrome_trace_lines", "tracks"]

PHASE_NAMES = [phase.name.lower().replace("_", "-") for phase in Phase]


def chrome_trace_lines(
    schedule: Schedule,
    num_ranks: int,
    start_s: NDArray[np.float64],
    finish_s: NDArray[np.float64],
    task_names: Sequence[str] = (),
) -> Iterator[str]:
    """Lines of one JSON object: an event per message on its sender's tracks; of a step, above them a row per task."""
    yield '{"displayTimeUnit":"ns","otherData":{"times":"simulated"},"traceEvents":['
    separator = "\n"
    for rank in range(num_ranks):
        name = {"ph": "M", "pid": rank, "name": "process_name", "args": {"name": f"rank {rank}"}}
        yield separator + json.dumps(name, separators=(",", ":"))
        separator = ",\n"
    for line in _task_lines(schedule, start_s, finish_s, task_names):
        yield separator + line
    starts_us, ends_us = (start_s * 1e6).tolist(), (finish_s * 1e6).tolist()
    phases, stages, sizes = schedule.phase.tolist(), schedule.stage.tolist(), schedule.size_bytes.tolist()
    src_at, dst_at = schedule.src.offsets.tolist(), schedule.dst.offsets.tolist()
    src, dst = schedule.src.values.tolist(), schedule.dst.values.tolist()
    for message, rank, track in tracks(schedule, start_s, finish_s):
        if schedule.kind[message] == Kind.WAIT:
            continue
        track += len(task_names)
        start, end, stage = starts_us[message], ends_us[message], stages[message]
        senders = "+".join(map(str, src[src_at[message] : src_at[message + 1]]))
        receivers = "+".join(map(str, dst[dst_at[message] : dst_at[message + 1]]))
        yield (
            f'{separator}{{"ph":"X","pid":{rank},"tid":{track},"name":"{senders}->{receivers} stage {stage}",'
            f'"cat":"{PHASE_NAMES[phases[message]]}","ts":{start:.6f},"dur":{max(0.0, end - start):.6f},'
            f'"args":{{"message":{message},"bytes":{sizes[message]},"stage":{stage}}}}}'
        )
        separator = ",\n"
    yield "\n]}\n"


def _task_lines(
    schedule: Schedule, start_s: NDArray[np.float64], finish_s: NDArray[np.float64], task_names: Sequence[str]
) -> Iterator[str]:
    """A row per task and rank: from the first that the rank sends of it, or computes, to the last."""
    if schedule.tasks is None or not task_names:
        return
    rows = np.flatnonzero(schedule.tasks.task >= 0)
    rank = schedule.src.values[schedule.src.offsets[rows]].astype(np.int64)
    key, place = np.unique(rank * len(task_names) + schedule.tasks.task[rows], return_inverse=True)
    begin, end = np.full(len(key), np.inf), np.zeros(len(key))
    np.minimum.at(begin, place, start_s[rows])
    np.maximum.at(end, place, finish_s[rows])
    for each, first, last in zip(key.tolist(), begin.tolist(), end.tolist(), strict=True):
        where = {"pid": each // len(task_names), "tid": each % len(task_names) + 1}
        title = task_names[each % len(task_names)]
        yield json.dumps({"ph": "M", **where, "name": "thread_name", "args": {"name": title}}, separators=(",", ":"))
        event = {"ph": "X", **where, "name": title, "cat": "task", "ts": round(1e6 * first, 6)}
        yield json.dumps(event | {"dur": round(1e6 * (last - first), 6)}, separators=(",", ":"))


def tracks(
    schedule: Schedule, start_s: NDArray[np.float64], finish_s: NDArray[np.float64]
) -> Iterator[tuple[int, int, int]]:
    """(message, sending rank, track from 1): messages of a rank that overlap in time are on different tracks."""
    sender = schedule.src.values[schedule.src.offsets[:-1]]
    order = np.lexsort((finish_s, start_s, sender))
    ranks, starts, ends = sender.tolist(), start_s.tolist(), finish_s.tolist()
    busy: list[tuple[float, int]] = []  # (end, track) of one rank
    free: list[int] = []
    num_tracks, previous = 0, -1
    for message in order.tolist():
        rank = ranks[message]
        if rank != previous:
            busy, free, num_tracks, previous = [], [], 0, rank
        while busy and busy[0][0] <= starts[message]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            track = heapq.heappop(free)
        else:
            num_tracks += 1
            track = num_tracks
        heapq.heappush(busy, (ends[message], track))
        yield message, rank, track
