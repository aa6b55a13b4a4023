"""`guided` where a switch can replicate and add."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.collectives import CollectiveKind, collective
from interlock.validate import check

BYTES_PER_S = 10e9


def able_switch(ranks: int, *, multicasts: bool = True, reduces: bool = True) -> il.Topology:
    plain = il.topology.switch(ranks, bandwidth=BYTES_PER_S, message_overhead="0.5 us")
    is_switch = np.arange(plain.num_nodes) >= ranks
    return replace(plain, multicasts=is_switch & multicasts, reduces=is_switch & reduces)


@pytest.mark.parametrize("kind", list(CollectiveKind))
@pytest.mark.parametrize("abilities", [(True, True), (True, False), (False, True)])
def test_every_collective_is_complete(kind: CollectiveKind, abilities: tuple[bool, bool]) -> None:
    topology = able_switch(5, multicasts=abilities[0], reduces=abilities[1])
    plan = il.synthesize(topology, collective(kind, 1_000_003), "guided")
    report = check(plan.schedule, plan.problem)
    assert report.valid, [str(violation) for violation in report.violations]


def test_broadcast_leaves_its_root_once() -> None:
    plan = il.synthesize(able_switch(8), il.broadcast("80 MB"), "guided")
    assert check(plan.schedule, plan.problem).valid
    assert set(plan.schedule.dst.counts.tolist()) == {7}
    assert plan.simulate().makespan_s == pytest.approx(80e6 / BYTES_PER_S, rel=0.01)


def test_sums_for_all_take_little_more_than_their_bytes_over_one_port() -> None:
    """Without the switch's help every rank would send nearly twice its bytes."""
    plan = il.synthesize(able_switch(8), il.all_reduce("80 MB"), "guided")
    assert check(plan.schedule, plan.problem).valid
    assert set(plan.schedule.src.counts.tolist()) == {1, 7}
    assert plan.simulate().makespan_s <= 1.1 * 80e6 / BYTES_PER_S


def test_switch_that_cannot_add_is_not_asked_to() -> None:
    plan = il.synthesize(able_switch(6, reduces=False), il.all_reduce("60 MB"), "guided")
    assert check(plan.schedule, plan.problem).valid
    assert set(plan.schedule.src.counts.tolist()) == {1}


def test_group_is_served_by_the_switch_it_hangs_on() -> None:
    plan = il.synthesize(able_switch(8), il.all_reduce("80 MB", group=[1, 2, 5, 7]), "guided")
    assert check(plan.schedule, plan.problem).valid
    assert set(plan.schedule.src.counts.tolist()) == {1, 3}
