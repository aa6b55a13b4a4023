"""Large sums, schedules made to take long, and columns that do not fit together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from interlock.errors import InvalidInput
from interlock.problem import Items, Problem, RankSets
from interlock.ragged import Ragged
from interlock.schedule import Kind, Pieces, Schedule, empty_schedule
from interlock.topology import from_edges, fully_connected
from interlock.validate import Rule, check
from validate.cases import relayed_all_to_all
from validate.rows import REDUCE, Case


def star_sum(num_ranks: int) -> Case:
    """Every rank sends its contribution to rank 0, through one switch."""
    rank, switch = np.arange(num_ranks), np.full(num_ranks, num_ranks)
    star = from_edges(np.append(rank, switch), np.append(switch, rank), bandwidth="1 GB/s", switches=[num_ranks])
    case = Case("star", star, [4], [list(range(num_ranks))], [[0]])
    for sender in range(1, num_ranks):
        case.send(sender, 0, case.whole(0), kind=REDUCE)
    return case


@pytest.mark.parametrize(("num_ranks", "method"), [(1024, "exact sets"), (1025, "fingerprints")])
def test_sums_of_many_are_told_apart_from_sums_of_as_many_others(num_ranks: int, method: str) -> None:
    case = star_sum(num_ranks)
    report = case.check()
    assert report.valid, report
    assert report.method == method
    case.rows[6].src = [8]  # rank 8 twice, rank 7 never: as many contributions as before
    assert case.rules() & {Rule.CONTRIBUTES_ONCE, Rule.REDUCTION_COMPLETE}


def prefixes(count: int) -> tuple[Schedule, Problem]:
    """Message k brings the first k bytes to rank 1: each byte range overlaps every other."""
    problem = Problem(
        fully_connected(2, bandwidth="1 GB/s"),
        Items(np.array([count], np.int64), RankSets.one(np.zeros(1, np.int32)), RankSets.one(np.ones(1, np.int32))),
    )
    rows, lengths = np.arange(count), np.arange(1, count + 1)
    schedule = Schedule(
        src=Ragged.single(np.zeros(count, np.int32)),
        dst=Ragged.single(np.ones(count, np.int32)),
        kind=np.full(count, Kind.COPY, np.uint8),
        phase=np.zeros(count, np.uint8),
        stage=np.zeros(count, np.int32),
        slice=np.zeros(count, np.int32),
        size_bytes=lengths,
        path=Ragged.empty(count),
        exclusive=np.zeros(count, np.bool_),
        order=np.zeros(count, np.int64),
        deps=Ragged.empty(count),
        pieces=Pieces(np.append(rows, count), np.zeros(count, np.int32), np.zeros(count, np.int64), lengths),
    )
    return schedule, problem


def test_pieces_that_all_overlap_do_not_take_quadratic_time() -> None:
    report = check(*prefixes(200_000))  # 20 billion pairs of pieces
    assert report.violations[-1].rule is Rule.WITHIN_BUDGET
    assert not report.valid


def test_items_nobody_serves_are_counted_without_visiting_every_destination() -> None:
    everyone = np.arange(1000, dtype=np.int32)
    items = Items(np.ones(20_000, np.int64), RankSets.one(np.zeros(20_000, np.int32)), RankSets.same(everyone, 20_000))
    chain = from_edges(np.arange(999), np.arange(999) + 1, bandwidth="1 GB/s")
    report = check(empty_schedule(), Problem(chain, items))
    assert report.num_violations == 20_000 * 100  # a hundred per item are enough to know
    assert report.violations[0].rule is Rule.DESTINATION_HOLDS


@pytest.mark.parametrize("column", ["src", "dst", "deps", "path"])
def test_ragged_columns_that_point_outside_are_refused(column: str) -> None:
    case = relayed_all_to_all()
    good = getattr(case.schedule, column)
    for offsets in (good.offsets + 1, good.offsets[::-1].copy(), good.offsets[:-1].copy(), good.offsets * 1000):
        broken = replace(case.schedule, **{column: Ragged(np.ascontiguousarray(offsets), good.values)})
        if np.array_equal(offsets, good.offsets):
            continue
        with pytest.raises(InvalidInput, match=f"{column}: offsets must rise|{column} has 5 rows; the schedule has 6"):
            check(broken, case.problem)


@pytest.mark.parametrize("column", ["kind", "phase", "stage", "slice", "size_bytes", "exclusive", "order"])
def test_columns_of_unequal_length_are_refused(column: str) -> None:
    case = relayed_all_to_all()
    with pytest.raises(
        InvalidInput, match=r"has 5 rows; the schedule has 6|has 6 rows; .* has 5|must have equal length"
    ):
        check(replace(case.schedule, **{column: getattr(case.schedule, column)[:-1].copy()}), case.problem)
