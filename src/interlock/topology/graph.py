"""Topology: any directed graph of GPUs, NICs and switches, with routes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interlock._native import _core
from interlock.errors import InvalidInput, LimitExceeded
from interlock.memory import check_memory
from interlock.ragged import Ragged
from interlock.topology.fabric import Fabric
from interlock.units import MAX_RATE, MIN_RATE, Quantity, parse_bandwidth, parse_seconds

__all__ = [
    "DEAD_BANDWIDTH",
    "MAX_LINKS",
    "MAX_NODES",
    "NodeKind",
    "Router",
    "ShortestPaths",
    "Topology",
    "from_edges",
    "per_link",
]


DEAD_BANDWIDTH = 1e-9  # of a link that is there in name only: it keeps its number, and no route uses it
REFERENCE_BYTES = 2**20  # the message size whose time a route minimises
_MOST_PS = 2**42  # 4.4 s; slower links cost no more, so that no sum overflows


@dataclass(frozen=True, slots=True)
class ShortestPaths:
    """Least time for a message of 1 MiB that passes no other rank: a relay needs a message of its own."""

    def routes(self, topology: Topology, src: NDArray[np.int32], dst: NDArray[np.int32]) -> Ragged:
        """Link ids from each source rank to each destination rank; a rank to itself takes none."""
        offsets, links = _core.shortest_routes(
            topology.num_ranks,
            topology.num_nodes,
            topology.link_src,
            topology.link_dst,
            _cost_ps(topology),
            np.ascontiguousarray(src, np.int32),
            np.ascontiguousarray(dst, np.int32),
        )
        return Ragged(offsets, links)


def _cost_ps(topology: Topology) -> NDArray[np.int64]:
    """Whole picoseconds per link, so that ties are exact; negative for a dead link."""
    with np.errstate(over="ignore"):  # of links that are all but dead; the longest there is, then
        seconds = topology.latency_s + topology.message_overhead_s + REFERENCE_BYTES / topology.bandwidth_bytes_per_s
        cost_ps = np.clip(np.rint(seconds * 1e12), 1, _MOST_PS).astype(np.int64)
    cost_ps[topology.bandwidth_bytes_per_s <= DEAD_BANDWIDTH] = -1
    return cost_ps


MAX_NODES = 1_000_000
MAX_LINKS = 50_000_000
MAX_STEPS = 2_000_000  # of the search for paths that cross a shared channel twice
LINK_BYTES = 120  # of all columns of a link, and of what is needed on the way to them
LINK_COLUMNS = {
    "link_src": np.int32,
    "link_dst": np.int32,
    "bandwidth_bytes_per_s": np.float64,
    "latency_s": np.float64,
    "message_overhead_s": np.float64,
    "channel": np.int32,
}
NODE_COLUMNS = {"node_kinds": np.uint8, "multicasts": np.bool_, "reduces": np.bool_}


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
    # Permutations of nodes that map the graph onto itself: [num_generators, num_nodes]. A shape declares translations
    # that carry any rank to any other where it has them; `interlock.topology.find_symmetries` finds more.
    symmetries: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        check_columns(self)
        for name in (*LINK_COLUMNS, *NODE_COLUMNS):
            getattr(self, name).flags.writeable = False

    @property
    def num_nodes(self) -> int:
        """Ranks, NICs and switches together."""
        return len(self.node_kinds)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which GPUs are there, as generators of traffic ask: all of a graph's."""
        return np.ones(self.num_ranks, np.bool_)

    @property
    def num_links(self) -> int:
        """Directed links."""
        return len(self.link_src)

    def routes(self, src: NDArray[np.int32], dst: NDArray[np.int32]) -> Ragged:
        """Link ids of the default route from each `src` rank to each `dst` rank."""
        return self.router.routes(self, np.ascontiguousarray(src, np.int32), np.ascontiguousarray(dst, np.int32))

    def without_link(self, a: int, b: int) -> Topology:
        """The graph less every link between two nodes, both ways."""
        ends = np.stack([self.link_src, self.link_dst])
        gone = (np.sort(ends, axis=0) == np.array([[min(a, b)], [max(a, b)]])).all(axis=0)
        if not gone.any():
            raise InvalidInput(f"there is no link between nodes {a} and {b} of {self.name}")
        kept = np.flatnonzero(~gone)
        if len(kept) == 0:
            raise InvalidInput(f"without the links between {a} and {b}, {self.name} would have none")
        columns = {name: getattr(self, name)[kept] for name in LINK_COLUMNS}
        columns["channel"] = np.unique(columns["channel"], return_inverse=True)[1].reshape(-1).astype(np.int32)
        return replace(self, **columns, name=f"{self.name} less {a}-{b}", router=ShortestPaths(), symmetries=None)

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
    num_nodes: int | None = None,
    switches: ArrayLike = (),
    channel: ArrayLike | None = None,
    symmetries: NDArray[np.int32] | None = None,
    name: str = "graph",
) -> Topology:
    """Build a topology from directed edges.

    Parameters
    ----------
    src, dst
        Node of each end, ``[num_links]``. Nodes are numbered from 0, ranks first.
    bandwidth, latency, message_overhead
        One quantity for all links, or one per link (numbers in SI units, or strings with units).
    num_ranks
        How many nodes are GPUs (the first ones); by default all that are not in `switches`.
    num_nodes
        How many nodes there are, if more than the links name.
    channel
        A number per link; links with the same number share one capacity. By default none do.
    symmetries
        Permutations of the nodes that map the graph onto itself, ``[num_generators, num_nodes]``; trusted as given.

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
    last_named = int(max(link_src.max(), link_dst.max()))
    kinds = _kinds(last_named, num_ranks, num_nodes, _node_ids(switches, "switches"))
    num_links = len(link_src)
    return Topology(
        name=name,
        num_ranks=int(np.count_nonzero(kinds == NodeKind.GPU)),
        node_kinds=kinds,
        link_src=link_src,
        link_dst=link_dst,
        bandwidth_bytes_per_s=per_link(bandwidth, num_links, "bandwidth"),
        latency_s=per_link(0 if latency is None else latency, num_links, "latency"),
        message_overhead_s=per_link(0 if message_overhead is None else message_overhead, num_links, "message_overhead"),
        channel=np.arange(num_links, dtype=np.int32) if channel is None else _node_ids(channel, "channel", MAX_LINKS),
        multicasts=np.zeros(len(kinds), np.bool_),
        reduces=np.zeros(len(kinds), np.bool_),
        symmetries=symmetries,
    )


def _kinds(
    last_named: int, num_ranks: int | None, num_nodes: int | None, switches: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """Kind of each node: the first `num_ranks` are GPUs, the others switches."""
    for name, given in (("num_ranks", num_ranks), ("num_nodes", num_nodes)):
        is_whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
        if given is not None and (not is_whole or not 1 <= given <= MAX_NODES):
            raise InvalidInput(f"{name}={given!r} must be a whole number between 1 and {MAX_NODES}")
    num_named = max(last_named, int(switches.max(initial=-1)), (num_ranks or 0) - 1) + 1
    if num_nodes is not None and num_nodes < num_named:
        raise InvalidInput(f"num_nodes={num_nodes} but node {num_named - 1} is named; nodes are numbered from 0")
    num_nodes = num_nodes or num_named
    kinds = np.zeros(num_nodes, np.uint8)
    kinds[switches] = NodeKind.SWITCH
    ranks = num_nodes - int(np.count_nonzero(kinds)) if num_ranks is None else int(num_ranks)
    if not 1 <= ranks <= num_nodes or kinds[:ranks].any():
        among = int(np.flatnonzero(kinds)[0]) if kinds.any() else 0
        raise InvalidInput(f"switch {among} is among the first num_ranks={ranks} nodes; ranks come before switches")
    kinds[ranks:] = NodeKind.SWITCH
    return kinds


def check_links(num_links: int, what: str) -> None:
    """Raise, before anything is allocated, where a graph would have more links than are legal or fit into memory."""
    if num_links > MAX_LINKS:
        raise LimitExceeded(f"{what} has {num_links} links; at most {MAX_LINKS} are supported")
    check_memory(num_links * LINK_BYTES, what)


def _node_ids(values: ArrayLike, name: str, limit: int = MAX_NODES) -> NDArray[np.int32]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidInput(f"{name} must be a flat list of whole numbers, not lists of unequal length") from None
    if array.size == 0:
        return np.zeros(0, np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be a flat list of whole numbers, not {array.dtype} of shape {array.shape}")
    bad = (array < 0) | (array >= limit)
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise InvalidInput(f"{name}[{place}]={array[place]} must be between 0 and {limit - 1}")
    return array.astype(np.int32)


def per_link(value: Quantity | ArrayLike, num_links: int, name: str) -> NDArray[np.float64]:
    """A column of `num_links` SI values from one quantity or one per link; `name` says bandwidth, or else a time."""
    parse = parse_bandwidth if name == "bandwidth" else parse_seconds
    if isinstance(value, str | int | float):
        return np.full(num_links, parse(value, name))
    if isinstance(value, list | tuple) and any(isinstance(entry, str) for entry in value):
        parsed: dict[Quantity, float] = {}
        for place, entry in enumerate(value):
            if not isinstance(entry, str | int | float):
                raise InvalidInput(f"{name}[{place}]={str(entry)[:40]!r} is not a quantity")
            if entry not in parsed:
                parsed[entry] = parse(entry, f"{name}[{place}]")
        value = [parsed[entry] for entry in value]
    try:
        array = np.asarray(value)
    except ValueError:
        raise InvalidInput(f"{name} must be one quantity or {num_links} of them, not lists of unequal length") from None
    if array.shape != (num_links,) or array.dtype.kind not in "iuf":
        raise InvalidInput(
            f"{name} must be one quantity or {num_links} of them, not {array.dtype} of shape {array.shape}"
        )
    column: NDArray[np.float64] = array.astype(np.float64)
    _check_quantities(column, name)
    return column


def _check_quantities(column: NDArray[np.float64], name: str) -> None:
    is_rate = name.startswith("bandwidth")
    least, most = (MIN_RATE, MAX_RATE) if is_rate else (0.0, 1e9)
    good = (column >= least) & (column <= most)  # false for NaN
    if is_rate:
        good |= column == DEAD_BANDWIDTH
    if not good.all():
        link = int(np.flatnonzero(~good)[0])
        rule = f"between {least:g} and {most:g} {'B/s' if is_rate else 'seconds'}"
        raise InvalidInput(f"{name}[{link}]={column[link]} must be {rule}")


def check_columns(topology: Topology) -> None:
    """Raise unless every column has the right type and shape and every id is in range."""
    nodes, links = topology.num_nodes, topology.num_links
    if links > MAX_LINKS or nodes > MAX_NODES:
        raise InvalidInput(f"{links} links on {nodes} nodes are above the limits of {MAX_LINKS} and {MAX_NODES}")
    for name, dtype in (LINK_COLUMNS | NODE_COLUMNS).items():
        column, length = getattr(topology, name), links if name in LINK_COLUMNS else nodes
        if not isinstance(column, np.ndarray) or column.dtype != dtype or column.shape != (length,):
            raise InvalidInput(f"{name} must be {np.dtype(dtype)} of shape ({length},)")
    if not 1 <= topology.num_ranks <= nodes:
        raise InvalidInput(f"num_ranks={topology.num_ranks} must be between 1 and the number of nodes, {nodes}")
    is_gpu = topology.node_kinds == NodeKind.GPU
    if not is_gpu[: topology.num_ranks].all() or is_gpu[topology.num_ranks :].any():
        raise InvalidInput(f"the first num_ranks={topology.num_ranks} nodes, and no others, must be GPUs")
    for name, limit in (("link_src", nodes), ("link_dst", nodes), ("channel", links)):
        ids = getattr(topology, name)
        if links and (ids.min() < 0 or ids.max() >= limit):
            raise InvalidInput(f"{name} holds {ids.min()}..{ids.max()}; ids must be between 0 and {limit - 1}")
    for name in ("bandwidth_bytes_per_s", "latency_s", "message_overhead_s"):
        _check_quantities(getattr(topology, name), name)
    loops = np.flatnonzero(topology.link_src == topology.link_dst)
    if len(loops):
        node = topology.link_src[loops[0]]
        raise InvalidInput(f"node {node} has a link to itself; every link joins two nodes")
    _check_channels(topology)
    if topology.symmetries is not None:
        _check_permutations(topology.symmetries, nodes)


def _check_channels(topology: Topology) -> None:
    """Raise where a path or a tree could cross one channel twice: it has one rate on every channel."""
    links = topology.num_links
    if not links or np.bincount(topology.channel, minlength=links).max() == 1:
        return
    _check_neighbours(topology)
    _check_branches(topology, topology.multicasts, topology.link_src, topology.link_dst, "leave")
    _check_branches(topology, topology.reduces, topology.link_dst, topology.link_src, "enter")
    _check_further_on(topology)


def _check_neighbours(topology: Topology) -> None:
    """Links that follow each other at a switch."""
    ranks, nodes = topology.num_ranks, topology.num_nodes
    ends = []  # of links at a switch, first those that enter it: channel and switch, neighbour, link
    for switch, neighbour in ((topology.link_dst, topology.link_src), (topology.link_src, topology.link_dst)):
        here = np.flatnonzero(switch >= ranks)
        ends.append((topology.channel[here].astype(np.int64) * nodes + switch[here], neighbour[here], here))
    (entered, sources, into), (left, targets, out) = ends
    order = np.lexsort((targets, left))
    first, last = (np.searchsorted(left[order], entered, side) for side in ("left", "right"))
    leads_on = np.flatnonzero(first < last)
    for place in (first, last - 1):  # neighbours of the lowest and of the highest number: one differs, if any does
        follows = order[place[leads_on]]
        bad = np.flatnonzero(targets[follows] != sources[leads_on])
        if len(bad):
            one, other = into[leads_on[bad[0]]], out[follows[bad[0]]]
            raise InvalidInput(
                f"links {one} and {other} share channel {topology.channel[one]} and follow each other at switch "
                f"{topology.link_dst[one]}; a path must not cross a channel twice"
            )


def _check_branches(
    topology: Topology, is_able: NDArray[np.bool_], switch: NDArray[np.int32], neighbour: NDArray[np.int32], verb: str
) -> None:
    """Links to different neighbours of a switch that copies, or from those of one that adds: branches of one tree."""
    here = np.flatnonzero(is_able[switch])
    here = here[np.lexsort((neighbour[here], switch[here], topology.channel[here]))]
    one, other = here[:-1], here[1:]
    is_bad = (topology.channel[one] == topology.channel[other]) & (switch[one] == switch[other])
    bad = np.flatnonzero(is_bad & (neighbour[one] != neighbour[other]))
    if len(bad):
        first, second = one[bad[0]], other[bad[0]]
        raise InvalidInput(
            f"links {first} and {second} share channel {topology.channel[first]} and {verb} switch {switch[first]}, "
            "which makes them branches of one tree; a tree must not cross a channel twice"
        )


def _check_further_on(topology: Topology) -> None:
    """Links of which a path through switches, no node twice, takes one and later the other."""
    src, dst, ranks = topology.link_src, topology.link_dst, topology.num_ranks
    order = np.argsort(topology.channel, kind="stable")
    first = np.flatnonzero(np.diff(topology.channel[order], prepend=-1))
    # No path takes two links that leave one node or enter one node, nor both directions of a cable.
    ends = (src[order], dst[order], np.minimum(src, dst)[order], np.maximum(src, dst)[order])
    leaves, enters, low, high = (np.minimum.reduceat(end, first) != np.maximum.reduceat(end, first) for end in ends)
    bounds = np.append(first, len(order))
    apart = [order[bounds[k] : bounds[k + 1]] for k in np.flatnonzero(leaves & enters & (low | high))]
    if not apart:
        return
    onward: dict[int, list[int]] = {}
    inside = np.flatnonzero((src >= ranks) & (dst >= ranks))
    for node, following in zip(src[inside].tolist(), dst[inside].tolist(), strict=True):
        onward.setdefault(node, []).append(following)
    steps = 0
    for links in apart:
        listed = list(zip(links.tolist(), src[links].tolist(), dst[links].tolist(), strict=True))
        onto_switches = [link for link in listed if link[2] >= ranks]
        from_switches = [link for link in listed if link[1] >= ranks]
        for one, start, here in onto_switches:
            for other, there, end in from_switches:
                steps += 1
                if there == start or end in (start, here):
                    continue
                seen, ahead = {start, end, here}, [here]
                while ahead and there not in seen:
                    following = [node for node in onward.get(ahead.pop(), ()) if node not in seen]
                    seen.update(following)
                    ahead += following
                    steps += 1 + len(following)
                if there in seen:
                    raise InvalidInput(
                        f"links {one} and {other} share channel {topology.channel[one]} and follow each other on a way "
                        f"from node {start} to node {end}; a path must not cross a channel twice"
                    )
                if steps > MAX_STEPS:
                    break
            if steps > MAX_STEPS:
                raise LimitExceeded(
                    f"whether a path crosses channel {topology.channel[one]} twice would take more than {MAX_STEPS} "
                    "steps to tell; let fewer links share channels"
                )


def _check_permutations(permutations: NDArray[np.int32], num_nodes: int) -> None:
    good = permutations.ndim == 2 and permutations.shape[1] == num_nodes and permutations.dtype == np.int32
    for row, permutation in enumerate(permutations if good else ()):
        hit = np.zeros(num_nodes, np.bool_)
        in_range = (permutation >= 0) & (permutation < num_nodes)
        hit[permutation[in_range]] = True
        if not hit.all():
            raise InvalidInput(f"symmetries[{row}] is not a permutation of the {num_nodes} nodes")
    if not good:
        raise InvalidInput(f"symmetries must be int32 of shape [generators, {num_nodes}]")
