"""Which replica serves which token: reuse GPUs that the token visits anyway, and keep the busiest GPU low."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.moe.constants import Machine
from interlock.moe.layer import Layer
from interlock.traffic.routing import Routing

__all__ = ["choose_replicas"]

ROUNDS = 3  # after the first, each round gains less than 1 % on the shared traces


def choose_replicas(routing: Routing, layer: Layer, machine: Machine) -> NDArray[np.int32]:
    """GPU of every choice, ``[num_tokens, top_k]``.

    A copy costs a GPU's links, a choice costs its SMs. Experts with one replica are fixed. The others are placed token
    by token, where the busier of the GPU's links and SMs ends lowest; a GPU that the token visits anyway, or is on,
    costs no copy. Every round gives each token another try against all the others.
    """
    ranks = routing.placement.ranks_of_expert
    targets = np.ascontiguousarray(routing.targets())
    if not routing.placement.is_replicated:
        return targets
    link_s = float(machine.wire_s(layer, max(layer.dispatch_bytes, layer.combine_bytes), np.array(1)))
    mean_tokens = routing.experts.size // max(1, routing.placement.num_slots)
    work_s = float(machine.gemms.row_s(layer, np.array([max(1, mean_tokens)])).sum())
    gpus = routing.num_ranks
    arriving = [0] * gpus  # copies
    serving = [0] * gpus  # choices
    # What a GPU's own tokens put on its links, whatever is chosen: each leaves once and comes back once.
    base_s = (np.bincount(routing.rank_of_token, minlength=gpus) * link_s).tolist()
    replicas = [ranks[e].tolist() for e in range(len(ranks))]
    experts, home = routing.experts.tolist(), routing.rank_of_token.tolist()
    chosen = targets.tolist()
    for token, row in enumerate(chosen):
        _count(row, home[token], arriving, serving, 1)
    movable = [token for token, row in enumerate(experts) if any(len(replicas[e]) > 1 for e in row)]
    for _ in range(ROUNDS):
        for token in movable:
            _count(chosen[token], home[token], arriving, serving, -1)
            chosen[token] = _place(experts[token], replicas, home[token], arriving, serving, base_s, link_s, work_s)
            _count(chosen[token], home[token], arriving, serving, 1)
    return np.array(chosen, np.int32)


def _count(row: list[int], home: int, arriving: list[int], serving: list[int], sign: int) -> None:
    for gpu in set(row):
        if gpu != home:
            arriving[gpu] += sign
    for gpu in row:
        serving[gpu] += sign


def _place(
    experts: list[int],
    replicas: list[list[int]],
    home: int,
    arriving: list[int],
    serving: list[int],
    base_s: list[float],
    link_s: float,
    work_s: float,
) -> list[int]:
    """Fixed experts first, then each replicated one where it hurts least."""
    visited = {home} | {replicas[e][0] for e in experts if len(replicas[e]) == 1}
    extra: dict[int, int] = {}
    placed = []
    for expert in experts:
        options = replicas[expert]
        best = options[0]
        if len(options) > 1:
            best = min(
                options,
                key=lambda gpu: (
                    max(
                        base_s[gpu] + (arriving[gpu] + (gpu not in visited)) * link_s,
                        (serving[gpu] + extra.get(gpu, 0) + 1) * work_s,
                    ),
                    gpu,
                ),
            )
            visited.add(best)
        extra[best] = extra.get(best, 0) + 1
        placed.append(best)
    return placed
