"""Where searches and choices change their mind: just within a limit, and just beyond it."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import interlock as il
from interlock.algorithms import compared, guided, tiers, weighted_direct
from interlock.algorithms.compared import _Contest
from interlock.algorithms.synthesis import packed_pairs, packed_trees, proportioned_trees, symmetric
from interlock.algorithms.synthesis.answers import SlotAnswer, TimedAnswer
from interlock.algorithms.synthesis.arcs import Ticks, arcs_of
from interlock.algorithms.synthesis.budget import Budget, SearchBound
from interlock.algorithms.synthesis.forests import Forest, copying_tasks, summing_and_copying_tasks
from interlock.algorithms.synthesis.goal import TreeGoal, cut, goal_of
from interlock.algorithms.synthesis.graph import graph_of
from interlock.algorithms.synthesis.greedy_rounds import is_as_good_as_it_gets
from interlock.algorithms.synthesis.list_schedule import (
    TimedTransfers,
    _refinements,
    more_parts_are_no_use,
    overhead_share,
)
from interlock.algorithms.synthesis.paths import _in_turn, balanced_paths, path_tasks
from interlock.algorithms.synthesis.symmetric import _least_ticks, _rank_zero
from interlock.algorithms.synthesis.symmetry import quotient_of
from interlock.algorithms.synthesis.tree_per_chunk import _is_worthwhile, has_many_links
from interlock.algorithms.tacos import unwound
from interlock.algorithms.tier_messages import _paced
from interlock.algorithms.tiers import TierWay
from interlock.problem import collective_problem
from interlock.ragged import Ragged
from interlock.validate import check


def goal_on(topology: il.Topology, wanted: il.Collective) -> TreeGoal:
    goal = goal_of(collective_problem(topology, wanted))
    assert isinstance(goal, TreeGoal)
    return goal


def sized(*size_bytes: int) -> TreeGoal:
    """An All-Gather of a ring with items of these sizes."""
    goal = goal_on(il.topology.ring(len(size_bytes), bandwidth="1 GB/s"), il.all_gather("1 MB"))
    return TreeGoal(goal.direction, goal.num_ranks, np.array(size_bytes), goal.root, goal.ends)


def test_items_are_equal_to_a_byte() -> None:
    assert sized(5, 6, 5).has_equal_items and not sized(5, 6, 7).has_equal_items


def test_items_are_cut_into_twice_as_many_up_to_4096() -> None:
    assert sized(5, 6, 5).parts_to_try() == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@pytest.mark.parametrize(("switches", "is_reached"), [(5, True), (6, False)])
def test_ways_lead_through_at_most_five_switches(switches: int, is_reached: bool) -> None:
    """Up and down three layers are six links."""
    nodes = [0, *range(2, 2 + switches), 1]
    ends = [*pairwise(nodes), *pairwise(nodes[::-1])]
    chain = il.topology.from_edges(
        [a for a, _ in ends], [b for _, b in ends], "1 GB/s", num_ranks=2, switches=range(2, 2 + switches)
    )
    assert len(arcs_of(chain)) == (2 if is_reached else 0)


def test_sixteen_of_equally_short_ways_are_kept() -> None:
    for switches, kept in ((15, 15), (16, 16), (18, 16)):
        src = [*[0] * switches, *range(2, 2 + switches), *[1] * switches, *range(2, 2 + switches)]
        dst = [*range(2, 2 + switches), *[1] * switches, *range(2, 2 + switches), *[0] * switches]
        joined = il.topology.from_edges(src, dst, "1 GB/s", num_ranks=2, switches=range(2, 2 + switches))
        assert np.bincount(arcs_of(joined).src).tolist() == [kept, kept]


def test_more_chunks_are_tried_in_vain_up_to_sixteen_times_the_best() -> None:
    ring = arcs_of(il.topology.ring(4, bandwidth="1 GB/s", message_overhead="1 us"))
    long, short = cut(np.full(4, 10**6), 1), cut(np.full(4, 10**4), 1)
    assert overhead_share(ring, long) < 0.05 < overhead_share(ring, short)
    assert not more_parts_are_no_use(ring, long, 31, 2) and more_parts_are_no_use(ring, long, 32, 2)
    assert not more_parts_are_no_use(ring, short, 7, 2) and more_parts_are_no_use(ring, short, 8, 2)
    edge = cut(np.full(4, 19_000), 1)  # 1 us of 20
    assert overhead_share(ring, edge) == pytest.approx(0.05, rel=1e-12)


def transfers(count: int, makespan: int = 100) -> TimedTransfers:
    number = np.arange(count, dtype=np.int32)
    start = 10 * number.astype(np.int64)
    return TimedTransfers(number, number, start, start + 10, number, np.zeros(count, np.bool_), makespan)


def test_ticks_of_another_length_tell_the_same_times() -> None:
    made = transfers(4).rescaled(2.5)
    assert made.start_ticks.tolist() == [0, 25, 50, 75] and made.makespan_ticks == 250
    same = transfers(3)
    assert same.rescaled(1.0) is same
    assert made.sent_ticks.tolist() == [25, 50, 75, 100]
    none = np.zeros(3)
    turned = transfers(3).backwards(Ticks(none.astype(np.int64), none, np.array([0, 10, 20]), 0, 1.0))
    assert turned.start_ticks.tolist() == [90, 70, 50] and turned.message.tolist() == [2, 1, 0]
    assert turned.sent_ticks.tolist() == [100, 80, 60]
    assert turned.reduces.all()


def test_schedules_are_refined_two_to_eight_times() -> None:
    for tasks, wanted in ((0, 8), (7_500, 8), (7_501, 7), (20_000, 3), (20_001, 2), (10**6, 2)):
        assert _refinements(range(tasks)) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(("most_quick", "passes", "slacks"), [(10**6, 6, [0.2, 0.0]), (0, 2, [0.2])])
def test_large_trees_are_laid_in_fewer_passes(
    monkeypatch: pytest.MonkeyPatch, most_quick: int, passes: int, slacks: list[float]
) -> None:
    seen: list[tuple[int, float]] = []
    real = packed_trees.pack

    def pack(*given: Any, **named: Any) -> Any:
        seen.append((named["passes"], named["slack"]))
        return real(*given, **named)

    monkeypatch.setattr(packed_trees, "pack", pack)
    monkeypatch.setattr(packed_trees, "QUICK_TRANSFERS", most_quick)
    topology = il.topology.mesh(2, 3, bandwidth="1 GB/s", message_overhead="1 us")
    goal = goal_on(topology, il.broadcast("8 MB"))
    search = packed_trees.packed_trees(goal, graph_of(topology), Budget(10**6, SearchBound(0.0)))
    next(iter(search))
    assert seen == [(passes, slack) for slack in slacks]


def test_a_search_pays_where_a_quarter_is_to_be_gained_and_pairs_are_few() -> None:
    def contest(ranks: int, over_bound: float) -> _Contest:
        topology = il.topology.clos(2, ranks // 2, 2, bandwidth="50 GB/s")
        made = _Contest.__new__(_Contest)
        made.problem, made.bound_s = collective_problem(topology, il.all_to_all("1 MB")), 1.0
        made.seconds, made.best = {"direct": over_bound}, ("direct", None)  # type: ignore[assignment]
        return made

    assert not contest(4, 1.25).is_worth_a_search() and contest(4, 1.2501).is_worth_a_search()
    assert contest(24, 1.3).is_worth_a_search()  # 552 pairs
    assert not contest(26, 1.3).is_worth_a_search()  # 650
    assert contest(4, 1.005).is_near(compared.MET) and not contest(4, 1.0051).is_near(compared.MET)
    near = compared.NEAR_ON_FAULTS
    assert contest(4, 1.15).is_near(near) and not contest(4, 1.1501).is_near(near)


@pytest.mark.parametrize(("most", "tried"), [(100_000, 7), (112 + 392 // 16, 2), (111 + 392 // 16, 1)])
def test_what_libraries_run_is_tried_beside_tiers_while_little_is_written(
    monkeypatch: pytest.MonkeyPatch, most: int, tried: int
) -> None:
    monkeypatch.setattr(compared, "MOST_WRITTEN_BESIDE_TIERS", most)
    reason = il.synthesize(il.cluster("a100", servers=2, gpus_per_server=4), il.all_reduce("8 MiB")).reason
    assert reason is not None and reason.count("x,") + reason.endswith("x") == tried


def ways_with(*found: tuple[str, int, list[int]]) -> tuple[guided.SearchWay, ...]:
    """Ways that find answers of so many transfers, which take so many seconds by their own account; those whose name
    is "guess" only estimate."""
    arcs, chunks = arcs_of(il.topology.ring(2, bandwidth="1 GB/s")), cut(np.full(2, 10), 1)
    ticks = Ticks(np.zeros(2, np.int64), np.zeros(2), np.zeros(2, np.int64), 0, 1.0)

    def searching(count: int, seconds: list[int]) -> Any:
        def search(goal: Any, graph: Any, budget: Budget) -> Any:
            for each in seconds:
                budget.is_enough(each)  # as ways do that could end sooner
                yield TimedAnswer(chunks, arcs, ticks, transfers(count, makespan=each))

        return search

    return tuple(
        guided.SearchWay(name, "", guided.always, searching(count, seconds), is_estimated=name == "guess")
        for name, count, seconds in found
    )


def searched(ways: tuple[guided.SearchWay, ...], clock: dict[int, float], bound_s: float = 0.0) -> guided.Outcome:
    """By ways whose answers take as long as the clock says, given what they say themselves."""
    ring = il.topology.ring(2, bandwidth="1 GB/s")
    budget = Budget(10**6, SearchBound(bound_s))
    goal = goal_on(ring, il.all_gather("1 MB"))
    return guided.search(goal, graph_of(ring), budget, ways, lambda answer: clock[answer.transfers.makespan_ticks])


@pytest.mark.parametrize(("longest", "is_measured"), [(300_000, True), (300_001, False)])
def test_what_is_estimated_is_measured_up_to_300000_transfers(longest: int, is_measured: bool) -> None:
    found = searched(ways_with(("guess", longest, [10]), ("sure", 3, [15])), {10: 20.0})
    assert found.way == ("sure" if is_measured else "guess")
    assert found.seconds_by_way == {"guess": 20.0 if is_measured else 10.0, "sure": 15.0}


def test_an_estimate_at_the_bound_does_not_end_the_search() -> None:
    ways = ways_with(("guess", 3, [10]), ("sure", 3, [15]))
    assert searched(ways, {10: 20.0}, bound_s=10.0).way == "sure"
    ended = searched(ways, {10: 10.0}, bound_s=10.0)
    assert ended.way == "guess" and ended.end == "at the bound" and "sure" not in ended.seconds_by_way


def test_of_estimated_answers_the_fastest_by_the_clock_is_kept() -> None:
    found = searched(ways_with(("sure", 3, [30]), ("guess", 3, [10, 12, 11])), {10: 25.0, 12: 20.0, 11: 22.0})
    assert found.way == "guess" and found.answer.transfers.makespan_ticks == 12  # type: ignore[union-attr]
    assert found.answer.makespan_s == 20.0


def test_of_estimates_behind_the_best_only_the_best_is_measured() -> None:
    """So that `plan.reason` compares times of one kind; and it wins where it was estimated too high."""
    ways = ways_with(("sure", 3, [10]), ("guess", 3, [13, 11, 12]))
    assert searched(ways, {11: 14.0}).seconds_by_way == {"sure": 10.0, "guess": 14.0}
    assert searched(ways, {11: 9.0}).way == "guess"


def test_what_is_measured_is_what_is_handed_out() -> None:
    """Sums into a root too, which are searched as copies out of it."""
    ends = np.array([(0, 4), (1, 4), (2, 5), (3, 5), (4, 5)])
    star = il.topology.from_edges(
        np.concatenate([ends[:, 0], ends[:, 1]]),
        np.concatenate([ends[:, 1], ends[:, 0]]),
        np.tile([25e9, 50e9, 25e9, 50e9, 100e9], 2),
        "1 us",
        message_overhead="1 us",
        num_ranks=4,
    )
    problem = collective_problem(star, il.reduce_scatter("1 MB"))
    seen: list[Any] = []

    def time_of(made: Any) -> float:
        seen.append(made)
        return 1e-9

    made = guided.guided(problem, time_of=time_of)
    assert seen and all(check(each, problem).valid for each in seen)
    assert made.reason.startswith("packed trees that share links")


def test_slices_of_owners_are_at_most_32_and_as_many_as_waits_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted_direct, "slices_s", lambda each, weights: -len(weights))
    problem = collective_problem(il.topology.fully_connected(4, bandwidth="1 GB/s"), il.all_reduce("1 GB"))
    monkeypatch.setattr(weighted_direct, "narrowest_link", lambda *_: SimpleNamespace(
        bandwidth_bytes_per_s=1e9, overhead_s=0.0, latency_s=0.0))  # fmt: skip
    for members, slices in ((4, 32), (39, 32), (40, 31), (100, 2), (101, 1), (200, 1)):
        assert weighted_direct._best_slices(problem, np.arange(members)) == slices


class Made(SimpleNamespace):
    """A schedule that is only counted."""


@pytest.fixture
def tiers_that_choose(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`tiers` on made-up ways: name of what it takes, given the ledger's seconds and messages of each, and a clock."""

    def choose(ways: list[tuple[float, int]], clock: list[float] | None = None, one_to_one: bool = True) -> int:
        scene = SimpleNamespace(exchanges_one_to_one=one_to_one, is_rooted=False, carriers=SimpleNamespace(rank=[0]))
        keys = [TierWay((1.0,) * (number + 1)) for number in range(len(ways))]
        place = {key: number for number, key in enumerate(keys)}
        monkeypatch.setattr(tiers, "_scenes", lambda problem: [scene])
        monkeypatch.setattr(tiers, "_ways", lambda scene: keys)
        monkeypatch.setattr(tiers, "ledger_s", lambda scene, way: ways[place[way]][0])
        monkeypatch.setattr(tiers, "_messages", lambda scene, way: ways[place[way]][1])
        monkeypatch.setattr(
            tiers, "follow", lambda scene, way: Made(number=place[way], num_messages=ways[place[way]][1])
        )
        problem = collective_problem(
            il.Cluster("made", 2, 2).topology, il.all_gather("1 MB"), cluster=il.Cluster("made", 2, 2)
        )
        time_of = None if clock is None else lambda made: clock[made.number]
        return tiers.tiers(problem, time_of=time_of).number  # type: ignore[attr-defined, arg-type]

    return choose


def test_of_ways_that_the_ledger_does_not_tell_apart_the_one_with_fewest_messages_is_taken(
    tiers_that_choose: Any,
) -> None:
    assert tiers_that_choose([(1.0, 9), (1.02, 5), (1.0201, 1)]) == 1


def test_ways_are_timed_while_the_ledger_may_be_wrong_and_messages_are_few(tiers_that_choose: Any) -> None:
    assert tiers_that_choose([(1.0, 9), (1.3, 9)], [2.0, 1.0]) == 1
    assert tiers_that_choose([(1.0, 9), (1.3001, 9)], [2.0, 1.0]) == 0
    assert tiers_that_choose([(1.0, 9), (1.1, 5)], [1.0, 1.005]) == 1  # worth its few messages
    assert tiers_that_choose([(1.0, 9), (1.1, 5)], [1.0, 1.0051]) == 0
    many = [(1.0 + 0.03 * number / 24, 9) for number in range(25)]
    assert tiers_that_choose(many, [2.0] * 23 + [1.0, 2.0]) == 23
    assert tiers_that_choose(many, [2.0] * 24 + [1.0]) == 0  # twenty-four are timed
    # The best by the ledger is counted twice: before any is timed, and beside each that is.
    assert tiers_that_choose([(1.0, 20_000), (1.1, 9)], [2.0, 1.0]) == 1
    assert tiers_that_choose([(1.0, 20_001), (1.1, 9)], [2.0, 1.0]) == 0


def test_messages_keep_behind_those_some_places_before_with_the_same_ends() -> None:
    ends = np.array([7, 8, 7, 7, 8, 7, 7])
    chosen = np.array([True, True, True, False, True, True, True])
    of, on = _paced(ends, chosen, 2)
    assert list(zip(of.tolist(), on.tolist(), strict=True)) == [(5, 0), (6, 2)]
    of, on = _paced(ends, chosen, 1)
    assert list(zip(of.tolist(), on.tolist(), strict=True)) == [(2, 0), (5, 2), (6, 5), (4, 1)]


def test_sources_serve_their_destinations_in_turn_beginning_with_the_next() -> None:
    src, dst = np.array([0, 0, 1, 1, 2, 2], np.int32), np.array([1, 2, 0, 2, 0, 1], np.int32)
    item = np.arange(6, dtype=np.int32)
    assert _in_turn(src, dst, item, 3).tolist() == [0, 3, 4, 1, 2, 5]
    assert _in_turn(src[:4], dst[:4], np.array([0, 0, 1, 1], np.int32), 3).tolist() == [0, 2, 3, 1]


def test_hops_of_a_path_follow_each_other() -> None:
    tasks = path_tasks(Ragged.from_lists([[4, 5], [], [6], [7, 8, 9]]))
    assert tasks.arc.tolist() == [4, 5, 6, 7, 8, 9] and tasks.chunk.tolist() == [0, 0, 2, 3, 3, 3]
    assert tasks.after.counts.tolist() == [1, 0, 0, 1, 1, 0] and tasks.after.values.tolist() == [1, 4, 5]
    turned = path_tasks(Ragged.from_lists([[4, 5], [6]]), np.array([1, 0]))
    assert turned.arc.tolist() == [6, 4, 5] and turned.chunk.tolist() == [1, 0, 0]


def test_ways_through_one_port_share_it() -> None:
    """Rank 0 reaches 1 and 2 over one switch: half of its port each, as each of them is reached by two."""
    star = il.topology.from_edges([0, 1, 2, 3, 3, 3], [3, 3, 3, 0, 1, 2], "1 GB/s", num_ranks=3, switches=[3])
    arcs = unwound(arcs_of(star))
    assert arcs.num_resources == len(arcs) == 6
    assert arcs.seconds_per_byte == pytest.approx(np.full(6, 2e-9)) and arcs.resources.values.tolist() == list(range(6))


def test_chunks_have_at_least_a_cache_line_each_where_one_rank_stands_for_all() -> None:
    topology = il.topology.ring(4, bandwidth="1 GB/s")
    arcs = arcs_of(topology)
    quotient = quotient_of(topology, arcs)
    assert quotient is not None and quotient.num_orbits == 2
    goal, items = sized(128, 128, 128, 128), np.arange(4, dtype=np.int32)[:, None]
    assert _rank_zero(goal, quotient, items, 2) is not None and _rank_zero(goal, quotient, items, 3) is None
    assert _rank_zero(sized(127, 128, 128, 128), quotient, items, 2) is None
    one = _rank_zero(goal, quotient, items, 2)
    assert one is not None and one.image.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize(("rates", "wanted"), [(("1 GB/s", "1 GB/s"), 4), (("1 GB/s", "2 GB/s"), 0)])
def test_orbits_that_are_alike_cannot_be_done_before_all_are_always_busy(rates: tuple[str, str], wanted: int) -> None:
    """Nine ranks, four links of each: eight transfers of a chunk take two chunks' time, 15 take four."""
    torus = il.topology.torus(3, 3, bandwidth=rates)
    quotient, goal = quotient_of(torus, arcs_of(torus)), goal_on(torus, il.all_gather("9 MB"))
    assert quotient is not None and quotient.num_orbits == 4
    items = np.arange(9, dtype=np.int32)[:, None]
    zero = _rank_zero(goal, quotient, items, 1)
    assert zero is not None
    ticks = zero.scheduler.ticks
    chunk = float(ticks.per_byte.max() * 10**6)
    assert _least_ticks(zero, 15) == pytest.approx(wanted * chunk, rel=1e-3)
    assert _least_ticks(zero, 8) == pytest.approx(wanted / 2 * chunk, rel=1e-3)


def test_one_rank_stands_for_all_up_to_so_many_chunks_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = il.topology.ring(4, bandwidth="1 GB/s")
    quotient = quotient_of(topology, arcs_of(topology))
    goal, items = sized(128, 128, 128, 128), np.arange(4, dtype=np.int32)[:, None]
    assert quotient is not None and goal.num_moves == 16
    for most, fits in ((32, True), (31, False)):
        monkeypatch.setattr(symmetric, "MOST_CHUNKS", most)
        assert (_rank_zero(goal, quotient, items, 2) is not None) is fits
        assert _rank_zero(goal, quotient, items, 1) is not None  # uncut it always does


@pytest.mark.parametrize(("most", "is_too_long"), [(16, False), (15, True)])
def test_sums_go_before_copies_where_more_rows_than_may_be_written_out_would_come_of_both(
    monkeypatch: pytest.MonkeyPatch, most: int, is_too_long: bool
) -> None:
    topology = il.topology.ring(4, bandwidth="1 GB/s")
    goal, graph = goal_on(topology, il.all_gather("1 MB")), graph_of(topology)
    monkeypatch.setattr(guided, "MAX_ROWS", most)
    monkeypatch.setattr(guided, "_is_much_longer_apart", lambda goal, graph: True)
    assert goal.num_moves == 16
    assert guided.SUMS_THEN_COPIES.fits(goal, graph) is is_too_long


def test_trees_per_chunk_need_six_links_of_each_rank() -> None:
    for ranks, fits in ((6, False), (7, True)):
        topology = il.topology.fully_connected(ranks, bandwidth="1 GB/s")
        assert has_many_links(goal_on(topology, il.all_gather("1 MB")), graph_of(topology)) is fits


def test_a_tree_per_chunk_is_worthwhile_within_its_budget_and_above_a_cache_line() -> None:
    arcs = arcs_of(il.topology.ring(4, bandwidth="1 GB/s", message_overhead="1 us"))
    chunks = cut(np.full(4, 64 * 100), 100)

    def is_worthwhile(transfers: int = 10, limit: int = 10**9, chunks: Any = chunks, parts: int = 100) -> bool:
        return _is_worthwhile(arcs, chunks, parts, transfers, Budget(limit, SearchBound(0.0)))

    assert is_worthwhile() and is_worthwhile(limit=120) and not is_worthwhile(limit=119)
    assert is_worthwhile(10**6, 10**8) and not is_worthwhile(10**6 + 1, 10**8)
    assert not is_worthwhile(chunks=cut(np.full(4, 63 * 100), 100))
    assert not is_worthwhile(chunks=cut(np.full(4, 999), 1), parts=1)  # half of an item's time is overhead
    assert is_worthwhile(chunks=cut(np.full(4, 1001), 1), parts=1)


def test_a_program_has_at_most_700_rows_and_items_of_little_overhead() -> None:
    for ranks, fits in ((233, True), (234, False)):  # two links and a root each
        topology = il.topology.ring(ranks, bandwidth="1 GB/s")
        goal = goal_on(topology, il.all_gather("1 GB"))
        assert proportioned_trees.fits_a_program(goal, graph_of(topology)) is fits
    ring = il.topology.ring(4, bandwidth="1 GB/s", message_overhead="1 us")
    for size, fits in ((4004, True), (3996, False)):
        assert proportioned_trees.fits_a_program(goal_on(ring, il.all_gather(size)), graph_of(ring)) is fits


def test_the_longest_way_of_a_tree_is_counted_in_hops() -> None:
    """Arcs 0: 0-1, 1: 1-2, 2: 0-3; a chain and a star of them, and a tree of nothing."""
    src = np.array([0, 1, 0], np.int32)
    into = np.array([[-1, 0, 1, 2], [-1, 0, -1, 2], [-1, -1, -1, -1]], np.int32)
    assert proportioned_trees._longest(into, src).tolist() == [2, 1, 0]


def test_roots_of_pairs_are_near_the_middle_or_all() -> None:
    line = il.topology.from_edges([0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3], "1 GB/s", message_overhead="1 us")
    goal, arcs = goal_on(line, il.all_reduce("5 MB")), arcs_of(line)
    found = packed_pairs._choices_of_roots(goal, arcs, arcs.ticks(10, 1e8), 10**6)
    assert [roots.tolist() for roots in found] == [[2], [0, 1, 2, 3, 4]]
    ring = il.topology.ring(5, bandwidth="1 GB/s")
    alike = packed_pairs._choices_of_roots(goal, arcs_of(ring), arcs_of(ring).ticks(10, 1e8), 10**6)
    assert [roots.tolist() for roots in alike] == [[0, 1, 2, 3, 4]]


def test_a_table_is_as_good_as_it_gets_where_trees_save_no_more_than_a_slot() -> None:
    topology = il.topology.ring(4, bandwidth="1 GB/s")
    goal, graph = sized(8, 8, 8, 8), graph_of(topology)
    asked = TreeGoal(goal.direction, 4, goal.size_bytes, goal.root, goal.ends, parts=1)

    def answer(slots: int) -> SlotAnswer:
        return SlotAnswer(cut(goal.size_bytes, 1), graph.arcs, np.zeros((slots, 8), np.uint16), 1.0, 2)

    assert is_as_good_as_it_gets(asked, graph, answer(3)) and not is_as_good_as_it_gets(asked, graph, answer(4))
    assert not is_as_good_as_it_gets(goal, graph, answer(2))


def test_a_fair_effort_is_60000_transfers_and_fair_is_5_percent_above_the_proof() -> None:
    def ends(effort: int, seconds: float) -> bool:
        return Budget(10**6, SearchBound(1.0, lambda: 2.0), spent=effort).is_enough(seconds)

    assert ends(60_000, 2.11) and not ends(59_999, 2.11) and not ends(60_000, 2.1101)
    assert ends(0, 1.003) and not ends(0, 1.0031)


def test_the_first_cut_is_tried_however_many_paths_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.algorithms.synthesis.paths.MANY_PATHS", 0)
    ring = il.topology.ring(3, bandwidth="1 GB/s")
    goal = goal_on(ring, il.all_to_all("3 MB"))
    made = [len(answer.chunks) for answer in balanced_paths(goal, graph_of(ring), Budget(10**6, SearchBound(0.0)))]
    assert made == [6]


def test_sums_flow_to_the_root_and_copies_from_it_hop_by_hop() -> None:
    """Arcs 0: 0-2, 1: 1-0, 2: 2-0, 3: 0-1; up from 1 over 0 to the root 2, and back the same way."""
    arcs = arcs_of(il.topology.from_edges([0, 1, 2, 0], [2, 0, 0, 1], "1 GB/s"))
    up, down = np.array([[0, 1, -1]], np.int32), np.array([[2, 3, -1]], np.int32)
    forest = Forest(np.array([2], np.int32), down, up, 0)
    tasks = summing_and_copying_tasks(forest, np.zeros(2, np.int32), arcs, np.array([5, 7]))
    assert tasks.arc.tolist() == [0, 1, 0, 1, 2, 3, 2, 3] and tasks.chunk.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert tasks.reduces.tolist() == [True] * 4 + [False] * 4 and tasks.lateness.tolist() == [5, 5, 7, 7] * 2
    assert tasks.after.counts.tolist() == [1, 1, 1, 1, 1, 0, 1, 0]
    assert tasks.after.values.tolist() == [4, 0, 6, 2, 5, 7]
    copies = copying_tasks(forest, np.zeros(1, np.int32), arcs)
    assert copies.arc.tolist() == [2, 3] and copies.after.counts.tolist() == [1, 0]
    assert copies.after.values.tolist() == [1] and copies.lateness.tolist() == [0, 0]
