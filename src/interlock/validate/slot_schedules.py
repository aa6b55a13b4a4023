"""Checks a slot schedule as a stream, where its form allows that; others are expanded and checked row by row.

The table says which chunk goes over which link in which slot; a bit per node and chunk is kept, so that schedules too
large to write out as messages can be checked all the same. A reduction is checked as the spreading it is the reversal
of: if every rank receives every chunk exactly once in reverse, every contribution enters every sum exactly once.

A slot schedule streams if all nodes of the graph are ranks, its chunks cut the items without gap or overlap, and
either every item has one contributor and all ranks as destinations (an All-Gather, a Broadcast) or all ranks contribute
to every item (a Reduce-Scatter, a Reduce, an All-Reduce). No rank then only relays, so no scratch is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.problem import Items, Problem, RankSets
from interlock.ragged import Ragged, run_starts
from interlock.schedule import Chunks, SlotSchedule
from interlock.topology import Topology
from interlock.topology.graph import DEAD_BANDWIDTH
from interlock.validate.report import EXACT_SETS, Report, Rule, Violation, describe

__all__ = ["ChunkGoal", "SlotReport", "SlotViolation", "check_slot_schedule", "check_slot_table", "streams"]


RULES = tuple(Rule)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkGoal:
    """Where chunks start and end, and the links between the nodes. One row of `destinations` serves all chunks."""

    origin: NDArray[np.int32]  # [num_chunks]
    destinations: Ragged
    link_src: NDArray[np.int32]  # [num_links]
    link_dst: NDArray[np.int32]
    num_nodes: int


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
    ends = goal.destinations
    rules, entry, node, chunk, total, num_transfers = _core.check_slot_table(
        table, goal.origin, ends.offsets, ends.values, goal.link_src, goal.link_dst, goal.num_nodes, is_reversed
    )
    places = np.stack([entry, node, chunk], axis=1).tolist()
    violations = [
        SlotViolation(RULES[code], *(None if place < 0 else place for place in row))
        for code, row in zip(rules.tolist(), places, strict=True)
    ]
    return SlotReport(tuple(violations), total, num_transfers)


# What a finding in the reversal of a reduction says about the reduction itself.
REVERSED = {
    Rule.HELD_BEFORE_SENT: (
        Rule.REDUCTION_COMPLETE,
        "adds to {bytes} of item {item} at rank {rank} too late to be sent on",
    ),
    Rule.ARRIVES_ONCE: (Rule.CONTRIBUTES_ONCE, "sends {bytes} of item {item} from rank {rank} a second time"),
    Rule.DESTINATION_HOLDS: (Rule.REDUCTION_COMPLETE, "rank {rank} never sends its share of {bytes} of item {item}"),
}


def streams(schedule: SlotSchedule, problem: Problem) -> bool:
    """Whether a slot schedule can be checked without writing out its rows."""
    items = problem.items
    spreads = items.contributors.is_single and _is_everyone(items.destinations, problem.num_ranks)
    sums = _is_everyone(items.contributors, problem.num_ranks) and problem.num_ranks > 1
    return (
        _is_whole_graph(schedule, problem.topology)
        and _cut_exactly(schedule.chunks, items)
        and ((spreads and schedule.num_reducing == 0) or (sums and schedule.num_reducing > 0))
    )


def check_slot_schedule(schedule: SlotSchedule, problem: Problem) -> Report:
    """Check a slot schedule that `streams`."""
    split = schedule.num_reducing
    item = schedule.chunks.item
    ends = _ends_by_chunk(problem.items.destinations, item)
    if split == 0:
        origin = problem.items.contributors.to_ragged().values[item]
        parts = [(check_slot_table(schedule.table, _goal(schedule, problem, origin, ends)), False)]
    else:
        roots = _core.slot_table_roots(schedule.table[:split], schedule.link_src, len(item), problem.num_ranks)
        if (roots < 0).any():
            return _report(problem, [_without_root(schedule, int(np.flatnonzero(roots < 0)[0]))], 1, 0)
        everyone = Ragged.from_lists([range(problem.num_ranks)])
        parts = [
            (
                check_slot_table(schedule.table[:split], _goal(schedule, problem, roots, everyone), is_reversed=True),
                True,
            ),
            (check_slot_table(schedule.table[split:], _goal(schedule, problem, roots, ends)), False),
        ]
    violations = [
        _worded(violation, schedule, is_reversed, 0 if is_reversed else split)
        for found, is_reversed in parts
        for violation in found.violations
    ]
    return _report(problem, violations, *_totals([found for found, _ in parts]))


def _totals(parts: list[SlotReport]) -> tuple[int, int]:
    return sum(part.num_violations for part in parts), sum(part.num_transfers for part in parts)


def _report(problem: Problem, violations: list[Violation], total: int, num_transfers: int) -> Report:
    return Report(tuple(violations), total, np.zeros(problem.num_ranks, np.int64), EXACT_SETS, 2 * num_transfers)


def _goal(schedule: SlotSchedule, problem: Problem, origin: NDArray[np.int32], ends: Ragged) -> ChunkGoal:
    return ChunkGoal(origin, ends, schedule.link_src, schedule.link_dst, problem.num_ranks)


def _is_everyone(sets: RankSets, num_ranks: int) -> bool:
    return sets.shared is not None and len(np.unique(sets.shared)) == num_ranks


def _is_whole_graph(schedule: SlotSchedule, topology: Topology) -> bool:
    """Whether the table has one column per link of a topology of live links between ranks."""
    return (
        topology.num_nodes == topology.num_ranks
        and bool((topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH).all())
        and np.array_equal(schedule.link_src, topology.link_src)
        and np.array_equal(schedule.link_dst, topology.link_dst)
    )


def _cut_exactly(chunks: Chunks, items: Items) -> bool:
    """Whether the chunks of each item cover it without gap or overlap."""
    if len(chunks) == 0 or (chunks.length <= 0).any() or chunks.item.min() < 0 or chunks.item.max() >= len(items):
        return False
    order = np.lexsort((chunks.offset, chunks.item))
    item, offset, end = chunks.item[order], chunks.offset[order], (chunks.offset + chunks.length)[order]
    is_first = run_starts(item)
    is_last = np.append(item[1:] != item[:-1], True)
    meets = np.append(True, offset[1:] == end[:-1])
    covered = item[is_last]
    return (
        bool((offset[is_first] == 0).all() and (meets | is_first).all())
        and np.array_equal(end[is_last], items.size_bytes[covered])
        and len(covered) == np.count_nonzero(items.size_bytes)
    )


def _ends_by_chunk(sets: RankSets, item: NDArray[np.int32]) -> Ragged:
    if sets.shared is not None:
        return Ragged.from_lists([sets.shared.tolist()])
    return sets.to_ragged().take(item)


def _without_root(schedule: SlotSchedule, chunk: int) -> Violation:
    item, first, end = _bytes_of(schedule, chunk)
    text = f"bytes {first}..{end - 1} of item {item} are not sent on exactly once by all ranks but one"
    return Violation(Rule.REDUCTION_COMPLETE, None, None, item, first, end - 1, text)


def _bytes_of(schedule: SlotSchedule, chunk: int) -> tuple[int, int, int]:
    chunks = schedule.chunks
    first = int(chunks.offset[chunk])
    return int(chunks.item[chunk]), first, first + int(chunks.length[chunk])


def _worded(violation: SlotViolation, schedule: SlotSchedule, is_reversed: bool, first_slot: int) -> Violation:
    """A violation in the words of schedules, with slots and links in place of message numbers."""
    where = ""
    if violation.entry is not None:
        slot, link = divmod(violation.entry, len(schedule.link_src))
        where = f"slot {first_slot + slot}, link {link} "
    if violation.chunk is None or violation.chunk >= len(schedule.chunks):
        return Violation(Rule.ITEM_EXISTS, None, None, None, None, None, f"{where}carries a chunk that does not exist")
    item, first, end = _bytes_of(schedule, violation.chunk)
    rank = -1 if violation.node is None else violation.node
    plain = describe(violation.rule, -1, rank, item, first, end)
    rule, text = violation.rule, plain.text
    if is_reversed and violation.rule in REVERSED:
        rule, words = REVERSED[violation.rule]
        text = words.format(rank=rank, item=item, bytes=f"bytes {first}..{end - 1}")
    return Violation(rule, None, plain.rank, item, plain.first_byte, plain.last_byte, where + text)
