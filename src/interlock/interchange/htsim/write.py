"""Writes htsim's connection matrix.

A flow fires one trigger when it is received. Where every message is waited for by one group of messages, triggers say
exactly what the schedule says; otherwise messages start level by level, and the file and the report say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlock.errors import LimitExceeded
from interlock.files import write_atomically
from interlock.interchange.contract import ExportReport
from interlock.interchange.htsim.limits import MAX_FLOW_BYTES, MAX_FLOWS
from interlock.interchange.shared.sequence import Sequence, sequence_messages
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["write_schedule"]


def write_schedule(schedule: Schedule, problem: Problem, path: Path) -> ExportReport:
    """Write one flow per message, or several where a message is larger than htsim's 32-bit sizes."""
    flows = int(_flows(schedule).sum(dtype=np.float64))
    if flows > MAX_FLOWS:
        raise LimitExceeded(
            f"the schedule would be {flows} flows of at most {MAX_FLOW_BYTES} bytes, which is all that htsim's 32-bit "
            f"sizes hold; at most {MAX_FLOWS} are written"
        )
    sequence = sequence_messages(schedule, problem.topology)
    exact = _exact_triggers(schedule) if not len(schedule.barriers) else None
    waits, fires, how = exact or _level_triggers(schedule, sequence)
    notes = [f"messages start {how}"]
    if schedule.exclusive.any():
        notes.append("the order of messages on links is left to the simulated network")
    if not (schedule.src.is_single and schedule.dst.is_single):
        notes.append("htsim has no in-switch operations: multicasts and in-switch sums are written as single flows")
    lines = _lines(schedule, problem, sequence, waits, fires, how)
    write_atomically(path, lambda file: file.writelines(lines))
    return ExportReport("htsim", (path,), notes=tuple(notes))


def _parts(schedule: Schedule) -> NDArray[np.int64]:
    """Flows of each message from one rank to one rank."""
    parts: NDArray[np.int64] = (np.maximum(schedule.size_bytes, 1) - 1) // MAX_FLOW_BYTES + 1
    return parts


def _flows(schedule: Schedule) -> NDArray[np.int64]:
    """Flows of each message."""
    return schedule.src.counts * schedule.dst.counts * _parts(schedule)


def _exact_triggers(schedule: Schedule) -> tuple[list[int], list[int], str] | None:
    """Trigger that starts each message and trigger it fires (0: none), if one each is enough."""
    waits = [0] * schedule.num_messages
    fires = [0] * schedule.num_messages
    groups: dict[bytes, int] = {}
    deps, offsets = schedule.deps.values, schedule.deps.offsets.tolist()
    for message in range(schedule.num_messages):
        first, last = offsets[message], offsets[message + 1]
        if first == last:
            continue
        trigger = groups.setdefault(deps[first:last].tobytes(), len(groups) + 1)
        waits[message] = trigger
        for earlier in deps[first:last].tolist():
            if fires[earlier] not in (0, trigger):
                return None
            fires[earlier] = trigger
    return waits, fires, "when the messages they depend on are received"


def _level_triggers(schedule: Schedule, sequence: Sequence) -> tuple[list[int], list[int], str]:
    """All messages of a level start when all of the level before are received."""
    level = [0] * schedule.num_messages
    floor = highest = 0
    epochs, epoch = sequence.epoch.tolist(), -1
    deps, offsets = schedule.deps.values.tolist(), schedule.deps.offsets.tolist()
    for message in sequence.order.tolist():
        if epochs[message] != epoch:
            floor = highest + (epoch >= 0)
            epoch = epochs[message]
        behind = [level[earlier] + 1 for earlier in deps[offsets[message] : offsets[message + 1]]]
        level[message] = max([floor, *behind])
        highest = max(highest, level[message])
    waits = list(level)
    fires = [k + 1 if k < highest else 0 for k in level]
    return waits, fires, "level by level: htsim's flows fire one trigger each, which is less than the schedule says"


def _lines(
    schedule: Schedule, problem: Problem, sequence: Sequence, waits: list[int], fires: list[int], how: str
) -> Iterator[bytes]:
    src, dst = schedule.src.offsets.tolist(), schedule.dst.offsets.tolist()
    src_ranks, dst_ranks = schedule.src.values.tolist(), schedule.dst.values.tolist()
    sizes = np.maximum(schedule.size_bytes, 1)
    parts, legs = _parts(schedule), _flows(schedule)
    fired: dict[int, int] = {}
    for message, trigger in enumerate(fires):
        if trigger:
            fired[trigger] = fired.get(trigger, 0) + int(legs[message])
    yield f"# interlock: messages start {how}\n".encode()
    yield f"Nodes {problem.num_ranks}\nConnections {int(legs.sum())}\n".encode()
    if fired:
        yield f"Triggers {len(fired)}\n".encode()
    flow = 0
    part_counts, size_list = parts.tolist(), sizes.tolist()
    for message in sequence.order.tolist():
        start = f"trigger {waits[message]}" if waits[message] else "start 0"
        end = f" recv_done_trigger {fires[message]}" if fires[message] else ""
        whole, rest = divmod(size_list[message], part_counts[message])
        for a in src_ranks[src[message] : src[message + 1]]:
            for b in dst_ranks[dst[message] : dst[message + 1]]:
                for part in range(part_counts[message]):
                    flow += 1
                    yield f"{a}->{b} id {flow} {start} size {whole + (part < rest)}{end}\n".encode()
    for trigger, count in sorted(fired.items()):
        yield f"trigger id {trigger} barrier count {count}\n".encode()
