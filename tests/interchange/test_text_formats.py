"""TACOS CSV, htsim matrices, nccl-tests matrices and Chrome traces."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.interchange import Intent, format_of, read_foreign
from interlock.planning import solve
from interlock.problem import collective_problem
from interlock.simulate import simulate
from interlock.validate import check

TACOS = """NPUs Count,3
Links Count,3
Chunks Count,3
Chunk Size,1024,B
SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks
0,1,500,50,0,2
1,2,500,50,1,0
2,0,500,50,2,1
"""


def written(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_a_ring_of_tacos_is_an_all_gather_with_its_link_orders(tmp_path: Path) -> None:
    found = read_foreign(written(tmp_path, "a.csv", TACOS))
    assert found.violations == () and check(found.schedule, found.problem).valid
    assert found.problem.collective == il.all_gather(3 * 1024)
    assert found.problem.topology.bandwidth_bytes_per_s.tolist() == [50 * 2**30] * 3
    assert found.problem.topology.latency_s.tolist() == pytest.approx([500e-9] * 3)
    assert found.schedule.exclusive.all() and found.schedule.order.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_schedule_of_links_can_be_placed_on_another_graph(tmp_path: Path) -> None:
    """Each chunk crosses one link of a ring at a time: links of half the rate take twice as long."""
    graph = il.topology.ring(4, bandwidth="50 GB/s", latency=0)
    plan = solve(collective_problem(graph, il.all_gather("4 MB"), 1), "tacos")
    plan.export("tacos-csv", tmp_path / "a.csv")
    as_said = read_foreign(tmp_path / "a.csv")
    slower = il.topology.ring(4, bandwidth="25 GB/s", latency=0)
    placed = read_foreign(tmp_path / "a.csv", Intent(topology=slower))
    times = [simulate(each.schedule, each.problem).makespan_s for each in (as_said, placed)]
    assert times[1] == pytest.approx(2 * times[0], rel=1e-6)
    assert check(placed.schedule, placed.problem).valid
    path = il.topology.mesh(4, bandwidth="25 GB/s")  # the ring without the link that closes it
    with pytest.raises(il.InvalidInput, match="has no such link"):
        read_foreign(tmp_path / "a.csv", Intent(topology=path))
    with pytest.raises(il.InvalidInput, match="say --topology, not --cluster"):
        read_foreign(tmp_path / "a.csv", Intent(cluster=il.cluster("h200", servers=1, gpus_per_server=4)))
    with pytest.raises(il.InvalidInput, match="has 4 GPUs but"):
        read_foreign(tmp_path / "a.csv", Intent(topology=il.topology.ring(5, bandwidth="25 GB/s")))


def test_later_versions_of_tacos_write_times_beside_chunks(tmp_path: Path) -> None:
    timed = TACOS.replace(
        "Chunk Size,1024,B\n", "Chunk Size,1024,B\nCollective Time,3906248,ns\nSynthesis Time,3.14,s\n"
    )
    timed = timed.replace("50,0,2", "50,0:976562:0,2:1953124:976562").replace("Chunks\n", "Chunks (ID:ps)\n")
    found = read_foreign(written(tmp_path, "a.csv", timed))
    assert found.violations == () and check(found.schedule, found.problem).valid


TACOS_DEFECTS = {
    "50,1,0": ("50,1,5", "chunk: 5 must be between 0 and 2"),
    "Links Count,3": ("Links Count,4", "says 4 links but lists 3"),
    "2,0,500": ("2,2,500", "joins a rank to itself"),
    "2,0,500,": ("2,3,500,", "rank: 3 must be between 0 and 2"),
    "Chunk Size,1024,B\n": ("", "lacks 'Chunk Size'"),
    "NPUs Count,3": ("NPUs Count,-3", "-3 must be between 1 and 65536"),
    "1,2,500,50,1,0": ("1,2,500,fast,1,0", "bandwidth: 'fast' is not a number"),
}


@pytest.mark.parametrize("old", TACOS_DEFECTS)
def test_defects_of_tacos_files_are_refused_with_their_line(old: str, tmp_path: Path) -> None:
    new, reason = TACOS_DEFECTS[old]
    with pytest.raises(il.InvalidInput, match=reason):
        read_foreign(written(tmp_path, "a.csv", TACOS.replace(old, new, 1)), format_name="tacos-csv")


def test_a_chunk_that_is_never_sent_or_never_arrives_is_a_violation(tmp_path: Path) -> None:
    found = read_foreign(written(tmp_path, "a.csv", TACOS.replace("50,1,0", "50,0")))
    assert any("rank 1 owns no chunk" in text for text in found.violations)
    short = read_foreign(written(tmp_path, "b.csv", TACOS.replace("50,0,2", "50,0")))
    assert not check(short.schedule, short.problem).valid


def test_tacos_holds_no_sums(tmp_path: Path) -> None:
    graph = il.topology.ring(4, bandwidth="50 GB/s")
    plan = il.synthesize(graph, il.all_reduce("1 MB"), "ring")
    with pytest.raises(il.InvalidInput, match="TACOS' CSV holds all-gather"):
        plan.export("tacos-csv", tmp_path / "a.csv")


def test_htsim_triggers_say_exactly_what_depends_on_what(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster, "1 MB"), "pxn")
    plan.export("htsim", tmp_path / "a.cm")
    lines = (tmp_path / "a.cm").read_text().splitlines()
    assert lines[1:4] == ["Nodes 4", f"Connections {plan.schedule.num_messages}", "Triggers 4"]
    assert sum(" trigger " in line for line in lines if "->" in line) == 4
    assert sum("recv_done_trigger" in line for line in lines) == 4


def test_htsim_levels_replace_triggers_that_do_not_exist(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster, "1 MB"), "spreadout")
    report = plan.export("htsim", tmp_path / "a.cm")
    assert "level by level" in report.notes[0]
    found = read_foreign(tmp_path / "a.cm", Intent(demand=plan.problem.demand))
    assert check(found.schedule, found.problem).valid


def test_flows_larger_than_htsim_counts_are_divided(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=2)
    demand = il.traffic.matrix(np.array([[0, 5 * 2**30], [1, 0]]))
    il.plan(cluster, demand, "direct").export("htsim", tmp_path / "a.cm")
    sizes = [int(part.split()[0]) for part in (tmp_path / "a.cm").read_text().split(" size ")[1:]]
    assert len(sizes) == 4 and max(sizes) < 2**31 and sum(sizes) == 5 * 2**30 + 1
    found = read_foreign(tmp_path / "a.cm", Intent(demand=demand))
    assert check(found.schedule, found.problem).valid


HTSIM_DEFECTS = {
    "Nodes 4\nConnections 1\n0->2 start 0": "needs a size",
    "Nodes 4\nConnections 2\n0->2 start 0 size 5": "says 2 connections",
    "Nodes 4\nConnections 1\n0->4 start 0 size 5": "4 must be between 0 and 3",
    "Nodes 4\nConnections 1\n1->1 start 0 size 5": "to itself",
    "Nodes 4\nConnections 1\n0->1 id 1 trigger 3 size 5": "trigger 3, which nothing fires",
    "Nodes 4\nConnections 1\n0->1 start 0 trigger 3 size 5": "either start or trigger",
    "Nodes 4\nConnections 1\n0->1 start 0 size -5": "-5 must be between 0 and",
    "Nodes 4\nConnections 1\n0->1 start 0 size 5 size 6": "size is given twice",
    "Nodes 4\nConnections 1\nTriggers 1\n0->1 trigger 1 size 1 recv_done_trigger 1\ntrigger id 1 oneshot": "itself",
    "Nodes 4\nConnections 0\nhello": "neither a header",
    "Nodes 4\nConnections 0\nConnections 0": "line 3: Connections is given twice",
    "Nodes 4\nConnections 100001\n": "100001 must be between 0 and 100000",
    "Nodes 4\nConnections 0\n" + "0->1 start 0 size 1\n" * 100_001: "more than 100000 connections",
    "Nodes 4\nConnections 0\n" + "\n" * 1_000_000: "1000002 lines; at most 1000000 are read",
    "Nodes 4\nConnections 0\n"
    + "".join(f"trigger id {number} oneshot\n" for number in range(1, 100_002)): "100000 triggers",
    "Nodes 4\nConnections 3000\nTriggers 1\n"
    + "0->1 start 0 size 1 recv_done_trigger 1\n" * 1500
    + "1->2 trigger 1 size 1\n" * 1500
    + "trigger id 1 barrier count 1500\n": "wait for 2250000 others in all; at most 2000000 are read",
}


@pytest.mark.parametrize("text", HTSIM_DEFECTS, ids=HTSIM_DEFECTS.values())
def test_defects_of_connection_matrices_are_refused(text: str, tmp_path: Path) -> None:
    demand = il.traffic.matrix(np.zeros((4, 4), np.int64))
    with pytest.raises(il.InvalidInput, match=HTSIM_DEFECTS[text]):
        read_foreign(written(tmp_path, "a.cm", text), Intent(demand=demand), "htsim")


def test_the_matrix_of_nccl_tests_comes_back(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=4)
    demand = il.traffic.matrix(np.arange(16).reshape(4, 4) * 100)
    report = il.plan(cluster, demand, "direct").export("nccl-tests", tmp_path / "a.txt")
    assert any("multiples of 16 bytes" in note for note in report.notes)
    from interlock.traffic import read_demand

    assert read_demand(tmp_path / "a.txt") == demand


def test_a_chrome_trace_shows_every_message_without_overlap(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.zipf(cluster, bytes_per_gpu="1 MB"), "pxn")
    plan.export("chrome-trace", tmp_path / "a.json")
    trace = json.loads((tmp_path / "a.json").read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert sorted(event["args"]["message"] for event in events) == list(range(plan.schedule.num_messages))
    assert trace["otherData"] == {"times": "simulated"}
    finish = max(event["ts"] + event["dur"] for event in events)
    assert finish == pytest.approx(plan.simulate().makespan_s * 1e6, rel=1e-5)
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(a[1] <= b[0] + 2e-6 for a, b in pairwise(spans))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<?xml version='1.0'?><algo/>", "msccl-xml"),
        ('{"name": "x", "gpus": []}', "mscclpp-json"),
        ('{"traceEvents": []}', "chrome-trace"),
        ("NPUs Count,4\n", "tacos-csv"),
        ("# hello\nNodes 4\nConnections 0\n", "htsim"),
        ("0 5\n5 0\n", "nccl-tests"),
        ("0,5\n5,0\n", "nccl-tests"),
    ],
)
def test_formats_are_recognised_by_their_contents(text: str, name: str, tmp_path: Path) -> None:
    assert format_of(written(tmp_path, "file", text)).name == name


def test_what_is_not_recognised_names_the_formats(tmp_path: Path) -> None:
    with pytest.raises(il.InvalidInput, match="name it with --format"):
        format_of(written(tmp_path, "file", "what is this"))
    with pytest.raises(il.InvalidInput, match="did you mean 'msccl-xml'"):
        read_foreign(written(tmp_path, "file", "x"), format_name="mscl-xml")
