"""Bounds by hand of the least there is: one byte, one rate, few ends of many, what only part of a graph needs."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.cost import lower_bound, two_tier
from interlock.cost.cuts import group_partition
from interlock.cost.flows import stream_bounds
from interlock.cost.latency import farthest_pair
from interlock.cost.network import Network, usable_network
from interlock.cost.streams import Stream, sort_into_streams
from interlock.cost.two_tier import _priced_s
from interlock.problem import Items, RankSets, collective_problem, demand_problem
from interlock.ragged import Ragged

FREE = {"scale_up_latency": 0, "scale_out_latency": 0, "message_overhead": 0, "stage_overhead": 0}


def items_of(sizes: list[int], origins: list[int], ends: list[list[int]]) -> Items:
    """Items of one contributor and several destinations each."""
    rows = Ragged.from_lists(ends)
    return Items.of(np.array(sizes), RankSets.one(np.array(origins, np.int32)), RankSets.of(rows))


def line(num_ranks: int, rate: float = 1e9, latency: str = "0 us") -> il.Topology:
    """Ranks in a row, with links both ways."""
    low = np.arange(num_ranks - 1)
    ends = np.concatenate([low, low + 1]), np.concatenate([low + 1, low])
    return il.topology.from_edges(*ends, [rate] * (2 * num_ranks - 2), latency)


@pytest.mark.parametrize("scale_up", ["switch", "mesh"])
@pytest.mark.parametrize("scale_out", ["flat", "rail", "rail-spine"])
def test_one_byte_takes_its_time(scale_out: str, scale_up: str) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4, scale_up=scale_up, scale_out=scale_out, **FREE)  # type: ignore[arg-type]
    port = cluster.scale_up_bandwidth_bytes_per_s / (3 if scale_up == "mesh" else 1)
    others = 3 if scale_up == "mesh" else 1  # links that share what one GPU sends inside
    for src, dst, rate in ((0, 1, others * port + 50e9), (0, 4, 4 * 50e9)):
        sent = np.zeros((8, 8), np.int64)
        sent[src, dst] = 1
        bound = lower_bound(demand_problem(cluster, il.traffic.matrix(sent)))
        assert bound.seconds == pytest.approx(1 / rate), (src, dst)


def test_one_byte_takes_its_time_on_a_graph() -> None:
    sent = np.zeros((3, 3), np.int64)
    sent[0, 2] = 1
    bound = lower_bound(demand_problem(line(3, 4.0), il.traffic.matrix(sent)))
    assert bound.seconds == pytest.approx(0.25)


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_ports_that_carry_a_byte_a_second_or_less_have_a_price(rate: float) -> None:
    """Two servers with a NIC each: out of 0, out of 1, into 0, into 1."""
    ways = np.array([[[[0, 2]], [[0, 3]]], [[[1, 2]], [[1, 3]]]])
    owed = np.array([[0.0, 5.0], [2.0, 0.0]])
    assert _priced_s(ways, np.full(4, rate), owed) == pytest.approx(5.0 / rate, rel=0.02)
    assert _priced_s(ways, np.full(4, rate), np.zeros((2, 2))) == 0.0


def test_ways_by_way_of_a_third_server_are_as_good_as_their_ports() -> None:
    """Server 0 reaches 2 by itself at 1 B/s and over 1 at 3 B/s: 4 bytes a second, and no more."""
    direct, first, second, none = range(4)
    ways = np.array(
        [[[[none]], [[first]], [[direct]]], [[[none]], [[none]], [[second]]], [[[none]], [[none]], [[none]]]]
    )
    owed = np.zeros((3, 3))
    owed[0, 2] = 8.0
    seconds = _priced_s(ways, np.array([1.0, 3.0, 3.0, 1e-9]), owed)
    assert seconds <= 2.0 + 1e-9 and seconds == pytest.approx(2.0, rel=0.05)


def test_streams_are_as_few_as_the_fewer_ends() -> None:
    """Two ranks and three, every pair its own bytes: two streams, whichever side the two are on."""
    few, many, sizes = [0, 0, 0, 1, 1, 1], [2, 3, 4, 2, 3, 4], [1, 2, 4, 8, 16, 32]
    for origins, ends, side in ((few, many, "contributors"), (many, few, "destinations")):
        streams = sort_into_streams(items_of(sizes, origins, [[end] for end in ends]), 5)
        assert [stream.total_bytes for stream in streams] == [7.0, 56.0]
        assert [getattr(stream, side).tolist() for stream in streams] == [[0], [1]]
        assert [stream.root_bytes.tolist() for stream in streams if stream.root_bytes is not None] == [
            [0, 0, 1, 2, 4],
            [0, 0, 8, 16, 32],
        ]


def test_the_farthest_of_several_ends_counts() -> None:
    """On a line of five: from 1 as far as 3, from 4 as far as 0, from 2 as far as 4."""
    problem = collective_problem(line(5, latency="1 us"), il.broadcast("1 GB", root=0))
    items = items_of([10, 20, 30], [1, 4, 2], [[0, 3], [3, 0], [3, 4]])
    seconds, name = farthest_pair(usable_network(problem), items, None)
    assert name == "latency from rank 4 to rank 0" and seconds == pytest.approx(4e-6)


def two_stars() -> Network:
    """Ranks 0 and 1 on switch 4, 2 and 3 on switch 5, and a slow link between the switches."""
    src, dst = np.array([0, 1, 4, 5, 5]), np.array([4, 4, 5, 2, 3])
    rates = np.tile([9e9, 9e9, 1e9, 9e9, 9e9], 2)
    graph = il.topology.from_edges(np.concatenate([src, dst]), np.concatenate([dst, src]), rates, num_ranks=4)
    return usable_network(collective_problem(graph, il.all_reduce("1 GB")))


def test_a_sum_crosses_the_narrowest_cut_between_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    network, everyone = two_stars(), np.arange(4, dtype=np.int32)
    stream = Stream(2e9, None, everyone, everyone)
    found = list(stream_bounds(network, stream, 0.0, None))
    assert found[-1] == (pytest.approx(2.0), "cut into ranks 2, 3")
    assert list(stream_bounds(network, stream, 2.0, None)) == []
    work = 3 * network.num_links
    for cap, finds in ((work, True), (work - 1, False)):
        monkeypatch.setattr("interlock.cost.flows.MAX_WORK_PER_SINK", cap)
        assert any(True for _ in stream_bounds(network, stream, 0.0, None)) is finds


@pytest.mark.parametrize("slow", [0, 1, 2, 3])
def test_every_member_of_a_sum_may_be_the_one_that_is_cut_off(slow: int) -> None:
    """Ranks on one switch, and half a gigabyte a second to and from one of them."""
    rates = np.where(np.arange(4) == slow, 0.5e9, 9e9)
    ranks, switch = np.arange(4), np.full(4, 4)
    ends = np.concatenate([ranks, switch]), np.concatenate([switch, ranks])
    graph = il.topology.from_edges(*ends, np.tile(rates, 2), num_ranks=4)
    network = usable_network(collective_problem(graph, il.all_reduce("1 GB")))
    everyone = np.arange(4, dtype=np.int32)
    found = list(stream_bounds(network, Stream(1e9, None, everyone, everyone), 0.0, None))
    assert found[-1][0] == pytest.approx(2.0)


def test_more_groups_than_a_word_has_bits() -> None:
    """Seventy ranks in a ring, a group each: every rank's gigabyte goes to the next, over all links together in 1 s."""
    ranks = np.arange(70)
    ring = il.topology.from_edges(ranks, (ranks + 1) % 70, [1e9] * 70)
    network = usable_network(collective_problem(ring, il.all_gather("1 GB")))
    for group in (ranks, (ranks + 62) % 70):
        items = items_of([10**9] * 70, ranks.tolist(), [[(rank + 1) % 70] for rank in range(70)])
        assert group_partition(network, items, group, "all") == (pytest.approx(1.0), "all")
        everyone = items_of([10**9], [0], [list(range(1, 70))])
        assert group_partition(network, everyone, group, "all") == (pytest.approx(69 / 70), "all")


def test_servers_without_a_member_change_no_bound_of_the_others() -> None:
    """Eight GPUs on the first and the last of two servers, or of three."""
    seconds = []
    for servers in (2, 3):
        cluster = il.cluster("h200", servers=servers, gpus_per_server=4)
        group = [*range(4), *range(4 * servers - 4, 4 * servers)]
        problem = collective_problem(cluster.topology, il.all_reduce("64 MB", group=group), cluster=cluster)
        seconds.append(lower_bound(problem).parts["links of server 0, sending"])
    assert seconds[0] == seconds[1] > 0


@pytest.mark.parametrize("servers", [3, 4])
def test_rails_have_prices_for_so_many_servers(monkeypatch: pytest.MonkeyPatch, servers: int) -> None:
    faults = [il.slow_nic(0, 0, "10 GB/s")]
    cluster = il.cluster("h200", servers=servers, gpus_per_server=2, scale_out="rail", faults=faults)
    problem = demand_problem(cluster, il.traffic.uniform(cluster, bytes_per_gpu="8 MB"))
    for most, is_priced in ((servers, True), (servers - 1, False)):
        monkeypatch.setattr(two_tier, "MOST_PRICED_SERVERS", most)
        assert ("NICs that rails join, all together" in lower_bound(problem).parts) is is_priced


def test_hashed_uplinks_have_prices_for_so_many_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four NICs and two flows for each pair of them: 32."""
    fabric = il.topology.Fabric("hashed", ecmp_radix=2, ecmp_flows=2)
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, fabric=fabric)
    problem = demand_problem(cluster, il.traffic.uniform(cluster, bytes_per_gpu="8 MB"))
    for most, is_priced in ((32, True), (31, False)):
        monkeypatch.setattr(two_tier, "MOST_PRICED_FLOWS", most)
        assert ("NICs and hashed uplinks, all together" in lower_bound(problem).parts) is is_priced
