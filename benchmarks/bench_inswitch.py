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


SWEEPS: list[tuple[str, str, tuple[int, ...]]] = [  # what changes, on which layer, to which values
    ("tile_tokens", "large-8", (32, 64, 128, 256, 512)),
    ("tile_tokens", "medium-8", (32, 64, 128, 256, 512)),
    ("tlb_entries", "medium-8", (32, 64, 128, 256, 512, 1024)),
    ("tlb_entries", "medium-32", (32, 64, 128, 256, 512, 1024)),
    ("reduction_buffer_bytes", "medium-8", (8192, 16384, 32768, 65536, 131072)),
    ("gpus", "medium-8", (4, 8, 16, 32, 64)),
    ("gpus", "large-8", (4, 8, 16, 32, 64)),
    ("tokens_per_gpu", "large-8", (1024, 2048, 4096, 8192, 16384)),
]


def sensitivity() -> list[dict[str, object]]:
    """Speed-up of DySHARP over DeepEP on 32 GPUs by tile size, TLB, reduction buffer, number of GPUs and tokens."""
    made: list[dict[str, object]] = []
    for what, name, values in SWEEPS:
        layer = next(layer for layer in paper_layers() if layer.name == name)
        figures = "; ".join(f"{value}: {speed_up(layer, what, value):.2f}" for value in values)
        made.append({"changed": what, "layer": name, "speed-up over DeepEP": figures})
    return made


def speed_up(layer: Layer, what: str, value: int) -> float:
    """One setting changed; DeepEP keeps the paper's tile."""
    if what == "tokens_per_gpu":
        layer = replace(layer, tokens_per_gpu=value)
    traffic = uniform_traffic(layer, value if what == "gpus" else 32)
    machine = PAPER if what in ("gpus", "tokens_per_gpu") else replace(PAPER, **{what: value})
    deepep_s = layer_time("deepep", layer, traffic).makespan_s
    return deepep_s / layer_time("dysharp", layer, traffic, machine).makespan_s


if __name__ == "__main__":
    main()
