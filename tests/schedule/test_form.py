"""The cheap half of the law: each rule refuses the row that breaks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.errors import InvalidInput, LimitExceeded
from interlock.problem import Problem, demand_problem
from interlock.ragged import Ragged
from interlock.schedule import MAX_ROWS, Kind, Pieces, Schedule, check_form, check_rows, empty_schedule


@pytest.fixture
def problem(h200_2x4: il.Cluster) -> Problem:
    return demand_problem(h200_2x4, il.traffic.uniform(h200_2x4, "1 MB"))


@pytest.fixture
def good(h200_2x4: il.Cluster) -> Schedule:
    return il.plan(h200_2x4, il.traffic.uniform(h200_2x4, "1 MB"), algorithm="pxn").schedule


def _with(column: np.ndarray, place: int, value: object) -> np.ndarray:
    changed = column.copy()
    changed[place] = value
    return changed


def _ragged(rows: Ragged, place: int, value: list[int]) -> Ragged:
    lists = [row.tolist() for row in rows]
    lists[place] = value
    return Ragged.from_lists(lists)


def test_a_good_schedule_passes(good: Schedule, problem: Problem) -> None:
    check_form(good, problem)
    check_form(empty_schedule(), problem)
    assert good.num_messages > 0


BREAKS = {
    "a rank that does not exist": (lambda s: replace(s, src=_ragged(s.src, 0, [99])), "rank 99"),
    "the first rank too many": (lambda s: replace(s, dst=_ragged(s.dst, 0, [8])), "rank 8; there are 8"),
    "a negative rank": (lambda s: replace(s, dst=_ragged(s.dst, 0, [-1])), "rank -1"),
    "no receiver": (lambda s: replace(s, dst=_ragged(s.dst, 0, [])), "ranks on both sides"),
    "several on both sides": (
        lambda s: replace(s, src=_ragged(s.src, 0, [0, 1]), dst=_ragged(s.dst, 0, [2, 3])),
        "at least one side",
    ),
    "several senders that copy": (lambda s: replace(s, src=_ragged(s.src, 0, [2, 3])), "several ranks send"),
    "several receivers that reduce": (
        lambda s: replace(s, dst=_ragged(s.dst, 0, [2, 3]), kind=_with(s.kind, 0, Kind.REDUCE)),
        "several ranks receive",
    ),
    "a message to itself": (lambda s: replace(s, dst=_ragged(s.dst, 0, s.src[0].tolist())), "another rank"),
    "an unknown kind": (lambda s: replace(s, kind=_with(s.kind, 3, 9)), "message 3: kind=9"),
    "an unknown phase": (lambda s: replace(s, phase=_with(s.phase, 3, 9)), "message 3: phase=9"),
    "a negative stage": (lambda s: replace(s, stage=_with(s.stage, 1, -1)), "message 1: stage=-1"),
    "a negative slice": (lambda s: replace(s, slice=_with(s.slice, 1, -1)), "message 1: slice=-1"),
    "a negative size": (lambda s: replace(s, size_bytes=_with(s.size_bytes, 1, -1)), "size_bytes=-1"),
    "a size below its pieces": (lambda s: replace(s, size_bytes=_with(s.size_bytes, 1, 3)), "sum of its pieces"),
    "a link that does not exist": (lambda s: replace(s, path=_ragged(s.path, 2, [10_000])), "link 10000"),
    "a dependency on itself": (lambda s: replace(s, deps=_ragged(s.deps, 2, [2])), "depends on itself"),
    "a dependency that does not exist": (
        lambda s: replace(s, deps=_ragged(_ragged(s.deps, 1, [0]), 2, [10**6])),
        "message 2: deps names message 1000000",
    ),
    "dependencies that do not ascend": (lambda s: replace(s, deps=_ragged(s.deps, 2, [1, 0])), "must ascend"),
    "a dependency twice": (lambda s: replace(s, deps=_ragged(s.deps, 2, [1, 1])), "must ascend"),
    "barriers that do not ascend": (lambda s: replace(s, barriers=np.array([2, 1], np.int32)), "barriers"),
    "a barrier twice": (lambda s: replace(s, barriers=np.array([1, 1], np.int32)), "barriers"),
    "a column too short": (lambda s: replace(s, stage=s.stage[:-1].copy()), "column 'stage'"),
    "a piece outside its item": (
        lambda s: replace(s, pieces=replace(s.pieces, offset=_with(s.pieces.offset, 0, 1))),
        "do not lie inside",
    ),
    "an empty piece": (
        lambda s: replace(s, pieces=replace(s.pieces, length=_with(s.pieces.length, 0, 0))),
        "do not lie inside",
    ),
    "an item that does not exist": (
        lambda s: replace(s, pieces=replace(s.pieces, item=_with(s.pieces.item, 0, 10**6))),
        "item",
    ),
    "pieces without a message": (
        lambda s: replace(s, pieces=Pieces(s.pieces.offsets[:-1], s.pieces.item, s.pieces.offset, s.pieces.length)),
        "pieces.offsets",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_rule_is_named(good: Schedule, problem: Problem, name: str) -> None:
    change, words = BREAKS[name]
    with pytest.raises(InvalidInput, match=words):
        check_form(change(good), problem)


def test_too_many_rows_are_refused_with_a_hint() -> None:
    check_rows(MAX_ROWS)
    with pytest.raises(LimitExceeded, match="iter_messages"):
        check_rows(MAX_ROWS + 1)
