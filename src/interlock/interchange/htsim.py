"""htsim's connection matrix (`.cm`): flows with sizes, started at a time or by a trigger that other flows fire.

A flow fires one trigger when it is received. Where every message is waited for by one group of messages, triggers say
exactly what the schedule says; otherwise messages start level by level, and the file and the report say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import lines_of, read_text, write_atomically
from interlock.interchange.contract import ExportReport, ForeignSchedule, Intent
from interlock.interchange.shared.files import MAX_FILE_BYTES
from interlock.interchange.shared.flows import UnnamedFlow, lower_flows
from interlock.interchange.shared.sequence import Sequence, sequence_messages
from interlock.problem import Problem
from interlock.schedule import Schedule, has_place
from interlock.units import parse_whole

__all__ = [
    "MAX_FLOWS",
    "MAX_FLOWS_READ",
    "MAX_FLOW_BYTES",
    "MAX_NODES",
    "MAX_WAITS",
    "TRIGGERS",
    "read_schedule",
    "write_schedule",
]

MAX_FLOW_BYTES = 2**31 - 1  # htsim keeps sizes in 32 bits: larger messages become several flows
MAX_FLOWS = 10_000_000  # that we write: as many rows as a schedule may have, a few hundred megabytes of text
MAX_FLOWS_READ = 100_000  # connections, and triggers: each takes about 20 us
MAX_WAITS = 2_000_000  # of connections for connections: a barrier makes all of one side wait for all of the other
MAX_NODES = 65_536
TRIGGERS = ("oneshot", "multishot", "barrier")


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """The schedule in a connection matrix; what its flows carry is inferred from the demand."""
    lines = lines_of(read_text(path, MAX_FILE_BYTES), path)
    header: dict[str, int] = {}
    flows: list[UnnamedFlow] = []
    starts: list[int] = []  # trigger of each flow, 0 for none
    fired_by: dict[int, list[int]] = {}
    triggers: dict[int, tuple[str, int]] = {}
    for place, line in enumerate(lines, 1):
        where = f"{path}, line {place}"
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] in ("Nodes", "Connections", "Triggers", "Failures") and len(words) == 2:
            if words[0] in header:
                raise InvalidInput(f"{where}: {words[0]} is given twice")
            header[words[0]] = parse_whole(words[1], where, 0, MAX_NODES if words[0] == "Nodes" else MAX_FLOWS_READ)
        elif "->" in words[0]:
            if "Nodes" not in header:
                raise InvalidInput(f"{where}: a connection before 'Nodes'")
            flow, trigger, fires = _flow(words, where, header["Nodes"])
            if fires:
                fired_by.setdefault(fires, []).append(len(flows))
            starts.append(trigger)
            flows.append(flow)
            if len(flows) > MAX_FLOWS_READ:
                raise LimitExceeded(f"{where}: more than {MAX_FLOWS_READ} connections; no more are read")
        elif words[0] == "trigger":
            number, how = _trigger(words, where)
            if number in triggers:
                raise InvalidInput(f"{where}: trigger {number} is given twice")
            triggers[number] = how
            if len(triggers) > MAX_FLOWS_READ:
                raise LimitExceeded(f"{where}: more than {MAX_FLOWS_READ} triggers; no more are read")
        elif words[0] != "failure":
            raise InvalidInput(f"{where}: {words[0][:40]!r} is neither a header, a connection nor a trigger")
    _check_counts(path, header, len(flows), len(triggers))
    waits = sum(len(fired_by.get(trigger, ())) for trigger in starts)
    if waits > MAX_WAITS:
        raise LimitExceeded(f"{path}: connections wait for {waits} others in all; at most {MAX_WAITS} are read")
    for number, trigger in enumerate(starts):
        if trigger:
            _start_after(path, flows, number, trigger, triggers, fired_by)
    return lower_flows("htsim", str(path), flows, header["Nodes"], intent)


def _check_counts(path: Path, header: dict[str, int], flows: int, triggers: int) -> None:
    if "Nodes" not in header or "Connections" not in header:
        raise InvalidInput(f"{path} is no connection matrix: it lacks 'Nodes' or 'Connections'")
    if header["Connections"] != flows or header.get("Triggers", 0) != triggers:
        raise InvalidInput(
            f"{path} says {header['Connections']} connections and {header.get('Triggers', 0)} triggers but lists "
            f"{flows} and {triggers}"
        )


def _start_after(
    path: Path,
    flows: list[UnnamedFlow],
    number: int,
    trigger: int,
    triggers: dict[int, tuple[str, int]],
    fired_by: dict[int, list[int]],
) -> None:
    """A triggered flow waits for the flows that fire its trigger."""
    sources = fired_by.get(trigger, [])
    if trigger not in triggers or not sources:
        raise InvalidInput(f"{path}: connection {number + 1} waits for trigger {trigger}, which nothing fires")
    kind, count = triggers[trigger]
    if kind == "barrier" and count != len(sources):
        raise InvalidInput(f"{path}: trigger {trigger} counts to {count} but {len(sources)} connections fire it")
    if kind != "barrier" and len(sources) > 1:
        raise InvalidInput(
            f"{path}: trigger {trigger} is fired by {len(sources)} connections; only a barrier waits for all"
        )
    for earlier in sources:
        if earlier == number:
            raise InvalidInput(f"{path}: connection {number + 1} waits for itself")
        same = flows[earlier].dst == flows[number].src
        (flows[number].fed_by if same else flows[number].after).append(earlier)


def _flow(fields: list[str], where: str, nodes: int) -> tuple[UnnamedFlow, int, int]:
    ends = fields[0].split("->")
    if len(ends) != 2:
        raise InvalidInput(f"{where}: {fields[0][:40]!r} is not SOURCE->DESTINATION")
    src, dst = (parse_whole(end, where, 0, nodes - 1) for end in ends)
    if src == dst:
        raise InvalidInput(f"{where}: a connection from {src} to itself")
    values: dict[str, str] = {}
    rest = iter(fields[1:])
    for word in rest:
        if word == "addon":
            continue
        if word not in ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio"):
            raise InvalidInput(f"{where}: {word[:40]!r} is not known")
        if word in values:
            raise InvalidInput(f"{where}: {word} is given twice")
        values[word] = next(rest, "")
    if "size" not in values or ("start" in values) == ("trigger" in values):
        raise InvalidInput(f"{where}: a connection needs a size and either start or trigger")
    fires = parse_whole(values.get("recv_done_trigger", values.get("send_done_trigger", "0")), where, 0, 2**31 - 1)
    flow = UnnamedFlow(src, dst, parse_whole(values["size"], where, 0, 2**62))
    return flow, parse_whole(values.get("trigger", "0"), where, 0, 2**31 - 1), fires


def _trigger(fields: list[str], where: str) -> tuple[int, tuple[str, int]]:
    number, count, kind = 0, 1, ""
    rest = iter(fields[1:])
    for word in rest:
        if word in TRIGGERS:
            kind = word
        elif word in ("id", "count"):
            value = parse_whole(next(rest, ""), where, 0, 2**31 - 1)
            number, count = (value, count) if word == "id" else (number, value)
        else:
            raise InvalidInput(f"{where}: {word[:40]!r} is not known")
    if not number or not kind:
        raise InvalidInput(f"{where}: a trigger needs an id above 0 and one of {', '.join(TRIGGERS)}")
    return number, (kind, count)


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
    if has_place(schedule).any():
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
