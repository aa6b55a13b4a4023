"""Steps from TOML and from Chakra traces, the command, and what is written of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import interlock as il
from interlock.cli.main import app
from interlock.interchange.chakra.encode import COMM_COLL_NODE, COMP_NODE, INT64, attribute, framed, node_bytes
from interlock.interchange.chakra.read import parse_trace
from interlock.interchange.chakra.steps import read_step_traces
from interlock.interchange.shared.protobuf import text_field, varint_field
from interlock.problem import read_step, step_presets
from steps.cases import DISPATCH_TOML, layer

SMALL = f"""name = "small"
{DISPATCH_TOML}seed = 4
[[task]]
name = "experts"
compute = "30 us"
after = ["dispatch"]
[[task]]
name = "combine"
transposed = "dispatch"
times = 2
after = ["experts"]
[[task]]
name = "gradients"
move = "reduce-scatter"
size = "2 MiB"
ranks = "0::2"
ready = "5 us"
[[task]]
name = "tensor"
move = "all-reduce"
size = "1 MiB"
groups = "servers"
"""


def test_a_step_reads_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    step = read_step(tmp_path / "small.toml")
    tasks = {task.name: task for task in step.tasks}

    assert list(tasks) == [
        "dispatch", "experts", "combine", "gradients", "tensor, server 0", "tensor, server 1", "tensor"
    ]  # fmt: skip
    assert (tasks["combine"].what.bytes_matrix == 2 * tasks["dispatch"].what.bytes_matrix.T).all()
    assert tasks["gradients"].what.group == (0, 2) and tasks["gradients"].ready_s == 5e-6
    assert tasks["tensor, server 1"].what.group == (2, 3)
    assert tasks["tensor"].after == ("tensor, server 0", "tensor, server 1")


@pytest.mark.parametrize("name", step_presets())
def test_presets_are_steps(name: str) -> None:
    assert sum(task.is_move for task in read_step(name).tasks) > 2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('compute = "30 us"', "", "must say one of move, compute and transposed"),
        ('compute = "30 us"', 'compute = "30 us"\ncolour = 1', "unknown key 'colour'"),
        ('after = ["dispatch"]', 'after = ["combine"]', "circle"),
        ('ranks = "0::2"', 'ranks = "0::x"', "first:end:step"),
        ('ranks = "0::2"', "ranks = [0, 9]", "rank 9"),
        ('transposed = "dispatch"', 'transposed = "experts"', "must name a demand before it"),
        ('groups = "servers"', 'groups = "racks"', "'servers' or 'rails'"),
        ('preset = "h200"', 'preset = "h999"', "h999"),
        ('name = "small"', 'name = "small', "not TOML"),
        ("times = 2", "times = 0", "times='0'"),
        ('move = "reduce-scatter"\nsize = "2 MiB"', 'move = "reduce-scatter"', "size is missing"),
        ('move = "reduce-scatter"', 'move = "reduce-scater"', "no traffic; did you mean 'reduce-scatter'"),
        ('compute = "30 us"', 'compute = "-30 us"', "task 'experts': seconds='-30 us'"),
        ('ranks = "0::2"', "ranks = [0, 0]", "task 'gradients': group names rank 0 twice"),
        ('ranks = "0::2"', "ranks = []", "task 'gradients': group is empty"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in SMALL
    (tmp_path / "bad.toml").write_text(SMALL.replace(old, new))
    with pytest.raises(il.InvalidInput, match=words):
        read_step(tmp_path / "bad.toml")


def test_the_command_sets_the_ways_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    files = {option: tmp_path / f"out{ending}" for option, ending in (("--html", ".html"), ("-o", ".ilk"))}
    given = [str(word) for pair in files.items() for word in pair]
    run = CliRunner().invoke(app, ["step", str(tmp_path / "small.toml"), "--json", *given], catch_exceptions=False)

    said = json.loads(run.stdout)
    assert {row["algorithm"] for row in said["results"]} == {"serial", "concurrent", "joint"}
    assert all(row["valid"] and row["tasks"]["combine"]["finish_s"] > 0 for row in said["results"])
    page = files["--html"].read_text()
    assert "Tasks (simulated)" in page and "combine" in page
    best = il.load(files["-o"])
    assert best.certificate().valid and best.certificate().makespan_s == said["results"][0]["makespan_s"]


def test_a_table_is_printed_and_presets_are_listed(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    said = CliRunner().invoke(app, ["step", str(tmp_path / "small.toml"), "--algorithms", "serial,joint"]).stdout
    assert "task ends at" in said and "of the bound" in said
    assert "deepseek-pair" in CliRunner().invoke(app, ["step"]).stdout
    with pytest.raises(il.InvalidInput, match="need --cluster"):
        CliRunner().invoke(app, ["step", "nowhere"], catch_exceptions=False)


def test_a_comparison_of_a_step_has_a_row_per_way() -> None:
    made = il.compare(layer(), algorithms=["serial", "concurrent"])
    assert {row.algorithm for row in made.results} == {"serial", "concurrent"}
    assert "serial" in str(made)


def test_chakra_traces_hold_what_each_rank_sends_receives_and_computes(tmp_path: Path) -> None:
    plan = il.plan(layer(), algorithm="concurrent")
    plan.export("chakra", tmp_path / "traces")
    nodes = parse_trace(tmp_path / "traces" / "step.0.et")
    computed = [node for node in nodes if node.name == "experts"]

    assert [node.duration_micros for node in computed] == [60]
    before = {nodes[dep].name for dep in computed[0].data_deps}
    assert before == {"meet"}  # the end of dispatch
    sent = sum(
        1 for row in range(plan.schedule.num_messages) if 0 in plan.schedule.src[row] and plan.schedule.kind[row] < 2
    )
    assert sum(node.type == 5 for node in nodes) == sent


def test_a_step_is_written_only_where_it_fits(tmp_path: Path) -> None:
    plan = il.plan(layer(), algorithm="concurrent")
    plan.export("chrome-trace", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = {(event["pid"], event["name"]) for event in events if event.get("cat") == "task"}
    assert {(rank, "experts") for rank in range(8)} <= rows and (0, "gradients") in rows
    with pytest.raises(il.InvalidInput, match="holds one collective, not a step"):
        plan.export("msccl-xml", tmp_path / "step.xml")


def test_workload_traces_are_steps(tmp_path: Path) -> None:
    for rank in range(4):
        nodes = [node_bytes(0, b"forward", COMP_NODE, varint_field(7, 40), b"")]
        group = rank % 2
        more = attribute("comm_type", INT64, 7) + attribute("comm_size", INT64, 1 << 20)
        more += text_field(10, text_field(1, b"pg_name") + text_field(29, str(group).encode()))
        nodes.append(node_bytes(1, b"gradients", COMM_COLL_NODE, text_field(5, b"\x00"), more))
        text = framed(text_field(1, b"0.0.4")) + b"".join(framed(node) for node in nodes)
        (tmp_path / f"work.{rank}.et").write_bytes(text)
    step = read_step_traces(tmp_path, il.cluster("h200", servers=2, gpus_per_server=2))

    forward, *gradients = step.tasks
    assert forward.seconds == pytest.approx(40e-6) and forward.ranks == (0, 1, 2, 3)
    assert [task.what.group for task in gradients] == [(0, 2), (1, 3)]
    assert all(task.after == ("forward",) for task in gradients)
    assert il.plan(step).certificate().valid
    with pytest.raises(il.InvalidInput, match="traces of 4 ranks but the cluster has 2"):
        read_step_traces(tmp_path, il.cluster("h200", servers=1, gpus_per_server=2))
