"""What the simulator is told of messages, and what a result says of itself, by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import interlock as il
from interlock.problem import collective_problem
from interlock.ragged import Ragged
from interlock.schedule import Chunks, SlotSchedule
from interlock.simulate import simulate, slot_makespan_s
from interlock.simulate.explain import link_groups, link_name
from interlock.simulate.network import _channels, _loss_curve, path_latency_s
from interlock.simulate.simulator import _message_of
from interlock.topology import Fabric
from simulate.strategies import bare_schedule, crossbar


@pytest.mark.parametrize(
    ("src", "dst", "path", "latency_s"),
    [
        ([0], [1], [0, 1], 3.0),
        ([0], [1, 2], [0, 1, 2], 6.0),  # the longer branch
        ([0], [1, 2, 3], [0, 1, 2, 6], 8.0),
        ([1, 2], [0], [3, 4, 5], 11.0),  # the longer way to the switch, and the way down
        ([0], [0], [], 0.0),
    ],
)
def test_a_message_is_on_its_way_as_long_as_its_longest_branch(
    src: list[int], dst: list[int], path: list[int], latency_s: float
) -> None:
    """Rank 0 up 1 s, down 7; rank 1 down 2, up 3; rank 2 down 5, up 4; rank 3 down 7."""
    star = il.topology.from_edges(
        [0, 4, 4, 1, 2, 4, 4], [4, 1, 2, 4, 4, 0, 3], "1 GB/s", ["1 s", "2 s", "5 s", "3 s", "4 s", "7 s", "7 s"],
        num_ranks=4, switches=[4],
    )  # fmt: skip
    ends = {"src": Ragged.from_lists([src]), "dst": Ragged.from_lists([dst])}
    schedule = replace(bare_schedule([0], [1], [10]), **ends)
    assert path_latency_s(Ragged.from_lists([path]), schedule, star) == pytest.approx([latency_s])


def test_links_of_one_channel_have_the_capacity_of_the_slowest() -> None:
    topology = crossbar(2, [3.0, 5.0, 4.0, 2.0], half_duplex=True)
    channel, capacity = _channels(topology)
    assert channel.tolist() == [0, 1, 0, 1] and capacity.tolist() == [3.0, 2.0]


def test_a_fabric_that_never_collapses_has_a_limit_nobody_reaches() -> None:
    mild = Fabric("mild", fan_in=3, loss_per_sender=0.1, sender_exponent=2.0, size_exponent=0.5)
    curve = _loss_curve(mild)
    assert curve[:5].tolist() == [3, 0.1, 2.0, 0.5, 2**31] and curve[-1] == mild.max_loss
    assert _loss_curve(Fabric("none"))[0] == 0


def test_a_result_without_a_step_has_no_tasks_and_no_error_without_tolerance() -> None:
    exact = simulate(bare_schedule([0], [1], [100]), crossbar(2, [10.0] * 4))
    assert exact.tasks == {} and exact.error_bound_s == 0.0 and exact.makespan_s == 10.0
    near = simulate(bare_schedule([0], [1], [100]), crossbar(2, [10.0] * 4), tolerance=1e-3)
    assert near.error_bound_s == pytest.approx(near.makespan_s * 1e-3)


def test_a_task_takes_from_its_first_start_to_its_last_end() -> None:
    """A GEMM of 5 us, then a megabyte at 50 GB/s."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=1, scale_out_latency="0 us", message_overhead="0 us",
                         stage_overhead="0 us")  # fmt: skip
    step = il.Step(cluster)
    first = step.compute("first", seconds=5e-6)
    step.move("after", il.traffic.matrix(np.array([[0, 10**6], [0, 0]])), after=[first])
    times = il.plan(step).simulate().tasks
    assert list(times) == ["first", "after"]
    assert times["first"].finish_s == pytest.approx(5e-6) and times["after"].start_s == pytest.approx(5e-6)
    assert times["after"].finish_s == pytest.approx(25e-6)


def test_links_are_named_by_their_role() -> None:
    switched = il.cluster("h200", servers=2, gpus_per_server=2).topology
    assert [link_name(switched, link) for link in (0, 3, 4, 7, 8, 11, 12, 15)] == [
        "scale-up port of rank 0", "scale-up port of rank 3", "scale-up port of rank 0", "scale-up port of rank 3",
        "NIC of rank 0", "NIC of rank 3", "NIC of rank 0", "NIC of rank 3",
    ]  # fmt: skip
    assert [(group.what, group.links.tolist()) for group in link_groups(switched)][:4] == [
        ("sends", [8, 9, 10, 11]), ("receives", [12, 13, 14, 15]), ("sends", [0, 1, 2, 3]), ("receives", [4, 5, 6, 7]),
    ]  # fmt: skip


def test_trees_of_several_messages_are_measured_apart() -> None:
    """Ranks 0 and 1 each to the other two around a switch; ways up take 1 and 10 s, ways down 2, 3 and 6."""
    star = il.topology.from_edges(
        [0, 1, 3, 3, 3], [3, 3, 0, 1, 2], "1 GB/s", ["1 s", "10 s", "2 s", "3 s", "6 s"], num_ranks=3, switches=[3]
    )
    ends = {"src": Ragged.from_lists([[0], [1], [0]]), "dst": Ragged.from_lists([[1, 2], [0, 2], [1]])}
    schedule = replace(bare_schedule([0] * 3, [1] * 3, [10] * 3), **ends)
    path = Ragged.from_lists([[0, 3, 4], [1, 2, 4], [0, 3]])
    assert path_latency_s(path, schedule, star) == pytest.approx([7.0, 16.0, 4.0])


def test_hops_are_told_by_their_messages_and_none_stays_none() -> None:
    hops: Any = SimpleNamespace(message=np.array([5, 5, 6]))
    assert _message_of(hops, np.array([0, 2, -1, 1], np.int32)).tolist() == [5, 6, -1, 5]


def test_channels_and_spans_are_counted() -> None:
    result = simulate(bare_schedule([0], [1], [100]), crossbar(3, [10.0] * 6, half_duplex=True))
    assert result.arrays.num_channels == 3 and result.utilisation().shape == (6, 200)


def test_one_link_is_timed_as_a_table_too() -> None:
    pair = il.topology.from_edges([0], [1], "1 GB/s", "2 us", message_overhead="3 us")
    problem = collective_problem(pair, il.broadcast("1000 B"))
    chunks = Chunks(np.zeros(1, np.int32), np.zeros(1, np.int64), np.full(1, 1000))
    table = SlotSchedule(chunks, pair.link_src, pair.link_dst, np.zeros((1, 1), np.uint16))
    assert slot_makespan_s(table, problem) == pytest.approx(6e-6)


def test_tasks_have_links_of_their_own_over_the_same_channels_and_uplinks() -> None:
    """Leaves of two NICs: from leaf to leaf a message goes up a hashed uplink and down, beside its two NICs."""
    fabric = Fabric("tree", ecmp_radix=2, ecmp_uplinks=1)
    cluster = il.cluster("h200", servers=4, gpus_per_server=1, fabric=fabric)
    step = il.Step(cluster)
    owed = np.zeros((4, 4), np.int64)
    owed[0, 2] = owed[1, 3] = 10**6
    for name in ("first", "second", "third"):
        step.move(name, il.traffic.matrix(owed))
    arrays = il.plan(step, algorithm="concurrent").simulate().arrays
    links, own = cluster.topology.num_links, len(arrays.channel_by_link)
    channel_by_link, offsets, values = arrays.arguments[2], arrays.arguments[9], arrays.arguments[10]
    assert links == own and arrays.arguments[17] == 3 * links and len(channel_by_link) == 3 * links + 4
    assert (np.diff(offsets)[np.diff(offsets) > 0] == 4).all()
    is_uplink = values >= 3 * links
    assert is_uplink.sum() == len(values) // 2 and len(values) == 6 * 4
    assert (channel_by_link[values[is_uplink]] >= links).all() and (channel_by_link[values[~is_uplink]] < links).all()
    assert set((values[~is_uplink] // links).tolist()) == {0, 1, 2}
