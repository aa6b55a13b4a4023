"""Rewrite the printed table in README.md with what this build prints: python tools/readme.py [--check].

`--check` compares what does not depend on the machine: algorithms, simulated times, bounds, stages and validity.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import interlock as il

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"(<!-- table -->\n```text\n)(.*?)(```\n<!-- end -->)", re.S)


def printed() -> str:
    """What README's three lines print."""
    cluster = il.cluster("h200", servers=4)
    traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="512 MB", seed=0)
    return f"{il.compare(cluster, traffic)}\n"


def lasting(text: str) -> list[list[str]]:
    """Rows without the planning time, which is measured."""
    lines = text.strip().splitlines()
    return [re.split(r"\s{2,}", line.strip())[:6] for line in lines[2:]]


if __name__ == "__main__":
    page = README.read_text()
    found = BLOCK.search(page)
    if found is None:
        sys.exit("README.md has no table block")
    if "--check" in sys.argv:
        sys.exit(0 if lasting(found.group(2)) == lasting(printed()) else "README.md's table is out of date")
    README.write_text(page[: found.start(2)] + printed() + page[found.end(2) :])
