"""Renew every stored result that takes no root and no special machine, then the docs' tables.

python benchmarks/run_all.py [NAME ...] [--list]: all, or those named; about an hour on two idle cores. A benchmark that
fails or takes longer than its limit keeps its old result, and is named at the end. Not here: the lab's (root), GEMMs
(a GPU), fits, and what takes hours (`bench_synthesis.py --width 200`).
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
# Script and options, and the minutes after which it is given up.
RUNS = {
    "zipf_definition": ([], 2),
    "profiles": (["--seed", "100"], 5),
    "rails": ([], 20),
    "quality": ([], 15),
    "draws": (["--seed", "5000", "--draws", "100"], 10),
    "grid": ([], 15),
    "mesh": ([], 5),
    "faults": ([], 5),
    "fabrics": ([], 5),
    "inswitch": ([], 5),
    "link_model": ([], 2),
    "across": ([], 5),
    "across_bound": ([], 12),
    "clusters": (["--seed", "1000", "--drawn", "100"], 5),
    "imported": ([], 2),
    "bounds": ([], 5),
    "planning": ([], 5),
    "simulator": ([], 5),
    "export": ([], 5),
    "sweep": ([], 5),
    "synthesis": ([], 10),
    "synthesis_quality": (["--seed", "4000", "--graphs", "1"], 5),
    "ways": (["--seed", "7300"], 12),
}


def main() -> int:
    """Run what was asked for; 1 where something kept its old result."""
    asked = [word for word in sys.argv[1:] if not word.startswith("-")]
    unknown = [name for name in asked if name not in RUNS]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; known: {', '.join(RUNS)}", file=sys.stderr)
        return 2
    if "--list" in sys.argv:
        print("\n".join(RUNS))
        return 0
    kept = []
    for name in asked or RUNS:
        words, minutes = RUNS[name]
        start = time.monotonic()
        try:
            done = subprocess.run([sys.executable, HERE / f"bench_{name}.py", *words], timeout=60 * minutes).returncode
        except subprocess.TimeoutExpired:
            done = 124
        print(f"== {name}: exit {done} after {time.monotonic() - start:.0f} s", flush=True)
        kept += [name] if done else []
    subprocess.run([sys.executable, HERE / "doc_tables.py"])
    if kept:
        print(f"kept their old results: {', '.join(kept)}")
    return 1 if kept else 0


if __name__ == "__main__":
    sys.exit(main())
