"""Rails: what a server can decide alone, and what that is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms.rails import longest_first
from interlock.algorithms.rails_split import server_bytes, server_shares
from interlock.schedule import Phase, Schedule


def wire_loads(schedule: Schedule, num_ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes each NIC sends and receives."""
    wire = schedule.phase == Phase.SCALE_OUT
    size = schedule.size_bytes[wire].astype(np.float64)
    sent = np.bincount(schedule.src.values[wire], weights=size, minlength=num_ranks)
    return sent, np.bincount(schedule.dst.values[wire], weights=size, minlength=num_ranks)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 8))
def test_longest_first_leaves_no_rail_idle_by_more_than_a_piece(lengths: list[int], num_rails: int) -> None:
    rail = longest_first(np.array(lengths), num_rails)
    load = np.bincount(rail, weights=lengths, minlength=num_rails)
    assert load.sum() == sum(lengths) and load.max() - load.min() <= max(lengths)


def test_equal_send_loads_do_not_make_equal_receive_loads() -> None:
    """The counter-example: all of one destination on rail 0, all of the other on rail 1."""
    share = np.zeros((3, 2, 2))  # [source 0 and two destinations, rail]: sends of server 0 only
    share[1, 0, :] = [1.0, 0.0]
    share[2, 0, :] = [0.0, 1.0]
    send = share[:, 0, :].sum(axis=0)
    receive = share[:, 0, :]
    assert send[0] == send[1] and receive[1].max() == 2 * receive[1].mean()


@settings(max_examples=60)
@given(st.integers(2, 6), st.integers(1, 8), st.integers(0, 2**32))
def test_spreading_every_pair_evenly_balances_both_ends(servers: int, gpus: int, seed: int) -> None:
    """The theorem as it holds: per pair, not per total; within a byte per pair."""
    cluster = il.cluster("h200", servers=servers, gpus_per_server=gpus, scale_out="rail")
    demand = il.traffic.zipf(cluster, skew=1.0, bytes_per_gpu="1 MB", seed=seed)
    sent, received = wire_loads(il.plan(cluster, demand, algorithm="rails-split").schedule, cluster.num_ranks)
    for load in (sent.reshape(servers, gpus), received.reshape(servers, gpus)):
        assert (load.max(axis=1) - load.min(axis=1)).max() <= servers


@settings(max_examples=40)
@given(st.integers(2, 6), st.integers(0, 2**32), st.sampled_from(["slow", "dead"]))
def test_one_server_decides_alone(servers: int, seed: int, fault: str) -> None:
    """A server's shares do not change when the traffic of the others does."""
    broken = il.dead_nic(0, 1) if fault == "dead" else il.slow_nic(0, 1, "100 Gb/s")
    cluster = il.cluster("h200", servers=servers, gpus_per_server=4, scale_out="rail", faults=[broken])
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 10**6, (cluster.num_ranks, cluster.num_ranks))
    own = int(rng.integers(servers))
    shares = server_shares(server_bytes(matrix, cluster)[own], cluster, own)
    others = np.arange(cluster.num_ranks) // 4 != own
    matrix[others] = rng.integers(0, 10**6, (int(others.sum()), cluster.num_ranks))
    assert np.array_equal(shares, server_shares(server_bytes(matrix, cluster)[own], cluster, own))
    owed = server_bytes(matrix, cluster)[own].copy()
    owed[own] = 0
    assert np.array_equal(shares.sum(axis=1), owed)


def test_at_most_one_piece_per_rail_and_destination_server() -> None:
    cluster = il.cluster("h200", servers=5, scale_out="rail")
    demand = il.traffic.sparse(cluster, density=0.05, bytes_per_gpu="100 MB", seed=3)
    schedule = il.plan(cluster, demand, algorithm="rails-split", slices=1).schedule
    wire = schedule.phase == Phase.SCALE_OUT
    lanes = set(zip(schedule.src.values[wire].tolist(), (schedule.dst.values[wire] // 8).tolist(), strict=True))
    assert len(lanes) == int(wire.sum())


@pytest.mark.parametrize("fault", [il.slow_nic(1, 3, "200 Gb/s"), il.dead_nic(0, 5)], ids=["slow", "dead"])
def test_a_broken_rail_costs_what_the_bound_says(fault: il.topology.Fault) -> None:
    cluster = il.cluster("h200", servers=8, scale_out="rail", faults=[fault])
    demand = il.traffic.zipf(cluster, skew=0.6, bytes_per_gpu="500 MB", seed=1)
    proof = il.plan(cluster, demand, algorithm="rails-split").certificate()
    assert proof.valid and 1 + proof.gap <= 1.06


def test_chunks_balance_better_than_whole_flows() -> None:
    cluster = il.cluster("h200", servers=4, scale_out="rail")
    demand = il.traffic.zipf(cluster, skew=1.0, bytes_per_gpu="50 MB", seed=2)
    worst = {}
    for chunk in (None, "256 kB"):
        sent, received = wire_loads(il.plan(cluster, demand, algorithm="rails", chunk=chunk).schedule, 32)
        worst[chunk] = max(sent.max(), received.max())
    assert worst["256 kB"] < worst[None]


@pytest.mark.parametrize(("parameter", "value"), [("chunk", 0), ("chunk", "1 parsec"), ("chunk", 1)])
def test_bad_chunks_are_refused(parameter: str, value: object) -> None:
    cluster = il.cluster("h200", servers=2)
    with pytest.raises(il.InvalidInput, match="chunk"):
        il.plan(cluster, il.traffic.uniform(cluster, "100 MB"), algorithm="rails", **{parameter: value})


def test_bad_slices_are_refused() -> None:
    cluster = il.cluster("h200", servers=2)
    with pytest.raises(il.InvalidInput, match="slices=0"):
        il.plan(cluster, il.traffic.uniform(cluster), algorithm="rails-split", slices=0)
