"""Rows of one rank, levels, tracks and reversal, on cases small enough to write down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Schedule, SlotSchedule, TranslatedSchedule
from interlock.schedule.levels import levels
from interlock.schedule.reverse import reverse_copies
from interlock.schedule.timeline import tracks
from simulate.strategies import bare_schedule, crossbar


def ends(schedule: Schedule) -> list[tuple[int, int, int]]:
    """Sender, receiver and bytes of every message, sorted."""
    columns = (schedule.src.values, schedule.dst.values, schedule.size_bytes)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def plans() -> list[il.Plan]:
    graphs = (il.topology.mesh(4, bandwidth="1 GB/s"), il.topology.ring(4, bandwidth="1 GB/s"))
    by_slots, translated = (il.synthesize(graph, il.all_gather("4 MB"), "guided", chunks=1) for graph in graphs)
    assert isinstance(by_slots.compact, SlotSchedule) and isinstance(translated.compact, TranslatedSchedule)
    return [by_slots, translated]


@pytest.mark.parametrize("plan", plans(), ids=["slots", "translated"])
def test_a_rank_has_the_messages_that_it_sends_or_receives(plan: il.Plan) -> None:
    whole = ends(plan.schedule)
    for rank in range(4):
        own = [row for row in whole if rank in row[:2]]
        assert own and ends(plan.compact.rows_of(rank)) == own


@pytest.mark.parametrize(
    ("stage", "barriers", "wanted"),
    [([0, 1, 1], (1,), [0, 1, 2]), ([1, 1, 2], (1,), [0, 0, 0]), ([0, 1, 2], (1, 2), [0, 1, 2])],
)
def test_levels_rise_along_dependencies_and_barriers_that_hold_something_back(
    stage: list[int], barriers: tuple[int, ...], wanted: list[int]
) -> None:
    deps = [[], [], [1]] if wanted == [0, 1, 2] and len(barriers) == 1 else [[], [], []]
    schedule = bare_schedule([0, 1, 2], [1, 2, 3], [10, 10, 10], stage=stage, barriers=barriers, deps=deps)
    assert levels(schedule, crossbar(4, [10.0] * 8)).tolist() == wanted


@pytest.mark.parametrize("seed", range(8))
def test_a_level_is_the_longest_chain_before_a_message(seed: int) -> None:
    draw = np.random.default_rng(seed)
    place = draw.permutation(40)  # rows in no order
    before = {int(place[m]): [int(place[d]) for d in range(m) if draw.random() < 0.1] for m in range(40)}
    schedule = bare_schedule([0] * 40, [1] * 40, [10] * 40, deps=[before[m] for m in range(40)])
    wanted: dict[int, int] = {}
    for m in place.tolist():
        wanted[m] = max((wanted[d] + 1 for d in before[m]), default=0)
    assert levels(schedule, crossbar(2, [10.0] * 4)).tolist() == [wanted[m] for m in range(40)]


def test_messages_in_a_circle_have_no_levels() -> None:
    schedule = bare_schedule([0, 1, 2], [1, 2, 3], [10, 10, 10], deps=[[], [2], [1]])
    with pytest.raises(il.InvalidInput, match="circle"):
        levels(schedule, crossbar(4, [10.0] * 8))


def test_messages_that_overlap_are_on_tracks_of_their_own() -> None:
    schedule = bare_schedule([0, 0, 0, 1], [1, 2, 3, 0], [1] * 4)
    found = {
        m: (rank, track) for m, rank, track in tracks(schedule, np.array([0.0, 1, 2, 0]), np.array([2.0, 3, 4, 9]))
    }
    assert found == {0: (0, 1), 1: (0, 2), 2: (0, 1), 3: (1, 1)}


def test_a_message_to_several_ranks_cannot_be_reversed() -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=3)
    plan = il.plan(cluster, il.traffic.uniform(cluster), algorithm="direct")
    problem: Problem = plan.problem
    rows = plan.schedule
    cast = replace(rows, dst=Ragged.from_lists([[1, 2]] + [[rank] for rank in rows.dst.values[1:].tolist()]))
    with pytest.raises(il.InvalidInput, match="one-to-one"):
        reverse_copies(cast, problem, problem)
