"""Schedule files that hold a slot table: refused in one sentence where they are wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.schedule import SlotSchedule, read_schedule, write_schedule
from interlock.schedule.problem_columns import columns_of_slots, slots_of_columns
from interlock.validate import check


@pytest.fixture
def plan() -> il.Plan:
    return il.synthesize(il.topology.mesh(2, 3, bandwidth="1 GB/s"), il.all_gather("6 MB"), chunks=1)


def saved(plan: il.Plan, folder: Path, **changed: object) -> Path:
    assert plan.slots is not None
    write_schedule(folder / "x.ilk", replace(plan.slots, **changed), plan.problem, algorithm="guided")
    return folder / "x.ilk"


def test_table_comes_back_mapped(plan: il.Plan, tmp_path: Path) -> None:
    assert plan.slots is not None
    back = read_schedule(saved(plan, tmp_path)).schedule
    assert isinstance(back, SlotSchedule)
    np.testing.assert_array_equal(back.table, plan.slots.table)
    column: object = back.table
    while isinstance(column, np.ndarray) and not isinstance(column, np.memmap):
        column = column.base
    assert isinstance(column, np.memmap)


@pytest.mark.parametrize(("slot", "link"), [(0, 0), (1, 2)])
def test_unknown_chunk_is_refused(plan: il.Plan, tmp_path: Path, slot: int, link: int) -> None:
    assert plan.slots is not None
    table = plan.slots.table.copy()
    table[slot, link] = 6
    with pytest.raises(il.InvalidInput, match=f"slot {slot}, link {link}: chunk 6 is not one of 6"):
        read_schedule(saved(plan, tmp_path, table=table))


def test_chunks_of_one_byte_come_back(tmp_path: Path) -> None:
    plan = il.synthesize(il.topology.mesh(2, 3, bandwidth="1 GB/s"), il.all_gather("6 B"), chunks=1)
    back = read_schedule(saved(plan, tmp_path))
    assert check(back.schedule, back.problem).valid


@pytest.mark.parametrize(("column", "value"), [("item", -1), ("item", 6), ("offset", -1), ("offset", 1), ("length", 0)])
def test_chunk_outside_of_its_item_is_refused(plan: il.Plan, tmp_path: Path, column: str, value: int) -> None:
    assert plan.slots is not None
    wrong = getattr(plan.slots.chunks, column).copy()
    wrong[3] = value
    with pytest.raises(il.InvalidInput, match="chunks must"):
        read_schedule(saved(plan, tmp_path, chunks=replace(plan.slots.chunks, **{column: wrong})))


def test_table_that_does_not_fit_is_refused(plan: il.Plan, tmp_path: Path) -> None:
    assert plan.slots is not None
    with pytest.raises(il.InvalidInput, match="lacks a table of"):
        read_schedule(saved(plan, tmp_path, table=plan.slots.table[:, :-1].copy()))
    with pytest.raises(il.InvalidInput, match="num_reducing"):
        read_schedule(saved(plan, tmp_path, num_reducing=99))
    with pytest.raises(il.InvalidInput, match="lacks a table of"):
        read_schedule(saved(plan, tmp_path, table=plan.slots.table.astype(np.int32)))


def test_graph_with_switches_has_no_slots(plan: il.Plan, tmp_path: Path) -> None:
    assert plan.slots is not None
    switched = il.synthesize(il.topology.switch(6, bandwidth="1 GB/s"), il.all_gather("6 MB"), chunks=1).problem
    write_schedule(tmp_path / "x.ilk", plan.slots, switched, algorithm="guided")
    with pytest.raises(il.InvalidInput, match="all nodes must be ranks"):
        read_schedule(tmp_path / "x.ilk")


def test_table_that_misses_a_rank_reads_and_is_found_invalid(plan: il.Plan, tmp_path: Path) -> None:
    assert plan.slots is not None
    back = read_schedule(saved(plan, tmp_path, table=plan.slots.table[:-1].copy()))
    assert not check(back.schedule, back.problem).valid


@pytest.mark.parametrize("column", ["item", "offset", "length"])
def test_chunks_lack_nothing(plan: il.Plan, column: str) -> None:
    assert plan.slots is not None
    columns, said = columns_of_slots(plan.slots), {"num_slots": len(plan.slots.table), "num_reducing": 0}
    assert len(slots_of_columns(columns, said, plan.problem).chunks) == 6
    name = f"chunks.{column}"
    for wrong in (
        {key: value for key, value in columns.items() if key != name},
        columns | {name: columns[name].astype(np.float64)},
    ):
        with pytest.raises(il.InvalidInput, match=f"lacks column '{name}' of type"):
            slots_of_columns(wrong, said, plan.problem)
    with pytest.raises(il.InvalidInput, match="an item, an offset and a length each"):
        slots_of_columns(columns | {name: columns[name][:-1]}, said, plan.problem)
