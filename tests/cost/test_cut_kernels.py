"""The native cut and distance kernels against NetworkX and exhaustive search."""

import itertools

import networkx as nx
import numpy as np
import pytest

from interlock._native import _core
from interlock.errors import InvalidInput


def random_arcs(rng, num_nodes, num_arcs):
    src = rng.integers(0, num_nodes, num_arcs).astype(np.int32)
    dst = ((src + rng.integers(1, num_nodes, num_arcs)) % num_nodes).astype(np.int32)
    return src, dst, rng.integers(0, 20, num_arcs).astype(np.int64)


def as_digraph(num_nodes, src, dst, capacity):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(num_nodes))
    for a, b, room in zip(src.tolist(), dst.tolist(), capacity.tolist(), strict=True):
        before = graph.get_edge_data(a, b, {"capacity": 0})["capacity"]
        graph.add_edge(a, b, capacity=before + room)
    return graph


def leaving(side, src, dst, capacity):
    return int(capacity[(side[src] == 1) & (side[dst] == 0)].sum())


@pytest.mark.parametrize("seed", range(40))
def test_cuts_between_two_nodes_match_networkx(seed):
    rng = np.random.default_rng(seed)
    num_nodes = int(rng.integers(2, 12))
    arcs = random_arcs(rng, num_nodes, int(rng.integers(1, 40)))
    value, side = _core.narrowest_cut_between(num_nodes, *arcs, 0, num_nodes - 1)
    assert value == nx.maximum_flow_value(as_digraph(num_nodes, *arcs), 0, num_nodes - 1)
    assert (side[0], side[-1]) == (1, 0)
    assert leaving(side, *arcs) == value


@pytest.mark.parametrize("seed", range(60))
def test_the_narrowest_cut_from_a_node_is_the_least_over_all_sinks(seed):
    rng = np.random.default_rng(1000 + seed)
    num_nodes = int(rng.integers(2, 14))
    arcs = random_arcs(rng, num_nodes, int(rng.integers(num_nodes, 6 * num_nodes)))
    value, side = _core.narrowest_cut_from(num_nodes, *arcs, 0)
    graph = as_digraph(num_nodes, *arcs)
    assert value == min(nx.maximum_flow_value(graph, 0, sink) for sink in range(1, num_nodes))
    assert side[0] == 1 and not side.all()
    assert leaving(side, *arcs) == value


def all_partitions(nodes):
    if len(nodes) == 1:
        yield [nodes]
        return
    for smaller in all_partitions(nodes[1:]):
        for i, block in enumerate(smaller):
            yield [*smaller[:i], [nodes[0], *block], *smaller[i + 1 :]]
        yield [[nodes[0]], *smaller]


@pytest.mark.parametrize("seed", range(25))
def test_the_cheapest_partition_matches_exhaustive_search(seed):
    rng = np.random.default_rng(seed)
    num_nodes = int(rng.integers(2, 8))
    src, dst, capacity = random_arcs(rng, num_nodes, int(rng.integers(1, 20)))
    price = int(rng.integers(0, 40))

    def cost(block):
        return int(capacity[block[src] != block[dst]].sum()) - price * len(np.unique(block))

    best = min(
        cost(np.array([next(i for i, part in enumerate(parts) if v in part) for v in range(num_nodes)]))
        for parts in all_partitions(list(range(num_nodes)))
    )
    assert cost(_core.cheapest_partition(num_nodes, src, dst, capacity, price)) == best


@pytest.mark.parametrize("even", [True, False])
def test_distances_match_networkx(even):
    rng = np.random.default_rng(3)
    src, dst, _ = random_arcs(rng, 12, 30)
    cost = np.full(30, 0.5) if even else rng.uniform(0.0, 3.0, 30)
    found = _core.shortest_distances(12, src, dst, cost, np.arange(12, dtype=np.int32))
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(12))
    for a, b, c in zip(src.tolist(), dst.tolist(), cost.tolist(), strict=True):
        graph.add_edge(a, b, weight=c)
    for a, b in itertools.product(range(12), repeat=2):
        known = nx.single_source_dijkstra_path_length(graph, a).get(b, np.inf)
        assert found[a, b] == pytest.approx(known)


def test_crowded_lengths_prove_more_than_equal_ones():
    """Two ways from 0 to 3, one of them thin: only lengths that rise where it is crowded see both."""
    src, dst = np.array([0, 1, 0, 2], np.int32), np.array([1, 3, 2, 3], np.int32)
    rate = np.array([1.0, 9.0, 1.0, 9.0])
    bytes_ = np.zeros((4, 4))
    bytes_[0, 3] = 2.0
    length = _core.crowded_lengths(4, src, dst, rate, bytes_, 200)
    distance = _core.shortest_distances(4, src, dst, length, np.zeros(1, np.int32))[0, 3]
    assert 0.99 <= 2.0 * distance / (rate @ length) <= 1.0 + 1e-12


def test_networks_that_are_not_sound_are_refused():
    one = np.zeros(1, np.int32)
    room = np.ones(1, np.int64)
    with pytest.raises(InvalidInput, match="does not exist"):
        _core.narrowest_cut_from(2, one, np.array([5], np.int32), room, 0)
    with pytest.raises(InvalidInput, match="2\\^62"):
        _core.narrowest_cut_between(2, one, np.ones(1, np.int32), np.array([2**62 + 1]), 0, 1)
    with pytest.raises(InvalidInput, match="two nodes"):
        _core.narrowest_cut_between(2, one, np.ones(1, np.int32), room, 1, 1)
    with pytest.raises(InvalidInput, match="negative"):
        _core.shortest_distances(2, one, np.ones(1, np.int32), np.array([-1.0]), one)
    with pytest.raises(InvalidInput, match="square"):
        _core.crowded_lengths(2, one, np.ones(1, np.int32), np.ones(1), np.ones((3, 2)), 1)
