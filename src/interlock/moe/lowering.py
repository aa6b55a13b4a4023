"""An MoE layer as a step: what it moves has a problem, a schedule and a certificate like everything else.

>>> import interlock as il
>>> from interlock.traffic.moe_router import moe_routing
>>> cluster = il.cluster("h200", servers=2, gpus_per_server=2)
>>> routing = moe_routing(cluster, tokens=64, experts=8, top_k=2, seed=0)
>>> [task.name for task in layer_step(cluster, routing, Layer("tiny", 256, 128, 8, 2, 64), chunks=2).tasks]
['dispatch 0', 'experts 0', 'combine 0', 'dispatch 1', 'experts 1', 'combine 1']
"""

from __future__ import annotations

import numpy as np

from interlock.errors import InvalidInput
from interlock.moe.constants import H200, Machine
from interlock.moe.fluid import experts_s
from interlock.moe.layer import Layer, LayerTraffic
from interlock.problem import Step, step
from interlock.ragged import before_in_group
from interlock.topology import Cluster
from interlock.traffic import Demand, Routing

__all__ = ["layer_step"]


def layer_step(
    cluster: Cluster,
    routing: Routing,
    layer: Layer,
    machine: Machine = H200,
    *,
    chunks: int = 1,
    backward: bool = False,
) -> Step:
    """Dispatch, experts and combine of a layer on a cluster, for `il.plan`.

    A token goes once to each rank that holds one of its experts, and one sum comes back from each. Experts take what
    those of the busiest rank take by `machine.gemms`; chunks one after the other.

    Parameters
    ----------
    chunks
        Parts of every rank's tokens that go through the layer one behind the other, so that dispatch, experts and
        combine of different chunks overlap. Each runs its GEMMs at the rate of its own tokens.
    """
    if not 1 <= chunks <= routing.num_tokens:
        raise InvalidInput(f"chunks={chunks} must be between 1 and the {routing.num_tokens} tokens")
    if routing.num_ranks != cluster.num_ranks:
        raise InvalidInput(f"the routing has {routing.num_ranks} ranks; the cluster has {cluster.num_ranks}")
    if routing.top_k != layer.top_k or routing.placement.num_experts != layer.experts:
        raise InvalidInput(
            f"layer {layer.name!r} is top {layer.top_k} of {layer.experts} experts; "
            f"the routing is top {routing.top_k} of {routing.placement.num_experts}"
        )
    made = step(cluster, layer.name)
    for number, part in enumerate(_parts(routing, chunks)):
        word = f" {number}" if chunks > 1 else ""
        there, back = (_demand(part, layer.hidden * width) for width in (layer.dispatch_bytes, layer.combine_bytes))
        seconds = float(experts_s(layer, LayerTraffic.from_routing(part), machine).max()) * (2 if backward else 1)
        sent = made.move(f"dispatch{word}", there)
        computed = made.compute(f"experts{word}", seconds, after=sent, alone=True)
        made.move(f"combine{word}", back.transposed(), after=computed)
    return made


def _parts(routing: Routing, chunks: int) -> list[Routing]:
    """Every rank's tokens in equal parts, in their order."""
    if chunks == 1:
        return [routing]
    rank = routing.rank_of_token
    held = np.bincount(rank, minlength=routing.num_ranks)
    chunk = before_in_group(rank) * chunks // np.maximum(1, held)[rank]
    parts = [np.flatnonzero(chunk == number) for number in range(chunks)]
    return [
        Routing(routing.experts[part].copy(), rank[part].copy(), routing.placement, None, routing.name, routing.seed)
        for part in parts
        if len(part)
    ]


def _demand(routing: Routing, bytes_per_token: float) -> Demand:
    return routing.to_demand(int(bytes_per_token), "rank")
