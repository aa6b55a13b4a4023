"""To and from NetworkX, which is imported only here and only when called."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from interlock.errors import InvalidInput, MissingDependency
from interlock.topology.graph import NodeKind, Topology, from_edges
from interlock.units import Quantity, parse_bandwidth, parse_seconds

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["from_networkx", "to_networkx"]


def to_networkx(topology: Topology) -> nx.MultiDiGraph:
    """A directed multigraph: nodes with a `kind`, edges keyed by link id with speeds in SI units."""
    try:
        import networkx as nx
    except ImportError:
        raise MissingDependency("to_networkx needs the package networkx; install it or the extra 'dev'") from None
    graph = nx.MultiDiGraph(name=topology.name)
    for node in range(topology.num_nodes):
        graph.add_node(
            node,
            kind=NodeKind(topology.node_kinds[node]).name.lower(),
            multicasts=bool(topology.multicasts[node]),
            reduces=bool(topology.reduces[node]),
        )
    for link in range(topology.num_links):
        graph.add_edge(
            int(topology.link_src[link]),
            int(topology.link_dst[link]),
            key=link,
            bandwidth_bytes_per_s=float(topology.bandwidth_bytes_per_s[link]),
            latency_s=float(topology.latency_s[link]),
            message_overhead_s=float(topology.message_overhead_s[link]),
            channel=int(topology.channel[link]),
        )
    return graph


def from_networkx(graph: nx.Graph, bandwidth: Quantity | None = None) -> Topology:
    """A topology from any NetworkX graph; an undirected edge becomes a link each way.

    Edges carry ``bandwidth`` (with a unit, or bytes per second), or `bandwidth` is used for those that do not; also
    ``latency``, ``message_overhead`` and ``channel``. Nodes carry ``kind`` (gpu, nic, switch; gpu where absent). Ranks
    are the GPUs in the graph's own order, other nodes follow.
    """
    kinds = {node: _kind(node, data.get("kind", "gpu")) for node, data in graph.nodes(data=True)}
    order: list[Hashable] = sorted(kinds, key=lambda node: kinds[node] != NodeKind.GPU)  # stable
    number = {node: place for place, node in enumerate(order)}
    num_ranks = sum(kind == NodeKind.GPU for kind in kinds.values())
    edges = [(number[src], number[dst], data) for src, dst, data in _edges(graph)]
    if not edges or not num_ranks:
        raise InvalidInput(f"the graph has {len(edges)} edges and {num_ranks} GPUs; it needs at least one of each")
    channels = [data["channel"] for _, _, data in edges if "channel" in data]
    topology = from_edges(
        [src for src, _, _ in edges],
        [dst for _, dst, _ in edges],
        [_rate(data, bandwidth, src, dst) for src, dst, data in edges],
        [_time(data, "latency") for _, _, data in edges],
        [_time(data, "message_overhead") for _, _, data in edges],
        channel=np.array(channels) if len(channels) == len(edges) else None,
        num_ranks=num_ranks,
        name=str(graph.name or "networkx")[:200],
    )
    return replace(
        topology,
        node_kinds=np.array([kinds[node] for node in order], np.uint8),
        multicasts=np.array([bool(graph.nodes[node].get("multicasts", False)) for node in order]),
        reduces=np.array([bool(graph.nodes[node].get("reduces", False)) for node in order]),
    )


def _edges(graph: nx.Graph) -> list[tuple[Hashable, Hashable, dict[str, object]]]:
    """Every directed edge, in order of its key where keys are link ids."""
    if graph.is_multigraph():
        keyed = list(graph.edges(keys=True, data=True))
        if all(isinstance(key, int) for _, _, key, _ in keyed):
            keyed.sort(key=lambda edge: edge[2])
        edges = [(src, dst, data) for src, dst, _, data in keyed]
    else:
        edges = list(graph.edges(data=True))
    return (
        edges if graph.is_directed() else [e for src, dst, data in edges for e in ((src, dst, data), (dst, src, data))]
    )


def _kind(node: Hashable, kind: object) -> NodeKind:
    try:
        return NodeKind[str(kind).upper()]
    except KeyError:
        raise InvalidInput(f"node {node!r} has kind={kind!r}; it must be gpu, nic or switch") from None


def _rate(data: dict[str, object], default: Quantity | None, src: int, dst: int) -> float:
    value = data.get("bandwidth_bytes_per_s", data.get("bandwidth", default))
    if not isinstance(value, str | int | float):
        raise InvalidInput(f"edge {src}->{dst} has no bandwidth; give it one, or pass bandwidth= for all")
    return parse_bandwidth(value, f"bandwidth of edge {src}->{dst}")


def _time(data: dict[str, object], name: str) -> float:
    value = data.get(f"{name}_s", data.get(name, 0))
    if not isinstance(value, str | int | float):
        raise InvalidInput(f"{name}={value!r} of an edge must be a time")
    return parse_seconds(value, name)
