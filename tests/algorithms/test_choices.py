"""What algorithms count with when they choose: rails, cycles of servers, hashed uplinks, ledgers of ways, chunks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import interlock as il
from interlock.algorithms.neighbours import _grid_cycles, _search_ring, _server_cycles
from interlock.algorithms.tiers import _scenes, _ways, follow, ledger_s
from interlock.collectives import collective
from interlock.planning import solve
from interlock.problem import Problem, collective_problem
from interlock.simulate import simulate
from interlock.topology import from_edges
from interlock.topology.fabric import FABRICS


def on(cluster: il.Cluster, kind: str, size: str) -> Problem:
    return collective_problem(cluster.topology, collective(kind, size), cluster=cluster)


@pytest.mark.parametrize("name", ["ring", "double-tree"])
def test_a_narrow_spine_keeps_channels_on_their_rails(name: str) -> None:
    narrow = il.cluster("h200", servers=3, scale_out="rail-spine", oversubscription=4.0)
    rows = solve(on(narrow, "all-reduce", "64 MB"), name).schedule
    src, dst = rows.src.values, rows.dst.values
    far = src // 8 != dst // 8
    assert far.any() and (src[far] % 8 == dst[far] % 8).all()


def test_rings_leave_their_rails_where_nothing_is_narrow() -> None:
    """On a flat fabric a ring may leave a server at one GPU and enter the next at another, whatever the uplinks."""
    for scale_out, wide in (("flat", 4.0), ("rail-spine", 1.0)):
        cluster = il.cluster("h200", servers=3, scale_out=scale_out, oversubscription=wide)
        rows = solve(on(cluster, "all-reduce", "64 MB"), "ring").schedule
        src, dst = rows.src.values, rows.dst.values
        assert ((src // 8 != dst // 8) & (src % 8 != dst % 8)).any()


@pytest.mark.parametrize("width", [2, 3, 4, 8])
@pytest.mark.parametrize("servers", [2, 3, 4, 5, 6, 7])
def test_cycles_of_servers_cross_between_servers_on_rails_only(servers: int, width: int) -> None:
    found = list(_server_cycles(servers, width))
    assert bool(found) is not (width == 2 and servers % 2 == 1)
    for order in found:
        assert sorted(order.tolist()) == list(range(servers * width))
        following = np.roll(order, -1)
        crosses = order // width != following // width
        assert crosses.sum() == servers
        assert (order[crosses] % width == following[crosses] % width).all()


@pytest.mark.parametrize("seed", [11, 12])
def test_uplinks_that_flows_are_hashed_to_are_in_the_prediction(seed: int) -> None:
    """With one flow per pair the hash is known: predicted within 15 %, and not far above the time without it."""
    clos = il.cluster("h200", servers=4, scale_out="flat", fabric=FABRICS["clos"])
    demand = il.traffic.zipf(clos, skew=0.8, bytes_per_gpu="16 MB", seed=seed)
    plan = il.plan(clos, demand, algorithm="adaptive")
    assert plan.predicted_s == pytest.approx(plan.simulate().makespan_s, rel=0.15)
    blind = dataclasses.replace(FABRICS["clos"], ecmp_flows=16)  # spread over all uplinks: not counted with
    many, plain = (
        il.plan(clos.with_(fabric=fabric), demand, algorithm="adaptive") for fabric in (blind, FABRICS["infiniband"])
    )
    assert many.predicted_s == pytest.approx(plain.predicted_s)


def test_rings_of_one_way_links_are_searched_to_the_end() -> None:
    """0 - 3 has the fewest ways on and leads nowhere; without the link back to 0 every way has been tried in vain."""
    table = np.zeros((4, 4), np.bool_)
    for a, b in [(0, 1), (0, 2), (0, 3), (1, 3), (2, 1), (3, 0)]:
        table[a, b] = True
    found = _search_ring(table)
    assert found is not None and found.tolist() == [0, 2, 1, 3]
    table[3, 0] = False
    assert _search_ring(table) is None


KINDS = ["broadcast", "reduce", "all-gather", "reduce-scatter", "all-reduce", "scatter", "gather"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("servers", [2, 4])
def test_the_ledger_of_tiers_is_near_the_simulator_for_every_way(kind: str, servers: int) -> None:
    problem = on(il.cluster("h200", servers=servers, gpus_per_server=4), kind, "256 MiB")
    for scene in _scenes(problem):
        for way in _ways(scene)[:8]:
            took_s = simulate(follow(scene, way), problem, tolerance=1e-3).makespan_s
            assert 0.6 < ledger_s(scene, way) / took_s < 1.6, way


def test_chunks_of_rails_may_be_single_bytes() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    bytes_matrix = np.zeros((4, 4), np.int64)
    bytes_matrix[0, 2], bytes_matrix[0, 3], bytes_matrix[3, 0] = 5, 3, 2
    plan = il.plan(cluster, il.traffic.matrix(bytes_matrix), algorithm="rails", chunk=1)
    assert plan.certificate().valid and set(plan.schedule.size_bytes.tolist()) == {1}
    with pytest.raises(ValueError, match="at least one byte"):
        il.plan(cluster, il.traffic.matrix(bytes_matrix), algorithm="rails", chunk=0).schedule  # noqa: B018


def test_a_switch_that_some_rank_cannot_reach_sums_nothing() -> None:
    """Ranks 0 to 2 hang on switch 4 both ways; rank 3 hears it and answers over rank 0 only."""
    hub = 4
    pairs = [(rank, hub) for rank in (0, 1, 2)] + [(hub, rank) for rank in range(4)] + [(3, 0), (0, 3)]
    graph = from_edges([a for a, _ in pairs], [b for _, b in pairs], "50 GB/s", num_ranks=4, switches=[hub])
    able = dataclasses.replace(graph, reduces=np.arange(5) == hub, multicasts=np.arange(5) == hub)
    plan = solve(collective_problem(able, collective("all-reduce", "1 MB"), 1), "guided")
    assert plan.certificate().valid


@pytest.mark.parametrize("dims", [(2, 2), (4, 3), (3, 4), (5, 2, 3), (3, 3, 4), (2, 3, 2, 3)])
def test_a_cycle_of_a_grid_visits_every_place_once_and_steps_to_a_neighbour(dims: tuple[int, ...]) -> None:
    cycles = list(_grid_cycles(dims))
    assert len(cycles) == sum(size % 2 == 0 for size in dims)
    for cycle in cycles:
        assert sorted(cycle.tolist()) == list(range(int(np.prod(dims))))
        places = np.stack(np.unravel_index(cycle, dims))
        assert (np.abs(places - np.roll(places, -1, axis=1)).sum(axis=0) == 1).all()
