"""The lower bound of any problem: the best of all families that are cheap enough for its size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlock.cost.bound import Bound, tightest
from interlock.cost.cuts import group_cut_loads, group_partition, rank_cuts, sweep_cuts, total_bandwidth
from interlock.cost.flows import stream_bounds
from interlock.cost.latency import farthest_pair, hop_volume, least_message_s
from interlock.cost.network import Network, usable_network
from interlock.cost.steps import step_bound
from interlock.cost.streams import sort_into_streams
from interlock.cost.sums import sum_bounds
from interlock.cost.two_tier import two_tier_bound
from interlock.problem import Items, Problem
from interlock.topology import Cluster, Topology

__all__ = ["lower_bound"]

MAX_STREAMS = 4  # more than that: cuts known in advance only
MAX_SWEPT_ITEMS = 2_000_000  # items * sweeps


def lower_bound(problem: Problem) -> Bound:
    """A time that no schedule of the problem can beat, and the resource that forces it.

    Examples
    --------
    >>> from interlock.collectives import all_gather
    >>> from interlock.problem import collective_problem
    >>> from interlock.topology import mesh
    >>> lower_bound(collective_problem(mesh(4, 4, bandwidth="1 GB/s"), all_gather("16 GB"))).binds
    'links into rank 0'
    """
    if problem.step is not None:
        return step_bound(problem, lower_bound)
    if problem.cluster is not None and problem.demand is not None:
        return two_tier_bound(problem.cluster, problem.demand)
    if len(problem.items) == 0:
        return Bound(0.0, "nothing to move")
    return _graph_bound(problem, usable_network(problem))


def _graph_bound(problem: Problem, network: Network) -> Bound:
    items, orbit = problem.items, _orbits(problem.topology)
    moves = [
        *rank_cuts(network, items),
        total_bandwidth(network, items),
        *((cut.seconds, cut.resource) for cut in _cluster_cuts(network, items, problem.cluster)),
        *_grid_cuts(network, items),
        *hop_volume(network, items),
    ]
    streams_share_ends = items.contributors.shared is not None or items.destinations.shared is not None
    if streams_share_ends or len(items) <= MAX_STREAMS:
        streams = sort_into_streams(items, problem.num_ranks)
        for stream in streams if len(streams) <= MAX_STREAMS else []:
            moves.extend(stream_bounds(network, stream, _best(moves), orbit))
            members = stream.contributors if stream.is_all_reduce else None
            if members is not None and len(members) == network.num_nodes:
                moves.extend(sum_bounds(network, stream.total_bytes, _best(moves)))
    open_s, start_s = problem.topology.stage_overhead_s, least_message_s(network)
    parts = [(open_s + start_s + seconds, resource) for seconds, resource in moves if seconds > 0]
    parts += [(open_s + seconds, resource) for seconds, resource in _late_cuts(network, items, problem.cluster)]
    farthest_s, pair = farthest_pair(network, items, orbit)
    return tightest([*parts, (open_s + farthest_s if farthest_s > 0 else 0.0, pair)])


def _best(moves: list[tuple[float, str]]) -> float:
    return max(seconds for seconds, _ in moves)


class _ServerCut(NamedTuple):
    """A cut around a server, one way, or (no `verb`) between all of them."""

    seconds: float
    resource: str
    verb: Literal["sending", "receiving"] | None


def _cluster_cuts(network: Network, items: Items, cluster: Cluster | None) -> Iterator[_ServerCut]:
    """Around each server, with its switch, and on a flat oversubscribed fabric with its leaf."""
    if cluster is None or cluster.servers == 1:
        return
    ranks, servers = cluster.num_ranks, cluster.servers
    server = np.full(network.num_nodes, -1, np.int64)
    server[:ranks] = np.arange(ranks) // cluster.gpus_per_server
    server[ranks : ranks + servers] = np.arange(servers)
    around = [(server, "server", "NICs of all servers together")]
    if cluster.scale_out == "flat" and cluster.oversubscription > 1:
        with_leaf = server.copy()
        with_leaf[ranks + servers : ranks + 2 * servers] = np.arange(servers)
        around.append((with_leaf, "server and leaf", "leaves of all servers together"))
    for group, name, all_of_them in around:
        leave_s, enter_s = group_cut_loads(network, items, group)
        yield _ServerCut(float(leave_s.max()), f"links of {name} {leave_s.argmax()}, sending", "sending")
        yield _ServerCut(float(enter_s.max()), f"links of {name} {enter_s.argmax()}, receiving", "receiving")
        yield _ServerCut(*group_partition(network, items, group, all_of_them), None)


def _late_cuts(network: Network, items: Items, cluster: Cluster | None) -> Iterator[tuple[float, str]]:
    """Cuts around servers again, with what crosses them paid in full: a message over NICs, and a hop inside before the
    contributions of a server can leave as one, or after a byte has reached one of several ranks beyond the cut."""
    if cluster is None or cluster.servers == 1:
        return
    server = np.arange(network.num_nodes) // cluster.gpus_per_server
    server[network.num_ranks :] = -1
    server[network.num_ranks : network.num_ranks + cluster.servers] = np.arange(cluster.servers)
    crosses = server[network.src] != server[network.dst]
    leaves, enters = crosses & (network.src < network.num_ranks), crosses & (network.dst < network.num_ranks)
    if not leaves.any() or not enters.any():
        return
    nic_s = float((network.message_overhead_s + network.latency_s)[leaves].min() + network.latency_s[enters].min())
    hop_s = min(nic_s, least_message_s(network))
    for seconds, resource, verb in _cluster_cuts(network, items, cluster):
        if seconds > 0 and np.isfinite(seconds):
            counts = [] if verb is None else _ends_of_a_cut(items, cluster, verb)
            with_hops_s = seconds + sum(hop_s * (1.0 - 1.0 / min(counts)) for _ in counts)
            yield nic_s + min(with_hops_s, min(counts, default=1) * seconds), resource


def _ends_of_a_cut(items: Items, cluster: Cluster, verb: Literal["sending", "receiving"]) -> list[int]:
    """Ranks on this side that contribute to every item, and on that side that need it, at least: around any server."""
    counts = []
    for sets, is_inside in (
        (items.contributors, verb == "sending"),
        (items.destinations, verb == "receiving"),
    ):
        if sets.shared is not None:
            members = np.bincount(sets.shared // cluster.gpus_per_server)
            members = members[members > 0]
            counts.append(int(members.min()) if is_inside else len(sets.shared) - int(members.max()))
    return [count for count in counts if count > 1]


def _grid_cuts(network: Network, items: Items) -> Iterator[tuple[float, str]]:
    """Across each dimension, where neighbours' numbers differ by the strides of a grid."""
    if network.num_nodes != network.num_ranks:
        return
    strides = np.unique(np.abs(network.dst.astype(np.int64) - network.src))
    rank = np.arange(network.num_nodes, dtype=np.int64)
    dimensions = [
        (stride, beyond)
        for beyond in [network.num_nodes, *strides[::-1].tolist()]
        for stride in strides[strides < beyond].tolist()
        if beyond % stride == 0
    ]
    found = [(0.0, "cuts across the grid")]
    for stride, beyond in dimensions[: max(8, MAX_SWEPT_ITEMS // len(items))][:64]:
        layer = f"coordinate of stride {stride}" if beyond < network.num_nodes else f"rank / {stride}"
        found.extend(sweep_cuts(network, items, rank % beyond // stride, layer))
    yield max(found)


def _orbits(topology: Topology) -> NDArray[np.int64] | None:
    """Ranks that declared symmetries map onto each other share a number."""
    if topology.symmetries is None or len(topology.symmetries) == 0:
        return None
    orbit = np.arange(topology.num_nodes)
    while True:
        before = orbit.copy()
        for image in topology.symmetries:
            least = np.minimum(orbit, orbit[image])
            np.minimum.at(least, image, least.copy())
            orbit = least
        if np.array_equal(before, orbit):
            return orbit[: topology.num_ranks]
