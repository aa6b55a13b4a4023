"""Why a schedule takes as long as it does, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.schedule import Phase
from interlock.topology import Topology
from interlock.topology.lowering import TwoTierRoutes
from interlock.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from interlock.simulate.result import Result

__all__ = ["LinkGroup", "Load", "busiest", "explain", "explain_against", "link_groups", "link_name"]

COMPUTES = -1  # instead of a phase: no message
LIKE = 0.005  # of a link's time, by which another may differ and be called like it


@dataclass(frozen=True, slots=True)
class LinkGroup:
    """Links that play the same part, so that their loads can be compared."""

    what: str  # completes "NIC of rank 3 ..."
    links: NDArray[np.int64]


def link_groups(topology: Topology) -> list[LinkGroup]:
    """Links by role: NIC in and out, scale-up in and out; in other graphs all links together."""
    routes = topology.router
    if not isinstance(routes, TwoTierRoutes):
        return [LinkGroup("carries", np.arange(topology.num_links))]
    ranks = np.arange(topology.num_ranks)
    groups = [LinkGroup("sends", routes.nic_out + ranks), LinkGroup("receives", routes.nic_in + ranks)]
    if routes.is_mesh:
        groups.append(LinkGroup("carries", np.arange(routes.nic_out)))
    else:
        groups += [LinkGroup("sends", ranks), LinkGroup("receives", topology.num_ranks + ranks)]
    rest = np.arange(routes.nic_in + topology.num_ranks, topology.num_links)
    if len(rest):
        groups.append(LinkGroup("carries", rest))
    return groups


def link_name(topology: Topology, link: int) -> str:
    """A link as people call it."""
    routes = topology.router
    if isinstance(routes, TwoTierRoutes):
        if routes.nic_out <= link < routes.nic_in + topology.num_ranks:
            return f"NIC of rank {(link - routes.nic_out) % topology.num_ranks}"
        if link < routes.nic_out and not routes.is_mesh:
            return f"scale-up port of rank {link % topology.num_ranks}"
    return f"link {topology.link_src[link]}->{topology.link_dst[link]}"


def explain(result: Result) -> str:
    """Sentences, most telling first."""
    if not len(result.finish_s):
        return "Nothing is sent."
    sentences = [
        _busiest_link(result),
        *_padding(result),
        *_critical_phases(result),
        *_fan_in(result),
        *_precision(result),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _busiest_link(result: Result) -> str:
    topology = result.topology
    busy_s = result.link_bytes / topology.bandwidth_bytes_per_s
    link = int(busy_s.argmax())
    if busy_s[link] == 0:
        return "No link carries any bytes."
    group = next(group for group in link_groups(topology) if link in group.links)
    used = busy_s[group.links]
    times_share = float(busy_s[link] / used.mean())
    alike = int((used > (1 - LIKE) * busy_s[link]).sum()) - 1
    share = "as much as the others" if times_share < 1 + LIKE else f"{times_share:.2f}x its share"
    others = f" (like {alike} other{'s' if alike > 1 else ''})" if alike and times_share >= 1 + LIKE else ""
    busy = 100 * busy_s[link] / result.makespan_s
    return (
        f"{_capital(link_name(topology, link))}{others} {group.what} {share} and needs {busy:.0f} % of the "
        f"{format_seconds(result.makespan_s)} for it."
    )


@dataclass(frozen=True, slots=True)
class Load:
    """The link that needs longest for its bytes alone, and how much of the time it is at work."""

    name: str
    bytes_moved: int
    needs_s: float
    busy_share: float


def busiest(result: Result) -> Load:
    """What bounds a schedule's time from below, and what it wastes beyond that: their quotient is the makespan."""
    busy_s = result.link_bytes / result.topology.bandwidth_bytes_per_s
    link = int(busy_s.argmax())
    group = next(group for group in link_groups(result.topology) if link in group.links)
    doing = {"sends": "sending", "receives": "receiving", "carries": "in all"}[group.what]
    name = f"{link_name(result.topology, link)}, {doing}"
    share = float(busy_s[link] / result.makespan_s) if result.makespan_s > 0 else 0.0
    return Load(name, int(result.link_bytes[link]), float(busy_s[link]), share)


def explain_against(faster: Result, slower: Result, name: str, other: str) -> str:
    """Why one schedule of a problem takes less time than another: less on its busiest link, or less time lost there.

    A makespan is what the busiest link needs divided by the part of the time it is at work, so the ratio of two of
    them is exactly the product of the two factors that are told.
    """
    if faster.makespan_s <= 0 or slower.makespan_s <= 0:
        return ""
    a, b = busiest(faster), busiest(slower)
    ratio, load, use = slower.makespan_s / faster.makespan_s, b.needs_s / a.needs_s, a.busy_share / b.busy_share
    if ratio < 1.005:
        return f"{name} and {other} take the same time."
    reasons = []
    if load > 1.005:
        reasons.append(
            f"its busiest link ({a.name}) has {format_bytes(a.bytes_moved)} to carry instead of "
            f"{format_bytes(b.bytes_moved)} ({b.name}): {load:.2f}x less time"
        )
    if use > 1.005:
        link = "that link" if reasons else f"its busiest link ({a.name})"
        reasons.append(f"{link} is at work {100 * a.busy_share:.0f} % of the time, not {100 * b.busy_share:.0f} %")
    because = " and ".join(reasons) or "of many small differences"
    if load < 0.995:
        because += f", although its busiest link has {1 / load:.2f}x as long to carry"
    if use < 0.995:
        because += (
            f", although that is at work {100 * a.busy_share:.0f} % of the time instead of {100 * b.busy_share:.0f} %"
        )
    return f"{name} is {ratio:.2f}x faster than {other} because {because}.{_padding_sentence(slower, other)}"


def _padding(result: Result) -> list[str]:
    share = _padding_share(result)
    return [f"{100 * share:.0f} % of what is sent is padding."] if share >= 0.005 else []


def _padding_sentence(result: Result, name: str) -> str:
    share = _padding_share(result)
    return f" {100 * share:.0f} % of what {name} sends is padding." if share >= 0.005 else ""


def _padding_share(result: Result) -> float:
    """Part of the bytes sent that belong to no item."""
    sent = float(result.schedule.size_bytes.sum())
    return max(0.0, 1.0 - float(result.schedule.pieces.length.sum()) / sent) if sent > 0 else 0.0


def _critical_phases(result: Result) -> list[str]:
    """Which phase and stages fill the critical path, and what of it is fixed cost."""
    steps = result.critical_path()
    schedule, total_s = result.schedule, result.makespan_s
    if total_s <= 0:
        return []
    busy_s = np.zeros(schedule.num_messages) if schedule.tasks is None else schedule.tasks.seconds
    phase_of = np.where(busy_s > 0, COMPUTES, schedule.phase.astype(np.int64))
    by_phase: dict[int, float] = {}
    for step in steps:
        phase = int(phase_of[step.message])
        by_phase[phase] = by_phase.get(phase, 0.0) + step.end_s - step.free_s
    phase = max(by_phase, key=lambda p: by_phase[p])
    stages = sorted({int(schedule.stage[s.message]) for s in steps if phase_of[s.message] == phase})
    which = f"stage {stages[0]}" if len(stages) == 1 else f"stages {stages[0]}-{stages[-1]}"
    name = "computation" if phase == COMPUTES else f"{Phase(phase).name.lower().replace('_', '-')} {which}"
    count = sum(phase_of[step.message] != COMPUTES for step in steps)
    messages = "1 message" if count == 1 else f"{count} messages"
    made = [f"{100 * by_phase[phase] / total_s:.0f} % of the critical path ({messages}) is {name}."]
    opening = sum(step.start_s - step.free_s for step in steps)
    flying = sum(max(step.end_s - step.sent_s - busy_s[step.message], 0.0) for step in steps)
    costs = [(opening, "opening stages"), (flying, "latency"), (_overhead_s(result), "message overhead")]
    parts = [f"{what} {100 * seconds / total_s:.0f} %" for seconds, what in costs if seconds >= 0.01 * total_s]
    if parts:
        made.append(f"Of it, {', '.join(parts)}.")
    return made


def _overhead_s(result: Result) -> float:
    path, counts = result.path, result.path.counts
    rows = [step.message for step in result.critical_path() if counts[step.message] > 0]
    first = path.values[path.offsets[rows]]
    return float(result.topology.message_overhead_s[first].sum())


def _fan_in(result: Result) -> list[str]:
    limit = result.topology.fabric.fan_in
    most = int(result.peak_fan_in.max(initial=0))
    if limit is None or most <= limit:
        return []
    link = int(result.peak_fan_in.argmax())
    name = link_name(result.topology, link)
    return [f"Up to {most} senders meet at the {name}, where the fabric tolerates {limit}."]


def _precision(result: Result) -> list[str]:
    if result.tolerance is None:
        return []
    return [f"Times are those of links slower by at most {100 * result.tolerance:g} % (tolerant mode)."]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
