"""How fast do expert GEMMs run if a tile holds so many tokens?

Needs a CUDA GPU, torch and Triton. A plain grouped GEMM in bf16, one program per tile of an expert's output, many
tokens per expert so that only the tile's height matters; the fastest of a few widths, depths and warps counts. Prints a
table and writes JSON; the timing model reads one such file:

    python benchmarks/bench_tile_rates.py --json src/interlock/moe/tile_rates_h200.json
"""

from __future__ import annotations

import argparse
import itertools
import json
from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl

SHAPES = {"deepseek-v3": (7168, 2048, 8), "medium": (4096, 1024, 4), "small": (2048, 512, 2)}
TILES = (16, 32, 64, 128, 256)
WIDTHS, DEPTHS, WARPS, STAGES = (64, 128, 256), (64, 128), (4, 8), (3, 4)
TOKENS_PER_EXPERT = 4096


@triton.jit
def grouped_product(
    left, right, out, tokens, inner, outer, tile: tl.constexpr, width: tl.constexpr, depth: tl.constexpr
):
    """One tile of [experts, tokens, inner] x [experts, outer, inner] transposed."""
    expert = tl.program_id(1)
    columns = tl.cdiv(outer, width)
    row = tl.program_id(0) // columns * tile + tl.arange(0, tile)
    column = tl.program_id(0) % columns * width + tl.arange(0, width)
    step = tl.arange(0, depth)
    left_at = left + (expert * tokens + row[:, None]).to(tl.int64) * inner + step[None, :]
    right_at = right + (expert * outer + column[None, :]).to(tl.int64) * inner + step[:, None]
    total = tl.zeros((tile, width), dtype=tl.float32)
    for _ in range(0, inner, depth):
        total = tl.dot(tl.load(left_at), tl.load(right_at), total)
        left_at += depth
        right_at += depth
    out_at = out + (expert * tokens + row[:, None]).to(tl.int64) * outer + column[None, :]
    tl.store(out_at, total.to(tl.bfloat16))


def product_seconds(tile: int, inner: int, outer: int, experts: int) -> float:
    """Median seconds of the fastest kernel with that tile."""
    left = torch.randn(experts, TOKENS_PER_EXPERT, inner, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(experts, outer, inner, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(experts, TOKENS_PER_EXPERT, outer, device="cuda", dtype=torch.bfloat16)
    best = float("inf")
    for width, depth, warps, stages in itertools.product(WIDTHS, DEPTHS, WARPS, STAGES):
        if (tile + width) * depth * 2 * stages > 220_000 or tile * width > 128 * 256:
            continue  # beyond shared memory or registers
        grid = (TOKENS_PER_EXPERT // tile * (outer // width), experts)
        call = partial(
            grouped_product[grid],
            *(left, right, out, TOKENS_PER_EXPERT, inner, outer, tile, width, depth),
            num_warps=warps,
            num_stages=stages,
        )
        best = min(best, triton.testing.do_bench(call, warmup=10, rep=40, return_mode="median") / 1e3)
    return best


def main() -> None:
    """Measure every tile height."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("tile_rates.json"))
    options = parser.parse_args()
    rows = []
    for name, (hidden, ffn, experts) in SHAPES.items():
        for tile in TILES:
            up_s, down_s = (product_seconds(tile, *shape, experts) for shape in ((hidden, ffn), (ffn, hidden)))
            rate = 4 * TOKENS_PER_EXPERT * hidden * ffn * experts / (up_s + down_s)
            row = {"shape": name, "hidden": hidden, "ffn": ffn, "experts": experts, "tile_tokens": tile}
            rows.append(row | {"gemm1_s": up_s, "gemm2_s": down_s, "flops_per_s": rate})
            print(f"{name:12} tile {tile:4}  {rate / 1e12:7.1f} TFLOP/s", flush=True)
    versions = {"torch": torch.__version__, "triton": triton.__version__}
    facts = {"gpu": torch.cuda.get_device_name(), **versions, "tokens_per_expert": TOKENS_PER_EXPERT}
    options.json.write_text(json.dumps({"benchmark": "tile_rates", "machine": facts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
