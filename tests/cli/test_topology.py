"""`interlock topology show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.cli.main import run


def test_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topology", "show", "torus:4x4", "-o", str(tmp_path / "torus.svg")]) == 0

    shown = capsys.readouterr().out
    assert "torus:4x4: 16 ranks, 0 switches, 64 links" in shown and "at most 4 links apart" in shown
    assert "tightest cut found for an All-to-All: 8 | 8 ranks, 8 links, 400 GB/s" in shown
    assert (tmp_path / "torus.svg").read_text().startswith("<svg ")


def test_json_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topology", "show", "h200:2", "--json", "-o", str(tmp_path / "cluster.html")]) == 0

    values = json.loads(capsys.readouterr().out)
    assert values["num_ranks"] == 16 and values["narrowest_cut"]["capacity_bytes_per_s"] == 400e9
    assert values["links"][0]["bandwidth_bytes_per_s"] == 450e9 and values["hops"] == 2
    assert (tmp_path / "cluster.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show"], "Missing argument"),
        (["show", "klein-bottle:4"], "klein-bottle"),
        (["show", "torus:4x4", "-o", "picture.png"], "must end in .svg or .html"),
        (["show", "torus:4x4", "-o", "no/such/folder.svg"], "there is no folder no/such"),
        (["show", "mesh:100x100", "-o", "large.svg"], "too many to draw"),
        (["show", "torus:4x4", "--bandwidth", "fast"], "fast"),
        (["shew", "torus:4x4"], "shew"),
    ],
)
def test_bad_words_are_refused(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(["topology", *words]) == 2
    shown = capsys.readouterr().err.strip()
    assert len(shown.splitlines()) == 1 and says in shown
    assert list(tmp_path.iterdir()) == []
