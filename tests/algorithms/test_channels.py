"""Baselines in channels on clusters: every NIC its share, slices that hide each other, groups and faults."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import interlock as il
from interlock.algorithms import registry
from interlock.algorithms.channels import gate_channels, ring_channels, walk
from interlock.collectives import CollectiveKind, collective
from interlock.planning import Plan, solve
from interlock.problem import Problem, collective_problem
from strategies import clusters

IN_CHANNELS = ("ring", "double-tree", "hierarchical", "nvls", "nvls-tree")
KINDS = ("all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce")
SIZE = 2**28


def problem_on(cluster: il.Cluster, kind: str, size: int = SIZE, group: list[int] | None = None) -> Problem:
    root = 0 if group is None else group[-1]
    return collective_problem(cluster.topology, collective(kind, size, group, root), cluster=cluster)


def planned(name: str, cluster: il.Cluster, kind: str = "all-reduce", **options: object) -> Plan:
    plan = solve(problem_on(cluster, kind), name, **options)
    assert plan.report.valid, plan.report.violations
    return plan


def bytes_by_nic(plan: Plan, cluster: il.Cluster) -> NDArray[np.int64]:
    """What each rank sends to other servers."""
    src, dst = plan.schedule.src, plan.schedule.dst
    one_to_one = (src.counts == 1) & (dst.counts == 1)
    sender = src.values[src.offsets[:-1]][one_to_one]
    receiver = dst.values[dst.offsets[:-1]][one_to_one]
    crosses = cluster.server_of(sender) != cluster.server_of(receiver)
    sizes = plan.schedule.size_bytes[one_to_one][crosses]
    return np.bincount(sender[crosses], sizes, minlength=cluster.num_ranks).astype(np.int64)


@settings(max_examples=120)
@given(st.data())
def test_every_group_on_every_cluster_is_complete_or_refused_in_words(data: st.DataObject) -> None:
    cluster = data.draw(clusters(max_servers=4, max_gpus=5))
    group = None
    if data.draw(st.booleans()):
        group = data.draw(st.lists(st.integers(0, cluster.num_ranks - 1), min_size=1, unique=True))
    size = data.draw(st.sampled_from([1, 1000, 1_000_003]))
    problem = problem_on(cluster, data.draw(st.sampled_from(KINDS)), size, group)
    for name in IN_CHANNELS:
        algorithm = registry.get(name)
        reason = algorithm.supports(problem)
        if reason is not None:
            assert reason, name
            continue
        plan = solve(problem, name)
        assert plan.report.valid, (name, [str(violation) for violation in plan.report.violations])
        assert plan.simulate().makespan_s >= plan.bound.seconds * (1 - 1e-9), name


@pytest.mark.parametrize("servers", [2, 3, 4])
@pytest.mark.parametrize("options", [{}, {"scale_out": "rail"}, {"scale_up": "mesh"}], ids=str)
def test_rings_reach_the_sum_of_the_nics(servers: int, options: dict[str, object]) -> None:
    cluster = il.cluster("h200", servers=servers, **options)
    plan = planned("ring", cluster)
    ranks = cluster.num_ranks
    each = 2 * (ranks - 1) * SIZE // ranks // 8
    assert bytes_by_nic(plan, cluster) == pytest.approx(np.full(ranks, each), rel=1e-3)
    assert plan.simulate().makespan_s == pytest.approx(each / 50e9, rel=0.06)


@pytest.mark.parametrize("name", ["double-tree", "nvls-tree"])
def test_pairs_of_trees_give_every_nic_the_same_bytes(name: str) -> None:
    cluster = il.cluster("h200", servers=4)
    sent = bytes_by_nic(planned(name, cluster), cluster).reshape(4, 8)
    assert (sent == sent[:, :1]).all()
    assert sent.sum() == 2 * 3 * SIZE  # up and down every edge
    assert sent.max() <= 2 * SIZE // 8


@pytest.mark.parametrize("name", ["ring", "double-tree", "nvls-tree", "hierarchical"])
@pytest.mark.parametrize("scale_out", ["flat", "rail"])
def test_a_dead_nic_costs_a_channel(name: str, scale_out: str) -> None:
    cluster = il.cluster("h200", servers=4, scale_out=scale_out, faults=[il.dead_nic(server=0, gpu=3)])
    assert len(ring_channels(problem_on(cluster, "all-reduce"))) == 7
    sent = bytes_by_nic(planned(name, cluster), cluster)
    assert sent[3] == 0
    assert (sent.reshape(4, 8) > 0).sum(axis=1).tolist() == [7, 7, 7, 7]


@pytest.mark.parametrize("count", [2, 4, 6, 8])
def test_walks_of_an_even_number_share_no_pair(count: int) -> None:
    pairs = [pair for start in range(count) for pair in pairwise(walk(range(count), start))]
    assert len(set(pairs)) == len(pairs) == count * (count - 1)


def test_a_channel_has_its_own_nics_on_rails_with_an_odd_number_of_servers() -> None:
    cluster = il.cluster("h200", servers=5, gpus_per_server=4, scale_out="rail")
    channels = ring_channels(problem_on(cluster, "all-reduce"))
    for ends in (0, -1):
        gates = np.array([[ranks[ends] % 4 for ranks in channel] for channel in channels])
        assert (np.sort(gates, axis=0) == np.arange(4)[:, None]).all()
    for channel in channels:
        for here, there in pairwise([*channel, channel[0]]):
            assert here[-1] % 4 == there[0] % 4
    assert len(gate_channels(problem_on(cluster, "all-reduce"))) == 4


def test_all_reduce_in_the_switch_sends_the_buffer_once() -> None:
    cluster = il.cluster("h200", servers=1)
    took_s = planned("nvls", cluster).simulate().makespan_s
    once_s = SIZE / cluster.scale_up_bandwidth_bytes_per_s
    assert once_s < took_s < 1.3 * once_s
    assert planned("ring", cluster).simulate().makespan_s > 1.7 * once_s


def test_two_servers_with_able_switches_are_near_the_bound() -> None:
    assert planned("nvls-tree", il.cluster("h200", servers=2)).certificate().gap < 0.25


@pytest.mark.parametrize(
    ("name", "cluster", "kind", "group", "why"),
    [
        ("nvls", il.cluster("h200", servers=2), "all-reduce", None, "inside one server; nvls-tree"),
        (
            "nvls",
            il.cluster("a100", servers=1),
            "all-reduce",
            None,
            "a100 have no switch that can reduce and multicast",
        ),
        ("nvls", il.cluster("h200", servers=1), "broadcast", None, "not broadcast"),
        ("nvls-tree", il.cluster("h200", servers=1), "all-reduce", None, "nvls is for one"),
        ("nvls-tree", il.cluster("mi300x", servers=2), "all-reduce", None, "no switch"),
        ("nvls-tree", il.cluster("h200", servers=2), "all-gather", None, "not all-gather"),
        ("nvls-tree", il.cluster("h200", servers=2, scale_out="rail"), "all-reduce", [0, 9], "no NIC that the others"),
        ("hierarchical", il.cluster("h200", servers=2), "all-reduce", [0, 1, 8], "every server, not 2, 1"),
        (
            "hierarchical",
            il.cluster("h200", servers=2, faults=[il.dead_nic(server=0, gpu=1)]),
            "all-reduce",
            [1, 9],
            "rank 1 cannot reach rank 9: a NIC on the way is dead",
        ),
        (
            "ring",
            il.cluster("h200", servers=2, gpus_per_server=2, scale_out="rail", faults=[il.dead_nic(server=0, gpu=1)]),
            "all-reduce",
            None,
            "no ring",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    name: str, cluster: il.Cluster, kind: str, group: list[int] | None, why: str
) -> None:
    assert why in str(registry.get(name).supports(problem_on(cluster, kind, group=group)))


@pytest.mark.parametrize("name", IN_CHANNELS)
def test_wrong_numbers_are_named(name: str) -> None:
    cluster = il.cluster("h200", servers=1 if name == "nvls" else 2)
    option = {"ring": "channels", "double-tree": "blocks", "nvls-tree": "blocks"}.get(name, "slices")
    with pytest.raises(il.errors.InvalidInput, match=f"{option}=0 must be"):
        solve(problem_on(cluster, CollectiveKind.ALL_REDUCE), name, **{option: 0})
