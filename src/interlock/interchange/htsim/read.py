"""Reads htsim's connection matrix: flows with sizes, started at a time or by a trigger that other flows fire."""

from __future__ import annotations

from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import lines_of, read_text
from interlock.interchange.contract import ForeignSchedule, Intent
from interlock.interchange.htsim.limits import MAX_FLOWS_READ, MAX_NODES, MAX_WAITS, TRIGGERS
from interlock.interchange.shared.files import MAX_FILE_BYTES
from interlock.interchange.shared.flows import UnnamedFlow, lower_flows

__all__ = ["read_schedule"]


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
            header[words[0]] = _whole(words[1], where, MAX_NODES if words[0] == "Nodes" else MAX_FLOWS_READ)
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


def _flow(words: list[str], where: str, nodes: int) -> tuple[UnnamedFlow, int, int]:
    ends = words[0].split("->")
    if len(ends) != 2:
        raise InvalidInput(f"{where}: {words[0][:40]!r} is not SOURCE->DESTINATION")
    src, dst = (_whole(end, where, nodes - 1) for end in ends)
    if src == dst:
        raise InvalidInput(f"{where}: a connection from {src} to itself")
    values: dict[str, str] = {}
    rest = iter(words[1:])
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
    fires = _whole(values.get("recv_done_trigger", values.get("send_done_trigger", "0")), where, 2**31 - 1)
    flow = UnnamedFlow(src, dst, _whole(values["size"], where, 2**62))
    return flow, _whole(values.get("trigger", "0"), where, 2**31 - 1), fires


def _trigger(words: list[str], where: str) -> tuple[int, tuple[str, int]]:
    number, count, kind = 0, 1, ""
    rest = iter(words[1:])
    for word in rest:
        if word in TRIGGERS:
            kind = word
        elif word in ("id", "count"):
            value = _whole(next(rest, ""), where, 2**31 - 1)
            number, count = (value, count) if word == "id" else (number, value)
        else:
            raise InvalidInput(f"{where}: {word[:40]!r} is not known")
    if not number or not kind:
        raise InvalidInput(f"{where}: a trigger needs an id above 0 and one of {', '.join(TRIGGERS)}")
    return number, (kind, count)


def _whole(text: str, where: str, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise InvalidInput(f"{where}: {text[:40]!r} is not a whole number")
    if int(text) > most:
        raise InvalidInput(f"{where}: {text} must be at most {most}")
    return int(text)
