"""Does the fabric decide whether stages pay? Published and packet-level figures beside our flow-level ones.

Two tables. `packets`: one NIC per endpoint, 32 endpoints, 400 Gb/s, log-normal sizes and hot receivers; completion over
the endpoint-level bound, all at once and in stages with barriers. `amd`: AlgoBW on 4x8 MI300X with 100 Gb/s RoCE and
DCQCN.
`--markdown FILE` writes the tables for the docs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

import interlock as il
from amd_logs import ALGBW_GB_PER_S, ALGORITHMS, SIZES_MB
from common import arguments, report
from fit_dcqcn import load
from interlock.algorithms import registry
from interlock.schedule import Batch, Phase, Schedule, assemble, make_pieces
from interlock.simulate import simulate
from interlock.topology import FABRICS, Cluster

ENDPOINTS = 32
BYTES_PER_ENDPOINT = 64 * 10**6
ROUND_TRIP = "2.4 us"  # what a barrier cost in the packet simulator
# Packet-level completion over the endpoint-level bound: all at once, Birkhoff stages, shift stages.
PACKET_LEVEL = {
    "trimming": ("crossbar, trimming or PFC", "1.02-1.04", "1.16-1.24", "1.4-3.7"),
    "roce-pfc": ("fat tree, PFC, one ECMP path per flow", "1.03-1.24 (equal sizes 1.46)", "1.7-2.8", "3 and more"),
    "lossy": ("crossbar, lossy, go-back-N", "never finished (> 36-64)", "1.16-1.23", "1.4-3.7"),
}


def endpoint_loads(seed: int, bytes_per_endpoint: int) -> dict[str, np.ndarray]:
    """Byte matrices between endpoints."""
    rng = np.random.default_rng(seed)
    skewed = rng.lognormal(0, 1.0, (ENDPOINTS, ENDPOINTS))
    hot = rng.lognormal(0, 0.5, (ENDPOINTS, ENDPOINTS))
    hot[:, :4] *= 4
    made = {"log-normal": skewed, "hot receivers": hot, "equal": np.ones((ENDPOINTS, ENDPOINTS))}
    for matrix in made.values():
        np.fill_diagonal(matrix, 0)
    return {
        name: (matrix / matrix.sum() * bytes_per_endpoint * ENDPOINTS).astype(np.int64) for name, matrix in made.items()
    }


def birkhoff_stages(matrix: np.ndarray) -> list[np.ndarray]:
    """Byte matrices of one-to-one stages: pad to equal sums, then take matchings with a large smallest entry."""
    size = len(matrix)
    left = matrix.astype(np.int64).copy()
    most = int(max(left.sum(0).max(), left.sum(1).max()))
    padding = _padding(left, most)
    stages = []
    while left.sum() > 0:
        total = left + padding
        rows, columns = _widest_matching(total)
        step = int(total[rows, columns].min())
        real = np.minimum(left[rows, columns], step)
        stage = np.zeros((size, size), np.int64)
        stage[rows, columns] = real
        left[rows, columns] -= real
        padding[rows, columns] -= step - real
        stages.append(stage)
    return stages


def _padding(matrix: np.ndarray, most: int) -> np.ndarray:
    """Virtual bytes that bring every row and column sum to `most`."""
    padding = np.zeros_like(matrix)
    row, column = most - matrix.sum(1), most - matrix.sum(0)
    i = j = 0
    while i < len(matrix) and j < len(matrix):
        step = min(row[i], column[j])
        padding[i, j] += step
        row[i] -= step
        column[j] -= step
        i, j = (i + 1, j) if row[i] == 0 else (i, j + 1)
    return padding


def _widest_matching(total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A perfect matching whose smallest entry is as large as can be, by halving over the entries."""
    values = np.unique(total[total > 0])
    low, high = 0, len(values) - 1
    best = None
    while low <= high:
        middle = (low + high) // 2
        rows, columns = linear_sum_assignment(total < values[middle])
        if (total[rows, columns] >= values[middle]).all():
            best, low = (rows, columns), middle + 1
        else:
            high = middle - 1
    assert best is not None
    return best


def staged(stages: list[np.ndarray]) -> Schedule:
    """One barrier before every stage."""
    batches = []
    for number, stage in enumerate(stages):
        src, dst = np.nonzero(stage)
        size = stage[src, dst]
        pieces = make_pieces(np.zeros(len(src) + 1), [])
        batches.append(
            Batch(src.astype(np.int32), dst.astype(np.int32), pieces, Phase.SCALE_OUT, number, size_bytes=size)
        )
    return assemble(batches, barriers=range(1, len(stages)))


def shifts(matrix: np.ndarray) -> list[np.ndarray]:
    """Stage k: endpoint i to i + k."""
    rank = np.arange(len(matrix))
    stages = []
    for k in range(1, len(matrix)):
        stage = np.zeros_like(matrix)
        stage[rank, (rank + k) % len(matrix)] = matrix[rank, (rank + k) % len(matrix)]
        stages.append(stage)
    return stages


def packet_table(seed: int) -> list[dict[str, object]]:
    """Completion over the bound, per fabric and load."""
    rows: list[dict[str, object]] = []
    base = {"servers": ENDPOINTS, "gpus_per_server": 1, "scale_out_latency": ROUND_TRIP, "stage_overhead": "0 us"}
    for name in PACKET_LEVEL:
        cluster = il.cluster("h200", fabric=FABRICS[name], **base)  # type: ignore[arg-type]
        for load_name, matrix in endpoint_loads(seed, BYTES_PER_ENDPOINT).items():
            bound_s = max(matrix.sum(0).max(), matrix.sum(1).max()) / cluster.scale_out_bandwidth_bytes_per_s
            plans = {"all at once": [matrix], "Birkhoff": birkhoff_stages(matrix), "shift": shifts(matrix)}
            row: dict[str, object] = {"fabric": name, "load": load_name}
            for title, stages in plans.items():
                row[title] = round(simulate(staged(stages), cluster).makespan_s / bound_s, 2)
            rows.append(row | {"stages": len(plans["Birkhoff"])})
    return rows


def amd_table(seeds: int) -> list[dict[str, object]]:
    """AlgoBW in GB/s, published and ours."""
    cluster = il.cluster("mi300x-100g", servers=4)
    rows: list[dict[str, object]] = []
    for kind, published in ALGBW_GB_PER_S.items():
        for place, size_mb in enumerate(SIZES_MB):
            row: dict[str, object] = {"load": kind, "MB per GPU": size_mb}
            for name, algorithm in ALGORITHMS.items():
                row[f"{name} published"] = published[name][place]
                row[f"{name} ours"] = _algbw(cluster, kind, size_mb, algorithm, seeds)
            rows.append(row)
    return rows


def _algbw(cluster: Cluster, kind: str, size_mb: int, algorithm: str, seeds: int) -> object:
    if algorithm not in registry.names():
        return ""
    each = []
    for seed in range(seeds):
        demand = load(kind, cluster, size_mb, seed)
        makespan_s = il.plan(cluster, demand, algorithm=algorithm).simulate(tolerance=1e-3).makespan_s
        each.append(float(demand.bytes_matrix.sum()) / cluster.num_ranks / makespan_s / 1e9)
    return round(float(np.mean(each)), 2)


def ordering_agreement(rows: list[dict[str, object]]) -> str:
    """In how many cells the pairwise order of the algorithms is the published one."""
    names = [name for name in ALGORITHMS if rows[0][f"{name} ours"] != ""]
    right = total = 0
    for row in rows:
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                published = float(str(row[f"{a} published"])) - float(str(row[f"{b} published"]))
                ours = float(str(row[f"{a} ours"])) - float(str(row[f"{b} ours"]))
                total += 1
                right += published * ours > 0
    return f"{right} of {total} pairs"


def markdown(rows: list[dict[str, object]]) -> str:
    """A table for the docs."""
    header = list(rows[0])
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(row[key]) for key in header) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Both tables."""
    options = arguments(__doc__ or "", seeds=3, markdown="")
    packets = packet_table(options.seed)
    report("fabrics_packets", packets, options, packet_level=PACKET_LEVEL)
    amd = amd_table(options.seeds)
    agreement = ordering_agreement(amd)
    report("fabrics_amd", amd, options, ordering=agreement)
    if options.markdown:
        Path(options.markdown).write_text(markdown(packets) + "\n" + markdown(amd) + "\n" + agreement + "\n")


if __name__ == "__main__":
    main()
