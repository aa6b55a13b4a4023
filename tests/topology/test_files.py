"""Clusters and graphs written to files read back the same."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock as il
from interlock.errors import LimitExceeded
from interlock.topology import Fabric, Topology, cluster_to_toml, read_cluster, read_topology, topology_to_toml
from interlock.topology.cluster_files import cluster_from_table
from strategies import clusters, graphs

T = il.topology


def assert_same(one: Topology, other: Topology, *, but: tuple[str, ...] = ("router",)) -> None:
    """Every column and value is equal."""
    for field in fields(Topology):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name not in but:
            assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b, field.name


def test_the_text_of_a_cluster() -> None:
    cluster = il.cluster("h200", servers=2, faults=[il.slow_nic(1, 3, "200 Gb/s")])
    text = cluster_to_toml(cluster)

    assert 'scale_up_bandwidth = "450 GB/s"' in text and 'scale_out_latency = "3 us"' in text
    assert '[[faults]]\nkind = "slow-nic"\nserver = 1\ngpu = 3\nnic = 0\nbandwidth = "25 GB/s"\n' in text


@given(cluster=clusters(), odd=st.floats(1e-9, 1e-3), rate=st.floats(1.0, 1e15))
def test_a_cluster_comes_back_as_written(cluster: il.Cluster, odd: float, rate: float, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path_factory.mktemp("clusters") / "cluster.toml"
    cluster = replace(cluster, scale_out_latency_s=odd, scale_up_bandwidth_bytes_per_s=rate)
    T.write_cluster(cluster, file)

    assert read_cluster(file) == cluster


def test_lists_of_nics_and_fabrics_come_back(tmp_path: Path) -> None:
    fabric = Fabric("roce", fan_in=4, loss_per_sender=0.25)
    cluster = il.cluster("h200", nic_rates=[["400 Gb/s", "200 Gb/s"], []] * 4, fabric=fabric)
    T.write_cluster(cluster, tmp_path / "c.toml")

    assert read_cluster(tmp_path / "c.toml") == cluster


def test_a_file_may_start_from_a_preset() -> None:
    made = cluster_from_table({"preset": "mi300x", "servers": 2, "scale_out_bandwidth": "100 Gb/s"}, "here")

    assert made == il.cluster("mi300x", servers=2, scale_out_bandwidth="100 Gb/s")


@pytest.mark.parametrize(
    "topology",
    [
        T.torus(3, 4, bandwidth=(1e9, 1 / 3 * 1e10), message_overhead="0.5 us"),
        T.switch(4, bandwidth="400 Gb/s", latency="0.7 us"),
        T.clos(2, 3, 2, bandwidth="50 GB/s"),
        T.from_edges([0, 1, 2], [1, 0, 1], [1e9, 2e9, 3e9], num_ranks=2, channel=[0, 0, 1]),
        il.cluster("h200", servers=2, gpus_per_server=2, fan_in=1).topology,
    ],
    ids=lambda topology: topology.name,
)
def test_a_graph_comes_back_as_written(topology: Topology, tmp_path: Path) -> None:
    T.write_topology(topology, tmp_path / "graph.toml")
    assert_same(read_topology(tmp_path / "graph.toml"), topology)

    T.write_edges(topology, tmp_path / "graph.csv")
    bare = replace(
        topology, multicasts=topology.multicasts & False, reduces=topology.reduces & False, stage_overhead_s=0.0,
        fabric=Fabric(), symmetries=None,
    )  # fmt: skip
    assert_same(read_topology(tmp_path / "graph.csv"), bare)


@given(graph=graphs())
def test_any_graph_survives_networkx(graph: Topology) -> None:
    assert_same(T.from_networkx(T.to_networkx(graph)), graph, but=("router", "name", "symmetries"))


def test_networkx_graphs_of_other_people() -> None:
    graph = nx.Graph()
    graph.add_node("leaf", kind="switch")
    graph.add_nodes_from(["a", "b"])
    graph.add_edge("a", "leaf", bandwidth="400 Gb/s", latency="1 us")
    graph.add_edge("leaf", "b")
    made = T.from_networkx(graph, bandwidth="100 Gb/s")

    assert (made.num_ranks, made.num_nodes, made.num_links) == (2, 3, 4)
    assert sorted(zip(made.link_src.tolist(), made.link_dst.tolist(), strict=True)) == [(0, 2), (1, 2), (2, 0), (2, 1)]
    assert sorted(made.bandwidth_bytes_per_s) == [12.5e9, 12.5e9, 50e9, 50e9] and made.latency_s.max() == 1e-6


@pytest.mark.parametrize(
    ("text", "rate", "latency_s"),
    [
        ("src,dst,bandwidth\n0,1,400 Gb/s", 50e9, 0.0),
        ("src, dst, gib_per_s, latency_us\n0, 1, 2, 0.5", 2 * 2**30, 0.5e-6),
        ("# a comment\ndst,src,gbit_per_s,latency\n\n1,0,8,2 ms\n", 1e9, 2e-3),
        ("SRC,DST,bandwidth_bytes_per_s\n0,1,1e9\n", 1e9, 0.0),
        ("\ufeffsrc,dst,bandwidth,latency_ns\r\n0,1,1e9,250\r\n", 1e9, 250e-9),
    ],
)
def test_edge_lists_say_their_units(text: str, rate: float, latency_s: float, tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_bytes(text.encode())
    made = read_topology(tmp_path / "links.csv")

    assert (made.link_src[0], made.link_dst[0], made.num_links) == (0, 1, 1)
    assert made.bandwidth_bytes_per_s[0] == rate and made.latency_s[0] == pytest.approx(latency_s, rel=1e-12)


def test_a_toml_file_may_hold_a_shape_or_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "shape.toml").write_text('shape = "torus:2x3"\nbandwidth = ["100 GB/s", "25 GB/s"]\nlatency = "1 us"\n')
    (tmp_path / "cluster.toml").write_text('preset = "h200"\nservers = 2\n')

    shape = T.parse_topology(str(tmp_path / "shape.toml"))
    assert_same(shape, T.torus(2, 3, bandwidth=("100 GB/s", "25 GB/s"), latency="1 us"))
    assert_same(read_topology(tmp_path / "cluster.toml"), il.cluster("h200", servers=2).topology)


def test_dead_links_stay_dead_in_a_file(tmp_path: Path) -> None:
    """A file keeps no closed-form routes; the shortest ones must not use what is broken either."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, faults=[il.dead_nic(0, 1)])
    T.write_topology(cluster.topology, tmp_path / "graph.toml")
    graph = read_topology(tmp_path / "graph.toml")

    healthy, broken, far = (np.array([rank], np.int32) for rank in (0, 1, 3))
    assert graph.routes(healthy, far)[0].tolist() == cluster.topology.routes(healthy, far)[0].tolist()
    with pytest.raises(il.InvalidInput, match="rank 3 cannot be reached from rank 1"):
        graph.routes(broken, far)


def test_a_declared_symmetry_is_checked(tmp_path: Path) -> None:
    text = topology_to_toml(T.ring(4, bandwidth=1e9)).replace("[[1, 2, 3, 0]]", "[[1, 0, 2, 3]]")
    (tmp_path / "graph.toml").write_text(text)

    with pytest.raises(il.InvalidInput, match=r"graph.toml: symmetries\[0\] does not map the graph onto itself"):
        read_topology(tmp_path / "graph.toml")


@pytest.mark.parametrize("write", [T.write_topology, T.write_edges])
def test_a_file_is_written_whole_or_not_at_all(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    ring = T.ring(4, bandwidth=1e9)
    (tmp_path / "kept.toml").write_text("kept")
    with pytest.raises(il.InvalidInput, match="is a folder"):
        write(ring, tmp_path)
    with pytest.raises(il.InvalidInput, match="cannot be written"):
        write(ring, tmp_path / "no" / "folder.toml")

    assert [path.name for path in tmp_path.iterdir()] == ["kept.toml"]


def test_groups_of_servers_differ_in_their_nics(tmp_path: Path) -> None:
    file = tmp_path / "mixed.toml"
    file.write_text(
        'preset = "h200"\n[[servers]]\ncount = 2\nscale_out_bandwidth = "400 Gb/s"\n'
        '[[servers]]\ncount = 1\nscale_out_bandwidth = "200 Gb/s"\n[[faults]]\nkind = "dead-nic"\nserver = 0\ngpu = 5\n'
    )
    cluster = read_cluster(file)
    rates = cluster.nic_bandwidth_bytes_per_s.reshape(3, 8)
    assert cluster.servers == 3
    assert rates[0].tolist() == [50e9] * 5 + [0.0] + [50e9] * 2
    assert (rates[1] == 50e9).all() and (rates[2] == 25e9).all()
    file.write_text('preset = "gb200-nvl72"\n' + '[[servers]]\nscale_out_bandwidth = "40 GB/s"\n' * 2)
    assert read_cluster(file).num_ranks == 144 and read_cluster(file).faults == ()
    again = tmp_path / "again.toml"
    again.write_text(cluster_to_toml(cluster))
    assert read_cluster(again) == cluster


def test_groups_of_servers_differ_in_their_scale_up_rates(tmp_path: Path) -> None:
    file, again = tmp_path / "mixed.toml", tmp_path / "again.toml"
    fast = '[[servers]]\ncount = 1\nscale_up_bandwidth = "450 GB/s"\nscale_out_bandwidth = "400 Gb/s"\n'
    slow = '[[servers]]\ncount = 2\nscale_up_bandwidth = "64 GB/s"\nscale_out_bandwidth = "200 Gb/s"\n'
    file.write_text('preset = "h200"\ngpus_per_server = 4\n' + fast + slow)
    cluster = read_cluster(file)
    assert cluster.server_scale_up_bytes_per_s.tolist() == [450e9, 64e9, 64e9]
    assert cluster.scale_up_bandwidth_bytes_per_s == 450e9
    assert "64 GB/s" in cluster.facts()["inside a server"]
    again.write_text(cluster_to_toml(cluster))
    assert read_cluster(again) == cluster

    inside = np.zeros((12, 12), np.int64)
    inside[0, 1] = inside[4, 5] = 64_000_000
    took = il.plan(cluster, il.traffic.matrix(inside), "direct").simulate().finish_s
    assert took[1] - took[0] == pytest.approx(1e-3 - 64e6 / 450e9)
    for traffic in (il.traffic.zipf(cluster, bytes_per_gpu="16 MB", seed=0), il.traffic.uniform(cluster, "16 MB")):
        for name in ("adaptive", "direct", "pxn", "fast"):
            proof = il.plan(cluster, traffic, name).certificate()
            assert proof.valid and proof.gap >= 0


def test_servers_with_unlike_scale_up_rates_are_not_swapped() -> None:
    same = il.cluster("h200", servers=2)
    unlike = il.cluster("h200", servers=2, scale_up_rates=["450 GB/s", "225 GB/s"])
    assert len(unlike.topology.symmetries) == len(same.topology.symmetries) - 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[servers]]\nscale_up_bandwidth = '1 GB/s'\n[[servers]]\nscale_out_bandwidth = '1 GB/s'", "all must say it"),
        ("scale_up_bandwidth = '1 GB/s'\n[[servers]]\nscale_up_bandwidth = '1 GB/s'", "the cluster must not"),
        ("servers = 2\nscale_up_rates = ['1 GB/s']", "lists 1 servers but servers=2"),
        ("servers = 1\nscale_up_rates = ['1 GB/s']\nscale_up_bandwidth = '1 GB/s'", "give one or the other"),
        ("servers = 1\nscale_up_rates = '1 GB/s'", "must be a list"),
        ("[[servers]]\ncount = 0\nscale_out_bandwidth = '1 GB/s'", "count=0 must be"),
        ("[[servers]]\ncount = 2", "scale_out_bandwidth is missing"),
        ("[[servers]]\nspeed = 2", "unknown key 'speed'"),
        ("servers = []", "groups with a count each"),
        ("scale_out_bandwidth = '1 GB/s'\n[[servers]]\nscale_out_bandwidth = '1 GB/s'", "the cluster must not"),
    ],
)
def test_bad_groups_are_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text(text)
    with pytest.raises(il.InvalidInput, match=re.escape(says)):
        read_cluster(tmp_path / "mixed.toml")


def test_toml_of_too_many_values_is_neither_parsed_nor_written(tmp_path: Path) -> None:
    file = tmp_path / "graph.toml"
    for text in ("a = [" + "0," * 500_000 + "0]", "a = 0\n" * 250_001, "a" + ".a" * 63 + " = 0\n" + "[a]\n" * 250_000):
        file.write_text(text)
        with pytest.raises(LimitExceeded, match=r"graph.toml has \d+ commas.*at most 500000 are read of TOML"):
            read_topology(file)
    file.unlink()
    with pytest.raises(LimitExceeded, match="at most 500000 are read of TOML"):
        T.write_topology(T.fully_connected(510, bandwidth=1e9), file)
    assert not file.exists()
