"""Violations and reports in words, and what is cut exactly, case by case."""

from __future__ import annotations

import numpy as np
import pytest

from interlock.problem import Items, RankSets
from interlock.schedule import Chunks
from interlock.validate import Report, Rule, Violation
from interlock.validate.check import _distinct
from interlock.validate.report import describe
from interlock.validate.slot_schedules import _cut_exactly


def report(broken: int) -> Report:
    made = tuple(
        Violation(Rule.ITEM_EXISTS, None, None, None, None, None, f"fault {n}") for n in range(min(broken, 100))
    )
    return Report(made, broken, np.zeros(2, np.int64), "exact sets", 7)


@pytest.mark.parametrize(("broken", "lines"), [(1, 1), (2, 3), (10, 11), (11, 11), (200, 11)])
def test_a_report_tells_up_to_ten_faults(broken: int, lines: int) -> None:
    said = str(report(broken)).splitlines()
    assert len(said) == lines and not report(broken).valid
    assert (said[0] == f"{broken} broken rules, the first:") is (broken > 1)
    assert said[-1].startswith(f"fault {min(broken, 10) - 1} [")


def test_a_valid_report_tells_rows_and_method() -> None:
    assert report(0).valid and str(report(0)) == "valid (7 rows, exact sets)"


def test_a_violation_tells_only_what_is_known() -> None:
    known = describe(Rule.ITEM_EXISTS, 0, 0, 0, 0, 1)
    assert (known.message, known.rank, known.item, known.first_byte, known.last_byte) == (0, 0, 0, 0, 0)
    assert known.text.startswith("message 0 ")
    unknown = describe(Rule.ITEM_EXISTS, -1, -1, -1, -1, -1)
    assert (unknown.message, unknown.rank, unknown.item, unknown.first_byte, unknown.last_byte) == (None,) * 5
    assert not unknown.text.startswith("message")
    empty = describe(Rule.ITEM_EXISTS, 1, 2, 3, 4, 4)
    assert (empty.first_byte, empty.last_byte, empty.rank) == (None, None, 2)
    for rule in (Rule.TREE_CONNECTS, Rule.SWITCH_ABLE):
        assert describe(rule, 1, 2, 3, 4, 9).rank is None  # a node
    span = describe(Rule.TREE_CONNECTS, 1, 2, 3, 4, 9)
    assert (span.first_byte, span.last_byte) == (4, 8)


def items(*size_bytes: int) -> Items:
    count = len(size_bytes)
    everyone = RankSets.same(np.arange(2, dtype=np.int32), count)
    return Items(np.array(size_bytes, np.int64), RankSets.one(np.zeros(count, np.int32)), everyone)


@pytest.mark.parametrize(
    ("rows", "is_exact"),
    [
        ([(0, 0, 4), (1, 0, 6)], True),
        ([(1, 3, 3), (0, 0, 4), (1, 0, 3)], True),  # in any order
        ([(0, 0, 4)], False),  # an item without chunks
        ([(0, 0, 4), (1, 0, 5)], False),  # too short
        ([(0, 0, 4), (1, 0, 7)], False),  # too long
        ([(0, 0, 4), (1, 1, 5)], False),  # does not begin at the beginning
        ([(0, 0, 4), (1, 0, 2), (1, 3, 3)], False),  # a gap
        ([(0, 0, 4), (1, 0, 4), (1, 3, 3)], False),  # an overlap
        ([(0, 0, 4), (1, 0, 6), (1, 6, 0)], False),  # nothing
        ([(0, 0, 4), (1, 0, 6), (2, 0, 1)], False),  # of no item
        ([(0, 0, 4), (1, 0, 6), (-1, 0, 1)], False),
        ([], False),
    ],
)
def test_items_are_cut_exactly_by_chunks_without_gap_or_overlap(
    rows: list[tuple[int, int, int]], is_exact: bool
) -> None:
    item, offset, length = np.array(rows, np.int64).reshape(-1, 3).T
    assert bool(_cut_exactly(Chunks(item.astype(np.int32), offset, length), items(4, 6))) is is_exact


@pytest.mark.parametrize("limit", [10, 2**20, 2**20 + 1, 2**40])
def test_distinct_values_are_found_in_either_way(limit: int) -> None:
    assert _distinct(np.array([7, 3, 7, 0, 9]), limit).tolist() == [0, 3, 7, 9]
