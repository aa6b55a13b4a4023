"""`tacos`: as published, and every transfer one that can be made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms.tacos import ALGORITHM, tacos
from interlock.collectives import CollectiveKind, collective
from interlock.problem import collective_problem
from interlock.validate import check
from strategies import graphs

GIB = 2**30
LINK = {"bandwidth": 50 * GIB, "message_overhead": "0.5 us"}
SPANNING = ["all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce"]


@pytest.mark.parametrize("kind", SPANNING)
@settings(max_examples=25)
@given(topology=graphs(max_ranks=9), seed=st.integers(0, 9), parts=st.sampled_from([None, 3]))
def test_every_transfer_can_be_made(kind: str, topology: il.Topology, seed: int, parts: int | None) -> None:
    """Mixed speeds are where the published code credits chunks that were not there yet."""
    problem = collective_problem(topology, collective(kind, 1_000_003))
    assert ALGORITHM.supports(problem) is None
    report = check(tacos(problem, seed=seed, parts=parts, starts=2, threads=1), problem)
    assert report.valid, [str(violation) for violation in report.violations]


def test_greedy_matching_fills_a_mesh() -> None:
    plan = il.synthesize(il.topology.mesh(8, 8, **LINK), il.all_gather("1 GiB"), "tacos", chunks=1)
    assert plan.num_stages == 32
    assert check(plan.schedule, plan.problem).valid


def test_torus_takes_about_as_many_slots_as_published() -> None:
    plan = il.synthesize(il.topology.torus(8, 8, **LINK), il.all_gather("1 GiB"), "tacos", chunks=1)
    assert 16 <= plan.num_stages <= 18


def test_more_starts_are_never_worse() -> None:
    """The public code needs 4 slots on a 4 x 4 torus at best, nearly 5 on average."""
    topology = il.topology.torus(4, 4, **LINK)
    slots = [
        il.synthesize(topology, il.all_gather("1 GiB"), "tacos", chunks=1, starts=starts).num_stages
        for starts in (1, 4, 16)
    ]
    assert slots == sorted(slots, reverse=True)
    assert slots[-1] == 4


@pytest.mark.parametrize("collective", [il.all_gather("64 MiB"), il.all_reduce("64 MiB")], ids=["gather", "reduce"])
def test_chunks_not_asked_for_are_the_best_of_a_few(collective: il.Collective) -> None:
    topology = il.topology.mesh(3, 4, **LINK)
    asked = [
        il.synthesize(topology, collective, "tacos", chunks=chunks).simulate().makespan_s for chunks in (1, 2, 4, 8)
    ]
    chosen = il.synthesize(topology, collective, "tacos").simulate().makespan_s
    assert chosen == pytest.approx(min(asked), rel=0.02)  # fewer starts each, so not exactly
    assert chosen < asked[0]


def test_result_does_not_depend_on_threads() -> None:
    problem = collective_problem(il.topology.mesh(4, 4, **LINK), il.all_reduce("1 GiB"))
    made = [tacos(problem, seed=2, starts=4, threads=threads).expand() for threads in (1, 3)]
    assert np.array_equal(made[0].pieces.item, made[1].pieces.item)
    assert made[0].deps == made[1].deps


def test_reduce_scatter_is_all_gather_read_backwards() -> None:
    topology = il.topology.mesh(3, 3, **LINK)
    gather = il.synthesize(topology, il.all_gather("9 MiB"), "tacos").simulate().makespan_s
    scatter = il.synthesize(topology, il.reduce_scatter("9 MiB"), "tacos").simulate().makespan_s
    assert scatter == pytest.approx(gather, rel=0.3)


def test_switch_is_unwound_and_its_ports_shared() -> None:
    plan = il.synthesize(il.topology.switch(5, bandwidth="10 GB/s"), il.all_gather("50 MB"), "tacos")
    assert check(plan.schedule, plan.problem).valid
    assert not plan.schedule.exclusive.any()
    assert plan.simulate().makespan_s == pytest.approx(4e-3, rel=0.01)


@pytest.mark.parametrize("kind", [CollectiveKind.ALL_TO_ALL, CollectiveKind.GATHER, CollectiveKind.SCATTER])
def test_what_needs_relays_is_refused(kind: CollectiveKind) -> None:
    problem = collective_problem(il.topology.ring(4, bandwidth="1 GB/s"), collective(kind, 4000))
    reason = ALGORITHM.supports(problem)
    assert reason is not None and "nobody relays" in reason


def test_group_that_needs_others_is_refused() -> None:
    problem = collective_problem(il.topology.mesh(3, bandwidth="1 GB/s"), il.all_gather(4000, group=[0, 2]))
    reason = ALGORITHM.supports(problem)
    assert reason is not None and "without the help of others" in reason
