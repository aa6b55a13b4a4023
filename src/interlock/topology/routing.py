"""Default routes on a general graph: shortest paths, ties by node index."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged

if TYPE_CHECKING:
    from interlock.topology.graph import Topology

__all__ = ["ShortestPaths"]

REFERENCE_BYTES = 2**20  # the message size whose time a route minimises


@dataclass(slots=True)
class ShortestPaths:
    """Least time for a message of 1 MiB; links out of other ranks are not used (a relay needs a message of its own)."""

    _parent_link_by_source: dict[int, NDArray[np.int32]] = field(default_factory=dict)

    def routes(self, topology: Topology, src: NDArray[np.int32], dst: NDArray[np.int32]) -> Ragged:
        """Link ids from each source rank to each destination rank; a rank to itself takes none."""
        paths = [self._path(topology, int(s), int(d)) for s, d in zip(src, dst, strict=True)]
        return Ragged.from_lists(paths)

    def _path(self, topology: Topology, src: int, dst: int) -> list[int]:
        if src == dst:
            return []
        if src not in self._parent_link_by_source:
            self._parent_link_by_source[src] = _shortest_tree(topology, src)
        parent_link = self._parent_link_by_source[src]
        path: list[int] = []
        node = dst
        while node != src:
            link = int(parent_link[node])
            if link < 0:
                raise InvalidInput(f"rank {dst} cannot be reached from rank {src} without relaying at another rank")
            path.append(link)
            node = int(topology.link_src[link])
        return path[::-1]


def _shortest_tree(topology: Topology, src: int) -> NDArray[np.int32]:
    cost_s = topology.latency_s + topology.message_overhead_s + REFERENCE_BYTES / topology.bandwidth_bytes_per_s
    out = topology.out_links()
    parent_link = np.full(topology.num_nodes, -1, np.int32)
    done = np.zeros(topology.num_nodes, np.bool_)
    queue: list[tuple[float, int, int]] = [(0.0, src, -1)]
    while queue:
        distance_s, node, link = heapq.heappop(queue)
        if done[node]:
            continue
        done[node] = True
        parent_link[node] = link
        if node != src and node < topology.num_ranks:
            continue
        for next_link in out[node]:
            neighbour = int(topology.link_dst[next_link])
            if not done[neighbour]:
                heapq.heappush(queue, (distance_s + float(cost_s[next_link]), neighbour, int(next_link)))
    return parent_link
