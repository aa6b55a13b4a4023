"""What happens to rows beside the kernel: products by expert, SwiGLU, scaling and sums, in Triton on a GPU."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import torch

from interlock.gpu.moe.tables import Tables

__all__ = ["multiply_rows", "multiply_weights", "scale_rows", "sum_rows", "swiglu", "swiglu_back"]


def multiply_rows(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Rows times weights by expert, ``[rows, k]`` by ``[experts, k, n]``; rows behind the last end are nobody's."""
    if _is_grouped(rows):
        return torch._grouped_mm(rows, weights, offs=ends)
    made = rows.new_zeros(len(rows), weights.shape[2])
    for expert, (first, end) in enumerate(_spans(ends)):
        made[first:end] = rows[first:end] @ weights[expert]
    return made


def multiply_weights(left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """The sum over each expert's rows of outer products: ``[rows, m]`` and ``[rows, n]`` to ``[experts, m, n]``."""
    if _is_grouped(left):
        return torch._grouped_mm(left.t(), right, offs=ends)
    made = left.new_empty(len(ends), left.shape[1], right.shape[1])
    for expert, (first, end) in enumerate(_spans(ends)):
        made[expert] = left[first:end].t() @ right[first:end]
    return made


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """``silu(gate) * up`` of rows ``[gate | up]``."""
    gate, up = gate_up.float().chunk(2, dim=1)
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)


def swiglu_back(gate_up: torch.Tensor, inner_grad: torch.Tensor) -> torch.Tensor:
    """Gradient of ``[gate | up]``."""
    made = torch.empty_like(gate_up)
    if gate_up.is_cuda:
        if len(gate_up):
            inner = inner_grad.shape[1]
            _triton().swiglu_back[(len(gate_up),)](gate_up, inner_grad, made, inner, BLOCK=1024)
        return made
    gate, up = gate_up.float().chunk(2, dim=1)
    sigmoid, grad = torch.sigmoid(gate), inner_grad.float()
    inner = inner_grad.shape[1]
    made[:, :inner] = grad * up * sigmoid * (1 + gate * (1 - sigmoid))
    made[:, inner:] = grad * gate * sigmoid
    return made


def scale_rows(y_grad: torch.Tensor, results: torch.Tensor, tables: Tables) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient of every row's result, and of its weight (float32)."""
    if y_grad.is_cuda:
        made = torch.empty_like(results)
        weight_grad = torch.empty(len(results), dtype=torch.float32, device=results.device)
        if len(results):
            _triton().scale_rows[(len(results),)](
                y_grad, results, tables.row_output, tables.row_weight, made, weight_grad, results.shape[1], BLOCK=1024
            )
        return made, weight_grad
    grad = y_grad.float().index_select(0, tables.row_output)
    return (grad * tables.row_weight.unsqueeze(1)).to(results.dtype), (grad * results.float()).sum(1)


def sum_rows(rows: torch.Tensor, tables: Tables, weights: torch.Tensor | None) -> torch.Tensor:
    """Each output's rows, weighted, summed in float32 in their order."""
    num_outputs, width = len(tables.out_first) - 1, rows.shape[1]
    if rows.is_cuda:
        made = rows.new_empty(num_outputs, width)
        if num_outputs:
            grid = (num_outputs, -(-width // 1024))
            _triton().sum_rows[grid](
                rows,
                tables.out_first,
                tables.out_row,
                weights,
                made,
                width,
                IS_WEIGHTED=weights is not None,
                BLOCK=1024,
            )
        return made
    total = rows.new_zeros(num_outputs, width, dtype=torch.float32)
    counts = tables.out_first.diff()
    for turn in range(int(counts.max()) if num_outputs else 0):
        output = torch.nonzero(counts > turn).squeeze(1)
        entry = tables.out_first[output].long() + turn
        row = tables.out_row[entry].long()
        value = rows[row.clamp(min=0)].float()
        if weights is not None:
            value = value * weights[entry].unsqueeze(1)
        total[output] += torch.where(row.unsqueeze(1) < 0, 0.0, value)
    return total.to(rows.dtype)


def _is_grouped(rows: torch.Tensor) -> bool:
    return rows.is_cuda and rows.dtype == torch.bfloat16 and len(rows) > 0


def _spans(ends: torch.Tensor) -> list[tuple[int, int]]:
    listed: list[int] = ends.tolist()
    return list(zip([0, *listed[:-1]], listed, strict=True))


@cache
def _triton() -> ModuleType:
    from interlock.gpu.moe import triton_rows

    return triton_rows
