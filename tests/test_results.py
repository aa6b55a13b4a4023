"""Stored results: each says from which commit and day, and the docs' tables are made of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_a_result_has_a_commit_of_this_history_and_a_day(file: Path) -> None:
    machine = json.loads(file.read_text())["machine"]
    date.fromisoformat(machine["date"])
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        pytest.skip("not a whole clone")
    assert subprocess.run([*git, "merge-base", "--is-ancestor", machine["commit"], "HEAD"]).returncode == 0


def test_an_archive_of_the_repository_knows_its_commit(tmp_path: Path) -> None:
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run([*git, "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        pytest.skip("not a clone")
    archived = subprocess.run([*git, "archive", "HEAD", "benchmarks"], capture_output=True, check=True).stdout
    subprocess.run(
        ["tar", "-x", "-C", str(tmp_path), "benchmarks/COMMIT", "benchmarks/common.py"], input=archived, check=True
    )
    ask = "import common; facts = common.machine(); print(facts['commit'], facts['code_differs'])"
    told = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path / "benchmarks", capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == [head.stdout.strip(), "False"]


def test_a_result_tells_whether_the_code_was_another_than_its_commit_s(tmp_path: Path) -> None:
    cloned = subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(tmp_path / "clone")], capture_output=True)
    if cloned.returncode:
        pytest.skip("not a clone")
    clone = tmp_path / "clone"
    (clone / "benchmarks" / "common.py").write_text((ROOT / "benchmarks" / "common.py").read_text())
    told = []
    for code in (None, "src/interlock/units.py", "cpp/bindings/module.cpp"):
        subprocess.run(["git", "-C", str(clone), "checkout", "-q", "--", "src", "cpp"], check=True)
        if code is not None:
            (clone / code).write_text("another\n")
        ask = [sys.executable, "-c", "import common; print(common.machine()['code_differs'])"]
        told += subprocess.run(ask, cwd=clone / "benchmarks", capture_output=True, text=True, check=True).stdout.split()
    assert told == ["False", "True", "True"]


def test_tables_of_the_docs_are_those_of_the_stored_results() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "doc_tables.py"), "--check"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout


def test_what_is_said_to_be_older_is_stored() -> None:
    page = (ROOT / "docs" / "limits.md").read_text()
    older = page[page.index("they were not run again") : page.index("<!-- table: results -->")]
    names = set(re.findall(r"`(\w+)`", older))
    assert len(names) > 10 and names <= {file.stem for file in RESULTS}


def test_every_benchmark_that_is_renewed_exists() -> None:
    listed = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "run_all.py"), "--list"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split()
    for name in listed.stdout.split():
        assert (ROOT / "benchmarks" / f"bench_{name}.py").exists(), name
