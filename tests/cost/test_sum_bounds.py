"""The best partition for a sum that all ranks need, against all partitions of small graphs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.collectives import all_gather, all_reduce
from interlock.cost import lower_bound
from interlock.cost.network import Network, usable_network
from interlock.cost.sums import _best_partitions, _between, _between_parts
from interlock.problem import Problem, collective_problem
from interlock.topology import Topology, from_edges, ring, torus


def partitions(nodes: int) -> Iterator[list[int]]:
    """Every way to put nodes into parts, each once."""

    def grow(parts: list[int]) -> Iterator[list[int]]:
        if len(parts) == nodes:
            yield parts
            return
        for part in range(max(parts, default=-1) + 2):
            yield from grow([*parts, part])

    return grow([])


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """A ring with chords, links of a few rates, the same both ways or not."""
    nodes = draw(st.integers(3, 6))
    rates = st.sampled_from([1.0, 2.0, 5.0, 50.0])
    pairs = {(k, (k + 1) % nodes) for k in range(nodes)}
    pairs |= set(draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=5)))
    links = [(a, b, draw(rates)) for a, b in sorted(pairs) if a != b]
    links += [(b, a, draw(rates)) for a, b, _ in links if (b, a) not in pairs]
    src, dst, rate = zip(*links, strict=True)
    graph = from_edges(src, dst, np.array(rate) * 1e9)
    return usable_network(collective_problem(graph, all_reduce("1 MB"), 1))


def split_seconds(network: Network, parts: list[int]) -> float:
    across, number = _between_parts(network, np.array(parts, np.int32))
    return 2 * (number - 1) * 1e6 / across


@given(networks())
def test_the_partition_found_is_the_best_of_all(network: Network) -> None:
    best = max(split_seconds(network, parts) for parts in partitions(network.num_nodes) if max(parts) > 0)
    found = [seconds for seconds, _ in _best_partitions(network, 1e6, 0.0)]
    assert found[-1] == pytest.approx(best) and sorted(found) == found


@given(networks())
def test_partitions_between_two_are_all_that_are_best_for_some_price(network: Network) -> None:
    """Corners of the lower hull of (parts, what crosses), between one part and a part per rank."""
    least: dict[int, float] = {}
    for parts in partitions(network.num_nodes):
        across, number = _between_parts(network, np.array(parts, np.int32))
        least[number] = min(across, least.get(number, np.inf))
    nodes = network.num_nodes
    corners = []
    for number in range(2, nodes):
        slopes_in = max((least[number] - least[m]) / (number - m) for m in range(1, number))
        slopes_out = min((least[m] - least[number]) / (m - number) for m in range(number + 1, nodes + 1))
        if slopes_in < slopes_out * (1 - 1e-6):
            corners.append(number)
    whole, single = np.zeros(nodes, np.int32), np.arange(nodes, dtype=np.int32)
    found = _between(network, whole, single)
    assert [int(parts.max()) + 1 for parts in found] == corners
    for parts in found:
        across, number = _between_parts(network, parts)
        assert across == pytest.approx(least[number])


@pytest.mark.parametrize("graph", [ring(6, bandwidth=1e9), torus(3, 3, bandwidth=1e9)], ids=["ring", "torus"])
def test_symmetry_is_used_only_where_the_bytes_share_it(graph: Topology) -> None:
    """Among six or nine alike ranks one has much more to give than the others: the bound sees its links."""
    even = collective_problem(graph, all_gather("9 MB"), 1)
    plain = from_edges(graph.link_src, graph.link_dst, graph.bandwidth_bytes_per_s)
    for heavy in range(graph.num_ranks):
        sizes = even.items.size_bytes.copy()
        sizes[even.items.origin == heavy] *= 50
        items = type(even.items)(sizes, even.items.contributors, even.items.destinations)
        found, known = (lower_bound(Problem(where, items)).seconds for where in (graph, plain))
        assert found == pytest.approx(known)
