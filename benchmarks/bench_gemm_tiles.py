"""How fast does one GPU run the two grouped GEMMs of an MoE layer, by tokens per expert?

Needs a CUDA GPU and torch. bf16, random data, one CUDA graph per shape, median of repeats; batched and grouped kernels,
the faster counts. All local experts have weights of their own, so they are read from memory as in a real layer. Prints
a table and writes JSON; the table that the MoE timing model reads is one such file:

    python benchmarks/bench_gemm_tiles.py --json src/interlock/moe/gemm_h200.json
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import torch

SHAPES = {  # name: (hidden, ffn, experts on the GPU)
    "deepseek-v3": (7168, 2048, 8),
    "medium": (4096, 1024, 4),
    "small": (2048, 512, 2),
    "esft": (2048, 1408, 8),
    "qwen3-235b": (4096, 1536, 4),
    "gpt-oss-120b": (2880, 2880, 4),
    "mixtral-8x7b": (4096, 14336, 1),
    "mixtral-8x22b": (6144, 16384, 1),
}
CALLS_PER_GRAPH = 20
TOKENS = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def grouped_seconds(tokens: int, inner: int, outer: int, experts: int, repeats: int) -> float:
    """Median seconds of a grouped product [experts, tokens, inner] x [experts, inner, outer]; the faster kernel's."""
    left = torch.randn(experts, tokens, inner, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(experts, inner, outer, device="cuda", dtype=torch.bfloat16)
    columns = (
        right.transpose(1, 2).contiguous().transpose(1, 2)
    )  # each expert's weights by column, as trained layers keep them
    ends = torch.arange(tokens, (experts + 1) * tokens, tokens, device="cuda", dtype=torch.int32)
    rows = left.reshape(experts * tokens, inner)
    calls = (lambda: torch.bmm(left, right), lambda: torch.nn.functional.grouped_mm(rows, columns, offs=ends))
    return min(replayed_seconds(call, repeats) for call in calls)


def replayed_seconds(call: Callable[[], torch.Tensor], repeats: int) -> float:
    """Median seconds of a call inside a CUDA graph of many."""
    for _ in range(3):
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS_PER_GRAPH):
            call()
    graph.replay()
    seconds = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3 / CALLS_PER_GRAPH)
    return statistics.median(seconds)


def main() -> None:
    """Measure every shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("gemm_tiles.json"))
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    rows = []
    for name, (hidden, ffn, experts) in SHAPES.items():
        for tokens in TOKENS:
            up_s = grouped_seconds(tokens, hidden, ffn, experts, options.repeats)
            down_s = grouped_seconds(tokens, ffn, hidden, experts, options.repeats)
            flops = 2 * 2 * tokens * hidden * ffn * experts
            rate = flops / (up_s + down_s)
            row = {"shape": name, "hidden": hidden, "ffn": ffn, "experts": experts, "tokens_per_expert": tokens}
            rows.append(row | {"gemm1_s": up_s, "gemm2_s": down_s, "flops_per_s": rate})
            print(f"{name:14} {tokens:5} tokens/expert  {rate / 1e12:7.1f} TFLOP/s", flush=True)
    facts = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "repeats": options.repeats}
    options.json.write_text(json.dumps({"benchmark": "gemm_tiles", "machine": facts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
