"""Shares of NICs, classes of links and numbers of chunks, by hand on the smallest cases that tell them apart."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.algorithms.synthesis import packed_pairs
from interlock.algorithms.synthesis.arcs import arcs_of
from interlock.algorithms.synthesis.goal import TreeGoal, goal_of
from interlock.algorithms.synthesis.symmetry import _has_doubles, quotient_of
from interlock.algorithms.tier_shares import (
    _left_out_of_owned,
    _left_out_of_passed_on,
    _settled,
    _stand_ins,
    carriers_of,
    cut_lines,
)
from interlock.algorithms.tiers import _messages, _scenes, _ways, ledger_s
from interlock.collectives import collective
from interlock.problem import collective_problem


def test_rails_carry_alone_while_they_waste_no_more_than_three_percent() -> None:
    """The least NICs of both rails are 0.98, so 1.96 of 1.98; then 0.9, so 1.8 of 1.9."""
    assert not _left_out_of_passed_on(np.array([[1.0, 0.98], [0.98, 1.0]])).any()
    left = _left_out_of_passed_on(np.array([[1.0, 0.9], [0.9, 1.0]]))
    assert left.tolist() == [[False, True], [True, False]]


def test_the_fewest_slow_nics_are_left_out_of_what_is_owned() -> None:
    assert not _left_out_of_owned(np.ones((3, 2))).any()
    rate = np.ones((3, 4))
    for slow, is_left in ((0.9, False), (0.1, True)):
        rate[2, 3] = slow
        assert np.argwhere(_left_out_of_owned(rate)).tolist() == ([[2, 3]] if is_left else [])


def test_a_share_is_what_the_least_nic_carries_and_owners_have_what_is_left() -> None:
    """Of 3 servers: at most the least rate, and all rates together are at least 4 shares."""
    rate = np.array([[1.0, 1.0], [1.0, 1.0], [0.5, 0.9]])
    nobody = np.zeros(rate.shape, np.bool_)
    share, weight = _settled(rate, nobody, _stand_ins(rate), has_owners=False)
    assert share.tolist() == [0.5, 0.9] and (weight == 1 / 3).all()
    share, weight = _settled(rate, nobody, _stand_ins(rate), has_owners=True)
    assert share == pytest.approx([0.5, 0.725])
    assert weight[:, 0] == pytest.approx([0.5, 0.5, 0.0])
    assert weight[:, 1] == pytest.approx(np.array([0.275, 0.275, 0.175]) / 0.725)


def test_what_a_dead_nic_leaves_is_carried_by_the_others_of_its_server() -> None:
    """Server 1 has one NIC for both rails: half of the other servers' share on each."""
    rate = np.array([[1.0, 1.0], [1.0, 0.0]])
    left = np.array([[False, False], [False, True]])
    share, _ = _settled(rate, left, _stand_ins(rate), has_owners=False)
    assert share[1] == pytest.approx(1.0) and share[0] == pytest.approx(0.0, abs=1e-6)


def test_stand_ins_are_the_others_by_rate_or_oneself_where_there_is_nobody() -> None:
    made = _stand_ins(np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.0]]))
    assert made[0] == pytest.approx(np.array([[0, 1, 0], [1, 0, 0], [2 / 3, 1 / 3, 0]]))
    assert made[1] == pytest.approx(np.array([[0, 1, 0], [0, 1, 0], [0, 1, 0]]))


def test_rails_with_a_negligible_share_carry_nothing() -> None:
    assert carriers_of(np.array([[1.0, 1e-6, 2e-6]]), np.arange(3)[None], has_owners=False).rails.tolist() == [0, 2]


def test_lines_are_cut_at_cache_lines_of_items() -> None:
    """Half of a line of 1000 + 600 bytes lies at 800, which is 32 bytes off 832 and 768: the later one."""
    cells = cut_lines(np.array([1000, 600]), np.zeros(2, np.int64), np.array([0.0, 0.5, 1.0]))
    assert cells.chunks.item.tolist() == [0, 0, 1] and cells.cell.tolist() == [0, 1, 1]
    assert cells.chunks.offset.tolist() == [0, 832, 0] and cells.chunks.length.tolist() == [832, 168, 600]
    several = cut_lines(np.array([256, 256, 512]), np.array([1, 0, 1]), np.array([0.0, 0.25, 1.0]))
    assert several.line.tolist() == [0, 0, 1, 1, 1] and several.chunks.item.tolist() == [1, 1, 0, 0, 2]
    assert several.chunks.length.tolist() == [64, 192, 192, 64, 512] and several.cell.tolist() == [0, 1, 0, 1, 1]


def test_values_that_come_twice_are_noticed() -> None:
    assert not _has_doubles(np.array([3, 1, 2])) and _has_doubles(np.array([3, 1, 3]))


def test_one_rank_stands_for_all_only_where_all_look_alike() -> None:
    ring = il.topology.ring(4, bandwidth="1 GB/s")
    found = quotient_of(ring, arcs_of(ring))
    assert found is not None and found.num_orbits == 2 and found.arcs.num_resources == 2
    assert found.arcs.src.tolist() == [0, 0, 1, 1, 2, 2, 3, 3] and found.arcs.orbit.tolist() == [0, 1] * 4
    towards = (found.arcs.dst - found.arcs.src) % 4
    assert set(towards[::2].tolist()) | set(towards[1::2].tolist()) == {1, 3} and len(set(towards[::2].tolist())) == 1
    grid = il.topology.mesh(2, 3, bandwidth="1 GB/s")
    assert quotient_of(grid, arcs_of(grid)) is None


@pytest.mark.parametrize("servers", [2, 3, 5])
@pytest.mark.parametrize("scale_out", ["flat", "rail"])
def test_equal_servers_of_equal_gpus_look_alike(servers: int, scale_out: str) -> None:
    where = il.cluster("h200", servers=servers, gpus_per_server=4, scale_out=scale_out).topology
    found = quotient_of(where, arcs_of(where))
    assert found is not None and found.image.shape == (4 * servers, 4 * servers)


def test_pairs_that_are_hashed_to_uplinks_do_not() -> None:
    where = il.cluster("h200", servers=3, gpus_per_server=4, fabric="roce-pfc").topology
    assert quotient_of(where, arcs_of(where)) is None


@pytest.mark.parametrize(
    ("overhead", "wanted"),
    [("1 us", [47, 95, 146, 26]), ("0 us", [1331, 2662, 4096, 717]), ("1 ms", [3, 5, 8, 1])],
)
def test_chunks_are_as_many_as_filling_trees_and_overhead_balance(overhead: str, wanted: list[int]) -> None:
    """Ring of 4, 4 MB: filled and drained in 4 hops of 4 ms; 6 messages over 8 links; 4 items."""
    ring = il.topology.ring(4, bandwidth="1 GB/s", message_overhead=overhead)
    goal, arcs = goal_of(collective_problem(ring, il.all_reduce("4 MB"))), arcs_of(ring)
    assert isinstance(goal, TreeGoal) and len(goal.size_bytes) == 4
    made = packed_pairs._numbers_of_chunks(goal, arcs, arcs.ticks(1000, 1e9), goal.total_bytes)
    assert list(made) == wanted


CLUSTERS = {
    "h200 4x8": il.cluster("h200", servers=4),
    "adding switch 3x4": il.Cluster(
        "slow", 3, 4, multicasts=True, reduces=True, scale_up_bandwidth_bytes_per_s=60e9, stage_overhead_s=5e-6
    ),
    "hurt mesh 12x3": il.Cluster(
        "mesh",
        12,
        3,
        scale_up="mesh",
        scale_out="flat",
        oversubscription=2.0,
        message_overhead_s=1e-6,
        faults=(il.dead_nic(0, 1), il.slow_nic(1, 2, "100 Gb/s")),
    ),
    "rails 100x8": il.cluster("h200", servers=100, scale_out="rail"),
}
# Of every set of carriers: affordable ways, and of all together a rank's messages and the microseconds of the ledger.
LEDGERS: dict[str, dict[str, list[tuple[int, int, float]]]] = {
    "h200 4x8": {
        "broadcast": [(75, 9429, 36257.598), (75, 9429, 167036.377)],
        "reduce": [(75, 9429, 36257.598), (75, 9429, 167036.377)],
        "all-gather": [(26, 1575, 4844.746), (26, 1575, 25915.286)],
        "reduce-scatter": [(50, 3143, 10267.782), (50, 3143, 49949.75)],
        "all-reduce": [(50, 6286, 17995.179), (50, 6286, 99409.748)],
        "scatter": [(25, 1796, 8396.663), (25, 1796, 24624.923)],
        "gather": [(25, 1796, 4339.239), (25, 1796, 24082.919)],
    },
    "adding switch 3x4": {
        "broadcast": [(75, 7184, 129933.682), (75, 7184, 177264.167)],
        "reduce": [(75, 7184, 129933.682), (75, 7184, 177264.167)],
        "all-gather": [(13, 675, 14380.315), (13, 675, 16701.029)],
        "reduce-scatter": [(25, 1347, 29554.053), (25, 1347, 34464.248)],
        "all-reduce": [(25, 2694, 43569.901), (25, 2694, 59274.116)],
        "scatter": [(25, 1347, 28313.293), (25, 1347, 32692.731)],
        "gather": [(25, 1347, 25195.245), (25, 1347, 28863.22)],
    },
    "hurt mesh 12x3": {
        "broadcast": [(46, 12585, 391135.735), (46, 12585, 391135.735), (46, 12585, 391135.735)],
        "reduce": [(46, 12585, 391135.735), (46, 12585, 391135.735), (46, 12585, 391135.735)],
        "all-gather": [(39, 5850, 51123.272), (39, 5850, 51123.272), (39, 5850, 51123.272)],
        "reduce-scatter": [(75, 11674, 98798.187), (75, 11674, 98798.187), (75, 11674, 98798.187)],
        "all-reduce": [(71, 17524, 182601.312), (71, 17524, 182601.312), (71, 17524, 182601.312)],
        "scatter": [(25, 5837, 34252.626), (25, 5837, 34252.626), (25, 5837, 34252.626)],
        "gather": [(25, 5837, 33914.293), (25, 5837, 33914.293), (25, 5837, 33914.293)],
    },
    "rails 100x8": {
        "broadcast": [(3, 501, 17214.533), (31, 17357, 1677738.32)],
        "reduce": [(3, 501, 17214.533), (31, 17357, 1677738.32)],
        "all-gather": [(23, 3603, 5543.294), (32, 8659, 43269.463)],
        "reduce-scatter": [(43, 7075, 10908.532), (61, 17187, 82759.542)],
        "all-reduce": [(35, 7206, 16892.829), (49, 17318, 131000.891)],
        "scatter": [(1, 100, 334.246), (13, 5700, 18387.331)],
        "gather": [(1, 100, 324.246), (13, 5700, 18096.838)],
    },
}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_ledger_of_every_affordable_way_is_as_it_was_looked_at(cluster: str) -> None:
    network = CLUSTERS[cluster]
    for kind, known in LEDGERS[cluster].items():
        problem = collective_problem(network.topology, collective(kind, "64 MB"), cluster=network)
        for scene, wanted in zip(_scenes(problem), known, strict=True):
            ways = _ways(scene)
            messages = sum(_messages(scene, way) for way in ways)
            ledger_us = sum(ledger_s(scene, way) for way in ways) * 1e6
            assert (len(ways), messages, ledger_us) == pytest.approx(wanted, rel=1e-5), kind
