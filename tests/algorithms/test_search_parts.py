"""The small parts of a search, one by one: budgets, stages, tables that grow, answers that change their form."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.algorithms.channels import _gate_shifts
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.synthesis import budget as budgets
from interlock.algorithms.synthesis import greedy_rounds
from interlock.algorithms.synthesis.answers import SlotAnswer
from interlock.algorithms.synthesis.arcs import arcs_of
from interlock.algorithms.synthesis.budget import Budget, SearchBound, check_counts, in_order
from interlock.algorithms.synthesis.list_schedule import ListScheduler, Merging, _stages
from interlock.errors import InvalidInput
from interlock.schedule import Chunks


def test_a_budget_counts_what_is_spent_and_tells_the_share() -> None:
    told: list[float] = []
    budget = Budget(100, SearchBound(1.0), spent_before=100, report=told.append)
    assert budget.affords(100) and not budget.affords(101) and not budget.is_spent
    budget.spend(60)
    assert budget.affords(40) and not budget.affords(41) and not budget.is_spent
    budget.spend(40)
    assert budget.is_spent
    budget.spend(40)
    assert told == [0.8, 1.0, 1.0]
    assert Budget(0, SearchBound(1.0)).is_spent
    started: list[float] = []
    Budget(0, SearchBound(1.0), report=started.append).spend(1)
    assert started == [1.0]


def test_a_search_ends_at_the_bound_or_near_it_after_a_fair_effort() -> None:
    def made(spent: int) -> Budget:
        return Budget(10**6, SearchBound(1.0, lambda: 2.0), spent_before=spent // 2, spent=spent - spent // 2)

    assert made(0).is_enough(budgets.AT_THE_BOUND) and not made(0).is_enough(budgets.AT_THE_BOUND + 1e-9)
    fair_s = 2.0 * budgets.FAIR  # of what is proven, not of what is quick
    assert not made(budgets.FAIR_EFFORT - 1).is_enough(fair_s)
    assert made(budgets.FAIR_EFFORT).is_enough(fair_s) and not made(budgets.FAIR_EFFORT).is_enough(fair_s + 1e-9)
    budget = made(0)
    assert not budget.is_over(3.0) and budget.best_s == 3.0
    assert not budget.is_over(5.0) and budget.best_s == 3.0
    budget.limit = 0
    assert budget.is_over(5.0)


def test_a_bound_is_proven_once_and_never_below_the_quick_one() -> None:
    asked: list[int] = []

    def prove() -> float:
        asked.append(1)
        return 3.0

    bound = SearchBound(2.0, prove)
    assert [bound.proven_s(), bound.proven_s()] == [3.0, 3.0] and len(asked) == 1
    assert SearchBound(4.0, prove).proven_s() == 4.0 and SearchBound(0.5).proven_s() == 0.5


@pytest.mark.parametrize("name", ["parts", "starts", "threads"])
def test_counts_are_whole_numbers_within_their_limits(name: str) -> None:
    most = {"parts": 2**20, "starts": 2**20, "threads": 1024}[name]
    for good in (None, 1, most):
        check_counts(**{name: good})
    for bad in (0, -1, most + 1, True, 1.0):
        with pytest.raises(InvalidInput, match=f"{name}=.* must be a whole number between 1 and {most}"):
            check_counts(**{name: bad})  # type: ignore[arg-type]


@pytest.mark.parametrize(("threads", "attempts", "is_apart"), [(1, 3, False), (2, 1, False), (2, 3, True)])
def test_attempts_come_back_in_their_order_whatever_the_threads(threads: int, attempts: int, is_apart: bool) -> None:
    made = list(in_order([lambda n=n: (n, threading.get_ident()) for n in range(attempts)], threads))
    assert [number for number, _ in made] == list(range(attempts))
    assert all((who != threading.get_ident()) is is_apart for _, who in made)


def test_short_work_stays_on_one_thread() -> None:
    budget = Budget(1, SearchBound(1.0), threads=2)
    for transfers, is_apart in ((budgets.WORTH_A_THREAD - 1, False), (budgets.WORTH_A_THREAD, True)):
        made = list(budget.each([threading.get_ident, threading.get_ident], transfers))
        assert all((who != threading.get_ident()) is is_apart for who in made)


@pytest.mark.parametrize(
    ("starts", "shortest", "stages"),
    [
        ([0, 1, 4, 5, 9, 10], 5, [0, 0, 0, 1, 1, 2]),
        ([0, 1, 1, 2], 1, [0, 1, 1, 2]),
        ([0, 1, 1, 2], 0, [0, 1, 1, 2]),
        ([7], 3, [0]),
        ([], 3, []),
    ],
)
def test_a_stage_ends_before_the_first_start_that_is_a_shortest_message_later(
    starts: list[int], shortest: int, stages: list[int]
) -> None:
    assert _stages(np.array(starts, np.int64), shortest).tolist() == stages


@pytest.mark.parametrize("chunks", [1, 13, 26])
def test_rounds_keep_every_chunk_apart_however_many(chunks: int) -> None:
    """What ranks hold is kept in words of 64 bits: 5, 65 and 130 chunks on a ring of five."""
    ring = il.topology.ring(5, bandwidth="1 GB/s")
    link = ring.link_src, ring.link_dst
    origin = np.repeat(np.arange(5, dtype=np.int32), chunks)
    table = greedy_rounds._matched(*link, origin, 5, greedy_rounds.RoundsOptions(4), None)
    slot, lane = np.nonzero(table != np.iinfo(table.dtype).max)
    taken = np.stack([table[slot, lane].astype(np.int64), link[1][lane]], axis=1)
    assert len(taken) == len(np.unique(taken, axis=0)) == 4 * 5 * chunks  # each to the four that lack it, once


def test_a_table_is_the_same_when_it_is_filled_a_few_rounds_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones are, so that Ctrl-C is noticed and progress told."""
    grid = il.topology.mesh(4, 4, bandwidth="1 GB/s")
    given = grid.link_src, grid.link_dst, np.arange(16, dtype=np.int32), 16
    whole = greedy_rounds._matched(*given, greedy_rounds.RoundsOptions(4), None)
    for block in (1, 3, len(whole)):  # the last: nothing is missing when it is full
        monkeypatch.setattr(greedy_rounds, "TRANSFERS_PER_CALL", block * len(grid.link_src))
        told: list[float] = []
        part = greedy_rounds._matched(*given, greedy_rounds.RoundsOptions(4, report=told.append), None)
        assert np.array_equal(part, whole)
        assert len(told) == -(-len(whole) // block) and told == sorted(told) and told[-1] == 1.0


@pytest.mark.parametrize(("rows", "longer"), [(3, 19), (31, 47), (32, 48), (34, 51), (100, 150)])
@pytest.mark.parametrize("is_file", [True, False])
def test_a_table_grows_by_half_and_keeps_its_rows(tmp_path: Path, rows: int, longer: int, is_file: bool) -> None:
    file = tmp_path / "table" if is_file else None
    table = greedy_rounds._blank(rows, 4, np.uint16, file)
    table[:] = np.arange(rows * 4).reshape(rows, 4)
    grown = greedy_rounds._grown(table, file)
    assert grown.shape == (longer, 4) and grown.dtype == np.uint16
    assert np.array_equal(grown[:rows].ravel(), np.arange(rows * 4))
    if file is not None:
        grown.flush()
        assert file.stat().st_size == longer * 8


def test_a_table_of_more_bytes_than_fit_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy_rounds, "MAPPED_ABOVE_BYTES", 24)
    assert not isinstance(greedy_rounds._blank(3, 4, np.uint16, None), np.memmap)
    assert isinstance(greedy_rounds._blank(3, 5, np.uint16, None), np.memmap)


@pytest.mark.parametrize(("num_chunks", "rounds"), [(4, 3), (8, 6), (6, 5)])
def test_no_rank_takes_in_what_it_lacks_in_fewer_rounds(num_chunks: int, rounds: int) -> None:
    """A one-way ring of 4 takes one chunk a round; where a rank has none of 6 chunks but one of two, it lacks 5."""
    origin = (np.arange(num_chunks) % 4).astype(np.int32)
    into = np.array([1, 2, 3, 0], np.int32)
    assert greedy_rounds._least_rounds(into, origin, 4) == rounds
    assert greedy_rounds._least_rounds(np.concatenate([into, into]), origin, 4) == -(-rounds // 2)
    assert greedy_rounds._least_rounds(into[:3], origin, 4) == num_chunks  # nothing leads into rank 0


def test_a_slot_table_keeps_its_time_when_its_transfers_get_times_of_their_own() -> None:
    """Ring of 3 one way round, 2 slots of 1 ms; the last is a sum's way back."""
    ring = il.topology.from_edges([0, 1, 2], [1, 2, 0], [1e9] * 3)
    arcs = arcs_of(ring)
    nothing = np.iinfo(np.uint16).max
    table = np.array([[0, 1, nothing], [2, nothing, 1]], np.uint16)
    chunks = Chunks(np.arange(3, dtype=np.int32), np.zeros(3, np.int64), np.full(3, 10**6))
    made = SlotAnswer(chunks, arcs, table, 1e-3, 2, num_reducing=1).to_timed()
    timed = made.transfers
    assert made.makespan_s == pytest.approx(2e-3, rel=1e-3)
    assert timed.start_ticks.tolist() == [0, 0, timed.makespan_ticks // 2, timed.makespan_ticks // 2]
    assert timed.chunk.tolist() == [0, 1, 2, 1] and timed.arc.tolist() == [0, 1, 0, 2]


def test_whole_numbers_are_asked_for_where_an_algorithm_counts() -> None:
    def build(problem: object, *, count: int = 1, most: int | None = None, size: str = "") -> None: ...

    made = Algorithm("made", "", lambda problem: None, build)  # type: ignore[arg-type]
    made.check_parameters({"count": 3, "most": None, "size": 2.5})
    made.check_parameters({"most": 4})
    for name, value in (("count", None), ("count", True), ("count", 1.5), ("most", 1.5), ("most", "3")):
        with pytest.raises(InvalidInput, match=f"{name}={value} must be a whole number"):
            made.check_parameters({name: value})


@pytest.mark.parametrize("rails", range(1, 9))
@pytest.mark.parametrize("servers", range(2, 9))
def test_a_channel_comes_in_and_goes_on_by_different_rails(servers: int, rails: int) -> None:
    """No two crossings in a row are on one rail, from the one into server 0 round to it again."""
    shifts = _gate_shifts(servers, rails)
    assert (shifts is None) is (rails < 2 or (servers % 2 == 1 and rails < 3))
    if shifts is not None:
        assert len(shifts) == servers + 1 and shifts[0] == shifts[-1] == 0
        assert all(a % rails != b % rails for a, b in pairwise(shifts))
        assert all(0 <= shift < rails for shift in shifts)


def test_messages_of_several_chunks_are_as_long_as_the_best_or_as_their_overheads_allow() -> None:
    ring = arcs_of(il.topology.from_edges([0, 1, 2], [1, 2, 0], [1e9] * 3, message_overhead=1e-6))
    chunks = Chunks(np.zeros(1, np.int32), np.zeros(1, np.int64), np.full(1, 10**6))
    ticks = ring.ticks(10, 1e7)
    best = np.array([5.0, 7.0, 9.0])
    known, unknown = ListScheduler(ring, ticks, chunks, best), ListScheduler(ring, ticks, chunks)
    merging = Merging(8, most_overheads=20.0, most_of_best=3.0)
    assert known._most_ticks(merging).tolist() == [15.0, 21.0, 27.0]
    assert np.array_equal(unknown._most_ticks(merging), 20.0 * ticks.overhead)
    assert known._most_ticks(Merging(8, most_of_best=np.inf)) is None and unknown._most_ticks(Merging(8)) is None
