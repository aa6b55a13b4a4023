"""Cuts and figures of a topology, against NetworkX and by hand."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

import interlock as il
from interlock.topology import Topology, to_networkx
from interlock.topology.summary import describe, narrowest_cut, tightest_cut
from strategies import clusters, graphs

T = il.topology
GB = 1e9


def least_flow(topology: Topology, ranks: list[int]) -> float:
    """The smallest maximum flow between two of the ranks, by NetworkX."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(topology.num_nodes))
    for src, dst, data in to_networkx(topology).edges(data=True):
        rate = data["bandwidth_bytes_per_s"]
        held = graph.get_edge_data(src, dst, {"capacity": 0.0})["capacity"]
        graph.add_edge(src, dst, capacity=held + (rate if rate > 1.0 else 0.0))
    first = ranks[0]
    pairs = [pair for other in ranks[1:] for pair in ((first, other), (other, first))]
    return min(nx.maximum_flow_value(graph, *pair) for pair in pairs)


@given(topology=graphs(max_ranks=6))
def test_the_narrowest_cut_is_the_least_flow(topology: Topology) -> None:
    cut = narrowest_cut(topology)

    assert cut is not None
    assert cut.capacity_bytes_per_s == pytest.approx(least_flow(topology, list(range(topology.num_ranks))), rel=1e-6)
    assert cut.ranks_inside > 0 < cut.ranks_outside


@given(cluster=clusters(max_servers=3, max_gpus=3))
def test_the_narrowest_cut_of_a_cluster_is_the_least_flow(cluster: il.Cluster) -> None:
    topology = cluster.topology
    cut = narrowest_cut(topology)
    linked = np.bincount(topology.link_src, topology.bandwidth_bytes_per_s, topology.num_nodes) > 1.0
    ranks = np.flatnonzero(linked[: cluster.num_ranks]).tolist()

    if len(ranks) < 2:
        assert cut is None
    else:
        assert cut is not None
        assert cut.capacity_bytes_per_s == pytest.approx(least_flow(topology, ranks), rel=1e-6)


@pytest.mark.parametrize(
    ("words", "inside", "capacity"),
    [
        ("torus:4x4", 8, 8 * 50 * GB),  # two rows of wrap-around links
        ("mesh:4x6", 12, 4 * 50 * GB),  # across the long way
        ("hypercube:5", 16, 16 * 50 * GB),
        ("dragonfly:4x5", 4, 4 * 50 * GB),  # a group
        ("h200:4", 8, 400 * GB),  # a server
        ("switch:16", 1, 50 * GB),
        ("rfs:4x4x4", 16, 16 * 50 * GB),  # a plane of the switched dimension
    ],
)
def test_the_tightest_cut_is_where_one_expects_it(words: str, inside: int, capacity: float) -> None:
    cut = tightest_cut(T.parse_topology(words))

    assert cut is not None
    assert min(cut.ranks_inside, cut.ranks_outside) == inside
    assert cut.capacity_bytes_per_s == pytest.approx(capacity)


@given(topology=graphs(max_ranks=6))
def test_cuts_hold_what_they_say(topology: Topology) -> None:
    for cut in (narrowest_cut(topology), tightest_cut(topology)):
        assert cut is not None
        leaving = [
            link
            for link, (src, dst) in enumerate(zip(topology.link_src, topology.link_dst, strict=True))
            if cut.is_inside[src] and not cut.is_inside[dst]
        ]
        assert cut.links.tolist() == leaving
        assert cut.capacity_bytes_per_s == pytest.approx(topology.bandwidth_bytes_per_s[leaving].sum())


def test_figures_of_a_cluster() -> None:
    summary = describe(il.cluster("h200", servers=2, gpus_per_server=4, faults=[il.dead_nic(0, 1)]).topology)

    assert (summary.num_ranks, summary.num_switches, summary.num_links, summary.dead_links) == (8, 3, 32, 2)
    assert [(entry.ends, entry.count) for entry in summary.classes] == [
        ("gpu -> switch", 8),
        ("switch -> gpu", 8),
        ("gpu -> switch", 7),
        ("switch -> gpu", 7),
    ]
    assert summary.least_out_bytes_per_s == 450 * GB == summary.least_in_bytes_per_s
    assert summary.narrowest is not None and summary.narrowest.capacity_bytes_per_s == 150 * GB


@given(topology=graphs(max_ranks=7))
def test_hops_are_the_diameter(topology: Topology) -> None:
    assert describe(topology).hops == nx.diameter(nx.DiGraph(to_networkx(topology)))


def test_ranks_that_are_apart_are_said_to_be() -> None:
    assert describe(T.from_edges([0], [1], GB)).hops is None


def test_a_large_graph_has_no_cuts_looked_for() -> None:
    summary = describe(T.mesh(40, 40, bandwidth=GB))

    assert summary.narrowest is None and summary.tightest is None and summary.num_ranks == 1600
    with pytest.raises(il.InvalidInput, match="above the limit of 1024"):
        narrowest_cut(T.mesh(40, 40, bandwidth=GB))
