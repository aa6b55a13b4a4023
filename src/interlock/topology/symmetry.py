"""Permutations of nodes that map a graph onto itself: checked, found, and carried over to links."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interlock.errors import InvalidInput, LimitExceeded
from interlock.ragged import run_starts
from interlock.topology.graph import Topology

__all__ = ["find_symmetries", "is_symmetry", "map_links"]

MAX_FOUND_NODES = 4096
MAX_TRIES = 2000  # mappings tried for one image of rank 0 before giving up on it

Ids = NDArray[np.int64]


def is_symmetry(topology: Topology, permutation: ArrayLike) -> bool:
    """Whether node i can be renamed ``permutation[i]`` everywhere without changing the graph.

    Kinds and abilities of nodes, speeds, latencies and overheads of links, and which links share a channel must all
    agree; routes are not looked at.

    >>> from interlock.topology import ring
    >>> is_symmetry(ring(4, bandwidth="50 GB/s"), [1, 2, 3, 0]), is_symmetry(ring(4, bandwidth="50 GB/s"), [1, 0, 2, 3])
    (True, False)
    """
    moved = np.asarray(permutation)
    nodes = np.arange(topology.num_nodes)
    if moved.shape != nodes.shape or moved.dtype.kind not in "iu" or not np.array_equal(np.sort(moved), nodes):
        return False
    node_colour = _node_colours(topology)
    if not np.array_equal(node_colour[moved], node_colour):
        return False
    return _link_image(topology, moved.astype(np.int64)) is not None


def map_links(topology: Topology, permutation: ArrayLike) -> NDArray[np.int32]:
    """The link that each link becomes when nodes are renamed by a symmetry; parallel equal links keep their order."""
    image = _link_image(topology, np.asarray(permutation, np.int64)) if is_symmetry(topology, permutation) else None
    if image is None:
        raise InvalidInput("permutation is not a symmetry of the topology")
    return image.astype(np.int32)


def find_symmetries(topology: Topology) -> NDArray[np.int32]:
    """Symmetries that, applied again and again, carry rank 0 to every rank it can become: ``[found, num_nodes]``.

    Starts from the declared ones, then searches by colour refinement. It may miss one on a graph where `MAX_TRIES`
    mappings do not decide; it never invents one.
    """
    if topology.num_nodes > MAX_FOUND_NODES:
        raise LimitExceeded(f"{topology.num_nodes} nodes are above the limit of {MAX_FOUND_NODES} for a search")
    reached = {0}
    found: list[Ids] = []
    for declared in topology.symmetries if topology.symmetries is not None else ():
        if is_symmetry(topology, declared):
            _extend_orbit(reached, found, declared.astype(np.int64))
    search = _Search(topology)
    for rank in range(1, topology.num_ranks):
        permutation = None if rank in reached else search.symmetry_moving(0, rank)
        if permutation is not None:
            _extend_orbit(reached, found, permutation)
    return np.array(found, np.int32).reshape(len(found), topology.num_nodes)


def _extend_orbit(reached: set[int], found: list[Ids], permutation: Ids) -> None:
    """Add a generator, and what rank 0 can now reach."""
    found.append(permutation)
    frontier = list(reached)
    while frontier:
        rank = frontier.pop()
        for generator in found:
            image = int(generator[rank])
            if image not in reached:
                reached.add(image)
                frontier.append(image)


def _ranked(*columns: NDArray[np.generic]) -> Ids:
    """Number the distinct rows of some columns in sorted order: equal rows, equal numbers."""
    order = np.lexsort(columns)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(run_starts(*(column[order] for column in columns))) - 1
    return number


def _node_colours(topology: Topology) -> Ids:
    return _ranked(topology.node_kinds, topology.multicasts, topology.reduces)


def _link_colours(topology: Topology) -> Ids:
    return _ranked(topology.bandwidth_bytes_per_s, topology.latency_s, topology.message_overhead_s)


def _link_image(topology: Topology, moved: Ids) -> Ids | None:
    """Which link each link falls on, or None if the links do not agree."""
    src, dst, colour = topology.link_src, topology.link_dst, _link_colours(topology)
    before = np.lexsort((colour, dst, src))
    after = np.lexsort((colour, moved[dst], moved[src]))
    for column, image in ((src, moved[src]), (dst, moved[dst]), (colour, colour)):
        if not np.array_equal(column[before], image[after]):
            return None
    landed = np.empty(topology.num_links, np.int64)
    landed[after] = before
    channel = topology.channel
    # Links share a channel exactly where their images do: the pairs (channel, channel of image) match one to one.
    pairs = np.unique(np.stack([channel, channel[landed]]), axis=1)
    if len(np.unique(pairs[0])) != pairs.shape[1] or len(np.unique(pairs[1])) != pairs.shape[1]:
        return None
    return landed


@dataclass(slots=True)
class _Search:
    """Looks for a symmetry with a given image of one node: refine colours on both sides, branch on ties."""

    topology: Topology
    tries: int = 0
    _link_colour: Ids = field(init=False)

    def __post_init__(self) -> None:
        self._link_colour = _link_colours(self.topology)

    def symmetry_moving(self, node: int, image: int) -> Ids | None:
        """A symmetry that renames `node` to `image`, or None."""
        self.tries = 0
        colours = _node_colours(self.topology)
        return self._solve(_single_out(colours, node), _single_out(colours, image))

    def _solve(self, here: Ids, there: Ids) -> Ids | None:
        self.tries += 1
        here, there = self._refined(here), self._refined(there)
        if self.tries > MAX_TRIES or not np.array_equal(np.bincount(here), np.bincount(there)):
            return None
        sizes = np.bincount(here)
        if (sizes <= 1).all():
            moved = np.empty(len(here), np.int64)
            moved[np.argsort(here)] = np.argsort(there)
            return moved if is_symmetry(self.topology, moved) else None
        tied = int(np.flatnonzero(sizes > 1)[0])
        node = int(np.flatnonzero(here == tied)[0])
        for image in np.flatnonzero(there == tied):
            moved_further = self._solve(_single_out(here, node), _single_out(there, int(image)))
            if moved_further is not None:
                return moved_further
        return None

    def _refined(self, colours: Ids) -> Ids:
        """Split colours by the colours seen along links until nothing changes (the same on both sides of a match)."""
        topology = self.topology
        while True:
            seen = np.zeros((2, topology.num_nodes), np.uint64)
            for row, (near, far) in enumerate(
                ((topology.link_src, topology.link_dst), (topology.link_dst, topology.link_src))
            ):
                np.add.at(seen[row], near, _scramble(colours[far], self._link_colour))
            refined = _ranked(seen[0], seen[1], colours)
            if refined.max() == colours.max():
                return refined
            colours = refined


def _single_out(colours: Ids, node: int) -> Ids:
    marked = 2 * colours
    marked[node] += 1
    return _ranked(marked)


def _scramble(colour: Ids, link_colour: Ids) -> NDArray[np.uint64]:
    """A fixed 64-bit mix, so that sums of neighbours' values tell multisets apart (a clash only loses a split)."""
    mixed = (colour.astype(np.uint64) << np.uint64(32)) ^ link_colour.astype(np.uint64)
    for multiplier in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(multiplier)
    return mixed ^ (mixed >> np.uint64(32))
