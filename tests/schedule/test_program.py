"""The programs of all ranks together are the schedule, message for message, whatever made it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms import registry
from interlock.algorithms.adaptive import prepare
from interlock.errors import LimitExceeded
from interlock.planning import Plan, solve
from interlock.problem import demand_problem
from interlock.schedule import Layout, PortLoads, lower
from strategies import clusters, collective_problems, planners_of_collectives, planners_of_demand

SIZES = [0, 0, 1, 2, 3, 7, 64, 1000, 4099, 10**6]


@st.composite
def demand_problems(draw: st.DrawFn) -> il.Problem:
    """All-to-Allvs on whole and faulty clusters, also of one server or one GPU per server, with empty ranks."""
    cluster = draw(clusters(max_servers=4, max_gpus=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    matrix = rng.choice(SIZES[: draw(st.integers(1, len(SIZES)))], size=(cluster.num_ranks,) * 2).astype(np.int64)
    matrix[rng.random(cluster.num_ranks) < 0.2] = 0
    matrix *= cluster.present[:, None] & cluster.present[None, :]
    return demand_problem(cluster, il.traffic.matrix(matrix))


def check_programs(plan: Plan) -> None:
    """Every message once at each end, under the same name, with the same bytes; and nothing else."""
    rows = plan.schedule
    wanted: dict[tuple[int, int, int], tuple[int, int, int, int]] = {}
    count: dict[tuple[int, int], int] = {}
    adds = {}
    for message in rows.iter_messages():
        for src in message.src:
            for dst in message.dst:
                if src == dst:
                    continue
                tag = count[src, dst] = count.get((src, dst), -1) + 1
                wanted[src, dst, tag] = (message.size_bytes, message.phase, message.stage, len(message.pieces))
                adds[src, dst, tag] = bool(message.kind) and plan.problem.items.are_reduced
    ends: list[dict[tuple[int, int, int], tuple[int, ...]]] = [{}, {}]
    for rank in range(plan.problem.num_ranks):
        program = plan.program(rank)
        columns = {name: column.tolist() for name, column in program.columns.items()}
        for found, end in zip(ends, ("send", "receive"), strict=True):
            names = ("peer", "tag", "bytes", "phase", "stage")
            for peer, tag, *facts in zip(*(columns[f"{end}_{name}"] for name in names), strict=True):
                name = (rank, peer, tag) if end == "send" else (peer, rank, tag)
                assert name not in found
                found[name] = tuple(facts)
        for peer, tag, is_added in zip(
            columns["receive_peer"], columns["receive_tag"], columns["receive_adds"], strict=True
        ):
            assert adds[peer, rank, tag] == is_added
        assert not any(column.flags.writeable for column in program.columns.values())
        waits, releases = (np.diff(program.columns[name]) for name in ("wait_offsets", "release_offsets"))
        steps, releasing = (np.repeat(np.arange(len(counts)), counts) for counts in (waits, releases))
        assert sorted(zip(program.columns["wait_on"].tolist(), steps.tolist(), strict=True)) == sorted(
            zip(releasing.tolist(), program.columns["release_to"].tolist(), strict=True)
        )
    assert ends[0] == ends[1] == {name: facts[:3] for name, facts in wanted.items()}


@pytest.mark.parametrize("name", planners_of_demand())
@given(problem=demand_problems())
@settings(max_examples=8)
def test_programs_of_an_all_to_allv_are_its_schedule(name: str, problem: il.Problem) -> None:
    assume(registry.get(name).supports(problem) is None)
    plan = solve(problem, name)
    assert plan.report.valid
    check_programs(plan)


@pytest.mark.parametrize("name", planners_of_collectives())
@given(problem=collective_problems(max_ranks=6))
@settings(max_examples=5)
def test_programs_of_a_collective_are_its_schedule(name: str, problem: il.Problem) -> None:
    assume(registry.get(name).supports(problem) is None)
    check_programs(solve(problem, name))


@pytest.mark.parametrize("servers", [1, 2, 5])
@pytest.mark.parametrize("way", ["direct", "burst", "staged", "detour"])
def test_programs_of_every_way_are_its_schedule(servers: int, way: str) -> None:
    cluster = il.cluster("h200", servers=servers, gpus_per_server=4, fan_in=4)
    traffic = il.traffic.zipf(cluster, skew=0.9, bytes_per_gpu="8 MB", seed=servers)
    check_programs(il.plan(cluster, traffic, algorithm="adaptive", way=way))


PACING = {"receive_place", "send_round", "receive_round", "wait_offsets", "wait_on", "release_offsets", "release_to"}


@pytest.mark.parametrize("fan_in", [None, 1, 4])
@pytest.mark.parametrize("servers", [2, 3, 6])
def test_a_program_from_one_servers_tiles_is_that_of_the_whole_schedule(servers: int, fan_in: int | None) -> None:
    faults = [il.slow_nic(server=0, gpu=1, bandwidth="200 Gb/s")]
    cluster = il.cluster("h200", servers=servers, gpus_per_server=4, fan_in=fan_in, faults=faults)
    traffic = il.traffic.zipf(cluster, skew=0.9, bytes_per_gpu="64 MB", seed=servers)
    for way in ("direct", "burst", "staged", "detour"):
        plan = il.plan(cluster, traffic, algorithm="adaptive", way=way)
        for rank in range(0, cluster.num_ranks, 3):
            own, whole = plan.program(rank), lower(plan.schedule, plan.problem, Layout.packed(plan.problem, rank))
            if way == "direct":
                in_rounds = lower(plan.schedule, plan.problem, Layout.packed(plan.problem, rank), rounds=True)
                for name in ("send_round", "receive_round"):
                    assert np.array_equal(plan.program(rank, rounds=True).columns[name], in_rounds.columns[name])
            sizes = ("input_bytes", "output_bytes", "scratch_bytes")
            assert [getattr(own, name) for name in sizes] == [getattr(whole, name) for name in sizes]
            for name in own.columns.keys() - PACING:  # the order of other servers' messages is not known there
                assert np.array_equal(own.columns[name], whole.columns[name]), name


@pytest.mark.parametrize("scale_out", ["rail", "flat"])
@pytest.mark.parametrize("fan_in", [None, 1, 4])
def test_loads_of_ports_from_the_decision_are_those_of_its_rows(fan_in: int | None, scale_out: str) -> None:
    faults = [il.slow_nic(server=0, gpu=1, bandwidth="200 Gb/s")]
    for servers in (2, 5):
        cluster = il.cluster(
            "h200", servers=servers, gpus_per_server=4, fan_in=fan_in, scale_out=scale_out, faults=faults
        )
        for seed, size in enumerate(("64 MB", "100 kB")):
            traffic = il.traffic.zipf(cluster, skew=0.9, bytes_per_gpu=size, seed=seed)
            for way in ("direct", "burst", "staged", "detour"):
                if way == "direct" and scale_out == "rail":
                    continue
                plan = il.plan(cluster, traffic, algorithm="adaptive", way=way)
                found, wanted = plan.port_loads, PortLoads.of(plan.schedule, cluster)
                assert np.array_equal(found.out_bytes, wanted.out_bytes)
                assert np.array_equal(found.in_bytes, wanted.in_bytes)
                assert found.take_turns == wanted.take_turns


def test_a_rank_has_a_program_where_the_schedule_is_too_long_to_write_out() -> None:
    """3,168 ranks that each send a byte to every other: ten million rows, of which a rank needs 6,334."""
    cluster = il.cluster("h200", servers=396)
    ranks = cluster.num_ranks
    demand = il.traffic.matrix(np.ones((ranks, ranks), np.int64))
    plan = Plan(lambda: demand_problem(cluster, demand), prepare(cluster, way="direct")(demand), "adaptive")
    program = plan.program(77)
    steps = np.arange(1, ranks)  # in rotation from the rank itself
    assert np.array_equal(program.columns["send_peer"], (77 + steps) % ranks)
    assert np.array_equal(program.columns["receive_peer"], (77 - steps) % ranks)
    assert program.input_bytes == program.output_bytes == ranks - 1
    assert not plan.program(77, rounds=True).columns["send_round"].any()
    with pytest.raises(LimitExceeded, match="10033056 rows, above 10000000"):
        _ = plan.schedule


def test_a_program_is_taken_over_where_nothing_has_changed(h200_2x4: il.Cluster) -> None:
    traffic, other = (il.traffic.zipf(h200_2x4, bytes_per_gpu="8 MB", seed=seed) for seed in range(2))
    first, same, new = (il.plan(h200_2x4, demand, algorithm="adaptive") for demand in (traffic, traffic, other))
    program = first.program(3)
    assert first.program(3) is program
    assert same.program(3, previous=first) is program
    assert same.program(2, previous=first).rank == 2
    assert new.program(3, previous=first) is not program


def test_planning_is_over_when_a_rank_can_run(h200_2x4: il.Cluster) -> None:
    plan = il.plan(h200_2x4, il.traffic.zipf(h200_2x4, bytes_per_gpu="8 MB"), algorithm="fast")
    assert plan.plan_s > plan.decide_s > 0


def test_rounds_are_above_those_of_all_that_a_message_waits_for(h200_2x4: il.Cluster) -> None:
    plan = il.plan(h200_2x4, il.traffic.zipf(h200_2x4, bytes_per_gpu="8 MB"), algorithm="adaptive", way="burst")
    for rank in range(8):
        columns = plan.program(rank, rounds=True).columns
        number = np.concatenate([columns["send_round"], columns["receive_round"]])
        step = np.repeat(np.arange(len(number)), np.diff(columns["wait_offsets"]))
        assert (number[columns["wait_on"]] < number[step]).all()
