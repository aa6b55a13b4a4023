"""The experts of an MoE layer in plain Triton, to compare the kernel with: gather, SwiGLU and a weighted sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from interlock.gpu.moe.tables import Tables

TILE = 128  # tokens
COLUMNS = 256  # of weights: of down, or half of gate and half of up
DEPTH = 64
GROUP = 8  # tiles of tokens that go through the same columns together


@triton.jit
def products(
    rows_in,
    weights,
    made,
    token_of,
    tile_row,
    tile_end,
    tile_expert,
    num_tiles,
    depth,
    width,
    programs,
    TILE: tl.constexpr,  # noqa: N803
    COLUMNS: tl.constexpr,  # noqa: N803
    DEPTH: tl.constexpr,  # noqa: N803
    GROUP: tl.constexpr,  # noqa: N803
    IS_UP: tl.constexpr,  # noqa: N803
):
    """Tiles of rows times their expert's weights; with IS_UP rows are gathered, and gate and up meet in SwiGLU."""
    tiles = tl.load(num_tiles)
    across = width // COLUMNS
    for item in tl.range(tl.program_id(0), tiles * across, programs):
        first = item // (GROUP * across) * GROUP
        alike = tl.minimum(tiles - first, GROUP)
        tile, column = first + item % (GROUP * across) % alike, item % (GROUP * across) // alike
        expert, row = tl.load(tile_expert + tile), tl.load(tile_row + tile) + tl.arange(0, TILE)
        is_inside = row < tl.load(tile_end + tile)
        at = tl.load(token_of + row, mask=is_inside, other=0) if IS_UP else tl.where(is_inside, row, 0)
        source = rows_in + at[:, None].to(tl.int64) * depth + tl.arange(0, DEPTH)[None, :]
        if IS_UP:
            half: tl.constexpr = COLUMNS // 2
            gate = tl.zeros((TILE, half), dtype=tl.float32)
            up = tl.zeros((TILE, half), dtype=tl.float32)
            begin = expert * width + column * half
            for k in range(0, depth, DEPTH):
                tokens = tl.load(source + k)
                gate = tl.dot(tokens, weights.load([begin, k]).T, gate)
                up = tl.dot(tokens, weights.load([begin + width // 2, k]).T, up)
            place = column * half + tl.arange(0, half)
            value = gate / (1.0 + tl.exp(-gate)) * up
            to = made + row[:, None].to(tl.int64) * (width // 2) + place[None, :]
            tl.store(to, value.to(tl.bfloat16), mask=is_inside[:, None])
        else:
            total = tl.zeros((TILE, COLUMNS), dtype=tl.float32)
            for k in range(0, depth, DEPTH):
                total = tl.dot(tl.load(source + k), weights.load([expert * width + column * COLUMNS, k]).T, total)
            place = column * COLUMNS + tl.arange(0, COLUMNS)
            to = made + row[:, None].to(tl.int64) * width + place[None, :]
            tl.store(to, total.to(tl.bfloat16), mask=is_inside[:, None])


def make_products(
    tables: Tables, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor
) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """Both products of a layer, to be called with what comes after SwiGLU and after down."""
    num_experts, hidden, inner = down.shape
    ends = tables.row_ends
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    counts = (ends - starts + TILE - 1) // TILE
    last = torch.cumsum(counts, 0)
    index = torch.arange(len(tables.token_of) // TILE + num_experts, device=x.device)
    expert = torch.searchsorted(last, index, right=True).clamp_(max=num_experts - 1)
    row = (starts[expert] + (index - (last - counts)[expert]) * TILE).to(torch.int32)
    tiles = row, ends[expert], expert.to(torch.int32), last[-1:].to(torch.int32)
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    sizes: dict[str, Any] = {"TILE": TILE, "COLUMNS": COLUMNS, "DEPTH": DEPTH, "GROUP": GROUP}
    options = {**sizes, "num_warps": 8, "num_stages": 3}
    of_up = TensorDescriptor.from_tensor(gate_up.view(-1, hidden), [COLUMNS // 2, DEPTH])
    of_down = TensorDescriptor.from_tensor(down.view(-1, inner), [COLUMNS, DEPTH])

    def run(inner_rows: torch.Tensor, results: torch.Tensor) -> None:
        products[(programs,)](
            x, of_up, inner_rows, tables.token_of, *tiles, hidden, 2 * inner, programs, IS_UP=True, **options
        )
        products[(programs,)](
            inner_rows, of_down, results, tables.token_of, *tiles, inner, hidden, programs, IS_UP=False, **options
        )

    return run
