"""What every benchmark shares: repeats, medians, machine facts, a table and a JSON file."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import interlock as il

RESULTS = Path(__file__).parent / "results"
Load = Callable[["il.Cluster", str, int], "il.Demand"]


def loads() -> dict[str, Load]:
    """What `adaptive` is measured on, by name: makers of a demand from cluster, size per GPU and seed."""
    from interlock import traffic

    return {
        "balanced": lambda cluster, size, seed: traffic.uniform(cluster, size),
        "random": lambda cluster, size, seed: traffic.random(cluster, size, seed),
        "zipf 0.4": lambda cluster, size, seed: traffic.zipf(cluster, 0.4, size, seed),
        "zipf 0.8": lambda cluster, size, seed: traffic.zipf(cluster, 0.8, size, seed),
        "zipf 1.2": lambda cluster, size, seed: traffic.zipf(cluster, 1.2, size, seed),
        "hot expert": lambda cluster, size, seed: traffic.hot_expert(cluster, 0.8, size, seed),
        "sparse 5 %": lambda cluster, size, seed: traffic.sparse(cluster, 0.05, size, seed),
        "log-normal": lambda cluster, size, seed: traffic.lognormal(cluster, 1.0, size, seed),
    }


def arguments(description: str, **extra: object) -> argparse.Namespace:
    """`--seed`, `--repeats`, `--json FILE` and any extra option given as name=default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None, help="where to write results (default benchmarks/results)")
    for name, default in extra.items():
        if isinstance(default, bool):
            parser.add_argument(f"--{name.replace('_', '-')}", action="store_true")
        else:
            parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser.parse_args()


def timed(call: Callable[[], object], repeats: int) -> dict[str, float]:
    """Median, least and most seconds of `repeats` calls, after one that does not count."""
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return {"median_s": statistics.median(seconds), "least_s": min(seconds), "most_s": max(seconds), "repeats": repeats}


def fitted_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log seconds over log size."""
    import numpy as np

    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def report(name: str, rows: Sequence[dict[str, object]], options: argparse.Namespace, **facts: object) -> None:
    """Print rows as a table and write them with the machine's facts as JSON."""
    show(rows)
    for key, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            print(f"\n{key}")
            show(value)
        else:
            print(f"{key}: {_cell(value)}")
    target = options.json or RESULTS / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    made = {"benchmark": name, "machine": machine(), "seed": options.seed, "rows": list(rows), **facts}
    target.write_text(json.dumps(made, indent=1) + "\n")
    print(f"written to {target}")


def show(rows: Sequence[dict[str, object]]) -> None:
    """Print rows as a table."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    lines = [header, *([_cell(row.get(key, "")) for key in header] for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def machine() -> dict[str, object]:
    """Commit on main and whether the code differs from it, day, processor and versions.

    A machine without the repository is given a copy by `git archive`, which writes its commit into `COMMIT`.
    """
    archived = (Path(__file__).parent / "COMMIT").read_text().strip()
    is_archived = not archived.startswith("$")
    commit = archived if is_archived else _git("merge-base", "HEAD", "main") or _git("rev-parse", "HEAD")
    names = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "commit": commit[:7],
        "code_differs": not is_archived and bool(commit and _git("diff", "--stat", commit, "--", ":/src", ":/cpp")),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu": names[0] if names else platform.processor(),
        "cores": len(names),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "interlock": version("interlock"),
    }


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, cwd=Path(__file__).parent)
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
