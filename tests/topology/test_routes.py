"""Default routes on general graphs, against NetworkX on the graph without other ranks."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock as il
from interlock.topology import Topology, from_edges
from interlock.topology.graph import DEAD_BANDWIDTH, REFERENCE_BYTES

T = il.topology


@st.composite
def switched_graphs(draw: st.DrawFn) -> Topology:
    """Random directed graphs of ranks and switches, some links parallel."""
    ranks, switches = draw(st.integers(2, 4)), draw(st.integers(0, 4))
    node = st.integers(0, ranks + switches - 1)
    pairs = draw(st.lists(st.tuples(node, node).filter(lambda p: p[0] != p[1]), min_size=1, max_size=20))
    speeds = draw(st.lists(st.sampled_from([1e9, 2e9, 4e9]), min_size=len(pairs), max_size=len(pairs)))
    src, dst = zip(*pairs, strict=True)
    return from_edges(src, dst, list(speeds), 1e-6, num_ranks=ranks, switches=range(ranks, ranks + switches))


def cost(topology: Topology, link: int) -> float:
    return float(topology.latency_s[link] + REFERENCE_BYTES / topology.bandwidth_bytes_per_s[link])


@given(topology=switched_graphs())
def test_routes_are_the_shortest_that_pass_no_other_rank(topology: Topology) -> None:
    for src in range(topology.num_ranks):
        for dst in range(topology.num_ranks):
            allowed = nx.DiGraph()
            allowed.add_nodes_from([src, dst])
            for link in range(topology.num_links):
                ends = int(topology.link_src[link]), int(topology.link_dst[link])
                if all(end in (src, dst) or end >= topology.num_ranks for end in ends):
                    least = min(cost(topology, link), allowed.get_edge_data(*ends, {"weight": np.inf})["weight"])
                    allowed.add_edge(*ends, weight=least)
            pair = np.array([src], np.int32), np.array([dst], np.int32)
            if not nx.has_path(allowed, src, dst):
                with pytest.raises(il.InvalidInput, match=f"rank {dst} cannot be reached from rank {src}"):
                    topology.routes(*pair)
                continue
            links = topology.routes(*pair)[0]
            stops = [src, *topology.link_dst[links].tolist()]
            assert topology.link_src[links].tolist() == stops[:-1] and stops[-1] == dst
            least = nx.dijkstra_path_length(allowed, src, dst)
            assert sum(cost(topology, link) for link in links) == pytest.approx(least, rel=1e-6)


def test_the_order_of_pairs_does_not_matter() -> None:
    clos = T.clos(4, 4, 2, bandwidth=1e9)
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 16, (2, 200)).astype(np.int32)
    together = clos.routes(src, dst)

    for row, (a, b) in enumerate(zip(src, dst, strict=True)):
        alone = clos.routes(np.array([a], np.int32), np.array([b], np.int32))[0]
        assert together[row].tolist() == alone.tolist()


def test_the_spines_of_a_clos_share_the_destinations() -> None:
    clos = T.clos(4, 4, 2, bandwidth=1e9)
    src, dst = (axis.ravel().astype(np.int32) for axis in np.indices((16, 16)))
    crosses = src // 4 != dst // 4
    routes = clos.routes(src[crosses], dst[crosses])
    spine = clos.link_dst[routes.values.reshape(-1, 4)[:, 1]]

    assert set(routes.counts) == {4}
    assert np.bincount(spine - 20).tolist() == [crosses.sum() / 2] * 2
    for rank in range(16):  # all senders of one destination agree
        assert len(set(spine[dst[crosses] == rank])) == 1


def test_a_slow_direct_link_loses_to_a_fast_switch() -> None:
    graph = from_edges([0, 0, 2], [1, 2, 1], [1e9, 1e11, 1e11], num_ranks=2)
    assert graph.routes(np.array([0], np.int32), np.array([1], np.int32))[0].tolist() == [1, 2]

    fast = from_edges([0, 0, 2], [1, 2, 1], [1e11, 1e11, 1e11], num_ranks=2)
    assert fast.routes(np.array([0], np.int32), np.array([1], np.int32))[0].tolist() == [0]


def test_a_rank_reaches_itself_without_a_link() -> None:
    ring = T.ring(4, bandwidth=1e9)
    same = np.array([2, 2, 0], np.int32)

    assert ring.routes(same, same).counts.tolist() == [0, 0, 0]


@pytest.mark.parametrize("pair", [(0, 4), (-1, 0), (4, 0)])
def test_ranks_outside_the_graph_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(il.InvalidInput, match="ranks of the graph"):
        T.ring(4, bandwidth=1e9).routes(np.array(pair[:1], np.int32), np.array(pair[1:], np.int32))


def test_all_but_dead_link_carries_nothing_and_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    graph = from_edges([0, 0, 2], [1, 2, 1], [DEAD_BANDWIDTH, 1e11, 1e11], num_ranks=3)
    assert graph.routes(np.array([0], np.int32), np.array([2], np.int32))[0].tolist() == [1]
    assert not recwarn.list


def test_a_medium_that_paths_would_cross_twice_is_refused() -> None:
    """Both directions of a cable may share it; two that follow each other at a switch may not."""
    ends = [0, 1, 2, 3, 3, 3], [3, 3, 3, 0, 1, 2]
    for channel in ([0] * 6, [0, 1, 2, 3, 0, 5], [0, 0, 2, 3, 4, 0]):
        with pytest.raises(il.InvalidInput, match=r"share channel 0 and follow each other at switch 3"):
            il.topology.from_edges(*ends, "1 GB/s", num_ranks=3, channel=channel)
    for channel in ([0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1]):
        hub = il.topology.from_edges(*ends, "1 GB/s", num_ranks=3, channel=channel)
        assert il.synthesize(hub, il.all_gather(3000), "direct").certificate().valid


def test_a_path_that_would_cross_a_channel_again_further_on_is_refused() -> None:
    """Ranks 0 and 1 at the ends of a row of switches 2, 3, 4, 5."""
    row = [0, 2, 3, 4, 5], [2, 3, 4, 5, 1]
    back = row[1][::-1], row[0][::-1]
    ends = row[0] + back[0], row[1] + back[1]
    cables = [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]
    for channel, links in (
        ([0, 1, 0, 3, 4, 5, 6, 7, 8, 9], "links 0 and 2 share channel 0"),
        ([0, 1, 2, 1, 4, 5, 6, 7, 8, 9], "links 1 and 3 share channel 1"),
        ([0, 1, 2, 3, 0, 5, 6, 7, 8, 9], "links 0 and 4 share channel 0"),
    ):
        with pytest.raises(il.InvalidInput, match=rf"{links} and follow each other .* cross a channel twice"):
            il.topology.from_edges(*ends, "1 GB/s", num_ranks=2, channel=channel)
    # Half duplex, and links that no path takes both of: one leads away from where the other ends.
    for channel in (cables, [0, 1, 2, 3, 4, 5, 6, 1, 8, 9]):
        graph = il.topology.from_edges(*ends, "1 GB/s", num_ranks=2, channel=channel)
        assert il.synthesize(graph, il.all_gather(3000), "guided").certificate().valid


@pytest.mark.parametrize(("ability", "channel"), [("multicasts", [0, 1, 2, 3, 3, 5]), ("reduces", [0, 0, 2, 3, 4, 5])])
def test_branches_of_a_tree_do_not_share_a_channel(ability: str, channel: list[int]) -> None:
    hub = il.topology.from_edges([0, 1, 2, 3, 3, 3], [3, 3, 3, 0, 1, 2], "1 GB/s", num_ranks=3, channel=channel)
    assert il.synthesize(hub, il.all_reduce(3000), "guided").certificate().valid
    with pytest.raises(il.InvalidInput, match=r"switch 3, which makes them branches .* cross a channel twice"):
        replace(hub, **{ability: np.arange(4) == 3})
