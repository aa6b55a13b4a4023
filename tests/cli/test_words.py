"""Words on the command line: standard input, graphs less a link, saved shapes, what a shell completes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import interlock as il
from interlock.cli.main import run


def feed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert run([*words, "--json"]) == 0, capsys.readouterr().err
    made: dict[str, object] = json.loads(capsys.readouterr().out)
    return made


def test_a_dash_reads_a_cluster(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    feed(monkeypatch, 'preset = "h200"\nservers = 3\n')
    problem = told(capsys, "compare", "--cluster", "-", "--size", "1 MB", "--algorithms", "direct")["problem"]
    assert isinstance(problem, dict) and problem["servers"] == 3


def test_a_dash_reads_traffic(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    feed(monkeypatch, "\n".join([",".join(["1000"] * 16)] * 16))
    words = ["compare", "--servers", "2", "--traffic", "-", "--algorithms", "direct"]
    problem = told(capsys, *words)["problem"]
    assert isinstance(problem, dict) and problem["total_bytes"] == 16 * 15 * 1000


def test_a_dash_reads_a_graph(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    feed(monkeypatch, "src,dst,bandwidth\n0,1,1 GB/s\n1,2,1 GB/s\n2,0,1 GB/s\n")
    assert told(capsys, "topology", "show", "-")["num_links"] == 3


def test_a_link_is_removed_and_what_is_left_saved_and_read_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.csv"
    shown = told(capsys, "topology", "show", "torus:4x4", "--without-link", "1-2", "-o", str(file))
    assert shown["num_links"] == 64 - 2
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    pairs = {(row["src"], row["dst"]) for row in csv.DictReader(lines)}
    assert len(pairs) == 62 and ("0", "1") in pairs and not {("1", "2"), ("2", "1")} & pairs

    again = told(capsys, "topology", "show", str(file))
    assert {**again, "name": ""} == {**shown, "name": ""}
    made = il.topology.read_edges(file)
    assert il.synthesize(made, il.all_gather("1 MB")).certificate().valid


@pytest.mark.parametrize("pair", ["3", "3-x", "3-4-5", "0-9", "0-99"])
def test_links_that_are_not_there_cannot_be_removed(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topology", "show", "ring:8", "--without-link", pair]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_layer_across_servers_is_valid_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    results = told(capsys, "moe", "across", "--servers", "2", "--tokens", "32")["results"]
    assert isinstance(results, list) and [row["way"] for row in results] == ["dispatch", "combine"]
    assert all(row["valid"] and row["makespan_s"] >= row["lower_bound_s"] > 0 for row in results)


def test_a_layer_across_servers_is_saved_as_two_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["moe", "across", "--servers", "2", "--tokens", "32"]
    results = told(capsys, *command, "-o", str(tmp_path / "layer"))["results"]
    assert isinstance(results, list)
    for row in results:
        proof = il.load(tmp_path / "layer" / f"{row['way']}.ilk").certificate()
        assert proof.valid and proof.makespan_s == pytest.approx(row["makespan_s"], rel=0.01)
    assert run([*command, "-o", str(tmp_path / "no" / "layer")]) == 2
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("plan --algorithm adap", {"adaptive"}),
        ("compare --algorithms direct,rails", {"direct,rails", "direct,rails-split"}),
        ("compare --cluster gb", {"gb200-nvl72", "gb300-nvl72"}),
        ("compare --set fabric=l", {"fabric=lossy"}),
        ("compare --traffic zi", {"zipf"}),
        ("moe step --model mixtral-8x7", {"mixtral-8x7b"}),
    ],
)
def test_values_are_completed(line: str, offered: set[str], tmp_path: Path) -> None:
    words = f"interlock {line}"
    asked = {"_INTERLOCK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "interlock"], capture_output=True, text=True, env=os.environ | asked, cwd=tmp_path
    )
    assert set(done.stdout.split()) == offered, done.stderr
