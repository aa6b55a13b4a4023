"""What does `inswitch` gain over DySHARP on real routing, how does it depend on the hardware, and what does it cost?

Simulated at tile level. Shape hidden 2048, ffn 1408, 64 experts, top-6, EP 8/16/32, two extra replica slots per GPU for
both, equal precision. DySHARP sends one partial per GPU; with one per expert it sends more, reported too. Reads
../shared/data/moe/esft_top6_routing.npz where it is there, otherwise routing drawn with a Zipf law.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import arguments, report
from interlock.moe import PAPER, Layer, LayerTraffic, layer_time, paper_layers, uniform_traffic
from interlock.moe.comparison import compare_schemes
from interlock.topology import cluster
from interlock.traffic import Routing, eplb_placement, read_routing
from interlock.traffic.moe_router import moe_routing

TRACE = Path(__file__).parent.parent.parent / "shared" / "data" / "moe" / "esft_top6_routing.npz"


def routings(seed: int) -> list[tuple[str, int, Routing]]:
    """(name, GPUs, routing with replicas)."""
    made = []
    for gpus in (8, 16, 32):
        if TRACE.exists():
            cases = [
                (f"{task} {layer}", read_routing(TRACE, gpus, task, layer, 64))
                for task in ("intent", "summary")
                for layer in (3, 10, 20)
            ]
        else:
            where = cluster("h200", servers=1, gpus_per_server=gpus)
            cases = [(f"zipf {s}", moe_routing(where, 8192 // gpus, 64, 6, s, seed=seed)) for s in (0.4, 0.6, 0.8)]
        for name, routing in cases:
            made.append((name, gpus, routing.with_placement(eplb_placement(routing.expert_loads(), gpus, 2))))
    return made


def main() -> None:
    """Three tables: over DySHARP, sensitivity, and the cost of the largest simulation."""
    options = arguments(__doc__ or "")
    rows, ratios = [], []
    for name, gpus, routing in routings(options.seed):
        layer = Layer(name, 2048, 1408, 64, 6, routing.num_tokens // gpus)
        made = {row.algorithm: row for row, _ in compare_schemes(layer, routing, ["dysharp", "inswitch"])}
        # One partial per expert: choices over distinct GPUs more bytes on the way back.
        extra = routing.top_k / float(routing.ranks_of_token().counts.mean())
        swollen = replace(layer, combine_bytes=layer.combine_bytes * extra)
        per_expert = layer_time("dysharp", swollen, LayerTraffic.from_routing(routing))
        ratio = made["dysharp"].makespan_s / made["inswitch"].makespan_s
        ratios.append(ratio)
        rows.append(
            {
                "routing": name,
                "gpus": gpus,
                "dysharp_us": made["dysharp"].makespan_s * 1e6,
                "inswitch_us": made["inswitch"].makespan_s * 1e6,
                "ratio": ratio,
                "ratio_partial_per_expert": per_expert.makespan_s / made["inswitch"].makespan_s,
            }
        )
    large = paper_layers()[-1]
    start = time.process_time()
    traffic = uniform_traffic(large, 32)
    drawn = time.process_time()
    layer_time("dysharp", large, traffic)
    simulated = time.process_time()
    report(
        "inswitch",
        rows,
        options,
        geomean=float(np.exp(np.mean(np.log(ratios)))),
        least=min(ratios),
        sensitivity=sensitivity(),
        largest_simulation_cpu_s=simulated - drawn,
        largest_routing_cpu_s=drawn - start,
    )


def sensitivity() -> dict[str, dict[str, float]]:
    """Speed-up of DySHARP over DeepEP by tile size, TLB, reduction buffer and number of GPUs; medium layer, top-8."""
    medium = next(layer for layer in paper_layers() if layer.name == "medium-8")
    traffic_by_gpus = {gpus: uniform_traffic(medium, gpus) for gpus in (4, 8, 16, 32, 64)}

    def speed_up(gpus: int = 32, **changes: int) -> float:
        traffic = traffic_by_gpus[gpus]
        deepep_s = layer_time("deepep", medium, traffic).makespan_s
        return deepep_s / layer_time("dysharp", medium, traffic, replace(PAPER, **changes)).makespan_s

    return {
        "tile_tokens": {str(tile): speed_up(tile_tokens=tile) for tile in (32, 64, 128, 256, 512)},
        "tlb_entries": {str(size): speed_up(tlb_entries=size) for size in (64, 128, 256, 512, 1024)},
        "reduction_buffer_kib": {str(k): speed_up(reduction_buffer_bytes=k * 1024) for k in (8, 16, 32, 64, 128)},
        "gpus": {str(gpus): speed_up(gpus) for gpus in traffic_by_gpus},
    }


if __name__ == "__main__":
    main()
