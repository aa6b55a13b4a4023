"""Collective baselines: textbook times, shapes where they work, and refusals by name."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms import registry
from interlock.algorithms.neighbours import adjacency, embedded_ring, grid_dims
from interlock.algorithms.rounds import cut_evenly
from interlock.collectives import CollectiveKind, collective
from interlock.cost.predict import Link, chain_s, narrowest_link
from interlock.planning import Plan, solve
from interlock.problem import Problem, collective_problem
from strategies import clusters, collective_problems

QUANTITIES = {"bandwidth": "50 GB/s", "message_overhead": "0.5 us", "latency": "1 us"}
LINK = Link(0.5e-6, 1e-6, 50e9)
BASELINES = ("ring", "halving-doubling", "double-tree", "two-tree", "hierarchical", "nvls", "nvls-tree", "multitree")
SIZE = 2**24 * 45  # divisible by every number of ranks and blocks used here


def problem_on(topology: il.Topology | il.Cluster, kind: str, size: int = SIZE, **options: object) -> Problem:
    cluster = topology if isinstance(topology, il.Cluster) else None
    graph = topology.topology if isinstance(topology, il.Cluster) else topology
    return collective_problem(graph, collective(kind, size), cluster=cluster, **options)  # type: ignore[arg-type]


def planned(name: str, topology: il.Topology | il.Cluster, kind: str, **parameters: object) -> Plan:
    plan = solve(problem_on(topology, kind), name, **parameters)
    assert plan.report.valid, [str(violation) for violation in plan.report.violations]
    return plan


def ring_s(num_ranks: int, size_bytes: float, link: Link, passes: int = 1) -> float:
    """(N - 1) rounds of a share each."""
    return passes * (num_ranks - 1) * link.arrival_s(size_bytes / num_ranks)


def rings_by_dimension_s(dims: Sequence[int], size_bytes: float, links: Sequence[Link]) -> float:
    """All-Reduce by rings, each on the share that the ones before left (BlueConnect)."""
    left = size_bytes / np.cumprod([1, *dims[:-1]])
    return sum(ring_s(dim, share, link, passes=2) for dim, share, link in zip(dims, left, links, strict=True))


def reason(name: str, problem: Problem) -> str:
    why = registry.get(name).supports(problem)
    assert why is not None
    return why


@pytest.mark.parametrize("count", [2, 3, 8, 15])
@pytest.mark.parametrize(("kind", "passes"), [("all-gather", 1), ("reduce-scatter", 1), ("all-reduce", 2)])
@pytest.mark.parametrize("both_ways", [False, True])
def test_a_ring_takes_its_textbook_time(count: int, kind: str, passes: int, both_ways: bool) -> None:
    both_ways = both_ways and count > 2
    plan = planned("ring", il.topology.ring(count, **QUANTITIES), kind, both_ways=both_ways)
    expected = ring_s(count, SIZE / (1 + both_ways), LINK, passes)
    assert plan.simulate().makespan_s == pytest.approx(expected, rel=1e-12)
    assert plan.num_stages == passes * (count - 1)


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
@pytest.mark.parametrize("blocks", [1, 3, 16])
def test_blocks_down_a_chain_take_their_textbook_time(kind: str, blocks: int) -> None:
    plan = planned("ring", il.topology.ring(5, **QUANTITIES), kind, both_ways=False, blocks=blocks)
    assert plan.simulate().makespan_s == pytest.approx(chain_s(4, SIZE, blocks, LINK), rel=1e-12)


@pytest.mark.parametrize("shape", ["hypercube", "switch", "fully connected"])
@pytest.mark.parametrize(("kind", "passes"), [("all-gather", 1), ("reduce-scatter", 1), ("all-reduce", 2)])
def test_halving_doubling_takes_its_textbook_time(shape: str, kind: str, passes: int) -> None:
    made = {
        "hypercube": il.topology.hypercube(4, **QUANTITIES),
        "switch": il.topology.switch(16, **QUANTITIES),
        "fully connected": il.topology.fully_connected(16, **QUANTITIES),
    }[shape]
    link = narrowest_link(made, np.array([0]), np.array([1]))
    plan = planned("halving-doubling", made, kind)
    expected = passes * sum(link.arrival_s(SIZE / 2**k) for k in range(1, 5))
    assert plan.simulate().makespan_s == pytest.approx(expected, rel=1e-12)
    assert plan.num_stages == passes * 4


@pytest.mark.parametrize("count", [4, 5, 9, 16])
@pytest.mark.parametrize("blocks", [1, 2])
def test_double_trees_take_their_textbook_time_on_links_of_their_own(count: int, blocks: int) -> None:
    plan = planned("double-tree", il.topology.fully_connected(count, **QUANTITIES), "all-reduce", blocks=blocks)
    depth = math.ceil(math.log2(count))
    assert plan.simulate().makespan_s == pytest.approx(chain_s(2 * depth, SIZE / 2, blocks, LINK), rel=1e-12)


def test_a_large_all_reduce_over_double_trees_uses_a_switch_almost_fully() -> None:
    """Each port passes on two whole buffers: the bound and its 1 / N, plus filling the trees."""
    certificate = planned("double-tree", il.topology.switch(16, **QUANTITIES), "all-reduce").certificate()
    assert certificate.gap < 0.16


@pytest.mark.parametrize("both_ways", [False, True])
def test_rings_by_dimension_take_their_textbook_time(both_ways: bool) -> None:
    torus = il.topology.torus(3, 4, 5, **QUANTITIES)
    plan = planned("hierarchical", torus, "all-reduce", both_ways=both_ways)
    size = SIZE / 2 if both_ways else SIZE
    expected = rings_by_dimension_s((5, 4, 3), size, (LINK, LINK, LINK))
    assert plan.simulate().makespan_s == pytest.approx(expected, rel=1e-6)
    assert plan.num_stages == 2 * (2 + 3 + 4)


def test_hierarchical_crosses_the_nics_with_an_eighth_of_the_bytes() -> None:
    cluster = il.cluster("h200", servers=4, stage_overhead=0)
    plan = planned("hierarchical", cluster, "all-reduce", slices=1)
    sent = plan.messages["size_bytes"][plan.messages["src"] // 8 != plan.messages["dst"] // 8].sum()
    assert sent == 2 * 4 * 8 * 3 * SIZE // 32
    links = [narrowest_link(cluster.topology, np.array([0]), np.array([peer])) for peer in (1, 8)]
    expected = rings_by_dimension_s((8, 4), SIZE, links)
    assert plan.simulate().makespan_s == pytest.approx(expected, rel=1e-12)
    assert planned("hierarchical", cluster, "all-reduce").simulate().makespan_s < 0.6 * expected  # in slices


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize(("scale_out", "dead", "nics"), [("rail", (1, 6), 6), ("flat", (1, 6), 7), ("flat", (1, 1), 7)])
def test_hierarchical_spreads_the_share_of_a_dead_nic_over_the_others(
    kind: str, scale_out: str, dead: tuple[int, int], nics: int
) -> None:
    faults = [il.dead_nic(server=server, gpu=gpu) for server, gpu in enumerate(dead)]
    cluster = il.cluster("h200", servers=4, scale_out=scale_out, faults=faults)
    plan = planned("hierarchical", cluster, kind)
    assert plan.certificate().valid
    loads = plan.port_loads
    used = loads.out_bytes > 0
    assert used.sum() == 4 * nics
    assert not used[cluster.nic_bandwidth_bytes_per_s <= 0].any()
    passes = 2 if kind == "all-reduce" else 1
    assert loads.out_bytes[used] == pytest.approx(passes * 3 * SIZE / 4 / nics, rel=1e-3)


def test_hierarchical_needs_a_place_whose_nic_works_on_every_server() -> None:
    faults = [il.dead_nic(server=0, gpu=0), il.dead_nic(server=1, gpu=1)]
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, scale_out="rail", faults=faults)
    with pytest.raises(il.InvalidInput, match="dead or missing"):
        planned("hierarchical", cluster, "all-reduce")


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
def test_multitree_gives_every_link_one_share_per_round(kind: str) -> None:
    plan = planned("multitree", il.topology.torus(4, 4, **QUANTITIES | {"latency": 0}), kind)
    rounds = plan.num_stages
    expected = rounds * LINK.busy_s(SIZE / 16)
    assert plan.simulate().makespan_s == pytest.approx(expected, rel=1e-12)
    assert rounds <= (5 if kind != "all-reduce" else 10)  # 15 shares over 4 links each take at least 4


def test_multitree_is_optimal_where_everyone_is_a_neighbour() -> None:
    plan = planned("multitree", il.topology.fully_connected(8, **QUANTITIES), "all-gather")
    assert plan.simulate().makespan_s == pytest.approx(LINK.arrival_s(SIZE / 8))


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
def test_direct_takes_its_textbook_time_where_everyone_is_a_neighbour(kind: str) -> None:
    plan = planned("direct", il.topology.fully_connected(8, **QUANTITIES), kind)
    passes = 2 if kind == "all-reduce" else 1
    assert plan.simulate().makespan_s == pytest.approx(passes * LINK.arrival_s(SIZE / 8), rel=1e-12)


def test_two_trees_on_a_dgx1_share_no_link() -> None:
    plan = planned("two-tree", il.topology.dgx1(), "all-reduce", blocks=1)
    half = plan.pieces["item"] < 4
    used = [
        set(plan.schedule.path.take(np.unique(plan.schedule.pieces.message[rows])).values.tolist())
        for rows in (half, ~half)
    ]
    assert not used[0] & used[1]


@pytest.mark.parametrize(
    "topology",
    [
        il.topology.mesh(4, 5, bandwidth=1e9),
        il.topology.mesh(3, 3, 2, bandwidth=1e9),
        il.topology.torus(3, 3, bandwidth=1e9),
        il.topology.torus(5, 7, bandwidth=1e9),
        il.topology.hypercube(5, bandwidth=1e9),
        il.topology.dgx1(),
        il.topology.switch(6, bandwidth=1e9),
        il.topology.from_edges([0, 2, 1, 3, 0], [2, 1, 3, 0, 1], 1e9),
        il.cluster("h200", servers=3, scale_out="rail").topology,
        il.cluster("h200", servers=4, gpus_per_server=2, scale_out="rail").topology,
    ],
    ids=lambda topology: topology.name,
)
def test_a_ring_is_found_and_closes(topology: il.Topology) -> None:
    order = embedded_ring(topology, np.arange(topology.num_ranks, dtype=np.int32))
    assert order is not None
    assert sorted(order.tolist()) == list(range(topology.num_ranks))
    assert adjacency(topology)[order, np.roll(order, -1)].all()


def test_a_process_group_has_its_own_ring() -> None:
    plan = solve(collective_problem(il.topology.switch(8, **QUANTITIES), il.all_reduce(SIZE, group=[6, 1, 4])), "ring")
    assert plan.report.valid
    assert set(plan.messages["src"].tolist()) == {1, 4, 6}


def test_grids_are_read_from_their_neighbours() -> None:
    assert grid_dims(adjacency(il.topology.torus(3, 4, bandwidth=1e9)), wraps=True)[0] == (3, 4)
    assert grid_dims(adjacency(il.topology.mesh(3, 4, bandwidth=1e9)), wraps=True) == []
    assert grid_dims(adjacency(il.topology.mesh(3, 4, bandwidth=1e9)), wraps=False)[0] == (3, 4)


@pytest.mark.parametrize(
    ("name", "topology", "kind", "why"),
    [
        ("ring", il.topology.mesh(3, 3, bandwidth=1e9), "all-gather", "no ring"),
        ("ring", il.topology.ring(4, bandwidth=1e9), "all-to-all", "not all-to-all"),
        ("halving-doubling", il.topology.switch(6, bandwidth=1e9), "all-reduce", "power of two of ranks, not 6"),
        ("halving-doubling", il.topology.mesh(4, 4, bandwidth=1e9), "all-reduce", "rank 0 "),
        ("double-tree", il.topology.torus(4, 4, bandwidth=1e9), "all-reduce", "rank "),
        ("double-tree", il.topology.switch(4, bandwidth=1e9), "broadcast", "not broadcast"),
        ("two-tree", il.topology.from_edges([0, 1, 2], [1, 2, 0], 1e9), "all-reduce", "both ways"),
        ("hierarchical", il.topology.mesh(4, 4, bandwidth=1e9), "all-gather", "lines are rings"),
        ("multitree", il.topology.from_edges([0, 1], [1, 2], 1e9), "all-gather", "do not all reach"),
        ("multitree", il.topology.torus(32, 32, bandwidth=1e9), "all-gather", "512"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(name: str, topology: il.Topology, kind: str, why: str) -> None:
    assert why in reason(name, problem_on(topology, kind))


@pytest.mark.parametrize("name", BASELINES)
def test_an_all_to_allv_is_refused(name: str, h200_2x4: il.Cluster) -> None:
    from interlock.problem import demand_problem

    why = reason(name, demand_problem(h200_2x4, il.traffic.uniform(h200_2x4)))
    assert "collectives" in why


NOT_FOR_BASELINES = {CollectiveKind.ALL_TO_ALL, CollectiveKind.GATHER, CollectiveKind.SCATTER}


@pytest.mark.parametrize("kind", sorted(set(CollectiveKind) - NOT_FOR_BASELINES))
def test_a_group_of_one_and_an_empty_buffer_need_no_messages(kind: CollectiveKind) -> None:
    switch = il.topology.switch(4, bandwidth=1e9)
    for made in (collective(kind, 100, group=[2], root=2), collective(kind, 0)):
        problem = collective_problem(switch, made)
        names = set(registry.supported(problem)) & set(BASELINES)
        assert names
        assert {name: solve(problem, name).schedule.num_messages for name in names} == dict.fromkeys(names, 0)


@settings(max_examples=150)
@given(collective_problems())
def test_no_collective_is_simulated_below_the_bound(problem: Problem) -> None:
    for name in registry.supported(problem):
        plan = solve(problem, name)
        assert plan.simulate().makespan_s >= plan.bound.seconds * (1 - 1e-9), name


@settings(max_examples=60)
@given(clusters(max_servers=3), st.sampled_from(list(CollectiveKind)), st.sampled_from([1, 1000, 1_000_003]))
def test_no_collective_on_a_cluster_is_wrong_or_simulated_below_the_bound(
    cluster: il.Cluster, kind: CollectiveKind, size: int
) -> None:
    problem = collective_problem(cluster.topology, collective(kind, size), cluster=cluster)
    for name in registry.supported(problem):
        plan = solve(problem, name)
        assert plan.report.valid, (name, [str(violation) for violation in plan.report.violations])
        assert plan.simulate().makespan_s >= plan.bound.seconds * (1 - 1e-9), name


def test_bytes_are_cut_evenly_across_item_borders() -> None:
    problem = problem_on(il.topology.ring(3, bandwidth=1e9), "all-reduce", size=10)  # items of 4, 3 and 3 bytes
    parts, block = cut_evenly(problem, 4)  # 2, 3, 2 and 3 bytes
    found = list(zip(block.tolist(), parts.item.tolist(), parts.offset.tolist(), parts.length.tolist(), strict=True))
    assert found == [(0, 0, 0, 2), (1, 0, 2, 2), (1, 1, 0, 1), (2, 1, 1, 2), (3, 2, 0, 3)]


def test_a_wrong_number_of_blocks_is_named() -> None:
    with pytest.raises(il.errors.InvalidInput, match="blocks=0 must be"):
        solve(problem_on(il.topology.switch(4, bandwidth=1e9), "all-reduce"), "double-tree", blocks=0)
