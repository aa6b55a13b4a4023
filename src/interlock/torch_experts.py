"""A whole MoE layer over a group: dispatch, the experts of `interlock.gpu.moe`, combine."""

from __future__ import annotations

import torch

from interlock.gpu.moe.layer import experts as run_experts
from interlock.runtime.experts import Dispatched, DispatchLayout, ExpertRows, TokenDispatch

__all__ = ["Dispatched", "ExpertRows", "Experts", "DispatchLayout"]


class Experts(TokenDispatch):
    """Expert parallelism over a group; `dispatch` and `combine` by themselves, or the whole layer by a call.

    >>> experts = Experts(AllToAll(), 64)  # doctest: +SKIP
    >>> y = experts(x, topk_idx, topk_weights, gate_up, down)  # doctest: +SKIP
    """

    def __call__(
        self,
        x: torch.Tensor,
        topk_idx: torch.Tensor,
        topk_weights: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
    ) -> torch.Tensor:
        """``y[t] = sum over j of topk_weights[t, j] * expert[topk_idx[t, j]](x[t])``, with gradients.

        `gate_up` ``[held, 2 * inner, hidden]`` and `down` ``[held, hidden, inner]`` are the weights of this rank's
        experts, in the order of `held`. On a Hopper GPU with bfloat16 the experts are one launch that gathers the
        tokens it was sent (see `interlock.gpu.moe`); in host memory plain torch runs one expert after the other.
        """
        handle = self.dispatch(x, topk_idx, topk_weights)
        if not x.is_cuda:
            return self.combine(_in_turn(handle, gate_up, down), handle)
        return self.combine(run_experts(handle.x, gate_up, down, handle.topk_idx, handle.topk_weights), handle)


def _in_turn(handle: Dispatched, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """One expert after the other."""
    rows, made = handle.by_expert(), []
    for expert, part in enumerate(torch.split(rows.x, handle.tokens_per_expert)):
        gate, up = (part @ gate_up[expert].T).chunk(2, dim=1)
        made.append((torch.nn.functional.silu(gate) * up) @ down[expert].T)
    return rows.sum(torch.cat(made))
