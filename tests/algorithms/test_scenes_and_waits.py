"""What a scene of servers knows of its NICs, what messages wait for, and who is not fit for a plan, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.algorithms.synthesis import list_schedule
from interlock.algorithms.synthesis.arcs import arcs_of
from interlock.algorithms.synthesis.goal import TreeGoal, goal_of
from interlock.algorithms.synthesis.graph import graph_of
from interlock.algorithms.synthesis.in_switch import has_one_root
from interlock.algorithms.tiers import Scene
from interlock.algorithms.two_tier_plan import check_fit
from interlock.collectives import collective
from interlock.errors import InterlockError
from interlock.problem import collective_problem

GBPS = 1e9 / 8


def scene(cluster: il.Cluster, kind: str = "all-gather", members: list[int] | None = None) -> Scene:
    wanted = il.all_gather("8 MB", group=members) if members else collective(kind, "8 MB")
    return Scene.of(collective_problem(cluster.topology, wanted, cluster=cluster))


@pytest.mark.parametrize(
    ("scale_out", "over", "faults", "gbps"),
    [
        ("flat", 1.0, (), 1600),
        ("flat", 2.0, (), 800),
        ("rail", 1.0, (), 1600),
        ("rail", 2.0, (), 1600),  # rails have no leaves
        ("rail-spine", 2.0, (), 1600),
        ("flat", 1.0, (il.slow_nic(1, 2, "100 Gb/s"),), 1300),
        ("flat", 2.0, (il.slow_nic(1, 2, "100 Gb/s"),), 650),
        ("rail", 1.0, (il.slow_nic(1, 2, "100 Gb/s"), il.slow_nic(0, 1, "200 Gb/s")), 1100),  # each rail at its least
        ("flat", 1.0, (il.dead_nic(0, 0),), 1200),
    ],
)
def test_carriers_of_a_server_are_as_fast_as_the_least_of_them(
    scale_out: str, over: float, faults: tuple[il.topology.Fault, ...], gbps: float
) -> None:
    cluster = il.cluster(
        "h200", servers=3, gpus_per_server=4, scale_out=scale_out, oversubscription=over, faults=faults
    )
    assert scene(cluster).carrying_rate == pytest.approx(gbps * GBPS)


@pytest.mark.parametrize(
    ("scale_out", "over", "faults", "kind", "is_alone"),
    [
        ("flat", 1.0, (), "all-gather", True),
        ("flat", 2.0, (), "all-gather", False),
        ("rail", 2.0, (), "all-gather", True),
        ("rail-spine", 2.0, (), "all-gather", False),
        ("flat", 1.0, (), "broadcast", True),
        ("flat", 1.0, (), "scatter", False),
        ("flat", 1.0, (), "all-reduce", True),
        ("flat", 1.0, (il.slow_nic(1, 2, "380 Gb/s"),), "all-gather", False),
        ("flat", 1.0, (il.dead_nic(1, 2),), "all-reduce", False),
    ],
)
def test_nics_exchange_one_to_one_where_all_are_alike_and_nothing_is_between(
    scale_out: str, over: float, faults: tuple[il.topology.Fault, ...], kind: str, is_alone: bool
) -> None:
    cluster = il.cluster(
        "h200", servers=3, gpus_per_server=4, scale_out=scale_out, oversubscription=over, faults=faults
    )
    assert scene(cluster, kind).exchanges_one_to_one is is_alone


def test_carriers_that_are_no_members_wake_late() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    assert not scene(cluster).relays_wake and scene(cluster, "broadcast").relays_wake
    some = scene(cluster, members=[0, 1, 2])
    assert some.relays_wake and some.most_members == 2 and some.total_bytes == pytest.approx(8e6, rel=1e-6)


@pytest.mark.parametrize(("members", "fits"), [([0, 1], False), ([0, 1, 3], True)])
def test_a_switch_sums_for_three_or_more(members: list[int], fits: bool) -> None:
    able = il.Cluster("switch", 1, 4, multicasts=True, reduces=True).topology
    goal = goal_of(collective_problem(able, il.all_reduce("1 MB", group=members)))
    assert isinstance(goal, TreeGoal) and has_one_root(goal, graph_of(able)) is fits
    plain = il.Cluster("switch", 1, 4, multicasts=True).topology
    assert not has_one_root(goal, graph_of(plain))
    copied = goal_of(collective_problem(plain, il.all_gather("1 MB", group=members)))
    assert isinstance(copied, TreeGoal) and not has_one_root(copied, graph_of(plain))  # many roots


def test_ranks_unfit_for_a_plan_are_named_and_nobody_is_none() -> None:
    is_fit = np.array([False, True, True, False])
    check_fit(np.array([1, 2, -1]), is_fit, "a NIC that is dead")
    for rank in (0, 3):
        with pytest.raises(InterlockError, match=f"takes a NIC that is dead, of rank {rank}"):
            check_fit(np.array([1, -1, rank]), is_fit, "a NIC that is dead")


def test_messages_that_share_links_wait_for_the_last_that_has_arrived() -> None:
    """Over arc 0 of a ring, sent in 10 ticks with 5 on the way: word of it comes 10 ticks after it was sent."""
    ring = arcs_of(il.topology.ring(3, bandwidth="1 GB/s"))
    start = np.array([0, 10, 20, 30, 40, 40], np.int64)
    arc = np.array([0, 0, 0, 0, 0, 1], np.int32)
    shares = np.ones(6, np.bool_)
    made = list_schedule._paced(ring, arc, start, start + 10, np.full(6, 5), shares)
    assert made.counts.tolist() == [0, 0, 1, 1, 1, 0] and made.values.tolist() == [0, 1, 2]
    shares[1] = False
    made = list_schedule._paced(ring, arc, start, start + 10, np.full(6, 5), shares)
    assert made.counts.tolist() == [0, 0, 1, 1, 1, 0] and made.values.tolist() == [0, 0, 2]
