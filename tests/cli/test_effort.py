"""`--effort simulate`: the way that simulation likes best, and a reason that says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.cli.main import run

# Predicted to be fastest in another way than it is simulated to be.
ODD = ["--cluster", "mi300x", "--servers", "2", "--set", "scale_out_bandwidth=800 Gb/s", "--traffic", "zipf:1.2"]


def results_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert run([*words, "--size", "4 MB", "--json"]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)["results"]
    return rows


@pytest.mark.parametrize("command", [["plan", "--algorithm"], ["compare", "--algorithms"]])
@pytest.mark.parametrize("algorithm", ["adaptive", "auto"])
def test_simulation_decides_where_asked(command: list[str], algorithm: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*command, algorithm, *ODD]
    (predicted,), (simulated,) = (results_of([*words, "--effort", kind], capsys) for kind in ("predict", "simulate"))
    assert simulated["valid"]
    assert float(str(simulated["makespan_s"])) <= float(str(predicted["makespan_s"]))


def test_effort_is_refused_where_it_would_do_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for words, why in (
        (["plan", "--effort", "much"], "effort='much' must be 'predict' or 'simulate'"),
        (["compare", "--effort", "much"], "effort='much' must be 'predict' or 'simulate'"),
        (
            ["plan", "--effort", "simulate", "--algorithm", "fast"],
            "effort='simulate' chooses among the ways of adaptive",
        ),
        (["compare", "--effort", "simulate", "--collective", "all-gather"], "--effort has no effect here"),
    ):
        assert run(words) == 2
        assert why in capsys.readouterr().err


@pytest.mark.parametrize("words", [["simulate"], ["verify"], ["export", "--to", "chrome-trace", "-o", "trace.json"]])
def test_what_auto_chose_and_why_is_said_of_its_file_too(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["plan", "--servers", "2", "--size", "4 MB", "-o", "plan.ilk", "--json"]) == 0
    why = json.loads(capsys.readouterr().out)["results"][0]["reason"]
    assert why.startswith("adaptive: ")
    command, *rest = words
    assert run([command, "plan.ilk", *rest, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == why
    assert run([command, "plan.ilk", *rest]) == 0
    assert " ".join(why.split()) in " ".join(capsys.readouterr().out.split())
