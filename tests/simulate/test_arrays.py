"""What the simulator is told of messages, and what a result says of itself, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.ragged import Ragged
from interlock.simulate import simulate
from interlock.simulate.explain import link_groups, link_name
from interlock.simulate.network import _channels, _loss_curve, path_latency_s
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
