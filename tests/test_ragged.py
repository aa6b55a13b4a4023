"""Rows of unequal length behave like lists of lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import InvalidInput
from interlock.ragged import Ragged, topological_order

ROWS = st.lists(st.lists(st.integers(0, 1000), max_size=5), max_size=8)


@given(ROWS)
def test_rows_come_back_as_given(rows: list[list[int]]) -> None:
    made = Ragged.from_lists(rows)
    assert [row.tolist() for row in made] == rows
    assert made.counts.tolist() == [len(row) for row in rows]
    assert made.row_of_value.tolist() == [place for place, row in enumerate(rows) for _ in row]
    assert made.is_single == all(len(row) == 1 for row in rows)


@given(ROWS, st.data())
def test_taken_rows_are_the_chosen_ones_in_order(rows: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)) if rows else []
    made = Ragged.from_lists(rows).take(np.array(chosen, np.int64))
    assert [row.tolist() for row in made] == [rows[place] for place in chosen]


@given(st.lists(ROWS, max_size=3))
def test_concatenation_keeps_all_rows(parts: list[list[list[int]]]) -> None:
    made = Ragged.concatenate([Ragged.from_lists(rows) for rows in parts])
    assert [row.tolist() for row in made] == [row for rows in parts for row in rows]


def test_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(InvalidInput, match="add up to 3"):
        Ragged.from_counts(np.array([1, 2]), np.zeros(2, np.int32))


def test_pairs_become_rows_in_order_each_value_once() -> None:
    rows = Ragged.from_pairs(np.array([2, 0, 2, 2, 0]), np.array([5, 1, 3, 5, 0]), 4)
    assert [row.tolist() for row in rows] == [[0, 1], [], [3, 5], []]
    assert len(Ragged.from_pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), 3)) == 3


def test_rows_stand_behind_what_they_name_and_otherwise_as_they_are() -> None:
    assert topological_order(Ragged.from_lists([[2], [], [3], [], [0]])) == [1, 3, 2, 0, 4]
    assert topological_order(Ragged.from_lists([[], [], []])) == [0, 1, 2]


def test_rows_that_wait_in_a_circle_are_left_out() -> None:
    assert topological_order(Ragged.from_lists([[1], [0], [], [2], [0]])) == [2, 3]
