"""How long a training step of an MoE model takes on a cluster, communication planned by a named algorithm.

Modelled, not measured: compute at a fixed rate per GPU, expert compute by the busiest rank, communication simulated.
A layer has four All-to-Allv per step: dispatch and combine, forward and backward. Combine is dispatch transposed; the
backward pass of combine has dispatch's shape and that of dispatch has combine's. Tensor, pipeline and data parallel
traffic and the optimizer are left out: they are the same for every algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.comparison import GRID_TOLERANCE
from interlock.moe.models import ModelShape
from interlock.planning import plan
from interlock.topology import Cluster
from interlock.traffic import Demand
from interlock.traffic.moe_router import moe_routing

__all__ = ["ACHIEVED_FLOPS_PER_S", "Iteration", "expert_demand", "iteration_time", "iteration_times"]

# bf16 grouped GEMMs on an H200 at 512 tokens per expert and more: src/interlock/moe/gemm_h200.json, 623-715e12.
ACHIEVED_FLOPS_PER_S = 680e12
BYTES_PER_VALUE = 2  # bf16 both ways
BACKWARD = 2  # a backward pass costs two forward passes


@dataclass(frozen=True, slots=True)
class Iteration:
    """One training step of all layers, one micro-batch per GPU."""

    model: str
    algorithm: str
    overlap: bool
    attention_s: float
    experts_s: float
    communication_s: float
    iteration_s: float
    communication_share: float
    moe_layers: int
    dispatch_s: float  # of one layer, one way
    combine_s: float


def expert_demand(
    shape: ModelShape, cluster: Cluster, tokens_per_gpu: int, skew: float, seed: int
) -> tuple[Demand, NDArray[np.int64]]:
    """Dispatch bytes between ranks and tokens that each rank's experts receive, for one layer.

    Experts are laid out contiguously over the ranks; with fewer experts than ranks each expert has equal replicas that
    take tokens in turn. Popularity follows a Zipf law with exponent `skew`.
    """
    routing = moe_routing(cluster, tokens_per_gpu, shape.experts, shape.top_k, skew, seed=seed)
    received = np.bincount(routing.targets().reshape(-1), minlength=cluster.num_ranks)
    return routing.to_demand(shape.hidden * BYTES_PER_VALUE), received


def iteration_times(
    shape: ModelShape,
    cluster: Cluster,
    algorithms: Sequence[str],
    *,
    tokens_per_gpu: int | None = None,
    skew: float = 0.8,
    overlap: bool = False,
    seed: int = 0,
    flops_per_s: float = ACHIEVED_FLOPS_PER_S,
) -> list[Iteration]:
    """One row per algorithm, on the same routing."""
    tokens = shape.sequence if tokens_per_gpu is None else tokens_per_gpu
    demand, received = expert_demand(shape, cluster, tokens, skew, seed)
    made = []
    for name in algorithms:
        there, back = (
            plan(cluster, d, name).simulate(GRID_TOLERANCE).makespan_s for d in (demand, demand.transposed())
        )
        made.append(
            iteration_time(shape, name, there, back, tokens, received, overlap=overlap, flops_per_s=flops_per_s)
        )
    return made


def iteration_time(
    shape: ModelShape,
    algorithm: str,
    dispatch_s: float,
    combine_s: float,
    tokens: int,
    received: NDArray[np.int64],
    *,
    overlap: bool,
    flops_per_s: float,
) -> Iteration:
    """Put a step together from its parts; with `overlap`, communication hides behind expert compute or the reverse."""
    dense_layers = shape.layers - shape.moe_layers
    attention = shape.layers * shape.attention_flops_per_token + dense_layers * shape.dense_flops_per_token
    attention_s = (1 + BACKWARD) * tokens * attention / flops_per_s
    busiest = int(received.max()) + tokens * shape.shared_experts
    experts_s = shape.moe_layers * (1 + BACKWARD) * busiest * shape.expert_flops_per_token / flops_per_s
    communication_s = shape.moe_layers * 2 * (dispatch_s + combine_s)
    layer_s = max(experts_s, communication_s) if overlap else experts_s + communication_s
    total_s = attention_s + layer_s
    return Iteration(
        shape.name,
        algorithm,
        overlap,
        attention_s,
        experts_s,
        communication_s,
        total_s,
        communication_share=(total_s - attention_s - experts_s) / total_s if not overlap else communication_s / total_s,
        moe_layers=shape.moe_layers,
        dispatch_s=dispatch_s,
        combine_s=combine_s,
    )
