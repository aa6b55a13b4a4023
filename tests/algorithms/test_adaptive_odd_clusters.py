"""Our planner where NICs and GPUs are dead, slow and absent together: valid, and over GPUs that are there."""

from __future__ import annotations

import random

import numpy as np
import pytest

import interlock as il
from interlock.topology import Fault

SLOWER = ("1 GB/s", "100 Gb/s", "200 Gb/s")


def among_present(cluster: il.Cluster, bytes_matrix: np.ndarray) -> il.Demand:
    """Nothing from or for a GPU that is absent."""
    wanted = bytes_matrix.astype(np.int64)
    np.fill_diagonal(wanted, 0)
    wanted[~cluster.present] = 0
    wanted[:, ~cluster.present] = 0
    return il.traffic.matrix(wanted)


def odd_cluster(rng: random.Random) -> il.Cluster:
    """Any two servers keep a rail whose NICs work at both ends."""
    servers, gpus = rng.randint(1, 6), rng.randint(1, 12)
    settings: dict[str, object] = {"scale_out": rng.choice(("flat", "rail", "rail-spine"))}
    if rng.random() < 0.3:
        settings["fan_in"] = rng.randint(1, 3)
    faults: list[Fault] = []
    for server in range(servers):
        broken, slow = rng.randrange(gpus), rng.randrange(gpus)
        may_break = gpus > 2 or (gpus == 2 and server == 0)
        if may_break and rng.random() < 0.6:
            faults.append(rng.choice((il.dead_nic, il.missing_gpu))(server, broken))
        if (not may_break or slow != broken) and rng.random() < 0.4:
            faults.append(il.slow_nic(server, slow, rng.choice(SLOWER)))
    preset = rng.choice(("h200", "mi300x"))
    return il.cluster(preset, servers=servers, gpus_per_server=gpus, faults=faults, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_any_odd_cluster_gets_a_valid_plan_that_no_bound_forbids(seed: int) -> None:
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    cluster = odd_cluster(rng)
    shape, most = (cluster.num_ranks, cluster.num_ranks), 10 ** rng.randint(2, 8)
    wanted = numbers.integers(0, most, shape) * (numbers.random(shape) < rng.choice((0.1, 0.5, 1.0)))
    wanted[numbers.random(cluster.num_ranks) < 0.2] = 0
    made = il.plan(cluster, among_present(cluster, wanted), algorithm="adaptive").certificate(tolerance=1e-3)
    assert made.valid
    assert made.makespan_s >= 0.998 * made.lower_bound_s


@pytest.mark.parametrize("seed", range(12))
def test_no_mesh_relays_over_a_gpu_that_is_absent(seed: int) -> None:
    cluster = il.cluster("mi300x", servers=2, gpus_per_server=3 + seed % 6, faults=[il.missing_gpu(0, 0)])
    shape = (cluster.num_ranks, cluster.num_ranks)
    wanted = (np.random.default_rng(seed).random(shape) < 0.15) * 10**8
    wanted[1, 2] = 10**8  # a narrow link, and the absent GPU one way around it
    plan = il.plan(cluster, among_present(cluster, wanted), algorithm="adaptive")
    assert plan.certificate(tolerance=1e-3).valid
    assert all(message.src != (0,) and 0 not in message.dst for message in plan.compact.iter_messages())


@pytest.mark.parametrize("algorithm", ["adaptive", "auto"])
def test_a_slow_nic_beside_a_dead_one_and_an_absent_gpu_carries_what_it_can(algorithm: str) -> None:
    faults = [il.slow_nic(0, 1, "1 GB/s"), il.dead_nic(2, 1), il.missing_gpu(1, 0)]
    cluster = il.cluster("h200", servers=3, gpus_per_server=3, scale_out="rail", faults=faults)
    wanted = (np.random.default_rng(20).random((9, 9)) < 0.3) * 10**7
    made = il.plan(cluster, among_present(cluster, wanted), algorithm=algorithm).certificate()
    assert made.valid
    assert made.makespan_s <= 1.25 * made.lower_bound_s


HARD = {  # what `adaptive` alone cannot do well, and the LP can
    "no NIC of the same index at both": ([il.dead_nic(0, 1), il.slow_nic(1, 1, "1 GB/s"), il.dead_nic(2, 0)], "flat"),
    "a third server between": ([il.dead_nic(0, 0), il.slow_nic(2, 1, "4 GB/s")], "rail"),
}


@pytest.mark.parametrize("name", HARD)
def test_auto_goes_beyond_lanes_where_faults_leave_little_in_common(name: str) -> None:
    faults, scale_out = HARD[name]
    cluster = il.cluster("h200", servers=3, gpus_per_server=2, scale_out=scale_out, faults=faults)
    plan = il.plan(cluster, among_present(cluster, np.full((6, 6), 2 * 10**7)))
    made = plan.certificate(tolerance=1e-3)
    assert made.valid
    assert made.makespan_s <= 1.25 * made.lower_bound_s
    assert plan.reason.startswith("guided")
    assert "beside it" in plan.reason
