"""Regular graphs: counted by hand, compared with NetworkX's generators."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import interlock as il
from interlock.topology import NodeKind, Topology

GB = 1e9
T = il.topology


def undirected(topology: Topology) -> nx.Graph:
    """The graph without speeds; every link must have its reverse."""
    pairs = set(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))
    assert pairs == {(dst, src) for src, dst in pairs} and len(pairs) == topology.num_links
    return nx.Graph(list(pairs))


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (T.ring(7, bandwidth=GB), nx.cycle_graph(7)),
        (T.torus(4, 5, bandwidth=GB), nx.grid_graph([4, 5], periodic=True)),
        (T.torus(3, 3, 3, bandwidth=GB), nx.grid_graph([3, 3, 3], periodic=True)),
        (T.torus(2, 4, bandwidth=GB), nx.grid_graph([4, 2], periodic=[True, False])),
        (T.mesh(4, 3, bandwidth=GB), nx.grid_graph([4, 3])),
        (T.mesh(2, 3, 4, bandwidth=GB), nx.grid_graph([2, 3, 4])),
        (T.hypercube(4, bandwidth=GB), nx.hypercube_graph(4)),
        (T.fully_connected(6, bandwidth=GB), nx.complete_graph(6)),
        (T.switch(5, bandwidth=GB), nx.star_graph(5)),
        (T.rfs(4, 3, 2, bandwidth=GB), nx.cartesian_product(nx.cycle_graph(4), nx.complete_graph(3))),
    ],
    ids=lambda value: getattr(value, "name", None) or "",
)
def test_a_shape_is_the_graph_it_is_named_after(topology: Topology, expected: nx.Graph) -> None:
    graph = undirected(topology)
    if topology.name.startswith("rfs"):  # a ring of cliques twice, joined by switches of two ports
        graph = graph.subgraph([rank for rank in range(topology.num_ranks) if rank % 2 == 0])

    assert nx.is_isomorphic(graph, expected)


def test_nodes_are_numbered_row_by_row() -> None:
    torus = T.torus(3, 4, bandwidth=GB)
    ahead = dict(zip(torus.link_src[:12].tolist(), torus.link_dst[:12].tolist(), strict=True))

    assert ahead[0] == 4 and ahead[8] == 0  # along the first dimension, and around
    assert ahead[11] == 3


def test_each_dimension_has_its_own_speeds() -> None:
    mesh = T.mesh(2, 3, bandwidth=("100 GB/s", "25 GB/s"), latency=("1 us", "2 us"), message_overhead=("0 us", "3 us"))
    is_first = np.abs(mesh.link_src - mesh.link_dst) == 3

    assert set(mesh.bandwidth_bytes_per_s[is_first]) == {100 * GB} and is_first.sum() == 6
    assert set(mesh.bandwidth_bytes_per_s[~is_first]) == {25 * GB} and (~is_first).sum() == 8
    assert set(mesh.latency_s[~is_first]) == {2e-6} and set(mesh.message_overhead_s[is_first]) == {0.0}


def test_a_switched_dimension_has_a_port_per_rank_and_line() -> None:
    switches = T.switch(4, 3, bandwidth=(10 * GB, 5 * GB))

    assert switches.num_ranks == 12 and switches.num_nodes == 12 + 3 + 4
    assert (switches.node_kinds[12:] == NodeKind.SWITCH).all()
    # Rank 5 = (1, 2): column switch 2 of the first dimension, row switch 1 of the second.
    assert sorted(switches.link_dst[switches.link_src == 5].tolist()) == [12 + 2, 12 + 3 + 1]


def test_dgx1_has_six_nvlinks_per_gpu() -> None:
    dgx1 = T.dgx1(bandwidth="25 GB/s")
    out = np.bincount(dgx1.link_src, dgx1.bandwidth_bytes_per_s)

    assert (out == 6 * 25 * GB).all()
    assert nx.diameter(undirected(dgx1)) == 2


@pytest.mark.parametrize(("width", "groups"), [(4, 5), (2, 3), (3, 5), (2, 7), (4, 2)])
def test_a_dragonfly_joins_every_two_groups_once(width: int, groups: int) -> None:
    dragonfly = T.dragonfly(width, groups, bandwidth=(100 * GB, 25 * GB))
    src, dst = dragonfly.link_src // width, dragonfly.link_dst // width
    is_global = src != dst

    assert undirected(dragonfly).number_of_nodes() == width * groups
    assert len(set(zip(src[is_global].tolist(), dst[is_global].tolist(), strict=True))) == groups * (groups - 1)
    assert is_global.sum() == groups * (groups - 1)
    cables = np.bincount(dragonfly.link_src[is_global], minlength=width * groups)
    assert cables.max() - cables.min() <= 1
    assert set(dragonfly.bandwidth_bytes_per_s[is_global]) == {25 * GB}


def test_a_clos_is_not_oversubscribed_by_default() -> None:
    clos = T.clos(4, 8, 2, bandwidth="50 GB/s")
    from_leaf = (clos.link_src >= 32) & (clos.link_src < 36) & (clos.link_dst >= 36)

    assert clos.bandwidth_bytes_per_s[from_leaf].sum() == 32 * 50 * GB
    assert T.clos(4, 8, 2, bandwidth=("50 GB/s", "10 GB/s")).bandwidth_bytes_per_s[from_leaf].sum() == 8 * 10 * GB


def test_a_rail_graph_is_that_of_a_rail_cluster() -> None:
    rail = T.rail(3, 4, bandwidth=("450 GB/s", "400 Gb/s"), latency=("1 us", "3 us"))
    cluster = il.cluster("h200", servers=3, gpus_per_server=4, scale_out="rail").topology

    assert np.array_equal(rail.link_dst, cluster.link_dst)
    assert np.array_equal(rail.bandwidth_bytes_per_s, cluster.bandwidth_bytes_per_s)
    assert np.array_equal(rail.latency_s, cluster.latency_s)


def test_large_grids_are_built_without_a_loop_over_links() -> None:
    mesh = T.mesh(200, 200, bandwidth="50 GB/s")

    assert mesh.num_links == 4 * 200 * 199
    assert mesh.routes(mesh.link_src, mesh.link_dst).values.tolist() == list(range(mesh.num_links))
