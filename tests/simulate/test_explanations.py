"""Explanations to the word and to the per cent, on cases small enough for a pencil."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.simulate import simulate
from interlock.simulate.explain import explain_against, link_groups, link_name
from interlock.simulate.result import Result
from interlock.topology import Fabric
from interlock.topology.uplinks import hashed_uplinks
from simulate.strategies import bare_schedule

COSTS = {"scale_out_latency": "2 us", "message_overhead": "1 us", "stage_overhead": "0 us"}


def explained(matrix: list[list[int]], algorithm: str = "direct", **fields: object) -> str:
    """What is said of a few megabytes between four servers of one GPU."""
    cluster = il.cluster("h200", servers=4, gpus_per_server=1, **(COSTS | fields))
    traffic = il.traffic.matrix(np.array(matrix, np.int64) * 1_000_000)
    return il.plan(cluster, traffic, algorithm=algorithm).simulate().explanation()


def test_shares_of_time_are_those_of_a_pencil() -> None:
    """3 MB at 50 GB/s are 60 us, after 1 us of overhead and before 2 us of flight; two MB is the mean of a NIC."""
    text = explained([[0, 3, 0, 0], [2, 0, 0, 0], [0, 0, 0, 1], [0, 0, 2, 0]])
    assert text == (
        "NIC of rank 0 sends 1.50x its share and needs 95 % of the 63 us for it. "
        "100 % of the critical path (1 message) is scale-out stage 0. Of it, latency 3 %, message overhead 2 %."
    )


@pytest.mark.parametrize(
    ("megabytes", "named"),
    [([3, 1, 1], "0 sends"), ([3, 3, 1], "0 (like 1 other) sends"), ([3, 1, 3, 3], "0 (like 2 others) sends")],
)
def test_ports_that_are_as_busy_as_the_busiest_are_counted(megabytes: list[int], named: str) -> None:
    """Every rank sends to the next one."""
    matrix = np.zeros((4, 4), np.int64)
    for rank, size in enumerate(megabytes):
        matrix[rank, (rank + 1) % 4] = size
    assert explained(matrix.tolist()).startswith(f"NIC of rank {named} ")


def test_even_loads_are_called_even_and_padding_is_counted() -> None:
    even = explained([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    assert even.startswith("NIC of rank 0 sends as much as the others and needs 87 % of the 23 us for it.")
    assert "padding" not in even
    padded = explained([[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 2, 0]], "padded")
    assert "46 % of what is sent is padding." in padded  # all twelve are as long as the longest: 13 of 24


def test_as_many_senders_as_the_fabric_bears_are_no_incast() -> None:
    burst = [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]
    assert "senders" not in explained(burst, fabric=Fabric("test", fan_in=3, loss_per_sender=0.1))
    assert "Up to 3 senders" in explained(burst, fabric=Fabric("test", fan_in=2, loss_per_sender=0.1))


@pytest.mark.parametrize("scale_up", ["switch", "mesh"])
@pytest.mark.parametrize("scale_out", ["flat", "rail", "rail-spine"])
def test_every_link_plays_one_part(scale_up: str, scale_out: str) -> None:
    spine = {} if scale_out == "rail" else {"oversubscription": 2.0}
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, scale_up=scale_up, scale_out=scale_out, **spine)
    links = np.concatenate([group.links for group in link_groups(cluster.topology)])
    assert sorted(links.tolist()) == list(range(cluster.topology.num_links))


@pytest.mark.parametrize("oversubscription", [1.0, 2.0])
def test_rank_0_receives_over_an_uplink_as_others_do(oversubscription: float) -> None:
    """Leaves of two NICs: from another leaf a path has two links more, its uplink and the way down; else none."""
    fabric = Fabric("tree", ecmp_radix=2, ecmp_uplinks=1)
    topology = il.cluster(
        "h200", servers=4, gpus_per_server=1, fabric=fabric, oversubscription=oversubscription
    ).topology
    path = topology.routes(np.array([2, 1, 3], np.int32), np.array([0, 0, 1], np.int32))
    made = hashed_uplinks(path, topology)
    assert (made.path.counts - path.counts).tolist() == [2, 0, 2]
    assert made.path[0].tolist()[-2:] == [topology.num_links + 1, topology.num_links + 2]  # up leaf 1, down to leaf 0
    assert len(made.capacity_bytes_per_s) == 4


def test_stored_and_forwarded_messages_name_the_link_that_held_them_up() -> None:
    """Two hops, the second five times as slow: that is where the bytes are when time passes."""
    topology = il.topology.from_edges([0, 2], [2, 1], bandwidth=[50e9, 10e9], switches=[2])
    schedule = bare_schedule([0, 0], [1, 1], [500_000, 500_000])
    result = simulate(schedule, topology, forwarding="store-and-forward")
    assert result.makespan_s == pytest.approx(120e-6)
    assert result.bottleneck.tolist() == [1, 1]


def alone(megabytes: int, latency: str = "0 us", overhead: str = "0 us") -> Result:
    """One message at 50 GB/s, with what it costs besides."""
    fields = {"scale_out_latency": latency, "message_overhead": overhead, "stage_overhead": "0 us"}
    cluster = il.cluster("h200", servers=2, gpus_per_server=1, **fields)
    traffic = il.traffic.matrix(np.array([[0, megabytes * 1_000_000], [0, 0]]))
    return il.plan(cluster, traffic, algorithm="direct").simulate()


BUSIEST = "its busiest link (NIC of rank 0, sending)"
LESS = (
    "its busiest link (NIC of rank 0, sending) has 1 MB to carry instead of 3 MB (NIC of rank 0, sending): "
    "3.00x less time, although that is at work 87 % of the time instead of 95 %"
)


@pytest.mark.parametrize(
    ("faster", "slower", "words"),
    [
        (
            ((1, "2 us", "1 us"), 23),
            ((3, "2 us", "1 us"), 63),
            LESS,
        ),
        (
            ((1,), 20),
            ((1, "10 us"), 30),
            f"{BUSIEST} is at work 100 % of the time, not 67 %",
        ),
        (
            ((2,), 40),
            ((1, "60 us"), 80),
            f"{BUSIEST} is at work 100 % of the time, not 25 %, although its busiest link has 2.00x as long to carry",
        ),
    ],
)
def test_the_two_factors_of_a_lead_are_told(faster: tuple, slower: tuple, words: str) -> None:
    ours, theirs = alone(*faster[0]), alone(*slower[0])
    assert (1e6 * ours.makespan_s, 1e6 * theirs.makespan_s) == (pytest.approx(faster[1]), pytest.approx(slower[1]))
    ratio = slower[1] / faster[1]
    assert explain_against(ours, theirs, "a", "b") == f"a is {ratio:.2f}x faster than b because {words}."


def test_links_beyond_the_nics_have_no_rank() -> None:
    topology = il.cluster("h200", servers=2, gpus_per_server=2, oversubscription=2.0).topology
    assert link_name(topology, topology.num_links - 1).startswith("link ")
    assert [link_name(topology, link) for link in (0, 5)] == ["scale-up port of rank 0", "scale-up port of rank 1"]


def test_computation_on_the_critical_path_is_called_that() -> None:
    """1 MB takes 1 us of overhead, 20 us on the wire and 2 us of flight; 40 us of work wait for it."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=1, **COSTS)
    step = il.step(cluster)
    sent = step.move("send", il.traffic.matrix([[0, 1_000_000], [0, 0]]))
    step.compute("work", "40 us", after=sent)
    text = il.plan(step, algorithm="serial").simulate().explanation()
    assert "63 % of the critical path (1 message) is computation. Of it, latency 3 %, message overhead 2 %." in text
