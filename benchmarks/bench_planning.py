"""How long does planning take, and where does the time go?

From a demand matrix to a decided plan (`il.planner`, no cache), Zipf 0.8 at 512 MB per GPU,
by number of servers and by fabric; warm replanning after a 5 % change; the parts of one native call; FAST's
decomposition; full expansion into messages and pieces.
"""

from __future__ import annotations

from itertools import count

import numpy as np

import interlock as il
from common import arguments, fitted_exponent, report, timed
from interlock._native import _core

GOAL_S = {4: 25e-6, 8: 100e-6, 40: 1e-3, 64: 3e-3, 128: 15e-3}
SERVERS = (4, 8, 16, 40, 64, 128)


def drifted(demand: il.Demand, seed: int, change: float = 0.05) -> il.Demand:
    """The demand with every entry changed by up to `change`, up or down."""
    noise = 1.0 + change * (2.0 * np.random.default_rng(seed).random(demand.bytes_matrix.shape) - 1.0)
    return il.traffic.matrix((demand.bytes_matrix * noise).astype(np.int64))


def planning(seed: int) -> list[dict[str, object]]:
    """One row per size and fabric."""
    return [planning_row(servers, fan_in, seed) for fan_in in (None, 1) for servers in SERVERS]


def planning_row(servers: int, fan_in: int | None, seed: int) -> dict[str, object]:
    """Cold, warm and with every row written out."""
    cluster = il.cluster("h200", servers=servers, fan_in=fan_in)
    demands = [il.traffic.zipf(cluster, 0.8, "512 MB", seed + k) for k in range(5)]
    plan = il.planner(cluster, algorithm="adaptive", cache=False)
    before = plan(demands[0])
    changed = [drifted(demands[0], seed + k) for k in range(5)]
    turn, repeats = count(), 200 if servers < 40 else 20
    cold = timed(lambda: plan(demands[next(turn) % 5]), repeats)
    warm = timed(lambda: plan(changed[next(turn) % 5], previous=before), repeats)
    row: dict[str, object] = {
        "fan-in": "any" if fan_in is None else fan_in,
        "servers": servers,
        "cold us": cold["median_s"] * 1e6,
        "goal us": GOAL_S[servers] * 1e6 if servers in GOAL_S else "",
        "warm us": warm["median_s"] * 1e6,
        "warm/cold": warm["median_s"] / cold["median_s"],
        "stages": before.num_stages,
    }
    if servers <= 40:
        row["expand ms"] = timed(lambda: plan(demands[next(turn) % 5]).schedule, 9)["median_s"] * 1e3
        row["messages"] = before.compact.num_messages
    return row


def parts(seed: int) -> list[dict[str, object]]:
    """Where the time of a plan goes: summing the matrix, deciding, Python around it."""
    return [parts_row(servers, seed) for servers in SERVERS]


def parts_row(servers: int, seed: int) -> dict[str, object]:
    """One plan, taken apart."""
    cluster = il.cluster("h200", servers=servers)
    demand = il.traffic.zipf(cluster, 0.8, "512 MB", seed)
    plan = il.planner(cluster, algorithm="adaptive", cache=False)
    repeats = 200 if servers < 40 else 20
    whole = timed(lambda: plan(demand), repeats)["median_s"]
    tiles = timed(lambda: _core.sum_tiles(demand.bytes_matrix, servers), repeats)["median_s"]
    return {
        "servers": servers,
        "plan us": whole * 1e6,
        "sum the matrix us": tiles * 1e6,
        "the rest us": (whole - tiles) * 1e6,
    }


def birkhoff(seed: int) -> list[dict[str, object]]:
    """FAST's decomposition of the same demand, natively."""
    return [birkhoff_row(servers, seed) for servers in (4, 8, 16, 40)]


def birkhoff_row(servers: int, seed: int) -> dict[str, object]:
    """Only the stages of one demand."""
    cluster = il.cluster("h200", servers=servers)
    tiles = np.array(_core.sum_tiles(il.traffic.zipf(cluster, 0.8, "512 MB", seed).bytes_matrix, servers))
    np.fill_diagonal(tiles, 0)
    seconds = timed(lambda: _core.decompose(tiles), 5)["median_s"]
    return {"servers": servers, "decompose us": seconds * 1e6, "stages": len(_core.decompose(tiles)[0])}


def main() -> None:
    """Tables and the exponent of planning time in the number of servers."""
    options = arguments(__doc__ or "")
    rows = planning(options.seed)
    anywhere = [row for row in rows if row["fan-in"] == "any" and row["servers"] >= 8]
    exponent = fitted_exponent([row["servers"] for row in anywhere], [row["cold us"] for row in anywhere])
    report("planning", rows, options, exponent=exponent, parts=parts(options.seed), birkhoff=birkhoff(options.seed))


if __name__ == "__main__":
    main()
