"""Small cases computed by hand for the All-to-Allv baselines."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.schedule import Phase


@pytest.fixture
def plain_2x2() -> il.Cluster:
    """Two servers of two GPUs, 10 GB/s inside, 1 GB/s outside, nothing else costs."""
    return il.cluster(
        "h200",
        servers=2,
        gpus_per_server=2,
        scale_up_bandwidth="10 GB/s",
        scale_out_bandwidth="1 GB/s",
        scale_up_latency="0 us",
        scale_out_latency="0 us",
        message_overhead="0 us",
        stage_overhead="0 us",
    )


@pytest.fixture
def lone_pair() -> il.Demand:
    """Rank 0 sends 8,000,000 bytes to rank 3, on the other server and the other rail."""
    matrix = np.zeros((4, 4), np.int64)
    matrix[0, 3] = 8_000_000
    return il.traffic.matrix(matrix)


def hops(plan: il.Plan) -> list[tuple[int, int, int]]:
    columns = plan.messages
    return sorted(zip(columns["src"].tolist(), columns["dst"].tolist(), columns["size_bytes"].tolist(), strict=True))


def test_direct_sends_each_pair_once(plain_2x2: il.Cluster, lone_pair: il.Demand) -> None:
    plan = il.plan(plain_2x2, lone_pair, algorithm="direct")
    assert hops(plan) == [(0, 3, 8_000_000)]
    assert plan.simulate().makespan_s == pytest.approx(8e-3, rel=1e-9)


def test_pxn_hops_to_the_destination_rail_first(plain_2x2: il.Cluster, lone_pair: il.Demand) -> None:
    plan = il.plan(plain_2x2, lone_pair, algorithm="pxn")
    assert hops(plan) == [(0, 1, 8_000_000), (1, 3, 8_000_000)]
    assert plan.simulate().makespan_s == pytest.approx(8.8e-3, rel=1e-9)


def test_forward_stays_on_its_own_rail(plain_2x2: il.Cluster, lone_pair: il.Demand) -> None:
    plan = il.plan(plain_2x2, lone_pair, algorithm="forward")
    assert hops(plan) == [(0, 2, 8_000_000), (2, 3, 8_000_000)]
    assert plan.simulate().makespan_s == pytest.approx(8.8e-3, rel=1e-9)


def test_no_stage_uses_both_rails(plain_2x2: il.Cluster, lone_pair: il.Demand) -> None:
    plan = il.plan(plain_2x2, lone_pair, algorithm="no-stage")
    assert hops(plan) == [(0, 1, 4_000_000), (0, 2, 4_000_000), (1, 3, 4_000_000), (2, 3, 4_000_000)]
    # GPU 1's half arrives at 0.4 + 4 ms and is home; GPU 0's half needs a hop inside: 4 + 0.4 ms.
    assert plan.simulate().makespan_s == pytest.approx(4.4e-3, rel=1e-9)


def test_spreadout_costs_the_sum_of_diagonal_maxima(plain_2x2: il.Cluster) -> None:
    matrix = np.array([[0, 0, 5, 1], [0, 0, 2, 7], [3, 3, 0, 0], [1, 4, 0, 0]], np.int64) * 1_000_000
    plan = il.plan(plain_2x2, il.traffic.matrix(matrix), algorithm="spreadout")
    diagonals = [max(matrix[r, (r + k) % 4] for r in range(4)) for k in (1, 2, 3)]
    assert plan.simulate().makespan_s == pytest.approx(sum(diagonals) / 1e9, rel=1e-9)
    assert plan.num_stages == 3


def test_padded_sends_the_largest_pair_everywhere(plain_2x2: il.Cluster, lone_pair: il.Demand) -> None:
    plan = il.plan(plain_2x2, lone_pair, algorithm="padded")
    assert set(plan.messages["size_bytes"].tolist()) == {8_000_000} and len(plan.messages["src"]) == 12
    # Each NIC carries two padded pairs.
    assert plan.simulate().makespan_s == pytest.approx(16e-3, rel=1e-9)


def test_no_stage_leaves_every_rail_of_a_server_pair_equally_loaded(h200_4x8: il.Cluster) -> None:
    demand = il.traffic.zipf(h200_4x8, skew=1.2, bytes_per_gpu="10 MB", seed=5)
    schedule = il.plan(h200_4x8, demand, algorithm="no-stage").schedule
    wire = schedule.phase == Phase.SCALE_OUT
    src, dst = schedule.src.values[wire], schedule.dst.values[wire]
    assert (src % 8 == dst % 8).all()
    load = np.zeros((4, 4, 8), np.int64)
    np.add.at(load, (src // 8, dst // 8, src % 8), schedule.size_bytes[wire])
    assert (load.max(axis=2) - load.min(axis=2)).max() <= 1


@pytest.mark.parametrize("name", ["direct", "pxn", "forward", "no-stage"])
def test_receivers_come_in_rotation_from_their_sender(name: str) -> None:
    """Phase by phase; otherwise every queue that is worked off in order would begin with the same receiver."""
    cluster = il.cluster("h200", servers=3, gpus_per_server=3, faults=[il.dead_nic(server=0, gpu=1)])
    plan = il.plan(cluster, il.traffic.uniform(cluster, bytes_per_gpu="9 MB"), name)
    schedule = plan.schedule
    src, dst = schedule.src.values.astype(int), schedule.dst.values.astype(int)
    key = np.stack([schedule.phase.astype(int), src], axis=1)
    same = (key[1:] == key[:-1]).all(axis=1)
    away = (dst - src) % cluster.num_ranks
    assert same.any()
    assert (np.diff(away)[same] >= 0).all()


@pytest.mark.parametrize("name", ["direct", "adaptive", "ecmp", "fast", "pxn", "rails", "rails-split", "spray"])
def test_no_two_ranks_begin_with_one_receiver(name: str) -> None:
    """Neither in the rows nor in the programs that ranks run: all would wait for its port while others idle."""
    cluster = il.cluster("h200", servers=3)
    plan = il.plan(cluster, il.traffic.uniform(cluster, bytes_per_gpu="8 MB"), name)
    src, dst = plan.schedule.src.values, plan.schedule.dst.values
    _, first = np.unique(src, return_index=True)
    assert len(np.unique(dst[first])) == cluster.num_ranks
    programs = [plan.program(rank).columns for rank in range(cluster.num_ranks)]
    assert len({int(columns["send_peer"][0]) for columns in programs}) == cluster.num_ranks
