"""Searches know the uplinks that leaves hash flows to."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.algorithms.synthesis.arcs import arcs_of
from interlock.collectives import collective
from interlock.topology import Cluster, Fabric

FREE = {"scale_up_latency": 0, "scale_out_latency": 0, "message_overhead": 0, "stage_overhead": 0}


def hashed(**fabric: int) -> Cluster:
    """Four servers of one GPU, two to a leaf."""
    return il.cluster("h200", servers=4, gpus_per_server=1, fabric=Fabric("hashed", ecmp_radix=2, **fabric), **FREE)  # type: ignore[arg-type]


def test_an_arc_between_leaves_holds_its_uplink_between_its_nics() -> None:
    topology = hashed(ecmp_uplinks=1).topology
    arcs = arcs_of(topology)
    held = {
        (int(src), int(dst)): arcs.resources[arc].tolist()
        for arc, (src, dst) in enumerate(zip(arcs.src, arcs.dst, strict=True))
    }
    first = len(np.unique(topology.channel))
    assert len(held[0, 1]) == 2
    assert held[0, 2][1:3] == held[1, 3][1:3] == [first, first + 3]  # up from leaf 0, down to leaf 1
    assert held[2, 0][1:3] == [first + 1, first + 2]
    assert (held[0, 2][0], held[0, 2][3]) == (held[0, 1][0], held[1, 2][3])  # NICs stay first and last
    assert arcs.num_resources == first + 4


def test_pairs_with_many_flows_hold_no_uplink() -> None:
    assert (arcs_of(hashed(ecmp_flows=8).topology).resources.counts == 2).all()


@pytest.mark.parametrize(("servers", "gpus", "seed"), [(4, 2, 1), (6, 1, 0), (6, 1, 1), (3, 4, 0)])
def test_guided_lets_flows_of_one_uplink_take_turns(servers: int, gpus: int, seed: int) -> None:
    """Where it knows of no uplinks these take 1.75, 1, 1.2 and 2.2 of the bound, and all but the first are told to be
    near it."""
    fabric = Fabric("hashed", fan_in=1, loss_per_sender=0.05, ecmp_radix=4, ecmp_seed=seed)
    cluster = il.cluster("h200", servers=servers, gpus_per_server=gpus, scale_out="flat", fabric=fabric, **FREE)  # type: ignore[arg-type]
    plan = il.plan(cluster, il.traffic.uniform(cluster, bytes_per_gpu="64 MB"), algorithm="guided")
    proof = plan.certificate()
    ratio = proof.makespan_s / proof.lower_bound_s
    assert ratio < 1.6
    assert ("the bound" in plan.reason) == (ratio < 1.06)


@pytest.mark.parametrize("name", ["all-gather", "all-to-all", "all-reduce"])
@pytest.mark.parametrize("scale_out", ["flat", "rail-spine"])
def test_collectives_are_found_where_leaves_hash(name: str, scale_out: str) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4, scale_out=scale_out, fabric="roce-pfc")
    assert il.synthesize(cluster, collective(name, 1_000_000), algorithm="guided").certificate().valid
