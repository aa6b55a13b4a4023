"""How much work a bound may take: at the cap it is done, one below it is left out, and what is left still holds."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cost.test_graph_bounds import random_graph

import interlock as il
from interlock.cost import bounds, flows, latency, lower_bound, sums
from interlock.cost.network import usable_network
from interlock.errors import LimitExceeded
from interlock.problem import Problem, collective_problem, demand_problem


def parts_at(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, cap: int, problem: Problem
) -> dict[str, float]:
    monkeypatch.setattr(module, name, cap)
    return lower_bound(problem).parts


def gathered(*rates: float) -> Problem:
    """A line of ranks both ways: a slow link in its middle beats what ranks alone prove."""
    ends = np.arange(len(rates))
    src, dst = np.concatenate([ends, ends + 1]), np.concatenate([ends + 1, ends])
    return collective_problem(il.topology.from_edges(src, dst, np.tile(rates, 2)), il.all_gather("1 GB"))


def test_every_member_of_a_sum_is_cut_off_from_the_first() -> None:
    """A line 0 - 3 - 2 - 1 with a slow link in its middle, which rank 2 uses for itself: rank 1 alone tells."""
    src, dst = np.array([0, 3, 2]), np.array([3, 2, 1])
    line = il.topology.from_edges(
        np.concatenate([src, dst]), np.concatenate([dst, src]), np.tile([9e9, 1e9, 9e9], 2), num_ranks=4
    )
    found = lower_bound(collective_problem(line, il.all_reduce("1 GB", group=[0, 1, 3])))
    assert found.seconds == pytest.approx(1.0)


def test_a_graph_of_one_link_has_its_latency() -> None:
    one = il.topology.from_edges([0], [1], [1e9], "1 us", num_ranks=2)
    assert lower_bound(collective_problem(one, il.broadcast("1 GB", root=0))).seconds == pytest.approx(1.000001)


def crowded(seed: int) -> Problem:
    """Pairs on a graph where longer lengths of crowded links prove more."""
    return collective_problem(random_graph(seed), il.all_to_all("1 GB"))


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_lengths_of_crowded_links_are_sought_for_at_least_so_many_rounds(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    problem = crowded(seed)
    network = usable_network(problem)
    one_round = network.num_nodes * (network.num_nodes + network.num_links) + 1
    name, part = "MAX_CROWDED_WORK", "all links together, by distance"
    without = parts_at(monkeypatch, latency, name, latency.LEAST_ROUNDS * one_round - 1, problem)[part]
    least = parts_at(monkeypatch, latency, name, latency.LEAST_ROUNDS * one_round, problem)[part]
    most = parts_at(monkeypatch, latency, name, latency.MOST_ROUNDS * one_round, problem)[part]
    beyond = parts_at(monkeypatch, latency, name, 2 * latency.MOST_ROUNDS * one_round, problem)[part]
    assert without < least <= most == beyond


def test_distances_are_taken_from_every_rank_that_the_cap_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = crowded(1)
    network = usable_network(problem)
    work = network.num_ranks * (network.num_nodes + network.num_links)
    part = "all links together, by distance"
    assert part in parts_at(monkeypatch, latency, "MAX_WORK", work, problem)
    assert part not in parts_at(monkeypatch, latency, "MAX_WORK", work - 1, problem)


def test_sources_of_far_pairs_are_the_first_that_the_cap_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of 5: from rank 0 it is farthest to rank 4, from rank 3 alone to rank 0."""
    line = il.topology.from_edges([0, 1, 2, 3, 4, 3, 2, 1], [1, 2, 3, 4, 3, 2, 1, 0], [1e9] * 8, "1 us")
    matrix = np.zeros((5, 5), np.int64)
    matrix[1, 2] = matrix[2, 4] = matrix[3, 0] = 1
    problem = demand_problem(line, il.traffic.matrix(matrix))
    network = usable_network(problem)
    each = network.num_nodes + network.num_links
    for cap, pair in (
        (0, "1 to rank 2"),
        (each, "1 to rank 2"),
        (2 * each - 1, "1 to rank 2"),
        (2 * each, "2 to rank 4"),
        (3 * each, "3 to rank 0"),
    ):
        found = parts_at(monkeypatch, latency, "MAX_WORK", cap, problem)
        assert [name for name in found if name.startswith("latency")] == [f"latency from rank {pair}"]


@pytest.mark.parametrize("num_ranks", [4, 10])
def test_cuts_towards_every_end_are_sought_up_to_the_cap(monkeypatch: pytest.MonkeyPatch, num_ranks: int) -> None:
    """Few ends are asked one by one, many all at once."""
    fast = [9e9] * (num_ranks // 2 - 1)
    problem = gathered(*fast, 1e9, *fast)
    network = usable_network(problem)
    arcs = network.num_links + network.num_ranks
    few = num_ranks <= flows.FEW_SINKS
    name = "MAX_WORK_PER_SINK" if few else "MAX_WORK_ALL_SINKS"
    monkeypatch.setattr(bounds, "_grid_cuts", lambda *_: iter(()))
    monkeypatch.setattr(flows, "MAX_WORK_PER_SINK", 0)
    work = num_ranks * arcs

    def cuts(cap: int) -> list[str]:
        found = parts_at(monkeypatch, flows, name, cap, problem)
        return [part for part in found if part.startswith("cut ")]

    assert cuts(work) and not cuts(work - 1)


def test_crowded_links_of_sums_are_sought_for_at_least_so_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = il.topology.from_edges([0, 1, 2, 3], [1, 2, 3, 0], [1e9, 1e12, 1e9, 1e12])
    problem = collective_problem(ring, il.all_reduce("1 GB"))
    network = usable_network(problem)
    part = "crowded links between ranks"
    rounds = sums.LEAST_ROUNDS * network.num_links
    assert part in parts_at(monkeypatch, sums, "MAX_WORK_CROWDED", rounds, problem)
    assert part not in parts_at(monkeypatch, sums, "MAX_WORK_CROWDED", rounds - 1, problem)


def test_partitions_of_sums_are_sought_up_to_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(40):
        problem = collective_problem(random_graph(seed), il.all_reduce("1 GB"))
        network = usable_network(problem)
        work = network.num_nodes * network.num_links
        found = [name for name in parts_at(monkeypatch, sums, "MAX_WORK_SPLIT", work, problem) if "parts" in name]
        less = [name for name in parts_at(monkeypatch, sums, "MAX_WORK_SPLIT", work - 1, problem) if "parts" in name]
        assert not less
        if found:
            return
    pytest.fail("no graph has a partition that binds")


def test_a_linear_program_may_have_so_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for the time, and a tree's rates on every link."""
    pytest.importorskip("highspy")
    from interlock.cost import lp

    problem = collective_problem(il.topology.ring(3, bandwidth="1 GB/s"), il.broadcast("3 GB", root=0))
    monkeypatch.setattr(lp, "MAX_COLUMNS", 1 + 6)
    assert lp.fluid_optimum_s(problem) == pytest.approx(1.5)
    monkeypatch.setattr(lp, "MAX_COLUMNS", 6)
    with pytest.raises(LimitExceeded, match="more than 6 columns"):
        lp.fluid_optimum_s(problem)
