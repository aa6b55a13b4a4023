"""Rails: what a server can decide alone, and what that is worth."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import interlock as il
from algorithms import rails_split_oracle
from interlock.algorithms.rails import longest_first
from interlock.algorithms.rails_split import ALGORITHM, rails_split
from interlock.problem import demand_problem
from interlock.schedule import Phase, Schedule
from strategies import clusters


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
    """The counter-example: LPT puts one destination's whole flow on rail 0 and the other's on rail 1."""
    cluster = il.cluster("h200", servers=3, gpus_per_server=2, scale_out="rail")
    matrix = np.zeros((6, 6), np.int64)
    matrix[0, 2] = matrix[1, 4] = 1_000_000
    demand = il.traffic.matrix(matrix)
    worst = {}
    for name in ("rails", "rails-split"):
        sent, received = wire_loads(il.plan(cluster, demand, algorithm=name).schedule, 6)
        assert sent[0] == sent[1] == 1_000_000
        worst[name] = received.max()
    assert worst == {"rails": 1_000_000, "rails-split": 500_000}


@settings(max_examples=25)
@given(clusters(max_servers=4, max_gpus=4), st.integers(0, 2**32), st.sampled_from([None, 1, 2, 7]))
def test_native_rows_are_those_of_the_plain_way_to_split(cluster: il.Cluster, seed: int, slices: int | None) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.choice([0, 1, 5, 4099, 10**6, 3 * 10**7], size=(cluster.num_ranks,) * 2).astype(np.int64)
    matrix *= cluster.present[:, None] & cluster.present[None, :]
    problem = demand_problem(cluster, il.traffic.matrix(matrix))
    assume(ALGORITHM.supports(problem) is None)
    made, wanted = rails_split(problem, slices=slices), rails_split_oracle.rails_split(problem, slices)
    for name in ("phase", "stage", "size_bytes"):
        assert np.array_equal(getattr(made, name), getattr(wanted, name)), name
    for name in ("src", "dst", "deps"):
        for column in ("offsets", "values"):
            assert np.array_equal(getattr(getattr(made, name), column), getattr(getattr(wanted, name), column)), name
    for name in ("offsets", "item", "offset", "length"):
        assert np.array_equal(getattr(made.pieces, name), getattr(wanted.pieces, name)), name


@settings(max_examples=60)
@given(st.integers(2, 6), st.integers(1, 8), st.integers(0, 2**32))
def test_spreading_every_pair_evenly_balances_both_ends(servers: int, gpus: int, seed: int) -> None:
    """The theorem as it holds: per pair, not per total; within a byte per pair."""
    cluster = il.cluster("h200", servers=servers, gpus_per_server=gpus, scale_out="rail")
    demand = il.traffic.zipf(cluster, skew=1.0, bytes_per_gpu="1 MB", seed=seed)
    sent, received = wire_loads(il.plan(cluster, demand, algorithm="rails-split").schedule, cluster.num_ranks)
    for load in (sent.reshape(servers, gpus), received.reshape(servers, gpus)):
        assert (load.max(axis=1) - load.min(axis=1)).max() <= servers


def told_by_origin(plan: il.Plan) -> list[Counter[tuple[object, ...]]]:
    """Every message with its bytes, named by their ends, and what it waits for; apart for each server they start in."""
    schedule, items = plan.schedule, plan.problem.items
    ends = np.stack([items.contributors.to_ragged().values, items.destinations.to_ragged().values], axis=1)
    width = plan.problem.cluster.gpus_per_server
    told: list[tuple[object, ...]] = []
    servers = []
    for row in range(schedule.num_messages):
        part = slice(schedule.pieces.offsets[row], schedule.pieces.offsets[row + 1])
        item = schedule.pieces.item[part]
        bytes_of = zip(
            ends[item].tolist(),
            schedule.pieces.offset[part].tolist(),
            schedule.pieces.length[part].tolist(),
            strict=True,
        )
        told.append(
            (
                int(schedule.src.values[row]),
                int(schedule.dst.values[row]),
                int(schedule.phase[row]),
                tuple(sorted((*end, offset, length) for end, offset, length in bytes_of)),
            )
        )
        servers.append(int(ends[item[0], 0]) // width)
    made: list[Counter[tuple[object, ...]]] = [Counter() for _ in range(plan.problem.cluster.servers)]
    for row, server in enumerate(servers):
        waits_for = schedule.deps.values[schedule.deps.offsets[row] : schedule.deps.offsets[row + 1]]
        made[server][(*told[row], tuple(sorted(told[on] for on in waits_for)))] += 1
    return made


@pytest.mark.parametrize(("name", "options"), [("rails-split", {}), ("rails", {}), ("rails", {"chunk": "64 kB"})])
@settings(max_examples=15)
@given(st.integers(2, 5), st.integers(0, 2**32), st.sampled_from(["none", "slow", "dead"]))
def test_one_server_decides_alone(name: str, options: dict[str, str], servers: int, seed: int, fault: str) -> None:
    """Each server plans from its own rows alone; together that is the plan made from the whole matrix.

    Servers' totals differ by three orders of magnitude, so they choose unlike numbers of slices.
    """
    faults = {"none": [], "slow": [il.slow_nic(0, 1, "100 Gb/s")], "dead": [il.dead_nic(0, 1)]}[fault]
    assume(name == "rails-split" or fault != "dead")
    cluster = il.cluster("h200", servers=servers, gpus_per_server=4, scale_out="rail", faults=faults)
    rng = np.random.default_rng(seed)
    scale = np.repeat(10.0 ** rng.uniform(3, 6, servers), 4)
    matrix = (rng.random((cluster.num_ranks, cluster.num_ranks)) * scale[:, None]).astype(np.int64)
    whole = told_by_origin(il.plan(cluster, il.traffic.matrix(matrix), algorithm=name, **options))
    for own in range(servers):
        rows = np.where((np.arange(cluster.num_ranks) // 4 == own)[:, None], matrix, 0)
        alone = told_by_origin(il.plan(cluster, il.traffic.matrix(rows), algorithm=name, **options))
        assert alone[own] == whole[own]


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


def test_what_goes_around_a_dead_rail_crowds_no_receiver() -> None:
    """A server whose NICs are all busy gets no more by that rail than by others: made up for there, it took 1.17."""
    cluster = il.cluster("h200", servers=4, scale_out="rail", faults=[il.dead_nic(0, 5)])
    demand = il.traffic.zipf(cluster, skew=1.0, bytes_per_gpu="500 MB", seed=16)
    proof = il.plan(cluster, demand, algorithm="rails-split").certificate()
    assert proof.valid and 1 + proof.gap <= 1.08


def one_to_one(cluster: il.Cluster, pairs: int, seed: int) -> il.Demand:
    """Some GPUs send 250 MB each to one GPU of another server; nobody sends or receives twice."""
    rng = np.random.default_rng(seed)
    matrix = np.zeros((cluster.num_ranks, cluster.num_ranks), np.int64)
    while np.count_nonzero(matrix) < pairs:
        a, b = rng.integers(cluster.num_ranks, size=2)
        if a // 8 != b // 8 and not matrix[a].any() and not matrix[:, b].any():
            matrix[a, b] = 250 * 10**6
    return il.traffic.matrix(matrix)


def permutation(cluster: il.Cluster, seed: int) -> il.Demand:
    """Every GPU sends 250 MB to one, wherever that is, and receives as much."""
    order = np.random.default_rng(seed).permutation(cluster.num_ranks)
    matrix = 250 * 10**6 * np.eye(cluster.num_ranks, dtype=np.int64)[order]
    np.fill_diagonal(matrix, 0)
    return il.traffic.matrix(matrix)


def busiest_s(plan: il.Plan, rows: np.ndarray, rate: float) -> float:
    """How long the busiest rank sends or receives some of the messages, at a rate in bytes per second."""
    src, dst, size_bytes = (plan.messages[name][rows] for name in ("src", "dst", "size_bytes"))
    sends_s = size_bytes / rate + plan.problem.cluster.message_overhead_s
    return float(max(np.bincount(src, sends_s).max(), np.bincount(dst, size_bytes / rate).max()))


LOADS = ["uniform", "zipf 0.6", "zipf 1.0", *(f"sparse {seed}" for seed in (0, 1, 2, 3, 7002)), "one", "two", "four"]
LOADS += [f"permutation {seed}" for seed in (50003, 50007)]  # servers that owe others little and much


@pytest.mark.parametrize("servers", [2, 3, 4, 8])
@pytest.mark.parametrize("load", LOADS)
def test_chunks_overlap_hop_wire_and_fan_out(servers: int, load: str) -> None:
    """With 256 kB chunks the busiest NIC is hardly idle: its bytes and message overheads explain 95 % of the time.

    But where one GPU sends or receives more than its server's NICs take: then it is that GPU's port.
    """
    cluster = il.cluster("h200", servers=servers, scale_out="rail")
    kind, _, value = load.partition(" ")
    draw = {
        "uniform": lambda: il.traffic.uniform(cluster, "250 MB"),
        "zipf": lambda: il.traffic.zipf(cluster, skew=float(value), bytes_per_gpu="250 MB", seed=1),
        "sparse": lambda: il.traffic.sparse(cluster, density=0.05, bytes_per_gpu="250 MB", seed=int(value)),
        "one": lambda: one_to_one(cluster, 1, servers),
        "two": lambda: one_to_one(cluster, 2, servers),
        "four": lambda: one_to_one(cluster, 4, servers),
        "permutation": lambda: permutation(cluster, int(value)),
    }
    plan = il.plan(cluster, draw[kind](), algorithm="rails", chunk="256 kB")
    wire = plan.messages["phase"] == Phase.SCALE_OUT
    nic_s = busiest_s(plan, wire, 50e9)
    port_s = busiest_s(plan, ~wire, cluster.scale_up_bandwidth_bytes_per_s)
    busy_s = nic_s if port_s <= 1.01 * nic_s else port_s
    assert busy_s == nic_s or servers == 2 or load == "two"
    proof = plan.certificate()
    assert proof.valid and max(nic_s, port_s) <= proof.makespan_s <= 1.05 * busy_s


@pytest.mark.parametrize("size", [16, 64, 250, 1000])
def test_one_gpu_alone_pays_its_start_and_the_hops_of_one_round(size: int) -> None:
    """Beside the busiest of its port and its NICs: opening, one round of hops, the last chunk's wire and fan-out."""
    cluster = il.cluster("h200", servers=2, scale_out="rail")
    matrix = np.zeros((16, 16), np.int64)
    matrix[0, 8] = size * 10**6
    plan = il.plan(cluster, il.traffic.matrix(matrix), algorithm="rails", chunk="256 kB")
    chunks = -(-size * 10**6 // 256_000)
    wire_s, hop_s = (
        256e3 / rate + cluster.message_overhead_s for rate in (50e9, cluster.scale_up_bandwidth_bytes_per_s)
    )
    busy_s = max(-(-chunks // 8) * wire_s, chunks * 7 / 8 * hop_s)
    latency_s = cluster.scale_out_latency_s + 2 * cluster.scale_up_latency_s
    once_s = cluster.stage_overhead_s * 3 + 2 * 7 * hop_s + wire_s + latency_s  # each of three ranks opens its stage
    assert busy_s <= plan.certificate().makespan_s <= busy_s + once_s


def test_flows_share_a_nic_by_a_connection_each_and_hop_in_turn() -> None:
    """By hand: GPU 0 sends 16 chunks to each of two GPUs, 2 of each flow on each of 8 rails."""
    cluster = il.cluster("h200", servers=2, scale_out="rail")
    matrix = np.zeros((16, 16), np.int64)
    matrix[0, 8] = matrix[0, 9] = 16 * 256_000
    plan = il.plan(cluster, il.traffic.matrix(matrix), algorithm="rails", chunk="256 kB")
    sent = plan.messages
    hop = (sent["phase"] == Phase.BALANCE) & (sent["dst"] == 3)
    wire = (sent["phase"] == Phase.SCALE_OUT) & (sent["dst"] == 11)
    item = plan.schedule.pieces.item[plan.schedule.pieces.offsets[:-1]]
    assert sent["slice"][hop].tolist() == [0] * 4 and item[hop].tolist() == [0, 1, 0, 1]
    assert sorted(sent["slice"][wire].tolist()) == [0, 0, 1, 1] and (sent["slice"] == item)[wire].all()


def test_a_connection_hops_and_sends_one_after_the_other_and_what_landed_goes_on_as_it_comes() -> None:
    """By hand: 64 chunks of 256 kB from one GPU, 8 of them on each of 8 rails."""
    cluster = il.cluster("h200", servers=2, scale_out="rail")
    matrix = np.zeros((16, 16), np.int64)
    matrix[0, 8] = 64 * 256_000
    schedule = il.plan(cluster, il.traffic.matrix(matrix), algorithm="rails", chunk="256 kB").schedule
    assert not schedule.exclusive.any()
    assert not schedule.order[schedule.phase == Phase.REDISTRIBUTE].any()
    for phase, src, dst in ((Phase.BALANCE, 0, 3), (Phase.SCALE_OUT, 0, 8), (Phase.SCALE_OUT, 3, 11)):
        rows = np.flatnonzero((schedule.phase == phase) & (schedule.src.values == src) & (schedule.dst.values == dst))
        offset = schedule.pieces.offset[schedule.pieces.offsets[rows]]
        assert (np.diff(schedule.order[rows]) > 0).all() and schedule.order[rows[0]] > 0
        assert offset.tolist() == [(src + dst * (phase == Phase.BALANCE) + 8 * k) * 256_000 for k in range(8)]
        waits = schedule.deps.counts[rows].tolist()
        assert waits == [int(phase == Phase.SCALE_OUT and src == 3)] * 8  # for its own hop, and for no other chunk


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
    for slices in (0, 1001):
        with pytest.raises(il.InvalidInput, match=f"slices={slices} must be between 1 and 1000"):
            il.plan(cluster, il.traffic.uniform(cluster), algorithm="rails-split", slices=slices)
