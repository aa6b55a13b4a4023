"""Small parts of bounds, each by itself: where there is no link, no byte, or only the own server."""

from __future__ import annotations

import numpy as np

import interlock as il
from interlock.cost import lower_bound
from interlock.cost.cuts import rank_cuts
from interlock.cost.flows import _name_of_ranks, _RootedSearch
from interlock.cost.latency import least_message_s
from interlock.cost.network import Network, usable_network
from interlock.cost.two_tier import _past_hashes
from interlock.problem import collective_problem, demand_problem
from interlock.topology import Fabric


def test_without_a_link_no_message_costs_anything() -> None:
    none, nodes = np.zeros(0, np.int32), np.zeros(2, np.bool_)
    network = Network(2, 2, none, none, np.zeros(0), np.zeros(0), np.zeros(0), none, nodes, nodes)
    assert least_message_s(network) == 0.0


def test_a_message_through_a_switch_pays_the_last_link_too_and_one_between_ranks_does_not() -> None:
    src, dst = np.array([0, 2, 0], np.int32), np.array([2, 1, 1], np.int32)  # rank 2 is a switch
    overhead_s, nodes = np.array([1e-6, 0.0, 1e-6]), np.zeros(3, np.bool_)
    through = Network(3, 2, src[:2], dst[:2], np.ones(2), np.array([3e-6, 5e-6]), overhead_s[:2], src[:2], nodes, nodes)
    both = Network(3, 2, src, dst, np.ones(3), np.array([3e-6, 5e-6, 7e-6]), overhead_s, src, nodes, nodes)
    assert np.isclose(least_message_s(through), 9e-6)
    assert np.isclose(least_message_s(both), 8e-6)


def test_a_switch_that_only_copies_or_only_adds_has_abilities_and_a_rank_has_none() -> None:
    none, rank, switch = (np.arange(3) == node for node in (-1, 0, 2))
    links = (np.array([0, 2], np.int32), np.array([2, 1], np.int32), np.ones(2), np.zeros(2), np.zeros(2))
    for copies, adds, expected in ((switch, none, True), (none, switch, True), (rank, rank, False)):
        assert Network(3, 2, *links, links[0], copies, adds).has_switch_abilities is expected


def test_a_move_of_nothing_adds_nothing_to_the_bound_of_a_step() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    demand = il.traffic.uniform(cluster, bytes_per_gpu="8 MB")
    seconds = []
    for has_empty in (False, True):
        step = il.step(cluster)
        step.move("dispatch", demand)
        if has_empty:
            step.move("nothing", il.traffic.matrix(np.zeros((4, 4), np.int64)))
        seconds.append(lower_bound(il.plan(step).problem).seconds)
    assert seconds[0] == seconds[1] > 0


def test_past_hashed_uplinks_the_own_server_counts_only_for_what_may_stay_in_it() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, fabric=Fabric("hashed", ecmp_radix=2))
    peers = cluster.nic_bandwidth_bytes_per_s.reshape(2, 2)
    leaving, staying = (_past_hashes(cluster, peers, 2, leaves_server) for leaves_server in (True, False))
    assert np.allclose(leaving / peers, 2.0) and np.allclose(staying / peers, 3.0)


def test_ranks_beyond_a_cut_are_named_one_by_one_up_to_eight() -> None:
    named = [_name_of_ranks(np.arange(12) < count) for count in (1, 2, 8, 9)]
    assert named == ["rank 0", "ranks 0, 1", "ranks 0, 1, 2, 3, 4, 5, 6, 7", "9 ranks (0, 1, 2, ...)"]


def test_a_cut_need_not_be_twice_as_narrow_to_count() -> None:
    """A line of four whose middle link is half as fast: 0.5 GB over 1 GB/s; rank 0 receives 0.75 over 2."""
    src, dst = np.array([0, 1, 2, 1, 2, 3]), np.array([1, 2, 3, 0, 1, 2])
    line = il.topology.from_edges(src, dst, np.tile([2e9, 1e9, 2e9], 2))
    network = usable_network(collective_problem(line, il.all_gather("1 GB")))
    search = _RootedSearch.of(network, np.full(4, 0.25e9))
    found = list(search.run(np.arange(4, dtype=np.int32), None, 0.375, "into"))
    assert np.isclose(found[-1][0], 0.5) and {name for _, name in found} <= {
        "cut into ranks 0, 1",
        "cut into ranks 2, 3",
    }


def test_what_a_rank_sends_and_receives_over_one_channel_adds_up() -> None:
    src, dst = np.array([0, 1], np.int32), np.array([1, 0], np.int32)
    none, nodes = np.zeros(2), np.zeros(2, np.bool_)
    network = Network(2, 2, src, dst, np.full(2, 1e9), none, none, np.zeros(2, np.int32), nodes, nodes)
    pair = il.topology.from_edges(src, dst, [1e9, 1e9])
    sent = np.array([[0, 3_000_000_000], [1_000_000_000, 0]])
    items = demand_problem(pair, il.traffic.matrix(sent)).items
    found = {name: seconds for seconds, name in rank_cuts(network, items)}
    assert found["links out of rank 0"] == 3.0 and found["links of rank 0, both ways"] == 4.0


def test_only_bytes_that_change_their_rail_need_a_hop_inside() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, scale_out="rail")
    latency_s = []
    for there in (2, 3):
        sent = np.zeros((4, 4), np.int64)
        sent[0, 0], sent[0, 1], sent[0, there] = 5, 7, 9
        latency_s.append(lower_bound(demand_problem(cluster, il.traffic.matrix(sent))).parts["latency"])
    assert np.isclose(latency_s[1] - latency_s[0], cluster.message_overhead_s + cluster.scale_up_latency_s)
