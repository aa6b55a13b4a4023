"""One order of all messages that honours dependencies, link orders and barriers.

Every threadblock of an exported program follows this one order, which is why no two of them can wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged, topological_order
from interlock.schedule import Schedule, follows
from interlock.topology import Topology

__all__ = ["Sequence", "executable_order", "sequence_messages", "unsaid_by_sends"]


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """Messages in an order that can be executed one after the other.

    `paced_before[k]` must have left its link when `paced_after[k]` starts: neighbours in a link's order.
    """

    order: NDArray[np.int64]  # [num_messages] message ids
    paced_before: NDArray[np.int64]
    paced_after: NDArray[np.int64]
    epoch: NDArray[np.int32]  # [num_messages] how many barriers stand before each message


def sequence_messages(schedule: Schedule, topology: Topology) -> Sequence:
    """Order the messages; ties by barrier, stage, distance and row.

    The distance from sender to receiver rotates lists of destinations where nothing waits for anything: queues that are
    worked off in order then meet different receivers, and not all the same one.
    """
    count = schedule.num_messages
    before, after = follows(schedule, topology)
    epoch = np.searchsorted(schedule.barriers, schedule.stage, side="right").astype(np.int32)
    edge_from = np.concatenate([schedule.deps.values.astype(np.int64), before])
    edge_to = np.concatenate([schedule.deps.row_of_value, after])
    src, dst = (ends.values[ends.offsets[:-1]].astype(np.int64) for ends in (schedule.src, schedule.dst))
    distance = (dst - src) % topology.num_ranks
    if len(edge_from):
        distance[:] = 0  # a plan with dependencies has an order of its own
    if (np.diff(epoch) >= 0).all() and len(edge_from) and (edge_from < edge_to).all():
        return Sequence(np.arange(count), before, after, epoch)
    order = np.lexsort((np.arange(count), distance, schedule.stage, epoch))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    if (place[edge_from] < place[edge_to]).all():
        return Sequence(order, before, after, epoch)
    # Always the ready message of the first place.
    ordered = order[topological_order(Ragged.grouped(place[edge_to], place[edge_from], count))]
    if len(ordered) != count or (np.diff(epoch[ordered]) < 0).any():
        raise InvalidInput("the schedule's dependencies, link orders and barriers form a cycle; it cannot be exported")
    return Sequence(ordered, before, after, epoch)


def executable_order(after: list[list[int]] | list[set[int]]) -> list[int]:
    """Rows after all that they wait for, followers soon behind what they follow; fewer where some wait in a circle."""
    waiting = [len(earlier) for earlier in after]
    followers: list[list[int]] = [[] for _ in after]
    for number, earlier in enumerate(after):
        for each in earlier:
            followers[each].append(number)
    ready = [number for number in range(len(after) - 1, -1, -1) if waiting[number] == 0]
    order = []
    while ready:
        number = ready.pop()
        order.append(number)
        for later in reversed(followers[number]):
            waiting[later] -= 1
            if waiting[later] == 0:
                ready.append(later)
    return order


def unsaid_by_sends(schedule: Schedule, format_name: str, *, at: str) -> list[str]:
    """What a format that knows only sends and receives of single ranks (`at` a "GPU" or "rank") leaves out."""
    notes = []
    if not (schedule.src.is_single and schedule.dst.is_single):
        notes.append(
            f"{format_name} has no in-switch operations: multicasts and in-switch sums are written as single sends"
        )
    if len(schedule.barriers):
        notes.append(f"barriers are kept at each {at}, not between {at}s")
    return notes
