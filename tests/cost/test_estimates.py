"""Estimates from port loads against the simulator."""

import numpy as np
import pytest

import interlock as il
from interlock.cost.estimate import two_tier_estimates_s

EXACT = ("direct", "spreadout", "padded")


def loads(cluster, size):
    return {
        "random": il.traffic.random(cluster, bytes_per_gpu=size, seed=0),
        "zipf": il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu=size, seed=1),
        "hot expert": il.traffic.hot_expert(cluster, skew=0.8, bytes_per_gpu=size, seed=3),
        "uniform": il.traffic.uniform(cluster, bytes_per_gpu=size),
    }


@pytest.mark.parametrize("preset", ["h200", "mi300x", "mi300x-100g"])
@pytest.mark.parametrize("load", ["random", "zipf", "hot expert", "uniform"])
def test_estimates_are_close_to_the_simulator(preset, load):
    """All at once and shift by shift within 1 % (2 % where senders over the limit are lost), relayed within 20 %."""
    cluster = il.cluster(preset, servers=4)
    exact = 0.01 if cluster.fabric.fan_in is None else 0.02
    demand = loads(cluster, "64 MB")[load]
    for name, estimated_s in two_tier_estimates_s(cluster, demand).items():
        simulated_s = il.plan(cluster, demand, algorithm=name).simulate(tolerance=1e-3).makespan_s
        assert estimated_s == pytest.approx(simulated_s, rel=exact if name in EXACT else 0.2), name


def test_a_narrow_leaf_slows_what_crosses_it():
    narrow = il.cluster("h200", servers=4, oversubscription=4)
    demand = il.traffic.uniform(narrow, bytes_per_gpu="64 MB")
    simulated_s = il.plan(narrow, demand, algorithm="direct").simulate().makespan_s
    assert two_tier_estimates_s(narrow, demand)["direct"] == pytest.approx(simulated_s, rel=0.01)


def test_nothing_to_move_takes_no_time(h200_2x4):
    assert set(two_tier_estimates_s(h200_2x4, il.traffic.matrix([[0] * 8] * 8)).values()) == {0.0}


def test_traffic_of_a_dead_nic_is_never_estimated_as_possible():
    faulty = il.cluster("h200", servers=2, gpus_per_server=2, faults=[il.dead_nic(0, 1)])
    times = two_tier_estimates_s(faulty, il.traffic.uniform(faulty))
    assert times["direct"] == times["spreadout"] == float("inf")


COSTS = {"scale_out_latency": "2 us", "scale_up_latency": "1 us", "message_overhead": "1 us", "stage_overhead": "5 us"}


@pytest.mark.parametrize(
    ("scale_out", "bytes_by_pair", "wanted"),
    [
        # 2.5 MB over an uplink of 25 GB/s: 100 us; shifts of 20 and 10 us; two shifts of the largest.
        ("flat", {(0, 2): 1.0, (1, 3): 1.0, (0, 3): 0.5}, {"direct": 108, "spreadout": 46, "padded": 51}),
        # 1.5 MB and two messages at the NIC of rank 0; half a MB between rails takes less.
        ("rail-spine", {(0, 2): 1.0, (1, 3): 1.0, (0, 3): 0.5}, {"direct": 40}),
        # 2 MB from each rail to the other over 25 GB/s: 80 us.
        ("rail-spine", {(0, 3): 2.0, (1, 2): 2.0}, {"direct": 88}),
        # Nothing to balance: the wire, then half a MB from each landing GPU at 450 GB/s.
        ("rail", {(0, 2): 1.0, (1, 3): 1.0}, {"no-stage": 5 + 24 + 2 + 1e6 / 900e3}),
        # Inside of a server only: no wire.
        ("flat", {(0, 1): 1.0}, {"direct": 5 + 2 + 1e6 / 450e3, "no-stage": 5 + 2 + 1e6 / 450e3}),
    ],
)
def test_estimates_are_those_of_a_pencil(
    scale_out: str, bytes_by_pair: dict[tuple[int, int], float], wanted: dict[str, float]
) -> None:
    spine = {} if scale_out == "rail" else {"oversubscription": 4.0}
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, scale_out=scale_out, **COSTS, **spine)
    matrix = np.zeros((4, 4), np.int64)
    for pair, megabytes in bytes_by_pair.items():
        matrix[pair] = round(megabytes * 1e6)
    found = two_tier_estimates_s(cluster, il.traffic.matrix(matrix))
    assert {name: 1e6 * found[name] for name in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("change", "servers", "bytes_by_pair", "wanted"),
    [
        # One server: two shifts of the largest at 450 GB/s, 2 us of latency and overhead each.
        ({}, 1, {(0, 1): 1.0, (1, 2): 0.5}, {"padded": 5 + 2 * (2 + 1e6 / 450e3)}),
        # On a mesh each pair has half of it.
        ({"scale_up": "mesh"}, 1, {(0, 1): 1.0, (1, 2): 0.5}, {"padded": 5 + 2 * (2 + 1e6 / 225e3)}),
        ({"scale_up": "mesh"}, 1, {(0, 1): 1.0, (1, 2): 0.5}, {"direct": 5 + 2 + 1e6 / 225e3}),
        # A port sends two messages and 3 MB; what another receives, 4 MB, takes longer than the overheads.
        ({}, 1, {(0, 1): 1.0, (0, 2): 2.0}, {"direct": 5 + 2 + 1 + 3e6 / 450e3}),
        ({}, 1, {(0, 1): 2.0, (2, 1): 2.0}, {"direct": 5 + 1 + 4e6 / 450e3}),
        # Three shifts to the other server, whose largest is 1 MB at 50 GB/s; they take longer than two inside.
        ({}, 2, {(0, 3): 1.0, (4, 2): 0.5}, {"padded": 5 + 3 * (2 + 1 + 20)}),
        # 1 MB hops inside to index 1, then the wire: of one server to one other, all of the hop is exposed.
        ({}, 2, {(0, 4): 1.0}, {"pxn": 5 + (1 + 1 + 1e6 / 450e3) + 20 + 3 * 1 + 1 + 2}),
    ],
)
def test_estimates_inside_and_between_are_those_of_a_pencil(
    change: dict[str, str], servers: int, bytes_by_pair: dict[tuple[int, int], float], wanted: dict[str, float]
) -> None:
    cluster = il.cluster("h200", servers=servers, gpus_per_server=3, **COSTS, **change)
    matrix = np.zeros((3 * servers, 3 * servers), np.int64)
    for pair, megabytes in bytes_by_pair.items():
        matrix[pair] = round(megabytes * 1e6)
    found = two_tier_estimates_s(cluster, il.traffic.matrix(matrix))
    assert {name: 1e6 * found[name] for name in wanted} == pytest.approx(wanted)


def test_a_pair_on_a_mesh_has_all_of_its_link_and_a_rail_as_many_uplinks_as_servers() -> None:
    pair = il.cluster("h200", servers=1, gpus_per_server=2, scale_up="mesh", **COSTS)
    found = two_tier_estimates_s(pair, il.traffic.matrix([[0, 900_000], [0, 0]]))["direct"]
    assert 1e6 * found == pytest.approx(5 + 2 + 900 / 450)
    rails = il.cluster("h200", servers=3, gpus_per_server=2, scale_out="rail-spine", oversubscription=8.0, **COSTS)
    matrix = np.zeros((6, 6), np.int64)
    matrix[0, 3] = 3_000_000  # over 3 x 50 / 8 GB/s: 160 us
    found = two_tier_estimates_s(rails, il.traffic.matrix(matrix))["direct"]
    assert 1e6 * found == pytest.approx(5 + 160 + 1 + 2)


def test_what_rails_send_to_themselves_crosses_no_spine() -> None:
    """Two rails, 4:1: rail 0 sends 3 MB along itself, 1 MB to rail 1, rail 1 half a MB back."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, scale_out="rail-spine", oversubscription=8.0, **COSTS)
    matrix = np.zeros((4, 4), np.int64)
    matrix[0, 2], matrix[0, 3], matrix[1, 2] = 3_000_000, 1_000_000, 500_000
    found = two_tier_estimates_s(cluster, il.traffic.matrix(matrix))["direct"]
    # An uplink of 12.5 GB/s: 80 us for 1 MB; the NIC of rank 0 sends its 4 MB in 80 us and two overheads.
    assert 1e6 * found == pytest.approx(5 + max(80, 82) + 1 + 2)
