"""What does `import interlock` cost on top of `import numpy`?

Fresh interpreters, alternating, so that both see the same machine. At most 60 ms is the goal.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from common import arguments, report

CODE = "import time; start = time.perf_counter(); import {name}; print(time.perf_counter() - start)"


def main() -> None:
    """Median of fresh processes."""
    options = arguments(__doc__ or "", processes=21)
    seconds: dict[str, list[float]] = {"numpy": [], "numpy, interlock": []}
    for _ in range(options.processes):
        for name, samples in seconds.items():
            done = subprocess.run(
                [sys.executable, "-c", CODE.format(name=name)], capture_output=True, text=True, check=True
            )
            samples.append(float(done.stdout))
    rows = [
        {"import": name, "median_s": statistics.median(s), "least_s": min(s), "most_s": max(s)}
        for name, s in seconds.items()
    ]
    extra = statistics.median(seconds["numpy, interlock"]) - statistics.median(seconds["numpy"])
    report("import", rows, options, extra_ms=extra * 1e3)


if __name__ == "__main__":
    main()
