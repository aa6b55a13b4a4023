"""Topology: any directed graph of GPUs, NICs and switches, with routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged
from interlock.topology.fabric import Fabric
from interlock.topology.routing import ShortestPaths
from interlock.units import Quantity, parse_bandwidth, parse_seconds

__all__ = ["NodeKind", "Router", "Topology", "from_edges"]

MAX_NODES = 1_000_000
MAX_LINKS = 50_000_000


class NodeKind(IntEnum):
    """What a vertex of the graph is."""

    GPU = 0
    NIC = 1
    SWITCH = 2


class Router(Protocol):
    """Finds the links a message takes when its schedule does not say."""

    def routes(self, topology: Topology, src: NDArray[np.int32], dst: NDArray[np.int32]) -> Ragged:
        """Link ids from each source rank to each destination rank."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """A directed graph whose first `num_ranks` nodes are the ranks (GPUs).

    Links that share one capacity (half duplex) name the same `channel`; otherwise each link is its own channel.
    """

    name: str
    num_ranks: int
    node_kinds: NDArray[np.uint8]  # [num_nodes]
    link_src: NDArray[np.int32]  # [num_links]
    link_dst: NDArray[np.int32]
    bandwidth_bytes_per_s: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    message_overhead_s: NDArray[np.float64]
    channel: NDArray[np.int32]
    multicasts: NDArray[np.bool_]  # [num_nodes], switches that can replicate
    reduces: NDArray[np.bool_]  # [num_nodes], switches that can add
    stage_overhead_s: float = 0.0
    fabric: Fabric = field(default_factory=Fabric)
    router: Router = field(default_factory=ShortestPaths)
    # Permutations of nodes that map the graph onto itself, declared by whoever built it: [num_generators, num_nodes].
    symmetries: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        _check(self)
        for name in ("node_kinds", "link_src", "link_dst", "bandwidth_bytes_per_s", "latency_s", "message_overhead_s"):
            getattr(self, name).flags.writeable = False

    @property
    def num_nodes(self) -> int:
        """Ranks, NICs and switches together."""
        return len(self.node_kinds)

    @property
    def num_links(self) -> int:
        """Directed links."""
        return len(self.link_src)

    def routes(self, src: NDArray[np.int32], dst: NDArray[np.int32]) -> Ragged:
        """Link ids of the default route from each `src` rank to each `dst` rank."""
        return self.router.routes(self, np.ascontiguousarray(src, np.int32), np.ascontiguousarray(dst, np.int32))

    def out_links(self) -> Ragged:
        """Link ids leaving each node, ascending."""
        order = np.argsort(self.link_src, kind="stable").astype(np.int32)
        return Ragged.from_counts(np.bincount(self.link_src, minlength=self.num_nodes), order)

    def in_links(self) -> Ragged:
        """Link ids entering each node, ascending."""
        order = np.argsort(self.link_dst, kind="stable").astype(np.int32)
        return Ragged.from_counts(np.bincount(self.link_dst, minlength=self.num_nodes), order)

    def __repr__(self) -> str:
        return f"Topology({self.name!r}, {self.num_ranks} ranks, {self.num_nodes} nodes, {self.num_links} links)"


def from_edges(
    src: ArrayLike,
    dst: ArrayLike,
    bandwidth: Quantity | ArrayLike,
    latency: Quantity | ArrayLike | None = None,
    message_overhead: Quantity | ArrayLike | None = None,
    *,
    num_ranks: int | None = None,
    switches: ArrayLike = (),
    name: str = "graph",
) -> Topology:
    """Build a topology from directed edges.

    Parameters
    ----------
    src, dst
        Node of each end, ``[num_links]``. Nodes are numbered from 0.
    bandwidth, latency, message_overhead
        One quantity for all links, or one per link (numbers in SI units, or strings with units).
    num_ranks
        How many nodes are GPUs (the first ones); by default all that are not in `switches`.

    Examples
    --------
    >>> ring = from_edges([0, 1, 2], [1, 2, 0], bandwidth="50 GB/s")
    >>> ring.num_ranks, ring.num_links
    (3, 3)
    """
    link_src, link_dst = _node_ids(src, "src"), _node_ids(dst, "dst")
    if len(link_src) != len(link_dst):
        raise InvalidInput(f"src has {len(link_src)} entries and dst {len(link_dst)}; they must match")
    if len(link_src) == 0:
        raise InvalidInput("src is empty; a topology needs at least one link")
    num_nodes = int(max(link_src.max(), link_dst.max())) + 1
    switch_ids = _node_ids(switches, "switches")
    if len(switch_ids):
        num_nodes = max(num_nodes, int(switch_ids.max()) + 1)
    num_nodes = max(num_nodes, num_ranks or 0)
    if num_nodes > MAX_NODES:
        raise InvalidInput(f"node id {num_nodes - 1} is above the limit of {MAX_NODES} nodes")
    kinds = np.zeros(num_nodes, np.uint8)
    kinds[switch_ids] = NodeKind.SWITCH
    ranks = num_nodes - len(np.unique(switch_ids)) if num_ranks is None else num_ranks
    kinds[ranks:] = np.maximum(kinds[ranks:], NodeKind.SWITCH)
    num_links = len(link_src)
    return Topology(
        name=name,
        num_ranks=ranks,
        node_kinds=kinds,
        link_src=link_src,
        link_dst=link_dst,
        bandwidth_bytes_per_s=_per_link(bandwidth, num_links, "bandwidth"),
        latency_s=_per_link(0.0 if latency is None else latency, num_links, "latency"),
        message_overhead_s=_per_link(
            0.0 if message_overhead is None else message_overhead, num_links, "message_overhead"
        ),
        channel=np.arange(num_links, dtype=np.int32),
        multicasts=np.zeros(num_nodes, np.bool_),
        reduces=np.zeros(num_nodes, np.bool_),
    )


def _node_ids(values: ArrayLike, name: str) -> NDArray[np.int32]:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be a flat list of whole numbers, not {array.dtype} of shape {array.shape}")
    if array.min() < 0 or array.max() >= MAX_NODES:
        raise InvalidInput(f"{name} holds node {array.min()}..{array.max()}; ids must be between 0 and {MAX_NODES - 1}")
    return array.astype(np.int32)


def _per_link(value: Quantity | ArrayLike, num_links: int, name: str) -> NDArray[np.float64]:
    parse = parse_bandwidth if name == "bandwidth" else parse_seconds
    if isinstance(value, str | int | float):
        return np.full(num_links, parse(value, name))
    if isinstance(value, list | tuple) and any(isinstance(entry, str) for entry in value):
        value = [parse(entry, name) for entry in value]
    array = np.asarray(value)
    if array.shape != (num_links,) or array.dtype.kind not in "iuf":
        raise InvalidInput(
            f"{name} must be one quantity or {num_links} of them, not {array.dtype} of shape {array.shape}"
        )
    array = array.astype(np.float64)
    least = np.nextafter(0.0, 1.0) if name == "bandwidth" else 0.0
    bad = ~np.isfinite(array) | (array < least)
    if bad.any():
        link = int(np.flatnonzero(bad)[0])
        rule = "above zero" if name == "bandwidth" else "at least zero"
        raise InvalidInput(f"{name}[{link}]={array[link]} must be finite and {rule}")
    return array


def _check(topology: Topology) -> None:
    """Raise unless every column has the right shape and every id is in range."""
    nodes, links = topology.num_nodes, topology.num_links
    if not 1 <= topology.num_ranks <= nodes:
        raise InvalidInput(f"num_ranks={topology.num_ranks} must be between 1 and the number of nodes, {nodes}")
    if links > MAX_LINKS:
        raise InvalidInput(f"{links} links are above the limit of {MAX_LINKS}")
    if (topology.node_kinds[: topology.num_ranks] != NodeKind.GPU).any():
        raise InvalidInput(f"the first num_ranks={topology.num_ranks} nodes must be GPUs")
    for name in ("link_src", "link_dst"):
        ids = getattr(topology, name)
        if len(ids) != links or (links and (ids.min() < 0 or ids.max() >= nodes)):
            raise InvalidInput(f"{name} must name {links} nodes between 0 and {nodes - 1}")
    if links and (topology.link_src == topology.link_dst).any():
        node = int(topology.link_src[topology.link_src == topology.link_dst][0])
        raise InvalidInput(f"node {node} has a link to itself; every link joins two nodes")
