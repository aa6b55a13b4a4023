"""A layer as a step: the bytes it owes, the order of its tasks, and a certificate."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.errors import InvalidInput
from interlock.moe import Layer
from interlock.moe.lowering import layer_step
from interlock.traffic.moe_router import moe_routing

CLUSTER = il.cluster("h200", servers=2, gpus_per_server=4)
LAYER = Layer("small", hidden=1024, ffn=512, experts=16, top_k=3, tokens_per_gpu=200)
ROUTING = moe_routing(CLUSTER, tokens=200, experts=16, top_k=3, skew=0.6, seed=5)


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_layers_step_moves_its_copies_there_and_back_and_is_certified(chunks: int) -> None:
    step = layer_step(CLUSTER, ROUTING, LAYER, chunks=chunks)
    plan = il.plan(step)
    proof = plan.certificate()
    assert proof.valid and proof.makespan_s >= proof.lower_bound_s > 0
    copies = int(ROUTING.to_demand(1, "rank").bytes_matrix.sum())
    moved = sum(int(task.what.bytes_matrix.sum()) for task in step.tasks if task.what is not None)
    assert moved == 2 * copies * LAYER.hidden * 2
    times = plan.simulate().tasks
    for number in range(chunks):
        word = f" {number}" if chunks > 1 else ""
        dispatch, experts, combine = (times[f"{name}{word}"] for name in ("dispatch", "experts", "combine"))
        assert dispatch.finish_s <= experts.start_s + 1e-12 and experts.finish_s <= combine.start_s + 1e-12


def test_chunks_hold_every_token_once_and_can_overlap() -> None:
    large = Layer("large", hidden=7168, ffn=2048, experts=16, top_k=3, tokens_per_gpu=1600)
    routing = moe_routing(CLUSTER, tokens=1600, experts=16, top_k=3, seed=6)
    whole, parts = (il.plan(layer_step(CLUSTER, routing, large, chunks=chunks)) for chunks in (1, 4))
    assert parts.simulate().makespan_s < 0.85 * whole.simulate().makespan_s


def test_layers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match="chunks=0"):
        layer_step(CLUSTER, ROUTING, LAYER, chunks=0)
    with pytest.raises(InvalidInput, match="top 3 of 16 experts; the routing is top 2"):
        layer_step(CLUSTER, moe_routing(CLUSTER, tokens=8, experts=16, top_k=2, seed=0), LAYER)
    with pytest.raises(InvalidInput, match="the cluster has 16"):
        layer_step(il.cluster("h200", servers=2), ROUTING, LAYER)
    assert np.isfinite(layer_step(CLUSTER, ROUTING, LAYER, backward=True).tasks[1].seconds)
