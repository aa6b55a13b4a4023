"""What programs cost on devices is counted where asked for, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.errors import InvalidInput

COSTS = {"gpu_launch": "20 us", "gpu_hop": "2 us", "gpu_message": "5 ns", "gpu_copy_bandwidth": "1 TB/s"}


def _cluster(**costs: str) -> il.Cluster:
    return il.cluster("h200", servers=2, gpus_per_server=2, **costs)


def test_a_message_costs_a_launch_a_hop_and_its_start() -> None:
    demand = np.zeros((4, 4), np.int64)
    demand[0, 2] = 1_000_000
    plan = il.plan(_cluster(**COSTS), il.traffic.matrix(demand), algorithm="direct")
    assert plan.simulate(gpu=True).makespan_s - plan.simulate().makespan_s == pytest.approx(
        20e-6 + 2e-6 + 5e-9, rel=1e-9
    )
    assert plan.simulate(gpu=True).start_s.min() >= 20e-6


def test_every_hop_of_a_chain_is_paid_and_what_is_packed_is_copied() -> None:
    """Two ranks' bytes for one rank meet at its neighbour on the other rail: balance, wire, and one more hop."""
    demand = np.zeros((4, 4), np.int64)
    demand[0, 3] = demand[0, 2] = 1_000_000
    plan = il.plan(_cluster(**COSTS), il.traffic.matrix(demand), algorithm="pxn")
    pieces = np.diff(plan.schedule.pieces.offsets)
    chain = plan.simulate(gpu=True).critical_path()
    hops, packed = len(chain), sum(2e6 * int(pieces[step.message] > 1) for step in chain)
    assert hops > 1
    gained_s = plan.simulate(gpu=True).makespan_s - plan.simulate().makespan_s
    assert gained_s == pytest.approx(20e-6 + hops * (2e-6 + 5e-9) + packed / 1e12, rel=1e-3)
    several = np.full((4, 4), 1_000_000)
    fast = il.plan(_cluster(**COSTS), il.traffic.matrix(several), algorithm="fast")
    slow = il.plan(_cluster(**COSTS | {"gpu_copy_bandwidth": "1 GB/s"}), il.traffic.matrix(several), algorithm="fast")
    assert (np.diff(fast.schedule.pieces.offsets) > 1).any()
    assert slow.simulate(gpu=True).makespan_s > fast.simulate(gpu=True).makespan_s + 1e-3


def test_nobody_who_does_not_ask_pays() -> None:
    free = dict.fromkeys(("gpu_launch", "gpu_hop", "gpu_message"), "0 us")
    made = [il.plan(cluster, il.traffic.zipf(cluster, seed=1)) for cluster in (_cluster(**COSTS), _cluster(**free))]
    assert made[0].simulate().makespan_s == made[1].simulate().makespan_s
    assert made[0].digest == made[1].digest
    nothing = il.plan(_cluster(**COSTS), il.traffic.uniform(_cluster(), 0), algorithm="direct")
    assert nothing.simulate(gpu=True).makespan_s == 0


def test_only_what_was_measured_is_said_to_be() -> None:
    measured = {name for name in il.topology.preset_names() if il.cluster(name, servers=1).gpu_costs == "measured"}
    assert measured == {"h200", "h200-800g"}
    assert "measured" in il.cluster("h200", servers=1).facts()["programs on a GPU"]
    assert "assumed" in il.cluster("b200", servers=1).facts()["programs on a GPU"]


def test_costs_of_devices_must_make_sense(tmp_path: object) -> None:
    with pytest.raises(InvalidInput, match="gpu_costs='guessed' is unknown"):
        il.cluster("h200", servers=1, gpu_costs="guessed")
    with pytest.raises(InvalidInput, match="gpu_hop_s=-1e-06 must be between"):
        il.cluster("h200", servers=1).with_(gpu_hop_s=-1e-6)
    graph = il.synthesize(il.topology.ring(4, bandwidth="50 GB/s"), il.all_gather("1 MB"), algorithm="ring")
    with pytest.raises(InvalidInput, match="gpu=True needs a cluster"):
        graph.simulate(gpu=True)
    file = f"{tmp_path}/mine.toml"
    mine = _cluster(**COSTS)
    il.topology.write_cluster(mine, file)
    assert il.topology.read_cluster(file) == mine
