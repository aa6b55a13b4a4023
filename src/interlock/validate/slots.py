"""Checks the compact forms of synthesis as streams: chunks by slot and link, or transfers by start.

Both speak of whole chunks copied from node to node, and keep a bit or two per node and chunk, so that schedules too
large to write out as messages can be checked all the same. A reduction is checked as the spreading it is the reversal
of: if every rank receives every chunk exactly once in reverse, every contribution enters every sum exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.ragged import Ragged
from interlock.validate.report import Rule

__all__ = ["ChunkGoal", "SlotReport", "SlotViolation", "Transfers", "check_slot_table", "check_transfers"]

RULES = tuple(Rule)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkGoal:
    """Where chunks start and end, and the links between the nodes. One row of `destinations` serves all chunks."""

    origin: NDArray[np.int32]  # [num_chunks]
    destinations: Ragged
    link_src: NDArray[np.int32]  # [num_links]
    link_dst: NDArray[np.int32]
    num_nodes: int


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """One chunk over one link each, in order of start; `ticks` is how long the link is held."""

    start_ticks: NDArray[np.int64]
    ticks: NDArray[np.int64]
    link: NDArray[np.int32]
    chunk: NDArray[np.int32]
    latency_ticks: NDArray[np.int64]  # [num_links]: from when the link is free again to when the chunk has arrived


@dataclass(frozen=True, slots=True)
class SlotViolation:
    """One broken rule. `entry` is the transfer, or the place in the flattened table; None if nothing was sent."""

    rule: Rule
    entry: int | None
    node: int | None
    chunk: int | None

    def __str__(self) -> str:
        place = "" if self.entry is None else f"entry {self.entry}: "
        return f"{place}node {self.node}, chunk {self.chunk} [{self.rule}]"


@dataclass(frozen=True, slots=True)
class SlotReport:
    """The outcome: the first hundred of `num_violations` broken rules."""

    violations: tuple[SlotViolation, ...]
    num_violations: int
    num_transfers: int

    @property
    def valid(self) -> bool:
        """Whether every chunk reaches its destinations, no node twice, over links that carry one at a time."""
        return self.num_violations == 0


def check_slot_table(
    table: NDArray[np.uint16] | NDArray[np.uint32], goal: ChunkGoal, *, is_reversed: bool = False
) -> SlotReport:
    """Check a table ``[num_slots, num_links]`` of the chunk each link carries in each slot.

    The largest number of the dtype means that the link rests. All links take one slot; what arrives in a slot can be
    sent in the next. `is_reversed` reads slots from last to first and links from end to beginning, for reductions. The
    table may be a memory map: it is read once, in order.

    Examples
    --------
    >>> import numpy as np
    >>> ring = ChunkGoal(np.arange(2, dtype=np.int32), Ragged.from_lists([[0, 1]]),
    ...                  np.array([0, 1], np.int32), np.array([1, 0], np.int32), 2)
    >>> check_slot_table(np.array([[0, 1]], np.uint16), ring).valid
    True
    >>> check_slot_table(np.array([[1, 1]], np.uint16), ring).violations[0].rule
    <Rule.HELD_BEFORE_SENT: 'held-before-sent'>
    """
    return _report(*_core.check_slot_table(table, *_columns(goal), is_reversed))


def check_transfers(transfers: Transfers, goal: ChunkGoal) -> SlotReport:
    """Check transfers of unequal duration; a node may send a chunk from the tick on which it has arrived."""
    found = _core.check_transfers(
        transfers.start_ticks,
        transfers.ticks,
        transfers.link,
        transfers.chunk,
        transfers.latency_ticks,
        *_columns(goal),
    )
    return _report(*found, len(transfers.start_ticks))


def _columns(
    goal: ChunkGoal,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], int]:
    ends = goal.destinations
    return goal.origin, ends.offsets, ends.values, goal.link_src, goal.link_dst, goal.num_nodes


def _report(
    rule: NDArray[np.uint8],
    entry: NDArray[np.int64],
    node: NDArray[np.int32],
    chunk: NDArray[np.int32],
    total: int,
    num_transfers: int,
) -> SlotReport:
    places = np.stack([entry, node, chunk], axis=1).tolist()
    violations = [
        SlotViolation(RULES[code], *(None if place < 0 else place for place in row))
        for code, row in zip(rule.tolist(), places, strict=True)
    ]
    return SlotReport(tuple(violations), total, num_transfers)
