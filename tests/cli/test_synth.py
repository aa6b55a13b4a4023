"""`interlock synth`: every collective, and what goes with which."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.cli.main import run

SYNTH = ["synth", "--topology", "mesh:2x3", "--size", "6 MB", "--json"]
DEMAND = np.array([[0, 5, 0, 7, 0, 1], *([[2, 0, 3, 0, 0, 9]] * 4), [0] * 6]) * 100_003


def test_all_to_allv_from_a_file_is_saved_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savetxt(tmp_path / "bytes.txt", DEMAND, fmt="%d")
    out = tmp_path / "exchange.ilk"
    words = ["synth", "--topology", "mesh:2x3", "--json", "--collective", "all-to-allv"]
    words += ["--traffic", str(tmp_path / "bytes.txt"), "-o", str(out)]
    assert run(words) == 0
    row = json.loads(capsys.readouterr().out)["results"][0]
    assert row["valid"] and row["gap"] <= 0.1

    loaded = il.load(out)
    assert loaded.problem.demand is not None
    np.testing.assert_array_equal(loaded.problem.demand.bytes_matrix, DEMAND)
    assert loaded.certificate().valid
    assert loaded.certificate().makespan_s == row["makespan_s"]


def test_all_to_allv_by_kind_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SYNTH, "--collective", "all-to-allv", "--traffic", "zipf:0.8", "--seed", "5"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["problem"]["traffic"] == "zipf:0.8" and shown["problem"]["seed"] == 5
    assert shown["results"][0]["valid"]


@pytest.mark.parametrize("kind", ["broadcast", "reduce", "gather", "scatter"])
def test_root_is_the_one_asked_for(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rooted.ilk"
    assert run([*SYNTH, "--collective", kind, "--root", "4", "--group", "1,4,5", "-o", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["valid"]
    collective = il.load(out).problem.collective
    assert collective is not None and (collective.root, collective.group) == (4, (1, 4, 5))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["all-to-allv"], "all-to-allv needs --traffic"),
        (["all-to-allv", "--traffic", "uniform", "--group", "0,1"], "--group 0,1 does not go with"),
        (["all-to-allv", "--traffic", "uniform", "--root", "1"], "--root 1 does not go with"),
        (["all-to-allv", "--traffic", "uniform", "--chunks", "0"], "chunks=0 must be"),
        (["all-to-allv", "--traffic", "no-such.txt"], "--size has no effect here: a file of traffic"),
        (["all-gather", "--root", "1"], "--root 1 does not go with --collective all-gather"),
        (["all-gather", "--traffic", "uniform"], "--traffic uniform goes only with"),
        (["broadcast", "--root", "6"], "root=6 but the topology has 6 ranks"),
        (["broadcast", "--root", "-1"], "root='-1' must be a rank"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SYNTH, "--collective", *words]) == 2
    assert says in capsys.readouterr().err


def test_graph_in_two_parts_is_refused_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "apart.csv"
    file.write_text("src,dst,gb_per_s\n0,1,50\n1,0,50\n2,3,50\n3,2,50\n")
    assert run(["synth", "--topology", str(file), "--collective", "all-gather"]) == 2
    assert "nothing leads from rank 0 to rank 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-o", "{here}/x.json"], "schedules are saved as .ilk"),
        (["-o", "{here}/none/x.ilk"], "there is no folder"),
        (["--html", "{here}/none/x.html"], "there is no folder"),
        (["--table", "{here}/none/x.bin"], "there is no folder"),
        (["--table", "{here}/x.bin", "--algorithm", "tacos"], "--table {here}/x.bin needs --algorithm guided or auto"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.planning.synthesize", lambda *_, **__: pytest.fail("the work was done first"))
    assert run([*SYNTH, "--collective", "all-gather", *(word.format(here=tmp_path) for word in words)]) == 2
    assert says.format(here=tmp_path) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_huge_plan_is_proven_saved_and_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.planning.MAX_ROWS", 10)
    out, page = tmp_path / "x.ilk", tmp_path / "x.html"
    words = ["synth", "--topology", "mesh:2x3", "--size", "6 MB", "--collective", "all-gather", "--chunks", "1"]
    assert run([*words, "-o", str(out), "--html", str(page)]) == 0
    assert f"{page} is not written" in capsys.readouterr().err.replace("\n", "")
    assert not page.exists()
    assert run(["verify", str(out)]) == 0
    assert run(["simulate", str(out), "--json"]) == 0
    shown = capsys.readouterr().out
    facts = json.loads(shown[shown.index("{") :])
    assert facts["valid"] and facts["notes"] == ["there are too many messages to explain or draw their timeline"]


def test_table_is_not_written_where_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "slots.bin"
    assert run(["synth", "--topology", "torus:4x4", "--collective", "all-gather", "--table", str(table)]) == 0
    assert f"--table {table} is not written" in capsys.readouterr().err
    assert not table.exists()


def test_interruption_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("interlock.planning.synthesize", interrupted)
    assert run([*SYNTH, "--collective", "all-gather"]) == 130
    assert capsys.readouterr().err.strip() == "interlock: interrupted; what was not yet whole is not written"


@pytest.mark.usefixtures("hears_ctrl_c")
def test_best_so_far_is_said_to_be_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interruption that the search answers with what it has is still an interruption."""
    whole = il.synthesize

    def answered(*given: object, **options: object) -> il.Plan:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return whole(*given, **options)

    monkeypatch.setattr("interlock.planning.synthesize", answered)
    before = signal.getsignal(signal.SIGINT)
    out = tmp_path / "best.ilk"
    assert run([*SYNTH, "--collective", "all-gather", "-o", str(out)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interlock: interrupted; this is the best schedule so far"
    assert il.load(out).certificate().valid
    assert signal.getsignal(signal.SIGINT) is before
