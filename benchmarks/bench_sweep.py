"""Does a sweep of a thousand points give one table, however it is run and however often it is killed?

Three ways: without interruption, killed by SIGKILL a few times and taken up again, on a Dask cluster of two processes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from distributed import LocalCluster

from common import arguments, report

GRID = """
traffic = ["uniform", "random", "zipf:0.8", "hot:1.2", "sparse:0.2"]
sizes = ["64 kB", "1 MB", "16 MB", "128 MB", "512 MB"]
algorithms = ["direct", "spreadout", "fast", "adaptive"]
seeds = [0, 1, 2, 3, 4]
clusters = [{preset = "h200", gpus_per_server = 4, servers = [2, 4]}]
"""


def main() -> None:
    """Run the grid three ways and compare the tables byte by byte."""
    options = arguments(__doc__ or "", kills=3, workers=2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grid = folder / "grid.toml"
        grid.write_text(GRID)
        words = [sys.executable, "-m", "interlock", "sweep", str(grid)]
        local = ["--workers", str(options.workers)]
        rows = [
            _run("uninterrupted", folder / "whole", [*words, *local], kills=0),
            _run("killed and taken up", folder / "killed", [*words, *local], kills=options.kills),
        ]
        with LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=name
        ) as dask:
            rows.append(_run("Dask, 2 processes", folder / "dask", [*words, "--dask", dask.scheduler_address], kills=0))
    same = len({str(row["table"]) for row in rows}) == 1
    report("sweep", rows, options, tables_are_equal=same)
    sys.exit(not same)


def _run(way: str, folder: Path, words: list[str], kills: int) -> dict[str, object]:
    """One way; a kill comes each time another share of the points is there."""
    start, kept = time.perf_counter(), []
    for kill in range(kills):
        wanted = 1000 * (kill + 1) // (kills + 1)
        running = subprocess.Popen([*words, "-o", str(folder)], stdout=subprocess.DEVNULL)
        while running.poll() is None and len(list(folder.glob("points/*.json"))) < wanted:
            time.sleep(0.05)
        running.kill()
        running.wait()
        kept.append(len(list(folder.glob("points/*.json"))))
    subprocess.run([*words, "-o", str(folder)], stdout=subprocess.DEVNULL, check=True)
    table = (folder / "table.json").read_bytes()
    return {
        "way": way,
        "points": len(list(folder.glob("points/*.json"))),
        "finished when killed": ", ".join(map(str, kept)) or "-",
        "seconds": time.perf_counter() - start,
        "table": hashlib.sha256(table).hexdigest()[:16],
    }


if __name__ == "__main__":
    main()
