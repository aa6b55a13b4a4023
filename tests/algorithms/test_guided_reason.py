"""`guided` says which of its ways won, alone and as a candidate of `auto`."""

from __future__ import annotations

from pathlib import Path

import pytest

import interlock as il
from interlock.algorithms import guided
from interlock.algorithms.synthesis.budget import Budget, SearchBound
from interlock.algorithms.synthesis.goal import TreeGoal, goal_of
from interlock.algorithms.synthesis.graph import graph_of
from interlock.problem import collective_problem

PAGE = Path(__file__).parents[2] / "docs/reference/guided.md"
LINK = {"bandwidth": "50 GB/s", "message_overhead": "0.5 us"}


@pytest.mark.parametrize(
    ("where", "wanted", "way"),
    [
        (il.topology.mesh(3, 3, **LINK), il.all_reduce("1 GB"), "pairs of trees"),
        (il.topology.torus(3, 3, **LINK), il.all_to_all("1 GB"), "moved by symmetry"),
        (il.topology.mesh(2, 3, **LINK), il.all_to_all("1 GB"), "balanced paths"),
        (il.cluster("h200", servers=1), il.broadcast("1 GB"), "in the switch"),
    ],
)
def test_the_way_that_won_is_told(where: il.Topology | il.Cluster, wanted: il.Collective, way: str) -> None:
    assert way in il.synthesize(where, wanted, "guided").reason


def test_the_lead_over_the_next_best_way_is_told() -> None:
    reason = il.synthesize(il.topology.mesh(4, 4, **LINK), il.all_gather("1 MB"), "guided").reason
    won, _, lead = reason.partition("; ")
    ratio, _, rest = lead.partition(" times as fast as the next best, ")
    second, _, end = rest.rpartition("; ")
    assert float(ratio) >= 1.0
    assert second and second != won and end


def test_what_was_tried_alone_is_said_to_be() -> None:
    reason = il.synthesize(il.topology.mesh(2, 3, **LINK), il.all_to_all("1 GB"), "guided").reason
    assert reason.startswith("balanced paths; no other way was tried; ")


def test_ways_that_gave_no_schedule_are_named() -> None:
    """None that was tried is said not to have been."""
    mesh = il.topology.mesh(2, 3, **LINK)
    goal = goal_of(collective_problem(mesh, il.all_gather("1 MB")))
    assert isinstance(goal, TreeGoal)
    idle = guided.SearchWay("idle", "nothing", guided.always, lambda goal, graph, budget: iter(()))
    packed = next(way for way in guided.COPIES if way.name == "packed trees")
    found = guided.search(goal, graph_of(mesh), Budget(10_000, SearchBound(0.0)), (idle, packed))
    assert found.reason.startswith("packed trees; idle gave no schedule; ")


@pytest.mark.parametrize(
    ("where", "wanted", "end"),
    [
        (
            il.topology.mesh(2, 3, bandwidth=("100 GB/s", "25 GB/s")),
            il.all_gather("64 MB"),
            "near the bound after a fair effort",
        ),
        (il.topology.switch(4, **LINK), il.all_to_all("64 MB"), "at the bound"),
        (il.topology.mesh(2, 3, **LINK), il.all_to_all("1 MB"), "the rest is not worth trying"),
        (il.topology.mesh(2, 3, **LINK), il.broadcast("1 kB"), "nothing more to try"),
    ],
)
def test_what_ended_the_search_is_told(where: il.Topology, wanted: il.Collective, end: str) -> None:
    assert il.synthesize(where, wanted, "guided").reason.endswith(f"; {end}")


@pytest.mark.parametrize("way", guided.IN_SWITCH + guided.COPIES + guided.SUMS_FOR_ALL, ids=lambda way: way.name)
def test_every_way_says_what_it_is_for(way: guided.SearchWay) -> None:
    """In the table, and in the same words on its page, which also names the file that has it."""
    file = f"{way.search.__module__.rpartition('.')[2]}.py"
    assert f"| {way.name} | `{file}` | {way.purpose} |" in PAGE.read_text()


def test_sums_and_copies_one_after_the_other_name_both_ways() -> None:
    plan = il.synthesize(il.topology.ring(4, **LINK), il.all_reduce("4 KB"), "guided", parts=1)
    assert plan.reason.startswith("sums, then copies (one rank's part, moved by symmetry); ")


def test_auto_tells_the_way_beside_the_others() -> None:
    reason = il.synthesize(il.topology.mesh(3, 3, **LINK), il.all_reduce("1 GB")).reason
    assert reason.startswith("guided (") and "pairs of trees" in reason and "beside it" in reason


def test_openings_of_stages_count_backwards_too() -> None:
    """A rank that sums for others opens its stage when the first sum can go: chains looked an opening a hop short."""
    plan = il.synthesize(il.cluster("h200", servers=2), il.reduce("64 KiB"), "guided")
    assert plan.certificate().valid and plan.simulate().makespan_s < 1.7 * plan.bound.seconds  # 2.2 before
    plan = il.synthesize(il.cluster("h200", servers=2), il.reduce_scatter("4 MiB"), "guided")
    assert plan.simulate().makespan_s > 1.5 * plan.bound.seconds and "near the bound" not in plan.reason
