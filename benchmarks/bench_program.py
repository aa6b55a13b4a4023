"""How long until a rank can run, and how does that grow?

From a demand matrix in memory to one rank's program (`il.planner`, no cache, then `Plan.program`), Zipf 0.8 at 64 MB
per GPU, least of the repeats, each with a demand and a rank of its own; the exponent over servers from 8 to 128 of the
program alone, beside that of the messages a rank has; `fast` from matrix to all rows; the most memory that planning
and a program take at 128 servers.
"""

from __future__ import annotations

import subprocess
import sys
import time

import interlock as il
from common import arguments, fitted_exponent, report

SERVERS = (4, 8, 16, 40, 64, 128)
LIMIT_US = {4: 150, 8: 300, 16: 500, 40: 1000, 64: 2000, 128: 5000}  # twice that where stages must be found
MEMORY = """
import resource, interlock as il
cluster = il.cluster("h200", servers=128)
plan = il.planner(cluster, "adaptive", cache=False)(il.traffic.zipf(cluster, 0.8, "64 MB", seed=0))
plan.program(77)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def program_row(servers: int, fan_in: int | None, seed: int, repeats: int) -> dict[str, object]:
    """Least microseconds of the decision, of a program after it, and of both."""
    cluster = il.cluster("h200", servers=servers, fan_in=fan_in)
    plan = il.planner(cluster, algorithm="adaptive", cache=False)
    took: list[tuple[float, float, int]] = []
    for repeat in range(repeats):
        demand = il.traffic.zipf(cluster, 0.8, "64 MB", seed=seed + repeat)
        start_s = time.perf_counter()
        made = plan(demand)
        decided_s = time.perf_counter()
        program = made.program((7 * repeat + seed) % cluster.num_ranks)
        ready_s = time.perf_counter()
        took.append((decided_s - start_s, ready_s - decided_s, program.num_sends + program.num_receives))
    return {
        "fan-in": "any" if fan_in is None else fan_in,
        "servers": servers,
        "decide us": min(decide for decide, _, _ in took) * 1e6,
        "program us": min(program for _, program, _ in took) * 1e6,
        "runnable us": min(decide + program for decide, program, _ in took) * 1e6,
        "limit us": LIMIT_US[servers] * (1 if fan_in is None else 2),
        "messages of a rank": sum(messages for _, _, messages in took) / len(took),
    }


def fast_row(servers: int, seed: int, repeats: int) -> dict[str, object]:
    """Least milliseconds of `fast` from the matrix to all rows."""
    cluster = il.cluster("h200", servers=servers)
    plan = il.planner(cluster, algorithm="fast", cache=False)
    seconds, messages = [], 0
    for repeat in range(repeats):
        demand = il.traffic.zipf(cluster, 0.8, "64 MB", seed=seed + repeat)
        start_s = time.perf_counter()
        messages = plan(demand).schedule.num_messages
        seconds.append(time.perf_counter() - start_s)
    return {"servers": servers, "all rows ms": min(seconds) * 1e3, "messages": messages}


def main() -> None:
    """Tables, exponents, memory."""
    options = arguments(__doc__ or "")
    rows = [program_row(n, fan_in, options.seed, options.repeats) for fan_in in (None, 1) for n in SERVERS]
    grown = [row for row in rows if row["fan-in"] == "any" and row["servers"] >= 8]
    servers = [float(str(row["servers"])) for row in grown]
    exponents = {
        f"exponent of {name}": fitted_exponent(servers, [float(str(row[name])) for row in grown])
        for name in ("program us", "messages of a rank")
    }
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    fast = [fast_row(n, options.seed, options.repeats) for n in (4, 8, 40)]
    report("program", rows, options, **exponents, memory_mib=float(done.stdout), fast=fast)


if __name__ == "__main__":
    main()
