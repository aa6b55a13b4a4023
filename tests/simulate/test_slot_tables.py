"""Slot tables take as long as their messages would, without being written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock import planning
from interlock.schedule import SlotSchedule
from interlock.simulate import simulate, slot_makespan_s

COLLECTIVES = {"all-gather": il.all_gather, "reduce-scatter": il.reduce_scatter}


def slot_plan(topology: il.Topology, kind: str = "all-gather", size: str = "36 MB") -> il.Plan:
    plan = il.synthesize(topology, COLLECTIVES[kind](size), "guided", chunks=1)
    assert isinstance(plan.compact, SlotSchedule)
    return plan


@pytest.mark.parametrize("kind", list(COLLECTIVES))
@pytest.mark.parametrize("shape", [(6,), (6, 6), (3, 3, 4)])
def test_equal_chunks_without_latency_are_timed_exactly(kind: str, shape: tuple[int, ...]) -> None:
    topology = il.topology.mesh(*shape, bandwidth="10 GB/s", message_overhead="1 us")
    plan = slot_plan(topology, kind)
    simulated_s = simulate(plan.schedule, plan.problem).makespan_s
    assert slot_makespan_s(plan.compact, plan.problem) == pytest.approx(simulated_s, rel=1e-9)


def test_latency_makes_it_a_little_too_long_at_most() -> None:
    topology = il.topology.mesh(5, 5, bandwidth="10 GB/s", message_overhead="1 us", latency="3 us")
    plan = slot_plan(topology, size="25000001 B")
    simulated_s = simulate(plan.schedule, plan.problem).makespan_s
    assert simulated_s <= slot_makespan_s(plan.compact, plan.problem) <= 1.1 * simulated_s


def test_gap_in_a_table_costs_nothing() -> None:
    """Links send as soon as they can, whatever the slot says."""
    plan = slot_plan(il.topology.mesh(4, bandwidth="10 GB/s"))
    table = plan.compact.table
    rest = np.full((1, table.shape[1]), np.iinfo(table.dtype).max, table.dtype)
    wide = SlotSchedule(
        plan.compact.chunks,
        plan.compact.link_src,
        plan.compact.link_dst,
        np.concatenate([table[:1], rest, table[1:]]),
    )
    assert slot_makespan_s(wide, plan.problem) == slot_makespan_s(plan.compact, plan.problem)


def test_unequal_links_are_refused() -> None:
    plan = slot_plan(il.topology.mesh(3, 3, bandwidth="10 GB/s"))
    other = il.synthesize(il.topology.mesh(3, 3, bandwidth=("10 GB/s", "5 GB/s")), il.all_gather("9 MB"), "multitree")
    with pytest.raises(il.InvalidInput, match="unequal links"):
        slot_makespan_s(plan.compact, other.problem)


def test_certificate_of_a_huge_table_does_not_write_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = slot_plan(il.topology.mesh(4, 4, bandwidth="10 GB/s"))
    expected_s = plan.certificate().makespan_s
    monkeypatch.setattr(planning, "MAX_ROWS", 10)
    again = slot_plan(il.topology.mesh(4, 4, bandwidth="10 GB/s"))
    certificate = again.certificate()
    assert certificate.valid
    assert certificate.makespan_s == pytest.approx(expected_s, rel=1e-9)
    assert "schedule" not in vars(again)


def test_every_slot_opens_a_stage() -> None:
    """Slots of the table each cost what opening a stage costs, once."""
    plan = slot_plan(il.topology.mesh(4, bandwidth="10 GB/s"))
    slow = replace(plan.problem, topology=replace(plan.problem.topology, stage_overhead_s=1e-3))
    longer_s = slot_makespan_s(plan.compact, slow) - slot_makespan_s(plan.compact, plan.problem)
    assert longer_s == pytest.approx(1e-3 * len(plan.compact.table))
