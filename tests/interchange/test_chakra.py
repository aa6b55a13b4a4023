"""Chakra traces: protobuf's own parser reads them, ASTRA-sim's rules run them, broken ones are refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from tests.interchange.chakra_oracle import CLASSES, attributes, decode, run
from tests.interchange.problems import problems

import interlock as il
from interlock.algorithms import registry
from interlock.interchange import Intent, import_topology, read_foreign
from interlock.interchange.chakra.read import find_traces, parse_trace
from interlock.interchange.shared.protobuf import text_field, varint, varint_field
from interlock.planning import solve
from interlock.problem import collective_problem
from interlock.topology import product, torus
from interlock.validate import check

CASES = [
    (name, label)
    for name in registry.names()
    for label, problem in problems()
    if label in ("zipf", "sparse", "all-reduce on servers") and registry.get(name).supports(problem) is None
]


@pytest.mark.parametrize(("name", "label"), CASES)
def test_protobuf_and_astra_sim_understand_what_is_written(name: str, label: str, tmp_path: Path) -> None:
    problem = dict(problems())[label]
    plan = solve(problem, name)
    plan.export("chakra", tmp_path / "out")
    files = find_traces(tmp_path / "out")
    theirs = [decode(file) for file in files]
    for file, nodes in zip(files, theirs, strict=True):
        ours = parse_trace(file)
        assert [(n.id, n.name, n.type, n.ctrl_deps, n.data_deps) for n in ours] == [
            (n.id, n.name, n.type, list(n.ctrl_deps), list(n.data_deps)) for n in nodes
        ]
        assert [n.attributes for n in ours] == [attributes(n) for n in nodes]
    workload = attributes(decode(tmp_path / "out" / "workload.0.et")[0])
    whole = workload["comm_size"] * (problem.num_ranks if workload["comm_type"] == 2 else 1)
    moved = run(theirs, whole)
    wanted: dict[tuple[int, int], int] = {}
    schedule = plan.schedule
    for m in range(schedule.num_messages):
        key = (int(schedule.src[m][0]), int(schedule.dst[m][0]))
        wanted[key] = wanted.get(key, 0) + int(schedule.size_bytes[m])
    assert {k: v for k, v in moved.items() if v} == {k: v for k, v in wanted.items() if v}


def test_the_configurations_are_what_astra_sim_reads(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    il.plan(cluster, il.traffic.uniform(cluster, "1 MB"), "direct").export("chakra", tmp_path / "out")
    system = json.loads((tmp_path / "out" / "system.json").read_text())
    assert system["all-to-all-implementation-custom"] == ["./algorithm"] and system["endpoint-delay"] >= 1
    network = (tmp_path / "out" / "network.yml").read_text()
    assert "topology: [ Switch, Switch ]" in network and "npus_count: [ 4, 2 ]" in network
    assert "bandwidth: [ 419.095159, 46.566129 ]" in network  # 450 and 50 GB/s, in units of 2^30 bytes
    assert (tmp_path / "out" / "run.sh").stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("graph", "shape", "build"),
    [
        (il.topology.ring(5, bandwidth=2**30, latency="1 us"), "Ring", "Congestion_Aware"),
        (il.topology.fully_connected(4, bandwidth=2**30, latency="1 us"), "FullyConnected", "Congestion_Aware"),
        (il.topology.mesh(3, 3, bandwidth=2**30, latency="1 us"), "Switch", "Congestion_Aware"),
    ],
)
def test_shapes_that_the_backend_has_are_named(graph: il.Topology, shape: str, build: str, tmp_path: Path) -> None:
    plan = solve(collective_problem(graph, il.all_gather("96 KiB"), 1), "tacos")
    report = plan.export("chakra", tmp_path / "out")
    latency = 500.0 if shape == "Switch" else 1000.0  # a switch has two links between ranks
    assert (tmp_path / "out" / "network.yml").read_text() == (
        f"topology: [ {shape} ]\nnpus_count: [ {graph.num_ranks} ]\nbandwidth: [ 1.0 ]\nlatency: [ {latency} ]\n"
    )
    assert build in (tmp_path / "out" / "run.sh").read_text()
    assert any("no general graphs" in note for note in report.notes) == (shape == "Switch")


@pytest.mark.parametrize(
    ("graph", "shapes", "sizes", "rates"),
    [
        (torus(4, 3, bandwidth=2**30), "Ring, Ring", "3, 4", "1.0, 1.0"),
        (product(("ring", 5), ("full", 4), bandwidth=(2**30, 2**31)), "FullyConnected, Ring", "4, 5", "2.0, 1.0"),
        (torus(2, 2, 2, bandwidth=2**30), "FullyConnected, FullyConnected, FullyConnected", "2, 2, 2", "1.0, 1.0, 1.0"),
    ],
)
def test_products_of_shapes_have_a_dimension_each(
    graph: il.Topology, shapes: str, sizes: str, rates: str, tmp_path: Path
) -> None:
    """The first varies fastest among ranks; what is written comes back as the same graph."""
    plan = solve(collective_problem(graph, il.all_gather("96 KiB"), 1), "tacos")
    report = plan.export("chakra", tmp_path / "out")
    network = (tmp_path / "out" / "network.yml").read_text()
    assert network.startswith(f"topology: [ {shapes} ]\nnpus_count: [ {sizes} ]\nbandwidth: [ {rates} ]\n")
    assert "Congestion_Unaware" in (tmp_path / "out" / "run.sh").read_text()
    assert not any("no general graphs" in note for note in report.notes)
    back = import_topology([tmp_path / "out" / "network.yml"]).topology
    pairs = [sorted(zip(each.link_src.tolist(), each.link_dst.tolist(), strict=True)) for each in (graph, back)]
    assert pairs[0] == pairs[1]


def test_servers_with_a_mesh_inside_are_fully_connected(tmp_path: Path) -> None:
    cluster = il.cluster("mi300x", servers=2)
    il.plan(cluster, il.traffic.uniform(cluster, "1 MB"), "direct").export("chakra", tmp_path / "out")
    network = (tmp_path / "out" / "network.yml").read_text()
    assert "topology: [ FullyConnected, Switch ]" in network and "npus_count: [ 8, 2 ]" in network
    assert "Congestion_Unaware" in (tmp_path / "out" / "run.sh").read_text()


def test_names_survive_gzip_and_single_files_name_the_set(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=4)
    demand = il.traffic.uniform(cluster, "1 MB")
    il.plan(cluster, demand, "direct").export("chakra", tmp_path / "out")
    for file in find_traces(tmp_path / "out"):
        file.write_bytes(gzip.compress(file.read_bytes()))
    found = read_foreign(tmp_path / "out" / "algorithm.2.et", Intent(demand=demand))
    assert check(found.schedule, found.problem).valid and found.notes == ()


def test_inferred_contents_agree_with_the_names(tmp_path: Path) -> None:
    """Without our names, relays are still understood from dependencies and sizes."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    demand = il.traffic.matrix(np.array([[0, 5, 7, 9], [4, 0, 3, 2], [8, 6, 0, 1], [2, 9, 5, 0]]) * 1000)
    il.plan(cluster, demand, "pxn").export("chakra", tmp_path / "out")
    for file in find_traces(tmp_path / "out"):
        nodes = decode(file)
        with file.open("wb") as out:
            metadata = CLASSES["GlobalMetadata"](version="0.0.4").SerializeToString()
            out.write(varint(len(metadata)) + metadata)
            for node in nodes:
                kept = [a for a in node.attr if a.name != "interlock_pieces"]
                del node.attr[:]
                node.attr.extend(kept)
                text = node.SerializeToString()
                out.write(varint(len(text)) + text)
    found = read_foreign(tmp_path / "out", Intent(demand=demand))
    assert check(found.schedule, found.problem).valid
    assert any("inferred" in note for note in found.notes)


def trace(*nodes: bytes) -> bytes:
    """A trace of hand-made nodes."""
    metadata = text_field(1, b"0.0.4")
    return b"".join(varint(len(part)) + part for part in (metadata, *nodes))


def node(number: int, kind: int, deps: tuple[int, ...] = (), **values: int) -> bytes:
    """A hand-made node."""
    made = varint_field(1, number) + varint_field(3, kind)
    made += text_field(5, b"".join(map(varint, deps))) if deps else b""
    for name, value in values.items():
        made += text_field(10, text_field(1, name.encode()) + varint_field(9, value))
    return made


SEND = {"comm_dst": 1, "comm_size": 8, "comm_tag": 0}
TAKE = {"comm_src": 0, "comm_size": 8, "comm_tag": 0}
BROKEN = {
    "a receive nobody sends": (
        (trace(node(0, 5, **SEND)), trace(node(0, 6, **TAKE), node(1, 6, **TAKE))),
        "does not send it",
    ),
    "a send nobody receives": ((trace(node(0, 5, **SEND)), trace()), "is never received"),
    "sizes that differ": (
        (trace(node(0, 5, **SEND)), trace(node(0, 6, **TAKE | {"comm_size": 9}))),
        "receives 9 bytes",
    ),
    "a node given twice": ((trace(node(3, 5, **SEND), node(3, 4)), trace()), "node 3 is given twice"),
    "a dependency on nothing": (
        (trace(node(0, 5, (7,), **SEND)), trace(node(0, 6, **TAKE))),
        "node 7, which is not there",
    ),
    "a cycle": ((trace(node(0, 4, (1,)), node(1, 4, (0,))), trace()), "cycle of dependencies"),
    "a peer out of range": (
        (trace(node(0, 5, **SEND | {"comm_dst": 2})), trace()),
        "comm_dst=2 must be between 0 and 1",
    ),
    "a send to itself": ((trace(node(0, 5, **SEND | {"comm_dst": 0})), trace()), "sends to its own rank"),
    "a negative size": ((trace(node(0, 5, **SEND | {"comm_size": -5})), trace()), "comm_size=-5 must be between 0"),
    "a missing size": ((trace(node(0, 5, comm_dst=1)), trace()), "lacks 'comm_size'"),
    "a type nobody knows": ((trace(node(0, 77)), trace()), "has type 77"),
    "a message cut off": ((trace(node(0, 4))[:-1], trace()), "is cut off"),
    "an empty file": ((b"", trace()), "is empty"),
    "a number without end": ((b"\xff" * 11, trace()), "longer than 64 bits"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_traces_are_refused_with_file_and_node(name: str, tmp_path: Path) -> None:
    files, reason = BROKEN[name]
    for rank, data in enumerate(files):
        (tmp_path / f"x.{rank}.et").write_bytes(data)
    with pytest.raises(il.InvalidInput) as caught:
        read_foreign(tmp_path, Intent(collective="all-gather"))
    assert reason in str(caught.value) and "x." in str(caught.value)


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    for rank in (0, 2):
        (tmp_path / f"x.{rank}.et").write_bytes(trace(node(0, 4)))
    with pytest.raises(il.InvalidInput, match="rank 1 is missing"):
        read_foreign(tmp_path / "x", Intent(collective="all-gather"))


def test_a_folder_with_other_things_is_not_replaced(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster, "1 kB"), "direct")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("do not lose me")
    with pytest.raises(il.InvalidInput, match=r"holds 'thesis.tex'"):
        plan.export("chakra", tmp_path / "out")
    assert (tmp_path / "out" / "thesis.tex").exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
