"""A cluster's links as a graph: numbers, rates and routes, healthy and broken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import interlock as il
from interlock.topology.lowering import DEAD_BANDWIDTH
from strategies import clusters

GB = 1e9


def all_pairs(cluster: il.Cluster) -> tuple[np.ndarray, np.ndarray]:
    ranks = np.arange(cluster.num_ranks, dtype=np.int32)
    src, dst = (axis.reshape(-1) for axis in np.meshgrid(ranks, ranks, indexing="ij"))
    return src, dst


@given(cluster=clusters())
def test_routes_are_connected_chains_of_working_links(cluster: il.Cluster) -> None:
    """Each route starts at its source, ends at its destination, and every link starts where the one before ended."""
    topology, width = cluster.topology, cluster.gpus_per_server
    src, dst = all_pairs(cluster)
    is_inside = src // width == dst // width
    nic = cluster.nic_bandwidth_bytes_per_s
    joined = (src != dst) & cluster.present[src] & cluster.present[dst]
    joined &= is_inside | ((nic[src] > 0) & (nic[dst] > 0))
    if cluster.scale_out == "rail":
        joined &= is_inside | (src % width == dst % width)

    for a, b, links in zip(src[joined], dst[joined], topology.routes(src[joined], dst[joined]), strict=True):
        stops = [topology.link_src[links[0]], *topology.link_dst[links]]
        assert stops[0] == a and stops[-1] == b
        assert topology.link_src[links[1:]].tolist() == stops[1:-1]
        assert (topology.bandwidth_bytes_per_s[links] > DEAD_BANDWIDTH).all()
    for a, b in zip(src[~joined], dst[~joined], strict=True):
        if a != b:
            with pytest.raises(il.InvalidInput, match=f"rank {a} cannot reach rank {b}"):
                topology.routes(np.array([a], np.int32), np.array([b], np.int32))


def test_links_of_a_switched_server_are_numbered_by_rank() -> None:
    topology = il.cluster("h200", servers=2, gpus_per_server=4).topology
    up, down, out, into = (
        topology.link_src[:8],
        topology.link_dst[8:16],
        topology.link_src[16:24],
        topology.link_dst[24:32],
    )

    for ranks in (up, down, out, into):
        assert ranks.tolist() == list(range(8))
    assert topology.link_dst[:8].tolist() == [8] * 4 + [9] * 4
    assert set(topology.bandwidth_bytes_per_s[:16]) == {450 * GB} and set(topology.bandwidth_bytes_per_s[16:]) == {
        50 * GB
    }
    assert topology.latency_s[:2].tolist() == [0.5e-6, 0.5e-6] and topology.latency_s[16] == 1.5e-6


def test_a_mesh_divides_a_gpus_bandwidth_over_its_peers() -> None:
    cluster = il.cluster("mi300x", servers=2)
    topology = cluster.topology

    assert topology.num_links == 16 * 7 + 2 * 16
    assert np.allclose(topology.bandwidth_bytes_per_s[: 16 * 7], 64 * GB)
    assert topology.link_dst[:7].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert topology.link_dst[9 * 7 : 10 * 7].tolist() == [8, 10, 11, 12, 13, 14, 15]
    assert topology.routes(np.array([9], np.int32), np.array([12], np.int32))[0].tolist() == [9 * 7 + 3]


def test_the_nics_of_a_gpu_are_one_port() -> None:
    two = il.cluster(
        "h200", servers=2, nics_per_gpu=2, faults=[il.dead_nic(0, 3, nic=1), il.slow_nic(1, 0, "100 Gb/s")]
    )
    rates = two.nic_bandwidth_bytes_per_s

    assert rates[0] == 100 * GB and rates[3] == 50 * GB and rates[8] == 62.5 * GB
    assert np.array_equal(two.topology.bandwidth_bytes_per_s[32:48], rates)


def test_each_gpu_may_have_its_own_nics() -> None:
    """Four NICs for eight GPUs, and a faster pair on the first."""
    lists = [["400 Gb/s", "200 Gb/s"], []] + [["400 Gb/s"], []] * 3
    cluster = il.cluster("h200", servers=2, nic_rates=lists, oversubscription=2.0)

    assert (cluster.nics_per_gpu, cluster.scale_out_bandwidth_bytes_per_s) == (2, 50 * GB)
    assert cluster.nic_bandwidth_bytes_per_s[:4].tolist() == [75 * GB, 0, 50 * GB, 0]
    spine = cluster.topology.bandwidth_bytes_per_s[-4:]
    assert spine.tolist() == [112.5 * GB] * 4  # 225 GB/s of NICs per server, over two
    with pytest.raises(il.InvalidInput, match="nic=1 must be below 1"):
        il.cluster("h200", servers=2, nic_rates=lists, faults=[il.dead_nic(0, 2, nic=1)])


def test_a_new_rate_replaces_a_list_of_rates() -> None:
    listed = il.cluster("h200", nic_rates=[["400 Gb/s"]] * 8)
    changed = il.topology.cluster_with(listed, scale_out_bandwidth="800 Gb/s")

    assert (changed.nic_bandwidth_bytes_per_s == 100 * GB).all()
    with pytest.raises(il.InvalidInput, match="nic_rates replaces"):
        il.topology.cluster_with(listed, nic_rates=[["400 Gb/s"]] * 8, nics_per_gpu=2)


@pytest.mark.parametrize("scale_up", ["switch", "mesh"])
def test_a_missing_gpu_has_no_working_link(scale_up: str) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4, scale_up=scale_up, faults=[il.missing_gpu(1, 2)])
    topology = cluster.topology
    touches = (topology.link_src == 6) | (topology.link_dst == 6)

    assert not cluster.present[6] and cluster.present.sum() == 7
    assert (topology.bandwidth_bytes_per_s[touches] == DEAD_BANDWIDTH).all()
    assert (topology.bandwidth_bytes_per_s[~touches] > DEAD_BANDWIDTH).all()


@pytest.mark.parametrize(
    ("scale_out", "num_leaves", "per_leaf"), [("flat", 3, 8 * 50 * GB), ("rail-spine", 8, 3 * 50 * GB)]
)
def test_oversubscription_divides_what_leaves_a_leaf(scale_out: str, num_leaves: int, per_leaf: float) -> None:
    cluster = il.cluster("h200", servers=3, scale_out=scale_out, oversubscription=4.0, faults=[il.dead_nic(0, 0)])
    topology = cluster.topology
    spine = topology.num_nodes - 1

    up = topology.link_dst == spine
    assert up.sum() == num_leaves
    assert (topology.bandwidth_bytes_per_s[up] == per_leaf / 4).all()  # a dead NIC does not slow its leaf
    crossing = topology.routes(np.array([1], np.int32), np.array([10], np.int32))[0]
    assert len(crossing) == 4 and spine in topology.link_dst[crossing]


def test_same_rail_does_not_cross_the_spine() -> None:
    topology = il.cluster("h200", servers=2, scale_out="rail-spine", oversubscription=4.0).topology

    assert len(topology.routes(np.array([3], np.int32), np.array([11], np.int32))[0]) == 2


def test_only_the_server_switches_compute() -> None:
    topology = il.cluster("h200", servers=2).topology

    assert np.flatnonzero(topology.multicasts).tolist() == [16, 17] == np.flatnonzero(topology.reduces).tolist()
    assert not il.cluster("mi300x", servers=2, multicasts=True).topology.multicasts.any()
