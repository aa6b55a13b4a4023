"""Bounds where leaves hash flows to uplinks, against the exact program."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from cost.hashed_program import hashed_optimum_s
from interlock.cost import lower_bound
from interlock.problem import demand_problem
from interlock.topology import Cluster, Fabric

FREE = {"scale_up_latency": 0, "scale_out_latency": 0, "message_overhead": 0, "stage_overhead": 0}


def random_cluster(rng: np.random.Generator) -> Cluster:
    """Leaves of two to four NICs, with fewer uplinks than NICs or more, and NICs that are slow, dead and missing."""
    servers, gpus = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    kinds = (lambda *place: il.slow_nic(*place, float(50e9 * 10 ** rng.uniform(-1, 0))), il.dead_nic, il.missing_gpu)
    places = rng.permutation(servers * gpus)[: rng.integers(0, min(3, servers * gpus))].tolist()
    fabric = Fabric(
        "hashed",
        efficiency=float(rng.choice([1.0, 0.8])),
        ecmp_radix=int(rng.integers(2, 5)),
        ecmp_uplinks=[None, 1, 2, 5][rng.integers(4)],
        ecmp_flows=int(rng.choice([1, 1, 1, 3])),
        ecmp_seed=int(rng.integers(1000)),
    )
    return il.cluster(
        "h200",
        servers=servers,
        gpus_per_server=gpus,
        scale_up=str(rng.choice(["switch", "mesh"])),
        scale_out=str(rng.choice(["flat", "rail-spine"])),
        oversubscription=float(rng.choice([1.0, 1.0, 2.0])),
        faults=[kinds[rng.integers(3)](*divmod(place, gpus)) for place in places],
        fabric=fabric,
        **FREE,  # type: ignore[arg-type]
    )


def random_demand(cluster: Cluster, rng: np.random.Generator) -> np.ndarray:
    """Dense or sparse, between GPUs that are there."""
    shape = (cluster.num_ranks, cluster.num_ranks)
    owed = rng.integers(1, 10**9, shape) * (rng.random(shape) < rng.choice([0.2, 1.0]))
    np.fill_diagonal(owed, 0)
    owed[~cluster.present] = owed[:, ~cluster.present] = 0
    return owed


def compared(seed: int, count: int) -> np.ndarray:
    """Bounds over the exact optimum, of clusters that have something to send and a way for it."""
    ratios = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        cluster = random_cluster(rng)
        owed = random_demand(cluster, rng)
        alive = (cluster.nic_bandwidth_bytes_per_s > 0).reshape(cluster.servers, -1).any(axis=1)
        if owed.any() and alive.all():
            bound = lower_bound(demand_problem(cluster, il.traffic.matrix(owed)))
            ratios.append(bound.seconds / hashed_optimum_s(cluster, owed))
    return np.array(ratios)


def test_no_bound_is_above_the_exact_optimum_and_most_are_near() -> None:
    pytest.importorskip("scipy")
    ratios = compared(0, 150)
    assert len(ratios) > 100
    assert ratios.max() <= 1 + 1e-6
    assert ratios.min() > 0.85  # 0.36 where uplinks have no prices


def test_two_flows_of_one_uplink_take_turns() -> None:
    """Two servers of two GPUs, a leaf each with one uplink: half of what the NICs could carry."""
    cluster = il.cluster(
        "h200", servers=2, gpus_per_server=2, fabric=Fabric("narrow", ecmp_radix=2, ecmp_uplinks=1), **FREE
    )  # type: ignore[arg-type]
    owed = np.zeros((4, 4), np.int64)
    owed[0, 2] = owed[1, 3] = 500_000_000
    bound = lower_bound(demand_problem(cluster, il.traffic.matrix(owed)))
    assert bound.seconds == pytest.approx(0.02, rel=1e-3)  # prices come near in a hundred rounds
    assert bound.binds == "NICs and hashed uplinks, all together"
