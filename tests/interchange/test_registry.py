"""A new format needs a folder and one line: everything else is found by what its `Format` says."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import interlock as il
from interlock.cli.main import run
from interlock.interchange import FORMATS, get_format
from interlock.interchange.registry import FOLDERS

FOLDER = Path(importlib.import_module("interlock.interchange").__file__ or "").parent

TOY = {
    "__init__.py": """
from interlock.interchange.contract import Format

FORMAT = Format("toy", __name__, "a test", lambda path, start: start.startswith("toy"))
""",
    "write.py": """
from interlock.interchange.contract import ExportReport

def write_schedule(schedule, problem, path):
    rows = (f"{a} {b} {c}" for a, b, c in zip(schedule.src.values, schedule.dst.values, schedule.size_bytes))
    path.write_text("toy\\n" + "\\n".join(rows) + "\\n")
    return ExportReport("toy", (path,))
""",
    "read.py": """
import interlock as il
from interlock.interchange.contract import ForeignSchedule

def read_schedule(path, intent):
    plan = il.plan(intent.cluster, intent.demand, algorithm="direct")
    return ForeignSchedule("toy", plan.schedule, plan.problem)
""",
}


def test_every_folder_of_a_format_is_named_and_says_how_it_reads_and_writes() -> None:
    found = {file.parent.name for file in FOLDER.glob("*/__init__.py") if "FORMAT = Format(" in file.read_text()}
    assert found == set(FOLDERS) and len(FORMATS) == len(FOLDERS)
    for name, folder in zip(FORMATS, FOLDERS, strict=True):
        assert FORMATS[name].folder == f"interlock.interchange.{folder}"
        for part, call in (("read", "read_schedule"), ("write", "write_schedule")):
            assert callable(getattr(importlib.import_module(f"{FORMATS[name].folder}.{part}"), call))


def test_a_folder_and_its_name_make_a_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "toy_format"
    folder.mkdir()
    for name, text in TOY.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(FORMATS, "toy", importlib.import_module("toy_format").FORMAT)
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
