"""Checks a schedule against its problem."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import CompactSchedule, Kind, Schedule, SlotSchedule, has_place, ordered_links, resolved_paths
from interlock.schedule.link_orders import unrouted
from interlock.schedule.scratch import rows_of
from interlock.topology import Topology
from interlock.topology.graph import DEAD_BANDWIDTH
from interlock.validate.report import EXACT_SETS, FINGERPRINTS, Report, Rule, Violation, describe
from interlock.validate.slot_schedules import check_slot_schedule, streams
from interlock.validate.steps import check_step

__all__ = ["check"]

RULES = tuple(Rule)


def check(schedule: CompactSchedule, problem: Problem) -> Report:
    """Execute a schedule symbolically and list the rules it breaks.

    Parameters
    ----------
    schedule
        Any schedule. Slot tables of synthesis are checked as streams where they can be; other compact forms are
        expanded first, and refuse above `MAX_ROWS` rows.
    problem
        What the schedule is meant to move, and on what.

    Returns
    -------
    Report
        Valid if every destination surely ends with every byte, each contribution in it exactly once, in whatever order
        the schedule lets its messages run.
    """
    if isinstance(schedule, SlotSchedule) and streams(schedule, problem):
        return check_slot_schedule(schedule, problem)
    rows = schedule.expand()
    topology = problem.topology
    if (rows.tasks is None) != (problem.step is None):
        raise InvalidInput("the schedule of a step, and no other, says which task each row belongs to")
    if rows.tasks is None and (rows.kind == Kind.WAIT).any():
        wait = describe(Rule.KNOWN_KIND, int(np.argmax(rows.kind == Kind.WAIT)), -1, -1, -1, -1)
        return _report(rows, [wait], 1, np.zeros(topology.num_ranks, np.int64), EXACT_SETS)
    path, unroutable = routed_paths(rows, topology)
    if unroutable is not None:
        return _report(rows, [unroutable], 1, np.zeros(topology.num_ranks, np.int64), EXACT_SETS)
    if rows.tasks is not None:
        broken = check_step(rows, problem)
        if broken:
            return _report(rows, broken, len(broken), np.zeros(topology.num_ranks, np.int64), EXACT_SETS)
    links = ordered_links(rows, path, topology.num_links)
    carries_data = topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH
    items = problem.items
    contributors, destinations = rows_of(items.contributors), rows_of(items.destinations)
    rule, message, rank, item, first_byte, end_byte, total, scratch_bytes, used_fingerprints = _core.check_schedule(
        rows.src.offsets,
        rows.src.values,
        rows.dst.offsets,
        rows.dst.values,
        rows.kind,
        rows.phase,
        rows.stage,
        rows.slice,
        rows.size_bytes,
        links.path.offsets,
        links.path.values,
        links.has_place,
        rows.order,
        rows.deps.offsets,
        rows.deps.values,
        rows.barriers,
        rows.pieces.offsets,
        rows.pieces.item,
        rows.pieces.offset,
        rows.pieces.length,
        items.size_bytes,
        contributors.offsets,
        contributors.values,
        destinations.offsets,
        destinations.values,
        topology.link_src[links.link],
        topology.link_dst[links.link],
        carries_data[links.link],
        topology.multicasts,
        topology.reduces,
        topology.num_ranks,
        secrets.randbits(64),  # nobody can prepare a schedule for fingerprints it does not know
    )
    places = np.stack([message, rank, item, first_byte, end_byte], axis=1).tolist()
    violations = [describe(RULES[code], *place) for code, place in zip(rule.tolist(), places, strict=True)]
    return _report(rows, violations, total, scratch_bytes, FINGERPRINTS if used_fingerprints else EXACT_SETS)


def routed_paths(schedule: Schedule, topology: Topology) -> tuple[Ragged, Violation | None]:
    """The links of every message where link orders matter, else those that the schedule names.

    The second value tells of a message that has no path and that the topology cannot route. Messages whose ends are not
    ranks, and multicasts and reductions without links, are left alone: the native check words them.
    """
    for name in ("kind", "exclusive", "order", "src", "dst", "path"):
        if (rows := len(getattr(schedule, name))) != schedule.num_messages:
            raise InvalidInput(f"{name} has {rows} rows; the schedule has {schedule.num_messages} messages")
    for name in ("src", "dst", "path"):
        sets: Ragged = getattr(schedule, name)
        if sets.offsets[0] != 0 or sets.offsets[-1] != len(sets.values) or (np.diff(sets.offsets) < 0).any():
            raise InvalidInput(f"{name}: offsets must rise from 0 to the number of values")
    routed, is_single = unrouted(schedule)
    if not len(routed) or not is_single.all():
        return schedule.path, None
    src = schedule.src.values[schedule.src.offsets[routed]]
    dst = schedule.dst.values[schedule.dst.offsets[routed]]
    if min(src.min(), dst.min()) < 0 or max(src.max(), dst.max()) >= topology.num_ranks:
        return schedule.path, None
    pairs = _distinct(src.astype(np.int64) * topology.num_ranks + dst, topology.num_ranks**2)
    pair_src, pair_dst = np.divmod(pairs, topology.num_ranks)
    try:
        topology.routes(pair_src.astype(np.int32), pair_dst.astype(np.int32))
    except InvalidInput as error:
        return schedule.path, _unroutable(topology, routed, src, dst, str(error))
    return (resolved_paths(schedule, topology) if has_place(schedule).any() else schedule.path), None


def _distinct(values: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """The distinct values, ascending; all are below `limit`."""
    if limit > max(2**20, 8 * len(values)):
        return np.unique(values)
    is_used = np.zeros(limit, np.bool_)
    is_used[values] = True
    return np.flatnonzero(is_used)


def _unroutable(
    topology: Topology, routed: NDArray[np.int64], src: NDArray[np.int32], dst: NDArray[np.int32], reason: str
) -> Violation:
    """Name the first message whose ends the topology cannot join, by halving."""
    first, last = 0, len(routed)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            topology.routes(src[first:middle], dst[first:middle])
            first = middle
        except InvalidInput as error:
            last, reason = middle, str(error)
    message, rank = int(routed[first]), int(src[first])
    return Violation(Rule.PATH_CONNECTS, message, rank, None, None, None, f"message {message} has no path: {reason}")


def _report(
    rows: Schedule, violations: list[Violation], total: int, scratch_bytes: NDArray[np.int64], method: str
) -> Report:
    return Report(tuple(violations), total, scratch_bytes, method, rows.num_messages + rows.num_pieces)
