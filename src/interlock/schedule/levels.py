"""How deep each message stands in its schedule: the longest chain of messages that must go before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import ranges
from interlock.schedule.link_orders import follows, has_place
from interlock.schedule.model import Schedule
from interlock.topology import Topology

__all__ = ["is_in_order", "levels"]


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
