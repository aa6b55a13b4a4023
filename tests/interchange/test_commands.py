"""export, verify, simulate and import-topology through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.cli.main import run
from interlock.interchange import FORMATS

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """An All-to-Allv with relays, as a schedule file, and its demand beside it."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    matrix = np.arange(16).reshape(4, 4) * 4096
    plan = il.plan(cluster, il.traffic.matrix(matrix), "pxn")
    plan.save(tmp_path / "a.ilk")
    np.savetxt(tmp_path / "demand.txt", matrix, fmt="%d")
    return tmp_path / "a.ilk"


@pytest.mark.parametrize("name", FORMATS)
def test_schedules_go_out_and_come_back(
    name: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "tacos-csv":
        assert run(["export", str(saved), "--to", name, "-o", str(tmp_path / "out")]) == 2
        assert "TACOS' CSV holds all-gather" in capsys.readouterr().err
        return
    assert run(["export", str(saved), "--to", name, "-o", str(tmp_path / "out"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["format"] == name and all(Path(file).is_file() for file in report["files"])
    code = run(["verify", str(tmp_path / "out"), "--format", name, "--demand", str(tmp_path / "demand.txt"), "--json"])
    captured = capsys.readouterr()
    if name not in ("nccl-tests", "chrome-trace"):  # which hold no schedule
        assert code == 0
        assert json.loads(captured.out)["valid"] is True
    else:
        assert code == 2 and captured.err.count("\n") == 1


def test_inflation_is_printed(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", str(saved), "--to", "mscclpp-json", "--chunk-bytes", "48 kB", "-o", str(tmp_path / "a.json")]
    assert run(words) == 0
    text = capsys.readouterr().out
    assert "48 kB (as asked)" in text and "added by rounding to chunks" in text and "0.00 %" not in text


def test_a_wrong_schedule_is_answered_with_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (GOLDEN / "allreduce.msccl.xml").read_text().replace('type="rrc"', 'type="r"', 1)
    (tmp_path / "a.xml").write_text(text)
    assert run(["verify", str(tmp_path / "a.xml")]) == 1
    assert "violation: output[0] of rank" in capsys.readouterr().out


def test_other_tools_schedules_are_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", str(GOLDEN / "allreduce.msccl.xml"), "--json"]
    assert run(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] and found["makespan_s"] >= found["lower_bound_s"] > 0
    assert any("names no network" in note for note in found["notes"])
    cluster = ["--cluster", "h100", "--servers", "1", "--set", "gpus_per_server=3"]
    assert run([*words, *cluster]) == 0
    assert not any("names no network" in note for note in json.loads(capsys.readouterr().out)["notes"])
    assert run([*words, "--topology", "ring:3"]) == 0
    assert not any("names no network" in note for note in json.loads(capsys.readouterr().out)["notes"])
    assert run([*words, "--topology", "ring:4"]) == 2


def test_other_tools_schedules_can_be_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", str(GOLDEN / "allreduce.msccl.xml"), "--to", "chakra", "-o", str(tmp_path / "out")]) == 0
    assert run(["verify", str(tmp_path / "out"), "--collective", "all-reduce"]) == 0
    assert "yes" in capsys.readouterr().out


def test_topologies_become_clusters_that_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = "\tGPU0\tGPU1\tNIC0\tNIC1\nGPU0\t X \tNV12\tPIX\tSYS\nGPU1\tNV12\t X \tSYS\tPIX\n"
    (tmp_path / "topo.txt").write_text(matrix)
    words = ["import-topology", str(tmp_path / "topo.txt"), "--servers", "2", "-o", str(tmp_path / "c.toml")]
    assert run(words) == 0
    text = capsys.readouterr().out
    assert "2 x 2 GPUs" in text and "gpu1" in text and "guessed: " in text and "nic0" in text.lower()
    assert run(["plan", "--cluster", str(tmp_path / "c.toml"), "--algorithm", "direct", "--json"]) == 0
    assert run([*words, "--json"]) == 0
    out = capsys.readouterr().out
    found = json.loads(out[out.rindex('{\n  "source"') :])
    assert found["affinity"][0] == [{"nic": "NIC0", "share": 1.0, "distance": "PIX"}]


BAD = {
    "both intents": ["verify", "{golden}/alltoallv.chakra", "--demand", "x.txt", "--collective", "all-gather"],
    "unknown format": ["verify", "{golden}/alltoallv.cm", "--format", "htsmi"],
    "a missing file": ["verify", "{golden}/nothing.xml"],
    "an unknown target": ["export", "{golden}/allreduce.msccl.xml", "--to", "mscl", "-o", "{tmp}/x"],
    "chunks where there are none": [
        "export",
        "{golden}/allreduce.msccl.xml",
        "--to",
        "chakra",
        "--chunk-bytes",
        "5",
        "-o",
        "{tmp}/x",
    ],
    "no intent": ["verify", "{golden}/alltoallv.chakra"],
    "an unknown collective": ["verify", "{golden}/alltoallv.chakra", "--collective", "all-sing"],
    "a cluster of another size": ["simulate", "{golden}/allreduce.msccl.xml", "--cluster", "h100", "--servers", "2"],
    "no topology": ["import-topology", "{golden}/alltoallv.cm"],
    "a topology to the wrong ending": ["import-topology", "{golden}/alltoallv.cm", "-o", "{tmp}/x"],
    "a folder that is not there": ["export", "{golden}/allreduce.msccl.xml", "--to", "chakra", "-o", "{tmp}/no/such/x"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_words_get_one_line_and_write_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.format(golden=GOLDEN, tmp=tmp_path) for word in BAD[name]]
    assert run(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("interlock: ") and captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_export_of_an_alltoallv_says_whether_it_pays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "--cluster", "h200", "--servers", "2", "--set", "gpus_per_server=4", "--traffic", "hot:1.2"]
    assert run([*plan, "--size", "64 MB", "-o", str(tmp_path / "a.ilk")]) == 0
    for name in ("msccl-xml", "mscclpp-json"):
        capsys.readouterr()
        assert run(["export", str(tmp_path / "a.ilk"), "--to", name, "-o", str(tmp_path / "a")]) == 0
        last = capsys.readouterr().out.strip().splitlines()[-1]
        assert "after export" in last and "the export pays" in last
    coarse = ["--chunk-bytes", "64 MiB", "--json"]
    assert run(["export", str(tmp_path / "a.ilk"), "--to", "msccl-xml", "-o", str(tmp_path / "a"), *coarse]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pays"] is (found["simulated_s"]["exported"] < found["simulated_s"]["direct"])


def test_what_was_inferred_proves_nothing_against_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demand = il.traffic.matrix(np.array([[0, 9, 5, 3], [2, 0, 8, 1], [7, 4, 0, 6], [1, 3, 2, 0]]) * 100_000)
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    il.plan(cluster, demand, "fast").export("htsim", tmp_path / "a.cm")
    np.savetxt(tmp_path / "d.txt", demand.bytes_matrix, fmt="%d")
    capsys.readouterr()
    assert run(["verify", str(tmp_path / "a.cm"), "--demand", str(tmp_path / "d.txt")]) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "cannot tell" in out and "does not say which bytes a message carries" in out
