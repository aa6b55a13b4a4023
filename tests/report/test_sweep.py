"""Sweeps give one table, however they are run and however often they are stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.cli.main import run
from interlock.errors import InvalidInput
from interlock.report import sweep as sweeping
from interlock.report.sweep import Point, read_grid, run_point, sweep
from interlock.report.sweep_page import summarise, sweep_page

GRID = """
traffic = ["uniform", "zipf:0.8"]
sizes = ["1 MB", "64 MB"]
algorithms = ["direct", "spreadout", "fast", "ring"]
seeds = [0, 1]
clusters = [{preset = "h200", servers = [2, 3]}]
"""

# A sweep that is killed as it has written its third point.
KILLED = """
import os, signal, sys
from pathlib import Path
from interlock.report import sweep as sweeping

write, written = sweeping.write_text, []

def write_and_die(path, text):
    write(path, text)
    written.append(path)
    if len(written) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

sweeping.write_text = write_and_die
sweeping.sweep(sweeping.read_grid(Path(sys.argv[1])), Path(sys.argv[2]), workers=1)
"""

# A sweep that is interrupted while its pool starts.
INTERRUPTED = """
import os, signal, sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from interlock.report.sweep import read_grid, sweep

start = ProcessPoolExecutor._start_executor_manager_thread

def hear_and_start(pool):
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(100))  # Python looks at signals between its instructions
    start(pool)

ProcessPoolExecutor._start_executor_manager_thread = hear_and_start
try:
    sweep(read_grid(Path(sys.argv[1])), Path(sys.argv[2]), workers=1)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture
def grid_file(tmp_path: Path) -> Path:
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    return file


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "grid.toml").write_text(GRID)
    sweep(read_grid(folder / "grid.toml"), folder, workers=1)
    return folder


def test_a_killed_sweep_taken_up_again_gives_the_same_table(grid_file: Path, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(grid_file), str(folder)], stderr=subprocess.DEVNULL)
    kept = {file: file.stat().st_mtime_ns for file in folder.glob("points/*.json")}

    assert run(["sweep", str(grid_file), "-o", str(folder), "--workers", "1"]) == 0
    assert killed.returncode == -signal.SIGKILL
    assert len(kept) == 3
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert (folder / "table.json").read_bytes() == (whole / "table.json").read_bytes()


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_while_the_pool_starts_waits_until_it_has(grid_file: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", INTERRUPTED, str(grid_file), str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_a_damaged_point_is_run_again(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = read_grid(whole / "grid.toml")
    folder = tmp_path / "out"
    (folder / "points").mkdir(parents=True)
    for file in whole.glob("points/*.json"):
        (folder / "points" / file.name).write_bytes(file.read_bytes())
    damaged = folder / "points" / f"{grid.points()[5].key}.json"
    damaged.write_text(damaged.read_text()[:20])
    asked: list[Point] = []
    monkeypatch.setattr(
        sweeping, "_run", lambda pool, points: [(p, run_point(p)) for p in (asked.extend(points), points)[1]]
    )

    sweep(grid, folder, workers=1)

    assert asked == [grid.points()[5]]
    assert (folder / "table.json").read_bytes() == (whole / "table.json").read_bytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_table(grid_file: Path, whole: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options, local_directory=str(tmp_path / "dask")) as workers:
        sweep(read_grid(grid_file), tmp_path / "out", dask=workers.scheduler_address)

    assert (tmp_path / "out" / "table.json").read_bytes() == (whole / "table.json").read_bytes()


def test_the_table_holds_every_point_in_the_order_of_the_grid(whole: Path) -> None:
    rows = json.loads((whole / "table.json").read_text())["rows"]
    points = read_grid(whole / "grid.toml").points()

    assert [{name: row[name] for name in point.columns} for row, point in zip(rows, points, strict=True)] == [
        point.columns for point in points
    ]
    assert all("refused" in row for row in rows if row["algorithm"] == "ring")
    assert all(row["valid"] and row["gap"] > 0 for row in rows if row["algorithm"] != "ring")
    assert not any("plan_s" in row for row in rows)


def test_the_winner_is_the_least_mean_over_seeds() -> None:
    problem = {"cluster": "c", "traffic": "t", "size_bytes": 8, "valid": True, "lower_bound_s": 1.0}
    gaps = {"a": (0.0, 3.0), "b": (0.9, 0.9), "c": (0.1, None)}
    rows = [
        problem | {"algorithm": n, "seed": k, "gap": g}
        for n, held in gaps.items()
        for k, g in enumerate(held)
        if g is not None
    ]
    rows.append(problem | {"algorithm": "c", "seed": 1, "gap": 0.0, "valid": False})
    summary = summarise(rows)

    assert summary.over_bound == {(("c", "t"), 8, "a"): pytest.approx(2.0), (("c", "t"), 8, "b"): pytest.approx(1.9)}
    assert summary.winner(("c", "t"), 8) == "b"


def test_the_summary_page_has_a_figure_per_traffic_and_cluster(whole: Path) -> None:
    rows = json.loads((whole / "table.json").read_text())["rows"]
    page = sweep_page(rows, "grid", "interlock sweep grid.toml")

    assert page.count('class="lines"') == 4
    assert "zipf:0.8 on 3x8 h200" in page


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sizes = []", "sizes must be a list"),
        ("sises = ['1 MB']", "did you mean 'sizes'"),
        ("sizes = [4]", "must be a word in quotes"),
        ("sizes = ['4 parsecs']", "parsecs"),
        ("algorithms = ['fsat']", "did you mean 'fast'"),
        ("traffic = ['zpif']", "did you mean 'zipf'"),
        ("seeds = [-1]", "-1"),
        ("clusters = ['h200']", "table"),
        ("clusters = [{preset = 'h200', servers = [2, 2]}]", "called '2x8 h200'"),
        ("seeds = [" + "0," * 40_000 + "]", "at most 100000"),
        ("clusters = [", "not TOML"),
    ],
)
def test_a_bad_grid_is_refused_before_anything_runs(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(text)

    with pytest.raises(InvalidInput, match=says.replace("[", r"\[")):
        read_grid(file)
    assert list(tmp_path.iterdir()) == [file]


def test_a_point_is_named_by_all_that_its_result_depends_on(grid_file: Path) -> None:
    points = read_grid(grid_file).points()

    assert len({point.key for point in points}) == len(points) == 64
