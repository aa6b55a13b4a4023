"""Schedules run backwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.planning import solve
from interlock.problem import demand_problem
from interlock.schedule import reverse_copies
from interlock.validate import check

COLUMNS = ("kind", "phase", "slice", "size_bytes", "exclusive")
RAGGED = ("src", "dst", "path", "deps")


@pytest.mark.parametrize("algorithm", ["direct", "spreadout", "fast", "rails", "padded", "no-stage", "adaptive"])
@pytest.mark.parametrize("fabric", ["infiniband", "roce-dcqcn"])
def test_a_reversed_schedule_is_valid_and_reversed_again_it_is_the_first(algorithm: str, fabric: str) -> None:
    cluster = il.Cluster("made", 3, 2, fabric=il.topology.FABRICS[fabric])
    demand = il.traffic.zipf(cluster, 0.8, "1 MB", seed=2)
    problem, other = demand_problem(cluster, demand), demand_problem(cluster, demand.transposed())
    there = il.plan(cluster, demand, algorithm=algorithm).schedule
    back = reverse_copies(there, problem, other)
    assert check(there, problem).valid and check(back, other).valid
    flip = np.arange(there.num_messages)[::-1]
    assert np.array_equal(back.src.values, there.dst.values[flip])
    assert np.array_equal(back.dst.values, there.src.values[flip])
    assert back.stage.min() == 0 and back.order.min() == 0
    again = reverse_copies(back, other, problem)
    for name in COLUMNS:
        assert np.array_equal(getattr(again, name), getattr(there, name)), name
    first = there.stage.min()  # which is 0 on the way back
    assert np.array_equal(again.stage, there.stage - first) and np.array_equal(again.barriers, there.barriers - first)
    assert np.array_equal(again.order, there.order - there.order.min())
    for name in RAGGED:
        for part in ("offsets", "values"):
            assert np.array_equal(getattr(getattr(again, name), part), getattr(getattr(there, name), part)), name
    for part in ("offsets", "item", "offset", "length"):
        assert np.array_equal(getattr(again.pieces, part), getattr(there.pieces, part)), part


def test_what_waits_for_a_barrier_comes_before_it_on_the_way_back() -> None:
    """Three stages with a barrier before the last: backwards, the last stage is alone before one."""
    cluster = il.Cluster("made", 2, 2)
    demand = il.traffic.uniform(cluster, "1 MB")
    problem, other = demand_problem(cluster, demand), demand_problem(cluster, demand.transposed())
    rows = il.plan(cluster, demand, algorithm="direct").schedule
    staged = replace(
        rows,
        stage=(np.arange(rows.num_messages) % 3).astype(np.int32),
        barriers=np.array([2], np.int32),
    )
    back = reverse_copies(staged, problem, other)
    assert back.barriers.tolist() == [1]
    assert np.array_equal(back.stage, 2 - staged.stage[::-1])


def test_paths_that_name_links_take_the_opposite_ones() -> None:
    """Also where two links join the same nodes: the second one way belongs to the second the other way."""
    src, dst = [0, 1, 1, 2, 0, 1, 2, 0], [1, 0, 2, 1, 1, 0, 0, 2]
    graph = il.topology.from_edges(src, dst, "1 GB/s", "1 us")
    demand = il.traffic.zipf(graph, 0.8, "1 MB", seed=3)
    problem, other = demand_problem(graph, demand), demand_problem(graph, demand.transposed())
    there = solve(problem, "guided").schedule
    assert {1, 5} <= set(there.path.values.tolist())  # both of the parallel links are in use
    back = reverse_copies(there, problem, other)
    assert check(there, problem).valid and check(back, other).valid
    opposite = {0: 1, 1: 0, 4: 5, 5: 4, 2: 3, 3: 2, 6: 7, 7: 6}
    taken = [row.tolist() for row in there.path][::-1]
    assert [row.tolist() for row in back.path] == [[opposite[link] for link in row[::-1]] for row in taken]


def test_a_link_without_an_opposite_has_no_way_back() -> None:
    graph = il.topology.from_edges([0, 1, 2], [1, 2, 0], "1 GB/s", "1 us")
    demand = il.traffic.uniform(graph, "1 MB")
    problem = demand_problem(graph, demand)
    there = solve(problem, "guided").schedule
    with pytest.raises(il.InvalidInput, match="a link has no opposite"):
        reverse_copies(there, problem, demand_problem(graph, demand.transposed()))
