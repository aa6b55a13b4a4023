"""A new format needs a module and one entry: everything else is found by what its `Format` says."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import interlock as il
from interlock.cli.main import run
from interlock.interchange import FORMATS, Format, get_format

FOLDER = Path(importlib.import_module("interlock.interchange").__file__ or "").parent

TOY = """
import interlock as il
from interlock.interchange.contract import ExportReport, ForeignSchedule

def write_schedule(schedule, problem, path):
    rows = (f"{a} {b} {c}" for a, b, c in zip(schedule.src.values, schedule.dst.values, schedule.size_bytes))
    path.write_text("toy\\n" + "\\n".join(rows) + "\\n")
    return ExportReport("toy", (path,))

def read_schedule(path, intent):
    plan = il.plan(intent.cluster, intent.demand, algorithm="direct")
    return ForeignSchedule("toy", plan.schedule, plan.problem)
"""


def test_every_module_of_a_format_is_in_the_table_and_reads_and_writes() -> None:
    named = {format_.module for format_ in FORMATS.values()}
    files = {file for file in FOLDER.rglob("*.py") if "\ndef write_schedule(" in file.read_text()}
    found = {file.stem if file.parent == FOLDER else file.parent.name for file in files}
    assert named == {f"interlock.interchange.{name}" for name in found} and len(FORMATS) == len(named)
    for module in named:
        for call in ("read_schedule", "write_schedule"):
            assert callable(getattr(importlib.import_module(module), call))


def test_a_module_and_its_entry_make_a_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "toy_format.py").write_text(TOY)
    monkeypatch.syspath_prepend(str(tmp_path))
    toy = Format("toy", "toy_format", "a test", lambda path, start: start.startswith("toy"))
    monkeypatch.setitem(FORMATS, "toy", toy)
    cluster = il.cluster("h200", servers=2)
    demand = il.traffic.zipf(cluster, bytes_per_gpu="1 MB", seed=5)
    plan = il.plan(cluster, demand, algorithm="direct")
    plan.save(tmp_path / "a.ilk")
    assert run(["export", str(tmp_path / "a.ilk"), "--to", "toy", "-o", str(tmp_path / "a.toy")]) == 0
    assert (tmp_path / "a.toy").read_text().count("\n") == 1 + plan.schedule.num_messages
    matrix = tmp_path / "m.txt"
    matrix.write_text("\n".join(" ".join(map(str, row)) for row in demand.bytes_matrix.tolist()))
    words = ["simulate", str(tmp_path / "a.toy"), "--demand", str(matrix), "--cluster", "h200", "--servers", "2"]
    assert run(words) == 0 and "yes" in capsys.readouterr().out
    assert get_format("toy").summary == "a test"
