"""The links of every message, the orders that links and connections keep (who must have left before whom may start),
and how deep that puts each message.

An exclusive message has a place on every link of its path. One that shares its links has a place where its `order` is
above 0: among the messages of its connection, of one slice from the same sender to the same receiver, on each of those
links. In a step every task has orders of its own.

Here all of them are orders of links: a task, and a connection with an order, has links of its own over the same
channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged, ranges
from interlock.schedule.model import Kind, Schedule
from interlock.topology import Topology

__all__ = [
    "OrderedLinks",
    "follows",
    "has_place",
    "is_in_order",
    "levels",
    "ordered_links",
    "resolved_paths",
    "reversed_order",
    "unrouted",
]


def unrouted(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Messages that leave their links to the topology, and which of them go from one rank to one rank."""
    rows = np.flatnonzero((np.diff(schedule.path.offsets) == 0) & (schedule.kind != Kind.WAIT))
    return rows, (schedule.src.counts[rows] == 1) & (schedule.dst.counts[rows] == 1)


def resolved_paths(schedule: Schedule, topology: Topology) -> Ragged:
    """Link ids of every message; rows the schedule leaves empty are filled with the topology's route."""
    routed, is_single = unrouted(schedule)
    if not len(routed):
        return schedule.path
    if not is_single.all():
        message = int(routed[~is_single][0])
        raise InvalidInput(f"message {message} has several sources or destinations and no path; it must name its links")
    src = schedule.src.values[schedule.src.offsets[routed]]
    dst = schedule.dst.values[schedule.dst.offsets[routed]]
    routes = topology.routes(src, dst)
    if len(routed) == len(schedule.path):
        return routes
    row = np.arange(len(schedule.path))
    row[routed] = len(row) + np.arange(len(routed))
    return Ragged.concatenate([schedule.path, routes]).take(row)


@dataclass(frozen=True, slots=True, eq=False)
class OrderedLinks:
    """Paths over links of which each keeps one order of the messages that have a place, and links that keep none."""

    path: Ragged  # numbers from `len(link)` on keep no order
    link: NDArray[np.int64]  # the topology's link under each
    has_place: NDArray[np.bool_]  # [num_messages]


def has_place(schedule: Schedule) -> NDArray[np.bool_]:
    """Which messages leave in an order, of their links or of their connection."""
    return schedule.exclusive | _on_connection(schedule)


def reversed_order(schedule: Schedule) -> NDArray[np.int64]:
    """The order of messages when the last is to be first."""
    made = np.zeros(schedule.num_messages, np.int64)
    for rows in (schedule.exclusive, _on_connection(schedule)):
        places = schedule.order[rows]
        if len(places):
            made[rows] = places.min() + places.max() - places
    return made


def ordered_links(schedule: Schedule, path: Ragged, num_links: int) -> OrderedLinks:
    """The links `path` of each message, below `num_links` those of the topology, as links that keep one order each."""
    link = np.arange(num_links)
    in_turn = _on_connection(schedule)
    if schedule.tasks is None and not in_turn.any():
        return OrderedLinks(path, link, schedule.exclusive)
    row, values = path.row_of_value, path.values.astype(np.int64)
    if schedule.tasks is not None:
        link = np.tile(link, int(schedule.tasks.task.max(initial=0)) + 1)
        values += np.where(values < num_links, np.maximum(schedule.tasks.task, 0)[row] * num_links, 0)
    own = np.flatnonzero(in_turn[row] & (path.values >= 0) & (path.values < num_links))
    first = (ends.values[ends.offsets[row[own]]] for ends in (schedule.src, schedule.dst))
    named = np.stack([*first, schedule.slice[row[own]]]).astype(np.int64)
    connection = np.unique(named, axis=1, return_inverse=True)[1].reshape(-1)
    key, kept = np.unique(connection * len(link) + values[own], return_inverse=True)
    beyond = path.values >= num_links
    values[own] = len(link) + kept
    link = np.concatenate([link, link[key % max(1, len(link))]])
    values[beyond] = path.values[beyond] + np.int64(len(link) - num_links)
    return OrderedLinks(Ragged(path.offsets, values.astype(np.int32)), link, schedule.exclusive | in_turn)


def follows(schedule: Schedule, topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of messages that follow each other in some order, each pair once: the first, and the one behind it."""
    chosen = np.flatnonzero(has_place(schedule))
    if not len(chosen):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    links = ordered_links(schedule, resolved_paths(schedule, topology), topology.num_links)
    path = links.path.take(chosen)
    message = chosen[path.row_of_value]
    place = np.lexsort((schedule.order[message], path.values))
    link, message = path.values[place], message[place]
    same = link[1:] == link[:-1]
    pair = np.unique(message[:-1][same] * len(links.has_place) + message[1:][same])
    return pair // len(links.has_place), pair % len(links.has_place)


def _on_connection(schedule: Schedule) -> NDArray[np.bool_]:
    """Messages that share their links and have a place on their connection."""
    in_turn = (schedule.order > 0) & ~schedule.exclusive
    if in_turn.any():
        in_turn &= (schedule.src.counts == 1) & (schedule.dst.counts == 1)
    return in_turn


def is_in_order(schedule: Schedule) -> bool:
    """Whether every message comes after those it depends on and those before it on its connection, and none before a
    barrier that it comes after."""
    if len(schedule.barriers) and (np.diff(np.searchsorted(schedule.barriers, schedule.stage, side="right")) < 0).any():
        return False
    if (np.diff(schedule.order[has_place(schedule) & ~schedule.exclusive]) < 0).any():
        return False
    return bool((schedule.deps.values < schedule.deps.row_of_value).all())


def levels(schedule: Schedule, topology: Topology) -> NDArray[np.int64]:
    """Levels rise along dependencies, along the order of each link, and from one barrier to the next."""
    earlier, later = _edges(schedule, topology)
    level = np.zeros(schedule.num_messages, np.int64)
    segment = np.searchsorted(schedule.barriers, schedule.stage, side="right")
    for part in range(len(schedule.barriers) + 1):
        here = segment == part
        lowest = int(level[segment < part].max(initial=-1)) + 1
        level[here] = lowest
        inside = here[earlier] & here[later]  # what comes from before the barrier is below its lowest level
        _rise(level, lowest, earlier[inside], later[inside])
    return level


def _rise(level: NDArray[np.int64], lowest: int, earlier: NDArray[np.int64], later: NDArray[np.int64]) -> None:
    """Level by level: a message is as high as the last of those before it, and one; each pair is seen once."""
    if len(earlier) == 0:
        return
    num_after = np.bincount(earlier, minlength=len(level))
    num_open = np.bincount(later, minlength=len(level))
    after = later[np.argsort(earlier, kind="stable")]
    first = np.cumsum(num_after) - num_after
    front, left = np.flatnonzero((num_after > 0) & (num_open == 0)), len(later)
    while len(front):
        counts = num_after[front]
        met = after[ranges(first[front], counts)]
        left -= len(met)
        np.subtract.at(num_open, met, 1)
        front = np.unique(met[num_open[met] == 0])
        lowest += 1
        level[front] = lowest
    if left:
        raise InvalidInput("schedule: its messages wait for each other in a circle, so they have no levels")


def _edges(schedule: Schedule, topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of messages of which the first must go before the second."""
    before, after = follows(schedule, topology)
    earlier, later = schedule.deps.values.astype(np.int64), schedule.deps.row_of_value
    return np.concatenate([earlier, before]), np.concatenate([later, after])
