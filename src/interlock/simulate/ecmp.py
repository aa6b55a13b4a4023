"""Uplinks of a fat tree that hashes every pair of NICs to one path (ECMP)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged
from interlock.topology import Topology
from interlock.topology.lowering import TwoTierRoutes

__all__ = ["Uplinks", "hashed_uplinks"]


@dataclass(frozen=True, slots=True, eq=False)
class Uplinks:
    """Paths with the hashed uplinks added, as links numbered after the topology's own."""

    path: Ragged
    capacity_bytes_per_s: NDArray[np.float64]  # of the links added


def hashed_uplinks(path: Ragged, topology: Topology) -> Uplinks:
    """Send every message between NICs of different leaves over the uplink its pair is hashed to.

    A leaf joins `ecmp_radix` NICs in rank order and has an uplink of the mean NIC's rate for each; a pair's path enters
    the other leaf by the uplink of the same number. Rails without a spine have no uplinks.
    """
    routes, radix = topology.router, topology.fabric.ecmp_radix
    if not isinstance(routes, TwoTierRoutes):
        raise InvalidInput("fabric.ecmp_radix hashes NICs of a cluster; this topology names its own links")
    if radix is None or routes.rails_only:
        return Uplinks(path, np.zeros(0))
    ranks = topology.num_ranks
    num_leaves = -(-ranks // radix)
    row = path.row_of_value
    src, dst = np.full(len(path), -1), np.full(len(path), -1)
    out = (path.values >= routes.nic_out) & (path.values < routes.nic_in)
    into = (path.values >= routes.nic_in) & (path.values < routes.nic_in + ranks)
    src[row[out]] = path.values[out] - routes.nic_out
    dst[row[into]] = path.values[into] - routes.nic_in
    crosses = np.flatnonzero((src >= 0) & (dst >= 0) & (src // radix != dst // radix))
    uplink = _hash(src[crosses], dst[crosses]) % radix
    up = topology.num_links + src[crosses] // radix * radix + uplink
    down = topology.num_links + (num_leaves + dst[crosses] // radix) * radix + uplink
    nic = topology.bandwidth_bytes_per_s[routes.nic_out : routes.nic_in]
    return Uplinks(_append(path, crosses, np.stack([up, down], axis=1)), np.full(2 * num_leaves * radix, nic.mean()))


def _hash(src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.int64]:
    """A fixed scatter of pairs, as a switch hashes addresses."""
    mixed = src.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + dst.astype(np.uint64) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return (mixed >> np.uint64(33)).astype(np.int64)


def _append(path: Ragged, rows: NDArray[np.int64], links: NDArray[np.int64]) -> Ragged:
    """The given rows with two links more at their end."""
    counts = path.counts
    counts[rows] += 2
    offsets = np.concatenate([[0], np.cumsum(counts)])
    values = np.zeros(int(offsets[-1]), np.int32)
    place = np.arange(len(path.values)) + np.repeat(offsets[:-1] - path.offsets[:-1], path.counts)
    values[place] = path.values
    values[offsets[rows + 1] - 2] = links[:, 0]
    values[offsets[rows + 1] - 1] = links[:, 1]
    return Ragged(offsets.astype(np.int64), values)
