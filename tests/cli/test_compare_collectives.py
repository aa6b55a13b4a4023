"""`interlock compare` of collectives: one size, many sizes, clusters and graphs, and what is refused."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock import comparison, planning
from interlock.algorithms import registry
from interlock.cli.compare import size_range
from interlock.cli.main import run as main
from interlock.errors import InvalidInput

QUICK = ["--algorithms", "ring,direct", "--servers", "2"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["compare", *words]) == 0
    return capsys.readouterr().out


def test_a_collective_has_the_rows_of_an_all_to_allv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["--collective", "all-reduce", "--size", "1 MiB", *QUICK]
    told = json.loads(run(capsys, *words, "--html", str(page), "--json"))
    assert told["problem"]["collective"] == "all-reduce" and told["problem"]["size_bytes"] == 2**20
    assert {row["algorithm"] for row in told["results"]} == {"ring", "direct"}
    for row in told["results"]:
        assert row["valid"] and row["busbw_bytes_per_s"] == pytest.approx(row["algbw_bytes_per_s"] * 30 / 16)
    assert "all-reduce on 2x8 h200" in page.read_text()
    assert "over bound" in run(capsys, *words)


def test_sizes_make_the_table_of_nccl_tests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["--collective", "all-gather", "--sizes", "1KiB:1MiB:32", *QUICK]
    told = json.loads(run(capsys, *words, "--html", str(page), "--json"))
    assert [entry["size_bytes"] for entry in told["sizes"]] == [1024, 32768, 2**20]
    shown = [float(value) for value in re.findall(r'data-y="([^"]+)"', page.read_text())]
    rows = [row for entry in told["sizes"] for row in entry["results"]]
    assert sorted(shown) == sorted(row["busbw_bytes_per_s"] for row in rows)
    assert ">bound<" in page.read_text()
    lines = run(capsys, *words).splitlines()
    assert lines[1].split() == ["size", "(B)", "algorithm", "time", "algbw", "busbw", "over", "bound", "valid"]
    assert [line.split()[0] for line in lines if re.match(r"\d", line)] == ["1024", "32768", "1048576"]


def test_the_bound_over_sizes_is_above_every_algorithm() -> None:
    made = il.compare_sizes(il.cluster("h200", servers=1), il.all_reduce(0), ["64 KiB", "16 MiB"])
    lines = made.busbw_by_algorithm()
    assert {"nvls", "ring", "hierarchical", "bound"} <= set(lines) and "guided" not in lines
    for name, points in lines.items():
        for (_, busbw), (_, most) in zip(points, lines["bound"], strict=True):
            assert busbw <= most * (1 + 1e-9), name
    assert str(made).splitlines()[1].split()[:3] == ["size", "(B)", "algorithm"]


def test_graphs_and_groups_are_compared_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--topology", "switch:6", "--collective", "broadcast", "--group", "1,2,5", "--root", "5"]
    told = json.loads(run(capsys, *words, "--size", "1 MB", "--algorithms", "ring,two-tree", "--json"))
    assert all(row["valid"] for row in told["results"]) and told["problem"]["num_ranks"] == 6
    made = il.compare(il.topology.ring(4, bandwidth="1 GB/s"), il.all_gather("1 MB"), ["ring"])
    assert made.best().algorithm == "ring"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--sizes", "1KiB:1MiB"], "--sizes has no effect here: it is for a --collective"),
        (["--root", "0"], "--root has no effect here"),
        (["--collective", "all-reduce", "--sizes", "1KiB"], "FROM:TO"),
        (["--collective", "all-reduce", "--sizes", "4KiB:1KiB"], "must rise"),
        (["--collective", "all-reduce", "--sizes", "0:1KiB"], "must rise"),
        (["--collective", "all-reduce", "--sizes", "1KiB:1MiB:1"], "the factor: 1 must be between 2 and 1024"),
        (["--collective", "all-reduce", "--sizes", "1KiB:1MiB", "--size", "1 MB"], "asks for several sizes"),
        (["--collective", "all-reduce", "--traffic", "uniform"], "--traffic has no effect here"),
        (["--collective", "all-reduce", "--root", "1"], "has no root"),
        (["--collective", "all-reduce", "--group", "0,x"], "ranks separated by commas"),
        (["--collective", "all-reduce", "--group", "0,²"], "ranks separated by commas"),
        (["--collective", "all-redcue"], "did you mean 'all-reduce'"),
        (["--topology", "ring:4", "--servers", "2"], "--servers has no effect here: --topology ring:4 is no cluster"),
        (["--collective", "all-gather", "--algorithms", "nvls-tree"], "not all-gather"),
        (["--collective", "all-reduce", "--sizes", "1KiB:1MiB", "--algorithms", "nvls"], "inside one server"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *words]) == 2
    assert why in capsys.readouterr().err


def test_wrong_arguments_of_the_functions_are_named() -> None:
    cluster = il.cluster("h200", servers=1)
    with pytest.raises(InvalidInput, match="traffic='all-reduce' must be a demand"):
        il.compare(cluster, "all-reduce")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="cluster='h200' must be"):
        il.compare("h200", il.all_reduce(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="sizes is empty"):
        il.compare_sizes(cluster, il.all_reduce(1), [])
    with pytest.raises(InvalidInput, match="collective="):
        il.compare_sizes(cluster, il.traffic.uniform(cluster), [1])  # type: ignore[arg-type]


def test_sizes_step_by_a_factor() -> None:
    assert size_range("1KiB:8KiB") == [1024, 2048, 4096, 8192]
    assert size_range("1:100:10") == [1, 10, 100]


@pytest.mark.parametrize("collective", ["all-reduce", "all-to-all"])
@pytest.mark.parametrize("where", [["--servers", "2"], ["--topology", "torus:3x3"]])
def test_what_auto_takes_is_said_first(
    where: list[str], collective: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    words = [*where, "--collective", collective, "--size", "1 MiB"]
    told = json.loads(run(capsys, *words, "--html", str(page), "--json"))
    if where[0] == "--servers":
        chosen = il.synthesize(il.cluster("h200", servers=2), il.collectives.collective(collective, "1 MiB")).compact
        assert told["auto"]["algorithm"] == chosen.algorithm == told["auto"]["reason"].split()[0].strip(":")
    fastest = min(row["makespan_s"] for row in told["results"])
    taken = [row["makespan_s"] for row in told["results"] if row["algorithm"] == told["auto"]["algorithm"]]
    assert all(seconds <= 1.01 * fastest for seconds in taken)
    text = html.unescape(page.read_text())
    assert text.index(f"auto takes {told['auto']['reason']}") < text.index("No schedule can take less than")
    assert run(capsys, *words).startswith(f"auto takes {told['auto']['reason']}.\n")


def test_nothing_is_planned_twice_to_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []

    def watched(solve: Callable[..., il.Plan]) -> Callable[..., il.Plan]:
        def solve_and_note(problem: il.Problem, algorithm: str, **given: Any) -> il.Plan:
            planned.append(algorithm)
            return solve(problem, algorithm, **given)

        return solve_and_note

    monkeypatch.setattr(comparison, "solve", watched(planning.solve))
    graph = il.topology.ring(4, bandwidth="50 GB/s")
    made = il.compare(graph, il.all_gather("1 MiB"))
    assert made.auto is not None and len(set(planned)) == len(planned) == len(made.results)

    # `auto` begins with an algorithm that is not asked for here, and which may take long.
    assert il.compare(il.cluster("h200", servers=2), il.all_reduce("1 MiB"), ["ring"]).auto is None


def test_an_algorithm_is_asked_once_whether_it_supports_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    supports = registry.Algorithm.supports

    def note(algorithm: registry.Algorithm, problem: il.Problem) -> str | None:
        asked.append(algorithm.name)
        return supports(algorithm, problem)

    monkeypatch.setattr(registry.Algorithm, "supports", note)
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    il.compare(cluster, il.traffic.uniform(cluster, "1 MB"), ["spreadout", "fast"])
    assert asked.count("spreadout") == asked.count("fast") == asked.count("auto") == 1
