"""How much faster is a plan than torch's own All-to-All over real sockets? 4x4, 2x8 and 8x2 in the lab; needs root.

python benchmarks/bench_lab.py --repeats 10
"""

from __future__ import annotations

import os
import statistics

import numpy as np
import torch
import torch.distributed as dist

import interlock as il
import interlock.torch as ilt
from common import arguments, report
from interlock.lab import LabNetwork, LabSpec, RankContext, compare_in_lab, congestion_control, ranks_in
from interlock.lab.jobs import timed
from interlock.traffic import parse

SHAPES = [(4, 4), (2, 8), (8, 2)]
TRAFFIC = ["zipf:0.8", "hot:0.8", "balanced"]
SMALL_BYTES = 4096  # per pair
SMALL_WARM_UP = 5


def main() -> None:
    """Print a table of large transfers and one of small ones."""
    options = arguments(__doc__ or "", size="1.5MB", calibrate=2.0)
    rows, small = [], []
    for servers, gpus in SHAPES:
        spec = LabSpec(servers, gpus, 50e6 / 8, 500e6 / 8)
        with LabNetwork(spec) as network, ranks_in(network) as ranks:
            for words in TRAFFIC:
                demand = parse(words, spec.to_cluster(), options.size, options.seed)
                native, ours = compare_in_lab(
                    ranks,
                    spec,
                    demand,
                    ["native", "adaptive"],
                    repeat=max(10, options.repeats),
                    calibrate_s=options.calibrate,
                )
                rows.append(
                    {
                        "shape": f"{servers}x{gpus}",
                        "traffic": words,
                        "native_ms": native.measured_s * 1e3,
                        "adaptive_ms": ours.measured_s * 1e3,
                        "least_ms": ours.measured_least_s * 1e3,
                        "most_ms": ours.measured_most_s * 1e3,
                        "faster": native.measured_s / ours.measured_s,
                        "over_bound": 1 + ours.gap,
                        "busiest_nic_over_bound": busiest_nic_s(spec, demand) / ours.lower_bound_s,
                        "predicted_over_measured": ours.predicted_s / ours.measured_s,
                        "exchange_ms": ours.exchange_s * 1e3,
                        "valid": ours.valid and native.valid,
                    }
                )
            small.append(_small(ranks.call(small_calls, spec.to_cluster(), 10 * options.repeats), servers, gpus))
    around = {"congestion_control": congestion_control(), "load_average": os.getloadavg()[0]}
    report("lab", rows, options, small_messages=small, **around)


def busiest_nic_s(spec: LabSpec, demand: il.Demand) -> float:
    """What the busiest NIC takes if every pair talks straight: torch's own call cannot be faster."""
    server = np.arange(spec.num_ranks) // spec.gpus
    far = np.where(server[:, None] != server[None, :], demand.bytes_matrix, 0)
    rate = spec.to_cluster().nic_bandwidth_bytes_per_s
    return float(max((far.sum(axis=0) / rate).max(), (far.sum(axis=1) / rate).max()))


def _small(told: list[dict[str, float]], servers: int, gpus: int) -> dict[str, object]:
    times = told[0]
    return {
        "shape": f"{servers}x{gpus}",
        "bytes_per_pair": SMALL_BYTES,
        "native_ms": times["native"] * 1e3,
        "handle_of_native": times["native"] / times["handle"],
        "drop_in_of_native": times["native"] / times["drop_in"],
    }


def small_calls(context: RankContext, cluster: il.Cluster, repeats: int) -> dict[str, float]:
    """Median seconds of small calls, each kind in turn: torch's own, a handle with held demand, the bare drop-in."""
    ranks = context.num_ranks
    hosts = [f"server{rank // cluster.gpus_per_server}" for rank in range(ranks)]
    os.environ["INTERLOCK_HOST"] = hosts[context.rank]
    splits = [SMALL_BYTES] * ranks
    source = torch.zeros(sum(splits), dtype=torch.uint8)
    target = torch.zeros_like(source)
    handle = ilt.AllToAll(cluster, context.group, hosts=hosts)
    handle.hold(splits, splits, like=source)
    calls = {
        "native": lambda: dist.all_to_all_single(target, source, splits, splits, group=context.group),
        "handle": lambda: handle(target, source),
        "drop_in": lambda: ilt.all_to_all_single(target, source, splits, splits),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(repeats + SMALL_WARM_UP):
        for name in names[turn % 3 :] + names[: turn % 3]:
            call = calls[name]
            took_s, _ = timed(context, call)
            if turn >= SMALL_WARM_UP:
                seconds[name].append(took_s)
    handle.close()
    return {name: statistics.median(times) for name, times in seconds.items()}


if __name__ == "__main__":
    main()
