"""Small decisions of algorithms, one by one, where a whole plan would hardly show them."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.algorithms.detours import refuses_detours
from interlock.algorithms.guided import _rising
from interlock.algorithms.ring import MOST_MESSAGES
from interlock.algorithms.synthesis.goal import goal_of
from interlock.algorithms.synthesis.list_schedule import (
    ALL_THAT_WAIT,
    LONG_MESSAGES,
    OVERHEAD_MATTERS,
    SHORT_MESSAGES,
    merged_evenly,
    merged_for_pipelines,
)
from interlock.algorithms.synthesis.matching import MOST_STARTS, PARTS, tries_by_parts
from interlock.algorithms.tier_shares import _most_behind
from interlock.algorithms.tiers import _in_rounds
from interlock.problem import collective_problem


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (5, []),
        (6, [(2, 3)]),
        (8, [(2, 4), (2, 2, 2)]),
        (12, [(3, 4), (2, 2, 3)]),
        (16, [(4, 4), (2, 2, 4)]),
        (27, [(3, 9), (3, 3, 3)]),
        (64, [(8, 8), (4, 4, 4)]),
    ],
)
def test_rounds_have_the_most_even_factors(count: int, wanted: list[tuple[int, ...]]) -> None:
    assert _in_rounds(count) == wanted


@pytest.mark.parametrize(
    ("rate", "given", "gpu", "wanted"),
    [
        ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], 0, 1),  # alike: the next
        ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], 2, 3),
        ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], 3, 0),
        ([1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 1.0, 1.0], 0, 2),  # who has given least
        ([1.0, 4.0, 1.0, 1.0], [0.0, 2.0, 1.0, 1.0], 0, 1),  # for its rate
        ([1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 2.0], 0, 2),  # never who carries nothing
        ([1.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0], 0, 0),  # itself where nobody else can
    ],
)
def test_the_one_most_behind_stands_in(rate: list[float], given: list[float], gpu: int, wanted: int) -> None:
    assert _most_behind(np.array(rate), np.array(given), gpu) == wanted


def test_progress_never_falls_and_begins_at_nothing() -> None:
    told: list[float] = []
    report = _rising(told.append)
    for share in (0.0, 0.25, 0.125, 0.5, 0.0, 1.0):
        report(share)
    assert told == [0.0, 0.25, 0.25, 0.5, 0.5, 1.0]


def test_numbers_of_chunks_share_the_transfers_that_matching_may_take() -> None:
    goal = goal_of(collective_problem(il.topology.ring(4, bandwidth="1 GB/s"), il.all_gather("4 MB")))
    assert not isinstance(goal, str) and goal.num_moves == 16
    first, second = PARTS[:2]
    just = 16 * second * len(PARTS)
    assert tries_by_parts(goal, None, None, just) == [(first, second // first), (second, 1)]
    assert tries_by_parts(goal, None, None, just - 1) == [(first, max(1, (just - 1) // (16 * first * len(PARTS))))]
    assert tries_by_parts(goal, None, None, 0) == [(first, 1)]  # one is always tried
    assert tries_by_parts(goal, 3, None, 96) == [(3, 2)] and tries_by_parts(goal, 3, 5, 48) == [(3, 5)]
    assert tries_by_parts(goal, 1, None, 10**9) == [(1, MOST_STARTS)]


def test_chunks_are_merged_by_the_part_that_overhead_takes() -> None:
    for merged, long, middle in ((merged_for_pipelines, 0.1, SHORT_MESSAGES), (merged_evenly, 0.5, LONG_MESSAGES)):
        assert merged(np.nextafter(OVERHEAD_MATTERS, 0)) == () and merged(OVERHEAD_MATTERS) == middle
        assert merged(np.nextafter(long, 0)) == middle and merged(long) == SHORT_MESSAGES + ALL_THAT_WAIT


def test_servers_without_a_common_rail_that_is_alive_are_named() -> None:
    apart = [il.dead_nic(0, 0), il.dead_nic(2, 1)]

    def refused(scale_out: str, *more: il.topology.Fault) -> str | None:
        return refuses_detours(
            il.cluster("h200", servers=3, gpus_per_server=2, scale_out=scale_out, faults=[*apart, *more])
        )

    assert refused("rail") == "servers 0 and 2 have no rail in common whose NICs are alive"
    assert refused("rail-spine") is None
    assert refused("flat", il.dead_nic(2, 0)) == "server 2 has no NIC that is alive"


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_ring_of_two_has_one_way(both_ways: bool) -> None:
    """Backwards it would be the same ring; three can be walked both ways."""
    counts = {}
    for servers in (2, 3):
        cluster = il.Cluster("made", servers, 1)
        plan = il.synthesize(cluster, il.all_gather("6 MB"), "ring", both_ways=both_ways)
        assert plan.certificate().valid
        counts[servers] = plan.schedule.num_messages
    assert counts == {2: 2, 3: 12 if both_ways else 6}


def test_a_chain_is_cut_into_no_more_messages_than_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = il.Cluster("made", 4, 1)
    free = il.synthesize(cluster, il.broadcast("1 GB"), "ring").schedule.num_messages
    assert 30 < free <= MOST_MESSAGES
    monkeypatch.setattr("interlock.algorithms.ring.MOST_MESSAGES", 30)
    assert il.synthesize(cluster, il.broadcast("1 GB"), "ring").schedule.num_messages == 30
    monkeypatch.setattr("interlock.algorithms.ring.MOST_MESSAGES", 2)
    assert il.synthesize(cluster, il.broadcast("1 GB"), "ring").schedule.num_messages == 3  # one block at least
