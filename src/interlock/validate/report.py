"""What a check returns: broken rules, each with the place where it broke."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXACT_SETS", "FINGERPRINTS", "Report", "Rule", "Violation"]

EXACT_SETS = "exact sets"
FINGERPRINTS = "fingerprints"


class Rule(StrEnum):
    """The rules of `interlock.schedule.spec`, in the order in which the native core checks and counts them."""

    RANK_EXISTS = "rank-exists"
    ENDS = "ends"
    DISTINCT_ENDS = "distinct-ends"
    KNOWN_KIND = "known-kind"
    STAGE_NOT_NEGATIVE = "stage-not-negative"
    DEPENDENCY_EXISTS = "dependency-exists"
    ITEM_EXISTS = "item-exists"
    PIECE_IN_ITEM = "piece-in-item"
    SIZE_COVERS_PIECES = "size-covers-pieces"
    BARRIERS_ASCEND = "barriers-ascend"
    LINK_EXISTS = "link-exists"
    PATH_CONNECTS = "path-connects"
    TREE_CONNECTS = "tree-connects"
    SWITCH_ABLE = "switch-able"
    EXCLUSIVE_LINK = "exclusive-link"
    LINK_ORDER = "link-order"
    ACYCLIC = "acyclic"
    HELD_BEFORE_SENT = "held-before-sent"
    ORDERED_AFTER_ARRIVAL = "ordered-after-arrival"
    ARRIVES_ONCE = "arrives-once"
    CONTRIBUTES_ONCE = "contributes-once"
    READ_BEFORE_OVERWRITTEN = "read-before-overwritten"
    WRITES_ORDERED = "writes-ordered"
    DESTINATION_HOLDS = "destination-holds"
    REDUCTION_COMPLETE = "reduction-complete"
    WITHIN_BUDGET = "within-budget"
    # Of steps; checked in Python and by check_step_order.
    ITEM_OF_TASK = "item-of-task"
    STAGE_OF_TASK = "stage-of-task"
    COMPUTED = "computed"
    AFTER = "after"
    NOT_BEFORE_READY = "not-before-ready"
    COMPUTES_ALONE = "computes-alone"


WORDS = {
    Rule.RANK_EXISTS: "names rank {rank}, which the topology does not have",
    Rule.ENDS: "needs a source and a destination; only a reduce has several sources, only a copy several destinations",
    Rule.DISTINCT_ENDS: "names rank {rank} twice among its sources and destinations",
    Rule.KNOWN_KIND: "has a kind or phase that does not exist",
    Rule.STAGE_NOT_NEGATIVE: "has a negative stage or slice",
    Rule.DEPENDENCY_EXISTS: "has dependencies that are not other messages in ascending order",
    Rule.ITEM_EXISTS: "carries item {item}, which the problem does not have",
    Rule.PIECE_IN_ITEM: "carries {bytes} of item {item}, which are none or lie outside the item",
    Rule.SIZE_COVERS_PIECES: "is smaller than the pieces it carries",
    Rule.BARRIERS_ASCEND: "the barriers do not ascend",
    Rule.LINK_EXISTS: "takes a link that the topology does not have or that is dead",
    Rule.PATH_CONNECTS: (
        "takes links that do not lead from rank {rank} to its destination, each node once and no rank between"
    ),
    Rule.TREE_CONNECTS: "takes links that are no tree between its sources and destinations: see node {rank}",
    Rule.SWITCH_ABLE: "branches at node {rank}, which cannot copy or add what passes it",
    Rule.EXCLUSIVE_LINK: "claims a link for itself that other messages share",
    Rule.LINK_ORDER: "has the same place in a link's order as another message",
    Rule.ACYCLIC: "waits for itself: dependencies, link orders and barriers form a cycle through it",
    Rule.HELD_BEFORE_SENT: "sends {bytes} of item {item} from rank {rank}, which does not hold them by then",
    Rule.ORDERED_AFTER_ARRIVAL: (
        "sends {bytes} of item {item} from rank {rank} without waiting for what brought or changed them there"
    ),
    Rule.ARRIVES_ONCE: "brings {bytes} of item {item} to rank {rank}, which has had them already",
    Rule.CONTRIBUTES_ONCE: "adds a contribution to {bytes} of item {item} at rank {rank} that is in them already",
    Rule.READ_BEFORE_OVERWRITTEN: (
        "changes {bytes} of item {item} at rank {rank} without waiting for a message that sends them from there"
    ),
    Rule.WRITES_ORDERED: "writes {bytes} of item {item} at rank {rank} in no certain order with another message",
    Rule.DESTINATION_HOLDS: "rank {rank} never receives {bytes} of item {item}",
    Rule.REDUCTION_COMPLETE: "rank {rank} ends with {bytes} of item {item} that lack a contribution or hold one twice",
    Rule.WITHIN_BUDGET: "the check would take far more than linear time, so the schedule is not shown to be right",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule and where: what does not apply is None. Bytes are counted within the item, both ends included."""

    rule: Rule
    message: int | None
    rank: int | None
    item: int | None
    first_byte: int | None
    last_byte: int | None
    text: str

    def __str__(self) -> str:
        return f"{self.text} [{self.rule}]"


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """The outcome of a check.

    `violations` describes the first hundred of `num_violations` broken rules. `method` says how sums were followed:
    as exact sets, or (where an item has more than 1,024 contributors) as two random 64-bit fingerprints and
    a count.
    `scratch_bytes` is each rank's high-water mark; it is zero where the check ended before executing the schedule.
    """

    violations: tuple[Violation, ...]
    num_violations: int
    scratch_bytes: NDArray[np.int64]  # [num_ranks]
    method: str
    num_rows: int  # messages and pieces checked

    @property
    def valid(self) -> bool:
        """Whether every byte surely arrives, complete, exactly once."""
        return self.num_violations == 0

    def __str__(self) -> str:
        if self.valid:
            return f"valid ({self.num_rows} rows, {self.method})"
        lines = [f"{self.num_violations} broken rules, the first:"] if self.num_violations > 1 else []
        return "\n".join([*lines, *(str(violation) for violation in self.violations[:10])])


def describe(rule: Rule, message: int, rank: int, item: int, first_byte: int, end_byte: int) -> Violation:
    """A violation from a native row, where -1 stands for none; of a broken tree, the rank is a node."""
    span = f"bytes {first_byte}..{end_byte - 1}" if end_byte > first_byte else f"no bytes at {first_byte}"
    text = WORDS[rule].format(rank=rank, item=item, bytes=span)
    has_bytes = first_byte >= 0 and end_byte > first_byte
    return Violation(
        rule=rule,
        message=message if message >= 0 else None,
        rank=rank if rank >= 0 and rule not in (Rule.TREE_CONNECTS, Rule.SWITCH_ABLE) else None,
        item=item if item >= 0 else None,
        first_byte=first_byte if has_bytes else None,
        last_byte=end_byte - 1 if has_bytes else None,
        text=f"message {message} {text}" if message >= 0 else text,
    )
