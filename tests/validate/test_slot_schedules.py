"""Slot schedules are judged alike as a stream and written out row by row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock as il
from interlock.problem import Items, Problem, RankSets, demand_problem
from interlock.schedule import Chunks, SlotSchedule
from interlock.topology import from_edges
from interlock.topology.lowering import DEAD_BANDWIDTH
from interlock.validate import Rule, check
from interlock.validate.slot_schedules import SlotViolation, streams

REST = 2**16 - 1


def ring_problem(num_ranks: int, collective: str) -> Problem:
    """One item of four bytes per rank on a ring of links in both directions: link r forward, num_ranks + r back."""
    node = np.arange(num_ranks)
    after = (node + 1) % num_ranks
    topology = from_edges(np.append(node, after), np.append(after, node), bandwidth="1 GB/s")
    owners = RankSets.one(node.astype(np.int32))
    everyone = RankSets.same(node.astype(np.int32), num_ranks)
    contributors = owners if collective == "all-gather" else everyone
    destinations = owners if collective == "reduce-scatter" else everyone
    return Problem(topology, Items(np.full(num_ranks, 4, np.int64), contributors, destinations))


def ring_schedule(problem: Problem, collective: str, parts: int = 2) -> SlotSchedule:
    """Chunks forward round the ring; sums the same way, so that each ends at its owner."""
    count = problem.num_ranks
    slots = []
    for step in range((count - 1) * (2 if collective == "all-reduce" else 1)):
        reduces = collective != "all-gather" and step < count - 1
        for part in range(parts):
            row = np.full(2 * count, REST, np.uint16)
            place = (np.arange(count) - step - (collective != "all-gather")) % count
            row[:count] = place * parts + part
            slots.append((reduces, row))
    item = np.repeat(np.arange(count), parts).astype(np.int32)
    offset = np.tile(np.arange(parts) * (4 // parts), count)
    chunks = Chunks(item, offset.astype(np.int64), np.full(count * parts, 4 // parts, np.int64))
    table = np.stack([row for _, row in slots])
    num_reducing = sum(reduces for reduces, _ in slots)
    return SlotSchedule(chunks, problem.topology.link_src, problem.topology.link_dst, table, num_reducing)


COLLECTIVES = ["all-gather", "reduce-scatter", "all-reduce"]


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("parts", [1, 2])
def test_ring_streams_and_is_valid(collective: str, parts: int) -> None:
    problem = ring_problem(5, collective)
    schedule = ring_schedule(problem, collective, parts)
    assert streams(schedule, problem)
    report = check(schedule, problem)
    assert report.valid, report
    written = check(schedule.expand(), problem)
    assert written.valid, written
    assert (report.num_rows, report.method) == (written.num_rows, written.method)
    assert report.scratch_bytes.tolist() == written.scratch_bytes.tolist() == [0] * 5


@given(
    collective=st.sampled_from(COLLECTIVES),
    num_ranks=st.integers(2, 4),
    changes=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(-1, 8)), max_size=3),
    swaps=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=1),
)
def test_changed_tables_are_judged_alike(
    collective: str, num_ranks: int, changes: list[tuple[int, int, int]], swaps: list[tuple[int, int]]
) -> None:
    problem = ring_problem(num_ranks, collective)
    schedule = ring_schedule(problem, collective)
    table = schedule.table
    for slot, link, chunk in changes:
        table[slot % len(table), link % table.shape[1]] = REST if chunk < 0 else chunk % len(schedule.chunks)
    for a, b in swaps:
        table[[a % len(table), b % len(table)]] = table[[b % len(table), a % len(table)]]
    report = check(schedule, problem)
    assert report.valid == check(schedule.expand(), problem).valid, report
    assert len(report.violations) == min(100, report.num_violations)
    for words in map(str, report.violations):
        assert "rank" in words and "{" not in words, words  # every place for a number has one


def test_contribution_that_comes_too_late_is_named() -> None:
    problem = ring_problem(4, "reduce-scatter")
    schedule = ring_schedule(problem, "reduce-scatter", parts=1)
    schedule.table[[0, 2]] = schedule.table[[2, 0]]
    found = check(schedule, problem).violations[0]
    assert found.rule is Rule.REDUCTION_COMPLETE
    assert (found.first_byte, found.last_byte) == (0, 3)
    assert found.text.startswith("slot 2, link 0 adds to bytes 0..3 of item 3 at rank 1 too late")


def test_rank_that_never_sends_its_share_is_found() -> None:
    problem = ring_problem(4, "all-reduce")
    schedule = ring_schedule(problem, "all-reduce", parts=1)
    schedule.table[0, 0] = REST
    report = check(schedule, problem)
    assert report.violations[0].rule is Rule.REDUCTION_COMPLETE
    assert "all ranks but one" in report.violations[0].text


@pytest.mark.parametrize("change", ["gap", "overlap", "one destination", "a switch"])
def test_what_does_not_stream_is_written_out(change: str) -> None:
    problem = ring_problem(4, "all-gather")
    schedule = ring_schedule(problem, "all-gather")
    if change == "gap":
        schedule.chunks.length[1] = 1
    elif change == "overlap":
        schedule.chunks.offset[1] = 1
    elif change == "one destination":
        ends = RankSets.one(np.array([1, 2, 3, 0], np.int32))
        problem = Problem(problem.topology, Items(problem.items.size_bytes, problem.items.contributors, ends))
    else:
        spare = from_edges(problem.topology.link_src, problem.topology.link_dst, bandwidth="1 GB/s", switches=[4])
        problem = Problem(spare, problem.items)
    assert not streams(schedule, problem)
    report = check(schedule, problem)
    assert report.valid == (change in ("one destination", "a switch"))
    assert report.num_rows == 2 * schedule.num_messages


@pytest.mark.parametrize("collective", ["all-gather", "all-reduce"])
def test_only_sums_stream_with_additions(collective: str) -> None:
    """An All-Gather whose table is said to add, and an All-Reduce whose table is said not to."""
    problem = ring_problem(4, collective)
    schedule = ring_schedule(problem, collective)
    other = 0 if collective == "all-reduce" else 1
    assert not streams(replace(schedule, num_reducing=other), problem)


def test_items_for_some_of_the_ranks_do_not_stream() -> None:
    problem = ring_problem(4, "all-gather")
    some = RankSets.same(np.array([0, 1], np.int32), 4)
    fewer = Problem(problem.topology, Items(problem.items.size_bytes, problem.items.contributors, some))
    assert not streams(ring_schedule(problem, "all-gather"), fewer)


def test_a_chunk_just_beyond_the_last_does_not_exist() -> None:
    problem = ring_problem(4, "all-gather")
    schedule = ring_schedule(problem, "all-gather", parts=1)
    schedule.table[0, 0] = len(schedule.chunks)
    found = check(schedule, problem).violations[0]
    assert found.rule is Rule.ITEM_EXISTS and found.text == "slot 0, link 0 carries a chunk that does not exist"


def test_what_is_copied_is_told_in_the_words_of_copies() -> None:
    """The same rules in a reversed reduction have other words."""
    problem = ring_problem(4, "all-gather")
    schedule = ring_schedule(problem, "all-gather", parts=1)
    schedule.table[-1, 0] = REST
    found = check(schedule, problem).violations
    assert [(each.rule, each.rank, each.item) for each in found] == [(Rule.DESTINATION_HOLDS, 1, 2)]
    assert "never sends" not in found[0].text and "bytes 0..3" in found[0].text


def test_a_violation_of_a_slot_table_says_where() -> None:
    assert str(SlotViolation(Rule.ARRIVES_ONCE, 3, 1, 2)).startswith("entry 3: node 1, chunk 2 [")
    assert str(SlotViolation(Rule.DESTINATION_HOLDS, None, 1, 2)).startswith("node 1, chunk 2 [")


def test_a_message_without_a_route_is_one_broken_rule() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=1, faults=[il.dead_nic(server=0, gpu=0)])
    whole = il.cluster("h200", servers=2, gpus_per_server=1)
    traffic = il.traffic.uniform(whole)
    plan = il.plan(whole, traffic, algorithm="direct")
    items = demand_problem(whole, traffic).items
    report = check(plan.schedule, Problem(cluster.topology, items))
    assert report.num_violations == len(report.violations) == 1


def test_only_chunks_that_cut_an_item_exactly_stream() -> None:
    """A gap before a chunk that ends rightly, and a chunk of nothing behind the last."""
    problem = ring_problem(4, "all-gather")
    schedule = ring_schedule(problem, "all-gather")
    schedule.chunks.length[0] = 1
    assert not streams(schedule, problem)
    schedule = ring_schedule(problem, "all-gather")
    schedule.chunks.length[:2], schedule.chunks.offset[1] = [4, 0], 4
    assert not streams(schedule, problem)


def test_one_chunk_is_enough_to_stream() -> None:
    whole = ring_problem(3, "all-gather")
    everyone = RankSets.same(np.arange(3, dtype=np.int32), 1)
    items = Items(np.array([4], np.int64), RankSets.one(np.array([0], np.int32)), everyone)
    problem = Problem(whole.topology, items)
    table = np.full((2, 6), REST, np.uint16)
    table[0, 0] = table[1, 1] = 0
    chunks = Chunks(np.zeros(1, np.int32), np.zeros(1, np.int64), np.full(1, 4, np.int64))
    schedule = SlotSchedule(chunks, whole.topology.link_src, whole.topology.link_dst, table, 0)
    assert streams(schedule, problem) and check(schedule, problem).valid


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_small_rings_stream_and_chunks_of_unknown_items_do_not(collective: str, num_ranks: int) -> None:
    problem = ring_problem(num_ranks, collective)
    schedule = ring_schedule(problem, collective)
    assert streams(schedule, problem) and check(schedule, problem).valid
    for item in (-1, num_ranks):
        strange = schedule.chunks.item.copy()
        strange[-1] = item
        chunks = Chunks(strange, schedule.chunks.offset, schedule.chunks.length)
        assert not streams(replace(schedule, chunks=chunks), problem)


@pytest.mark.parametrize("chunk", [0, 1, 5])
def test_a_chunk_that_all_ranks_but_one_do_not_send_on_is_named(chunk: int) -> None:
    problem = ring_problem(3, "reduce-scatter")
    schedule = ring_schedule(problem, "reduce-scatter")
    table = np.where(schedule.table == chunk, REST, schedule.table).astype(np.uint16)
    lacks = replace(schedule, table=table)
    assert streams(lacks, problem)
    report = check(lacks, problem)
    assert report.num_violations == len(report.violations) == 1 and not report.scratch_bytes.any()
    found = report.violations[0]
    first = int(schedule.chunks.offset[chunk])
    assert (found.rule, found.item) == (Rule.REDUCTION_COMPLETE, int(schedule.chunks.item[chunk]))
    assert (found.first_byte, found.last_byte) == (first, first + int(schedule.chunks.length[chunk]) - 1)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_what_crosses_a_dead_link_is_invalid(collective: str) -> None:
    """Links 0 to 3 go forward and carry everything, the others nothing: only a dead one of the four is missed."""
    problem = ring_problem(4, collective)
    schedule = ring_schedule(problem, collective)
    for link, is_missed in ((0, True), (3, True), (4, False)):
        rates = problem.topology.bandwidth_bytes_per_s.copy()
        rates[link] = DEAD_BANDWIDTH
        cut = replace(problem, topology=replace(problem.topology, bandwidth_bytes_per_s=rates))
        assert check(schedule, cut).valid is not is_missed
        assert check(schedule.expand(), cut).valid is not is_missed
