"""Symmetries: declared ones hold, found ones are complete, wrong ones are told apart."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networkx.algorithms.isomorphism import DiGraphMatcher
from numpy.typing import NDArray

import interlock as il
from interlock.topology import Topology, find_symmetries, from_edges, is_symmetry, map_links

GB = 1e9
T = il.topology
SHAPES = [
    T.ring(5, bandwidth=GB),
    T.torus(4, 4, bandwidth=GB),
    T.torus(2, 3, 4, bandwidth=(GB, 2 * GB, 3 * GB)),
    T.mesh(3, 4, bandwidth=GB),
    T.hypercube(4, bandwidth=GB),
    T.fully_connected(5, bandwidth=GB),
    T.switch(6, bandwidth=GB),
    T.switch(3, 4, bandwidth=(GB, 2 * GB)),
    T.rfs(4, 3, 2, bandwidth=GB),
    T.dragonfly(4, 5, bandwidth=(GB, 2 * GB)),
    T.dragonfly(3, 5, bandwidth=GB),
    T.clos(3, 4, 2, bandwidth=GB),
    T.rail(3, 2, bandwidth=(9 * GB, GB)),
    il.cluster("mi300x", servers=3, gpus_per_server=4, oversubscription=2).topology,
    il.cluster("h200", servers=4, gpus_per_server=2, scale_out="rail-spine", oversubscription=2).topology,
    il.cluster("h200", servers=4, gpus_per_server=2, faults=[il.dead_nic(1, 0), il.missing_gpu(2, 1)]).topology,
]
IDS = [topology.name for topology in SHAPES]


def orbit_of_zero(permutations: NDArray[np.int32]) -> set[int]:
    """Where rank 0 can be carried."""
    reached, frontier = {0}, [0]
    while frontier:
        node = frontier.pop()
        for image in {int(permutation[node]) for permutation in permutations} - reached:
            reached.add(image)
            frontier.append(image)
    return reached


@pytest.mark.parametrize("topology", SHAPES, ids=IDS)
def test_declared_symmetries_hold(topology: Topology) -> None:
    assert topology.symmetries is not None
    for permutation in topology.symmetries:
        assert is_symmetry(topology, permutation)


@pytest.mark.parametrize("topology", SHAPES[:-1], ids=IDS[:-1])
def test_a_regular_shape_declares_something(topology: Topology) -> None:
    assert topology.symmetries is not None and len(topology.symmetries) > 0


@pytest.mark.parametrize(
    "topology", [t for t in SHAPES if t.name.split(":")[0] in ("torus", "ring", "hypercube", "rfs")]
)
def test_translations_carry_any_rank_to_any_other(topology: Topology) -> None:
    assert topology.symmetries is not None
    assert orbit_of_zero(topology.symmetries) == set(range(topology.num_ranks))


@pytest.mark.parametrize("topology", [*SHAPES, T.dgx1()], ids=[*IDS, "dgx1"])
def test_found_symmetries_reach_what_networkx_says_they_can(topology: Topology) -> None:
    bare = replace(topology, symmetries=None)
    found = find_symmetries(bare)

    assert all(is_symmetry(topology, permutation) for permutation in found)
    if topology.num_nodes <= 25:
        assert orbit_of_zero(found) == orbit_by_networkx(topology)


def orbit_by_networkx(topology: Topology) -> set[int]:
    graph = nx.DiGraph()
    columns = (topology.link_src, topology.link_dst, topology.bandwidth_bytes_per_s, topology.latency_s)
    graph.add_nodes_from((n, {"kind": int(kind)}) for n, kind in enumerate(topology.node_kinds))
    for src, dst, rate, latency_s in zip(*(column.tolist() for column in columns), strict=True):
        seen = graph.edges[src, dst]["label"] if graph.has_edge(src, dst) else ()
        graph.add_edge(src, dst, label=tuple(sorted([*seen, (rate, latency_s)])))
    reached = set()
    for rank in range(topology.num_ranks):
        marked = graph.copy()
        nx.set_node_attributes(graph, {n: n == 0 for n in graph}, "mark")
        nx.set_node_attributes(marked, {n: n == rank for n in graph}, "mark")
        matcher = DiGraphMatcher(graph, marked, node_match=dict.__eq__, edge_match=dict.__eq__)
        if matcher.is_isomorphic():
            reached.add(rank)
    return reached


@pytest.mark.parametrize("seed", range(3))
def test_the_search_goes_back_where_a_first_choice_was_wrong(seed: int) -> None:
    """The Shrikhande graph: strongly regular, so colours alone do not tell its nodes apart."""
    place = np.random.default_rng(seed).permutation(16).reshape(4, 4)
    steps = [(a, b) for a, b in np.ndindex(4, 4) for _ in range(6)]
    turns = [(1, 0), (3, 0), (0, 1), (0, 3), (1, 1), (3, 3)] * 16
    ahead = [((a + i) % 4, (b + j) % 4) for (a, b), (i, j) in zip(steps, turns, strict=True)]
    graph = from_edges([place[at] for at in steps], [place[at] for at in ahead], GB)

    assert orbit_of_zero(find_symmetries(graph)) == set(range(16))


@pytest.mark.parametrize(("graph", "orbit"), [(nx.petersen_graph(), 10), (nx.frucht_graph(), 1), (nx.path_graph(5), 2)])
def test_symmetries_of_famous_graphs(graph: nx.Graph, orbit: int) -> None:
    assert len(orbit_of_zero(find_symmetries(T.from_networkx(graph, bandwidth=GB)))) == orbit


def test_links_follow_their_nodes() -> None:
    torus = T.torus(3, 4, bandwidth=(GB, 2 * GB))
    assert torus.symmetries is not None
    for permutation in torus.symmetries:
        image = map_links(torus, permutation)

        assert np.array_equal(np.sort(image), np.arange(torus.num_links))
        assert np.array_equal(torus.link_src[image], permutation[torus.link_src])
        assert np.array_equal(torus.link_dst[image], permutation[torus.link_dst])
        assert np.array_equal(torus.bandwidth_bytes_per_s[image], torus.bandwidth_bytes_per_s)


@given(permutation=st.permutations(range(8)))
def test_only_rotations_and_reflections_of_a_ring_are_symmetries(permutation: list[int]) -> None:
    ring = T.ring(8, bandwidth=GB)
    steps = {(permutation[(i + 1) % 8] - permutation[i]) % 8 for i in range(8)}

    assert is_symmetry(ring, permutation) == (steps in ({1}, {7}))


@pytest.mark.parametrize("column", ["bandwidth_bytes_per_s", "latency_s", "message_overhead_s"])
def test_one_different_link_breaks_the_symmetry(column: str) -> None:
    ring = T.ring(6, bandwidth=GB)
    changed = getattr(ring, column).copy()
    changed[3] += 1.0

    assert is_symmetry(ring, [1, 2, 3, 4, 5, 0])
    assert not is_symmetry(replace(ring, **{column: changed}), [1, 2, 3, 4, 5, 0])


def test_shared_channels_must_map_onto_shared_channels() -> None:
    src, dst = [0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]
    half_duplex = from_edges(src, dst, GB, channel=[0, 0, 1, 1, 2, 2])
    one_pair = from_edges(src, dst, GB, channel=[0, 0, 1, 2, 3, 4])

    assert is_symmetry(half_duplex, [1, 2, 0])
    assert not is_symmetry(one_pair, [1, 2, 0]) and is_symmetry(one_pair, [1, 0, 2])


def test_abilities_and_kinds_of_nodes_matter() -> None:
    two = T.switch(2, 2, bandwidth=GB)
    swap = [2, 3, 0, 1, 4, 5, 7, 6]
    able = two.multicasts.copy()
    able[6] = True

    assert is_symmetry(two, swap)
    assert not is_symmetry(replace(two, multicasts=able), swap)
    assert not is_symmetry(two, [4, 1, 2, 3, 0, 5, 6, 7])


@pytest.mark.parametrize("wrong", [[0, 1], [0, 0, 1, 2], [0.0, 1.0, 2.0, 3.0], [[0, 1, 2, 3]], [4, 1, 2, 3]])
def test_what_is_no_permutation_is_no_symmetry(wrong: object) -> None:
    ring = T.ring(4, bandwidth=GB)

    assert not is_symmetry(ring, wrong)  # type: ignore[arg-type]
    with pytest.raises(il.InvalidInput, match="not a symmetry"):
        map_links(ring, wrong)  # type: ignore[arg-type]
