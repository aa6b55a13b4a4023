"""Rows of one rank, levels, tracks and reversal, on cases small enough to write down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Layout, PortLoads, Schedule, SlotSchedule, TaskRows, TranslatedSchedule
from interlock.schedule.link_orders import follows, has_place, is_in_order, levels, ordered_links, reversed_order
from interlock.schedule.reverse import reverse_copies
from interlock.schedule.timeline import tracks
from simulate.strategies import bare_schedule, crossbar


def ends(schedule: Schedule) -> list[tuple[int, int, int]]:
    """Sender, receiver and bytes of every message, sorted."""
    columns = (schedule.src.values, schedule.dst.values, schedule.size_bytes)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def plans() -> list[il.Plan]:
    graphs = (il.topology.mesh(4, bandwidth="1 GB/s"), il.topology.ring(4, bandwidth="1 GB/s"))
    by_slots, translated = (il.synthesize(graph, il.all_gather("4 MB"), "guided", chunks=1) for graph in graphs)
    assert isinstance(by_slots.compact, SlotSchedule) and isinstance(translated.compact, TranslatedSchedule)
    return [by_slots, translated]


@pytest.mark.parametrize("plan", plans(), ids=["slots", "translated"])
def test_a_rank_has_the_messages_that_it_sends_or_receives(plan: il.Plan) -> None:
    whole = ends(plan.schedule)
    for rank in range(4):
        own = [row for row in whole if rank in row[:2]]
        assert own and ends(plan.compact.rows_of(rank)) == own


@pytest.mark.parametrize("plan", plans(), ids=["slots", "translated"])
def test_a_compact_form_knows_how_many_rows_it_has(plan: il.Plan) -> None:
    rows, compact = plan.compact.expand(), plan.compact
    assert (compact.num_messages, compact.num_pieces) == (rows.num_messages, rows.num_pieces)
    assert compact.num_stages == rows.num_stages


@pytest.mark.parametrize(
    ("deps", "stage", "barriers", "wanted"),
    [
        ([[], [0], [1]], [0, 0, 0], (), True),
        ([[], [], [2]], [0, 0, 0], (), False),  # on itself
        ([[], [2], []], [0, 0, 0], (), False),
        ([[], [], []], [0, 1, 0], (), True),  # stages alone hold nothing back
        ([[], [], []], [0, 1, 0], (1,), False),
        ([[], [], []], [0, 1, 1], (1,), True),
        ([[], [], []], [1, 0, 2], (2,), True),
    ],
)
def test_rows_are_in_order_where_each_comes_after_what_it_waits_for(
    deps: list[list[int]], stage: list[int], barriers: tuple[int, ...], wanted: bool
) -> None:
    assert is_in_order(bare_schedule([0] * 3, [1] * 3, [1] * 3, deps=deps, stage=stage, barriers=barriers)) is wanted


@pytest.mark.parametrize(
    ("stage", "barriers", "wanted"),
    [([0, 1, 1], (1,), [0, 1, 2]), ([1, 1, 2], (1,), [0, 0, 0]), ([0, 1, 2], (1, 2), [0, 1, 2])],
)
def test_levels_rise_along_dependencies_and_barriers_that_hold_something_back(
    stage: list[int], barriers: tuple[int, ...], wanted: list[int]
) -> None:
    deps = [[], [], [1]] if wanted == [0, 1, 2] and len(barriers) == 1 else [[], [], []]
    schedule = bare_schedule([0, 1, 2], [1, 2, 3], [10, 10, 10], stage=stage, barriers=barriers, deps=deps)
    assert levels(schedule, crossbar(4, [10.0] * 8)).tolist() == wanted


@pytest.mark.parametrize("seed", range(8))
def test_a_level_is_the_longest_chain_before_a_message(seed: int) -> None:
    draw = np.random.default_rng(seed)
    place = draw.permutation(40)  # rows in no order
    before = {int(place[m]): [int(place[d]) for d in range(m) if draw.random() < 0.1] for m in range(40)}
    schedule = bare_schedule([0] * 40, [1] * 40, [10] * 40, deps=[before[m] for m in range(40)])
    wanted: dict[int, int] = {}
    for m in place.tolist():
        wanted[m] = max((wanted[d] + 1 for d in before[m]), default=0)
    assert levels(schedule, crossbar(2, [10.0] * 4)).tolist() == [wanted[m] for m in range(40)]


def test_messages_in_a_circle_have_no_levels() -> None:
    schedule = bare_schedule([0, 1, 2], [1, 2, 3], [10, 10, 10], deps=[[], [2], [1]])
    with pytest.raises(il.InvalidInput, match="circle"):
        levels(schedule, crossbar(4, [10.0] * 8))


def test_messages_that_overlap_are_on_tracks_of_their_own() -> None:
    schedule = bare_schedule([0, 0, 0, 1], [1, 2, 3, 0], [1] * 4)
    found = {
        m: (rank, track) for m, rank, track in tracks(schedule, np.array([0.0, 1, 2, 0]), np.array([2.0, 3, 4, 9]))
    }
    assert found == {0: (0, 1), 1: (0, 2), 2: (0, 1), 3: (1, 1)}


def test_a_message_to_several_ranks_cannot_be_reversed() -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=3)
    plan = il.plan(cluster, il.traffic.uniform(cluster), algorithm="direct")
    problem: Problem = plan.problem
    rows = plan.schedule
    cast = replace(rows, dst=Ragged.from_lists([[1, 2]] + [[rank] for rank in rows.dst.values[1:].tolist()]))
    with pytest.raises(il.InvalidInput, match="one-to-one"):
        reverse_copies(cast, problem, problem)


def test_levels_follow_the_order_of_a_link_that_is_held_alone() -> None:
    """0 sends to 1, 2 and 3 in the order 2, 3, 1; what 1 sends to 2 follows the first; 3 has its ports alone."""
    schedule = bare_schedule([0, 0, 0, 1, 3], [1, 2, 3, 2, 0], [10] * 5, order=[2, 0, 1, 3, 4])
    assert levels(schedule, crossbar(4, [10.0] * 8)).tolist() == [2, 0, 1, 1, 0]


def test_levels_and_rows_follow_the_order_of_a_connection() -> None:
    """0 sends to 1 the third, then the first; 0 to 2 and what has no place wait for nobody."""
    schedule = bare_schedule([0, 0, 0, 0], [1, 2, 1, 1], [10] * 4, order=[5, 3, 2, 0], shares_links=True)
    assert levels(schedule, crossbar(3, [10.0] * 6)).tolist() == [1, 0, 0, 0]
    assert not is_in_order(schedule)
    assert is_in_order(replace(schedule, order=np.array([1, 2, 3, 0])))
    assert [column.tolist() for column in follows(schedule, crossbar(3, [10.0] * 6))] == [[2], [0]]


def test_links_of_a_connection_with_an_order_lie_over_those_it_takes() -> None:
    """Connections 0-1 and 0-2 have two links each of their own; what has no place keeps the topology's."""
    schedule = bare_schedule([0, 0, 0, 0], [1, 2, 1, 1], [10] * 4, order=[5, 3, 2, 0], shares_links=True)
    path = Ragged.from_lists([[0, 4], [0, 5], [0, 4], [0, 4, 9]])
    found = ordered_links(schedule, path, 6)
    assert found.has_place.tolist() == [True, True, True, False]
    assert found.path[0].tolist() == found.path[2].tolist() == [6, 7]
    assert found.path[1].tolist() == [8, 9]
    assert found.path[3].tolist() == [0, 4, 13]  # 9 is none of the topology's: it comes after all that keep an order
    assert found.link.tolist() == [*range(6), 0, 4, 0, 5]


def test_each_task_of_a_step_has_links_and_connections_of_its_own() -> None:
    """Tasks 0 and 1 have six links each, then come the lanes of 0-1 in either; 6 is none of the topology's."""
    rows = bare_schedule([0] * 4, [1] * 4, [10] * 4, order=[1, 2, 1, 0], shares_links=True)
    rows = replace(rows, tasks=TaskRows(np.array([0, 0, 1, 1], np.int32), np.zeros(4)))
    found = ordered_links(rows, Ragged.from_lists([[0, 4], [0, 4, 6], [0, 4], [0, 5]]), 6)
    assert [found.path[row].tolist() for row in range(4)] == [[12, 13], [12, 13, 16], [14, 15], [6, 11]]
    assert found.link.tolist() == [*range(6), *range(6), 0, 4, 0, 4]
    assert [column.tolist() for column in follows(rows, crossbar(3, [10.0] * 6))] == [[0], [1]]


def test_only_what_goes_from_one_rank_to_one_rank_has_a_place_on_its_connection() -> None:
    rows = bare_schedule([0, 0, 0], [1, 1, 1], [10] * 3, order=[1, 2, 3], shares_links=True)
    assert has_place(rows).tolist() == [True] * 3
    assert has_place(replace(rows, dst=Ragged.from_lists([[1], [1, 2], [1]]))).tolist() == [True, False, True]
    assert has_place(replace(rows, src=Ragged.from_lists([[0, 2], [0], [0]]))).tolist() == [False, True, True]


def test_a_reversed_order_keeps_who_has_a_place() -> None:
    shared = bare_schedule([0] * 3, [1] * 3, [1] * 3, order=[0, 1, 4], shares_links=True)
    assert reversed_order(shared).tolist() == [0, 4, 1]
    alone = bare_schedule([0] * 3, [1] * 3, [1] * 3, order=[0, 1, 4])
    assert reversed_order(alone).tolist() == [4, 3, 0]
    assert reversed_order(replace(alone, exclusive=np.array([True, True, False]))).tolist() == [1, 0, 4]


@pytest.mark.parametrize("make", [il.all_gather, il.reduce_scatter])
def test_rows_of_a_slot_table_read_one_by_one_are_those_written_out(make: Callable[[str], il.Collective]) -> None:
    plan = il.synthesize(il.topology.mesh(3, 2, bandwidth="1 GB/s"), make("6 MB"), "guided", chunks=1)
    assert isinstance(plan.compact, SlotSchedule)
    assert list(plan.compact.iter_messages()) == list(plan.compact.expand().iter_messages())
    assert plan.compact.num_messages == plan.compact.expand().num_messages


@pytest.mark.parametrize(
    ("src", "dst", "turns"),
    [
        ([0, 0], [2, 3], True),  # one sender, two receivers
        ([0, 1], [2, 2], True),
        ([2, 3], [0, 0], True),
        ([0, 0], [2, 2], False),  # one pair
        ([0, 1], [2, 3], False),  # nothing shared
        ([0, 0], [1, 2], False),  # the first stays in its server
        ([0, 0], [2, 1], False),
    ],
)
def test_partners_of_a_nic_take_turns_where_one_waits_for_another(src: list[int], dst: list[int], turns: bool) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    waits = PortLoads.of(bare_schedule(src, dst, [5, 7], deps=[[], [0]]), cluster)
    assert waits.take_turns is turns
    assert not PortLoads.of(bare_schedule(src, dst, [5, 7]), cluster).take_turns
    assert PortLoads.of(bare_schedule([0], [2], [5], order=[0]), cluster).take_turns
    crossing = [(a, b, n) for a, b, n in zip(src, dst, (5, 7), strict=True) if a // 2 != b // 2]
    for rank in range(4):
        assert waits.out_bytes[rank] == sum(n for a, _, n in crossing if a == rank)
        assert waits.in_bytes[rank] == sum(n for _, b, n in crossing if b == rank)


@pytest.mark.parametrize("seed", range(6))
def test_buffers_of_an_all_to_all_lie_in_the_order_of_ranks(seed: int) -> None:
    """Where the items of a problem lie in a rank's buffers, also where the problem numbers its ranks otherwise."""
    draw = np.random.default_rng(seed)
    matrix = draw.integers(0, 3, (4, 4))
    place = draw.permutation(6)[:4]  # of the problem's six ranks
    whole = np.zeros((6, 6), np.int64)
    whole[np.ix_(place, place)] = matrix
    pairs = [(a, b) for a in range(6) for b in range(6) if a != b and whole[a, b]]
    for rank in range(4):
        layout = Layout.all_to_all(matrix, rank, place.tolist(), 6)
        own, before = int(place[rank]), {int(p): k for k, p in enumerate(place)}
        given = [(k, int(matrix[rank, : before[b]].sum())) for k, (a, b) in enumerate(pairs) if a == own]
        wanted = [(k, int(matrix[: before[a], rank].sum())) for k, (a, b) in enumerate(pairs) if b == own]
        for region, held in ((layout.input, given), (layout.output, wanted)):
            assert list(zip(region.item.tolist(), region.start.tolist(), strict=True)) == held
            assert region.length.tolist() == [int(whole[pairs[k]]) for k, _ in held]
        assert layout.input.size_bytes == matrix[rank].sum() and layout.output.size_bytes == matrix[:, rank].sum()
        assert layout.own == (matrix[rank, :rank].sum(), matrix[:rank, rank].sum(), matrix[rank, rank])
