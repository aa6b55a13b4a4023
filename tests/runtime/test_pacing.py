"""Rates of senders: no NIC is sent more than it takes, and sockets keep to what they are told."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("torch")

import interlock as il
from interlock.lab.ranks import RankProcesses
from interlock.runtime.pacing import FULL, LEAST, may_pace, sending_rates
from interlock.runtime.posting import PART_BYTES, Posting
from runtime import connection_jobs

pytestmark = pytest.mark.torch

NIC = 1e6


@pytest.fixture
def lossy_3x2() -> il.Cluster:
    """Three servers of two, NICs of 1 MB/s, a fabric that bears four senders."""
    return il.cluster("h200", servers=3, gpus_per_server=2, scale_out_bandwidth="1 MB/s", fan_in=4)


@pytest.mark.parametrize("way", ["direct", "burst"])
@pytest.mark.parametrize("seed", range(5))
def test_no_nic_is_sent_more_than_it_takes(lossy_3x2: il.Cluster, way: str, seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(50_000, 100_000, (6, 6))
    plan = il.plan(lossy_3x2, il.traffic.matrix(matrix), algorithm="adaptive", way=way)
    rates = np.zeros((6, 6))
    for rank in range(6):
        for peer, rate in sending_rates(plan.program(rank), lossy_3x2, plan.port_loads).items():
            rates[rank, peer] = rate
    assert rates.sum(axis=0).max() <= FULL * NIC * (1 + 1e-9)
    assert rates.sum(axis=1).max() <= FULL * NIC * (1 + 1e-9)
    # The busiest NIC is never idle: somebody's shares add up to all of it.
    assert max(rates.sum(axis=0).max(), rates.sum(axis=1).max()) == pytest.approx(FULL * NIC)


def test_a_partner_that_needs_little_still_hears_notices(lossy_3x2: il.Cluster) -> None:
    matrix = np.zeros((6, 6), np.int64)
    matrix[0, 2], matrix[0, 4] = 1, 10**6
    plan = il.plan(lossy_3x2, il.traffic.matrix(matrix), algorithm="direct")
    rates = sending_rates(plan.program(0), lossy_3x2, plan.port_loads)
    assert rates[2] == pytest.approx(FULL * LEAST * NIC)
    assert rates[4] == pytest.approx(FULL * NIC, rel=1e-5)


def test_whoever_has_the_wire_alone_gets_all_of_it(lossy_3x2: il.Cluster) -> None:
    plan = il.plan(lossy_3x2, il.traffic.uniform(lossy_3x2, "600 kB"), algorithm="adaptive", way="staged")
    assert set(sending_rates(plan.program(0), lossy_3x2, plan.port_loads).values()) == {FULL * NIC}


@pytest.mark.parametrize(("fan_in", "take_turns"), [(2, False), (1, True)])
def test_partners_whom_the_fabric_bears_share_a_nic_instead_of_taking_turns(fan_in: int, take_turns: bool) -> None:
    cluster = il.cluster("h200", servers=3, gpus_per_server=2, scale_out_bandwidth="1 MB/s", fan_in=fan_in)
    plan = il.synthesize(cluster, il.all_reduce("4 MB"), algorithm="tiers")
    assert plan.port_loads.take_turns  # says the plan itself
    assert plan.port_loads.must_take_turns(fan_in) == take_turns
    rates = np.zeros((6, 6))
    for rank in range(6):
        posting = Posting.of(plan.program(rank), cluster, lambda: plan.port_loads, is_paced=True)
        assert bool(posting.queues) == take_turns
        for peer, rate in posting.rates.items():
            rates[rank, peer] = rate
    most = max(rates.sum(axis=0).max(), rates.sum(axis=1).max())
    assert most == pytest.approx(FULL * NIC * (2 if take_turns else 1))


def test_a_slow_nic_is_sent_less() -> None:
    faults = [il.slow_nic(server=1, gpu=0, bandwidth="0.25 MB/s")]
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, scale_out_bandwidth="1 MB/s", fan_in=4, faults=faults)
    plan = il.plan(cluster, il.traffic.matrix(np.full((4, 4), 10**5)), algorithm="direct")
    total = sum(sending_rates(plan.program(rank), cluster, plan.port_loads).get(2, 0.0) for rank in range(4))
    assert total == pytest.approx(FULL * 0.25e6)


def test_messages_that_are_paced_are_neither_cut_nor_queued(lossy_3x2: il.Cluster) -> None:
    matrix = np.full((6, 6), 3 * PART_BYTES)
    plan = il.plan(lossy_3x2, il.traffic.matrix(matrix), algorithm="direct")
    paced, windowed = (
        Posting.of(plan.program(0), lossy_3x2, lambda: plan.port_loads, is_paced=is_paced) for is_paced in (True, False)
    )
    assert paced.queues == []
    assert len(paced.arrivals) == 5
    assert sum(len(numbers) for numbers in paced.awaited) == 4  # posted at once, all from other servers
    assert len(windowed.arrivals) == 4 * 3 + 1
    assert (windowed.rates, set(paced.rates)) == ({}, {2, 3, 4, 5})


def test_pacing_is_for_fabrics_that_drop_and_ranks_that_all_have_a_nic(lossy_3x2: il.Cluster) -> None:
    assert may_pace(lossy_3x2)
    assert not may_pace(None)
    assert not may_pace(il.cluster("h200", servers=3, gpus_per_server=2, fan_in=None))
    assert not may_pace(il.cluster("h200", servers=1, gpus_per_server=2, fan_in=4))
    dead = [il.dead_nic(server=0, gpu=1)]
    assert not may_pace(il.cluster("h200", servers=3, gpus_per_server=2, fan_in=4, faults=dead))


@pytest.mark.skipif(sys.platform != "linux", reason="rates are set on Linux")
def test_sockets_are_held_to_the_programs_rates(
    group_of: Callable[[int], RankProcesses], lossy_3x2: il.Cluster
) -> None:
    for right, wanted, found, left in group_of(6).call(connection_jobs.paced_rates, lossy_3x2):
        assert right
        assert len(wanted) == 4
        assert found == [int(rate) for rate in wanted]
        assert left == 0
