"""The layer: every token through its experts (gate, up, SwiGLU, down) and the weighted sum, forward and backward."""

from __future__ import annotations

from typing import Any

import torch

from interlock.errors import InvalidInput
from interlock.gpu.moe.products import launch_experts, why_not
from interlock.gpu.moe.rows import multiply_rows, multiply_weights, scale_rows, sum_rows, swiglu, swiglu_back
from interlock.gpu.moe.tables import Tables, make_tables

__all__ = ["Layer", "experts"]


def experts(
    x: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    order: str = "fixed",
) -> torch.Tensor:
    """``y[t] = sum over j of topk_weights[t, j] * expert[topk_idx[t, j]](x[t])``.

    Parameters
    ----------
    x
        Tokens, ``[tokens, hidden]``.
    gate_up
        ``[experts, 2 * inner, hidden]``: rows of gate, then rows of up.
    down
        ``[experts, hidden, inner]``.
    topk_idx, topk_weights
        ``[tokens, k]``; index -1 is no expert.
    order
        "fixed" sums each token's results in the order of its choices: bit-identical from run to run. "any" adds them
        as they come (atomics), without gradients.
    """
    _check(x, gate_up, down, topk_idx, topk_weights, order)
    keeps = torch.is_grad_enabled() and any(v.requires_grad for v in (x, gate_up, down, topk_weights))
    if keeps and order == "any":
        raise InvalidInput('order="any" has no gradients; call it under torch.no_grad() or take order="fixed"')
    made: tuple[torch.Tensor, ...] = _experts(x, gate_up, down, topk_idx, topk_weights, order == "fixed", keeps)
    return made[0]


class Layer(torch.nn.Module):
    """Experts with their weights.

    >>> layer = Layer(hidden=256, inner=128, num_experts=4)
    >>> layer(torch.randn(8, 256), torch.randint(4, (8, 2)), torch.rand(8, 2)).shape
    torch.Size([8, 256])
    """

    def __init__(
        self,
        hidden: int,
        inner: int,
        num_experts: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.gate_up = torch.nn.Parameter(torch.empty(num_experts, 2 * inner, hidden, device=device, dtype=dtype))
        self.down = torch.nn.Parameter(torch.empty(num_experts, hidden, inner, device=device, dtype=dtype))
        with torch.no_grad():
            self.gate_up.normal_(0, hidden**-0.5)
            self.down.normal_(0, inner**-0.5)

    def forward(self, x: torch.Tensor, topk_idx: torch.Tensor, topk_weights: torch.Tensor) -> torch.Tensor:
        """As `experts`."""
        return experts(x, self.gate_up, self.down, topk_idx, topk_weights)


def _check(
    x: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: torch.Tensor,
    order: str,
) -> None:
    if order not in ("fixed", "any"):
        raise InvalidInput(f'order={order!r} must be "fixed" or "any"')
    if x.dim() != 2 or gate_up.dim() != 3 or down.dim() != 3:
        raise InvalidInput(
            f"x {tuple(x.shape)} must be [tokens, hidden], gate_up {tuple(gate_up.shape)} [experts, 2 inner, hidden] "
            f"and down {tuple(down.shape)} [experts, hidden, inner]"
        )
    num_experts, hidden, inner = down.shape
    if gate_up.shape != (num_experts, 2 * inner, hidden) or x.shape[1] != hidden:
        raise InvalidInput(
            f"gate_up {tuple(gate_up.shape)} and x {tuple(x.shape)} do not fit down {tuple(down.shape)}: "
            f"[{num_experts}, {2 * inner}, {hidden}] and [tokens, {hidden}] would"
        )
    if topk_idx.dim() != 2 or topk_idx.shape != topk_weights.shape or topk_idx.shape[0] != x.shape[0]:
        raise InvalidInput(
            f"topk_idx {tuple(topk_idx.shape)} and topk_weights {tuple(topk_weights.shape)} must be [tokens, k] "
            f"for the {x.shape[0]} tokens of x"
        )
    if topk_idx.is_floating_point():
        raise InvalidInput(f"topk_idx is {topk_idx.dtype}; it must be of integers")
    if not x.dtype == gate_up.dtype == down.dtype:
        raise InvalidInput(f"x, gate_up and down must be alike, not {x.dtype}, {gate_up.dtype} and {down.dtype}")


@torch.library.custom_op("interlock::experts", mutates_args=())
def _experts(
    x: torch.Tensor,
    gate_up_weight: torch.Tensor,
    down_weight: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: torch.Tensor,
    is_ordered: bool,
    keeps: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Outputs and, for the way back, gate and up, what SwiGLU made of them, and the experts' results; else empty."""
    num_experts, hidden, inner = down_weight.shape
    x, gate_up_weight, down_weight = x.contiguous(), gate_up_weight.contiguous(), down_weight.contiguous()
    tables = make_tables(topk_idx, topk_weights, num_experts, hidden, inner)
    if why_not(x, gate_up_weight) is not None:
        made = _in_plain_torch(x, gate_up_weight, down_weight, tables)
        return made if keeps else (made[0], *_nothing(x))
    rows = len(tables.token_of)
    inner_rows = x.new_empty(rows, inner)
    gate_up = x.new_empty(rows, 2 * inner) if keeps else None
    results = x.new_empty(rows, hidden) if is_ordered else None
    y = torch.empty_like(x) if is_ordered and rows else torch.zeros_like(x)
    if rows:
        launch_experts(
            tables if is_ordered else tables.without_sums(),
            x,
            gate_up_weight,
            down_weight,
            outputs=y,
            inner_rows=inner_rows,
            results=results,
            gate_up=gate_up,
        )
    if gate_up is None or results is None:
        return y, *_nothing(x)
    return y, gate_up, inner_rows, results


def _in_plain_torch(
    x: torch.Tensor, gate_up_weight: torch.Tensor, down_weight: torch.Tensor, tables: Tables
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = x.index_select(0, tables.token_of)
    gate_up = multiply_rows(rows, gate_up_weight.transpose(1, 2), tables.row_ends)
    inner_rows = swiglu(gate_up)
    results = multiply_rows(inner_rows, down_weight.transpose(1, 2), tables.row_ends)
    return sum_rows(results, tables, tables.out_weight), gate_up, inner_rows, results


def _nothing(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x.new_empty(0), x.new_empty(0), x.new_empty(0)


@_experts.register_fake
def _(
    x: torch.Tensor,
    gate_up_weight: torch.Tensor,
    down_weight: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: torch.Tensor,
    is_ordered: bool,
    keeps: bool,
) -> tuple[torch.Tensor, ...]:
    rows, (_, hidden, inner) = topk_idx.shape[0] * topk_idx.shape[1], down_weight.shape
    if not keeps:
        return x.new_empty(x.shape), *_nothing(x)
    return x.new_empty(x.shape), *(x.new_empty(rows, width) for width in (2 * inner, inner, hidden))


@torch.library.custom_op("interlock::experts_back", mutates_args=())
def _experts_back(
    y_grad: torch.Tensor,
    x: torch.Tensor,
    gate_up_weight: torch.Tensor,
    down_weight: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: torch.Tensor,
    gate_up: torch.Tensor,
    inner_rows: torch.Tensor,
    results: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of x, both weights and the routing weights."""
    tables = make_tables(topk_idx, topk_weights, *down_weight.shape)
    results_grad, row_weight_grad = scale_rows(y_grad.contiguous(), results, tables)
    inner_grad = multiply_rows(results_grad, down_weight, tables.row_ends)
    down_grad = multiply_weights(results_grad, inner_rows, tables.row_ends)
    gate_up_grad = swiglu_back(gate_up, inner_grad)
    x_rows_grad = multiply_rows(gate_up_grad, gate_up_weight, tables.row_ends)
    rows = x.index_select(0, tables.token_of)
    gate_up_weight_grad = multiply_weights(gate_up_grad, rows, tables.row_ends)
    weights_grad = torch.where(tables.out_row < 0, 0.0, row_weight_grad[tables.out_row.clamp(min=0)])
    return (
        sum_rows(x_rows_grad, tables, None),
        gate_up_weight_grad,
        down_grad,
        weights_grad.reshape(topk_weights.shape).to(topk_weights.dtype),
    )


@_experts_back.register_fake
def _(
    y_grad: torch.Tensor,
    x: torch.Tensor,
    gate_up_weight: torch.Tensor,
    down_weight: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: torch.Tensor,
    *kept: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    return tuple(v.new_empty(v.shape) for v in (x, gate_up_weight, down_weight, topk_weights))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:5], *output[1:])


def _back(ctx: Any, y_grad: torch.Tensor, *_: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    x, gate_up_weight, down_weight, topk_idx, topk_weights, *kept = ctx.saved_tensors
    grads = _experts_back(y_grad, x, gate_up_weight, down_weight, topk_idx, topk_weights, *kept)
    return *grads[:3], None, grads[3], None, None


torch.library.register_autograd("interlock::experts", _back, setup_context=_keep)
