"""Default routes on a general graph: least time, ties shared out by destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.ragged import Ragged

if TYPE_CHECKING:
    from interlock.topology.graph import Topology

__all__ = ["DEAD_BANDWIDTH", "ShortestPaths"]

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
