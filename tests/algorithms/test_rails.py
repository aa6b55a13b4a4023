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
from interlock.algorithms.relay import queued
from interlock.algorithms.two_tier import Group
from interlock.problem import demand_problem
from interlock.schedule import Phase, Pieces, Schedule
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


@pytest.mark.parametrize("servers", [4, 8])
@pytest.mark.parametrize("load", ["uniform", "zipf 0.6", "zipf 1.0", *(f"sparse {seed}" for seed in range(4))])
def test_chunks_overlap_hop_wire_and_fan_out(servers: int, load: str) -> None:
    """With 256 kB chunks a NIC is hardly idle: its bytes and message overheads explain 95 % of the time."""
    cluster = il.cluster("h200", servers=servers, scale_out="rail")
    kind, _, value = load.partition(" ")
    draw = {
        "uniform": lambda: il.traffic.uniform(cluster, "250 MB"),
        "zipf": lambda: il.traffic.zipf(cluster, skew=float(value), bytes_per_gpu="250 MB", seed=1),
        "sparse": lambda: il.traffic.sparse(cluster, density=0.05, bytes_per_gpu="250 MB", seed=int(value)),
    }
    plan = il.plan(cluster, draw[kind](), algorithm="rails", chunk="256 kB")
    sent, received = wire_loads(plan.schedule, cluster.num_ranks)
    messages = np.bincount(plan.messages["src"][plan.messages["phase"] == Phase.SCALE_OUT], minlength=len(sent))
    busy_s = np.maximum(sent / 50e9 + messages * cluster.message_overhead_s, received / 50e9)
    proof = plan.certificate()
    assert proof.valid and busy_s.max() <= proof.makespan_s <= 1.05 * busy_s.max()


@pytest.mark.parametrize("size", [64, 250, 1000, 4000])
def test_one_gpu_alone_pays_a_window_at_each_hop_and_a_latency_in_each_window(size: int) -> None:
    """Chunks of a connection share its rate and end together, so that a window hops, crosses and fans out as one."""
    cluster = il.cluster("h200", servers=2, scale_out="rail")
    matrix = np.zeros((16, 16), np.int64)
    matrix[0, 8] = size * 10**6
    plan = il.plan(cluster, il.traffic.matrix(matrix), algorithm="rails", chunk="256 kB")
    wire = plan.messages["phase"] == Phase.SCALE_OUT
    chunks = int(np.bincount(plan.messages["src"][wire]).max())
    wire_s, hop_s = (
        256e3 / rate + cluster.message_overhead_s for rate in (50e9, cluster.scale_up_bandwidth_bytes_per_s)
    )
    under_way = min(16, chunks // 4)
    window_s = under_way * (wire_s + 2 * 7 * hop_s)
    busy_s = chunks * wire_s * (1 + cluster.scale_out_latency_s / (under_way * wire_s))
    makespan_s = plan.certificate().makespan_s
    assert makespan_s <= cluster.stage_overhead_s + busy_s + window_s
    assert makespan_s >= chunks * wire_s + 0.6 * window_s  # and that is why: without windows it would be the first term


def test_a_connection_has_a_window_of_bytes_under_way_and_hops_open_one_by_one() -> None:
    """By hand: 64 chunks of 256 kB from one GPU, 8 of them on each of 8 rails, so a quarter is 2 chunks."""
    cluster = il.cluster("h200", servers=2, scale_out="rail")
    matrix = np.zeros((16, 16), np.int64)
    matrix[0, 8] = 64 * 256_000
    schedule = il.plan(cluster, il.traffic.matrix(matrix), algorithm="rails", chunk="256 kB").schedule

    def waits(phase: Phase, src: int) -> list[list[int]]:
        rows = np.flatnonzero((schedule.phase == phase) & (schedule.src.values == src))
        if phase == Phase.BALANCE:
            rows = rows[schedule.dst.values[rows] == 1]
        on = [schedule.deps.values[schedule.deps.offsets[row] : schedule.deps.offsets[row + 1]] for row in rows]
        return [(np.searchsorted(rows, each[np.isin(each, rows)])).tolist() for each in on]

    assert waits(Phase.SCALE_OUT, 0) == [[], [], [0], [1], [2], [3], [4], [5]]
    assert waits(Phase.BALANCE, 0) == [[], [0], [0], [1], [2], [3], [4], [5]]


def test_hops_to_a_carrier_double_until_the_window_is_open() -> None:
    """64 chunks per rail: 4 MiB and a quarter of them are 16 chunks, which takes 4 doublings."""
    chunk = 1 << 18
    keys = np.repeat([[0, 1], [0, 2]], 64, axis=0)
    pieces = Pieces(np.arange(129), np.zeros(128, np.int32), np.zeros(128, np.int64), np.full(128, chunk))
    made = Group(keys, np.arange(128), pieces)
    for own in (0, 64):
        for window, opens_slowly in ((16, False), (16, True), (3, False), (100, False)):
            waiting, on = queued(made, window * chunk, opens_slowly=opens_slowly)
            mine = waiting // 64 == own // 64
            width = min(window, 16)
            wanted = {k: k - width for k in range(width, 64)}
            if opens_slowly:
                wanted = {k: max((k - 1) // 2, k - width) for k in range(1, 64)}
            assert dict(zip((waiting[mine] - own).tolist(), (on[mine] - own).tolist(), strict=True)) == wanted


def test_pieces_of_less_than_a_round_trip_are_under_way_together() -> None:
    """10 of 50 kB each: five fill a round trip, and the sixth waits for the first, whatever opens slowly."""
    pieces = Pieces(np.arange(11), np.zeros(10, np.int32), np.zeros(10, np.int64), np.full(10, 50_000))
    made = Group(np.repeat([[0, 1]], 10, axis=0), np.arange(10), pieces)
    for opens_slowly in (False, True):
        waiting, on = queued(made, 1 << 22, opens_slowly=opens_slowly)
        assert (waiting.tolist(), on.tolist()) == ([5, 6, 7, 8, 9], [0, 1, 2, 3, 4])


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
