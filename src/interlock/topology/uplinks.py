"""Uplinks of a two-level Clos that hashes every flow to one path (ECMP)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged, before_in_group
from interlock.topology.graph import Topology
from interlock.topology.lowering import TwoTierRoutes

__all__ = ["Uplinks", "flow_hash", "hashed_uplinks", "uplinks_of_flows"]


def flow_hash(
    src: NDArray[np.integer], dst: NDArray[np.integer], port: NDArray[np.integer] | int, seed: int
) -> NDArray[np.uint64]:
    """64 bits per flow (splitmix64), the same on every machine.

    Protocol and destination port are the same for all RDMA flows: addresses and source port are what a hash sees.
    """
    ends = (np.asarray(src, np.uint64) << np.uint64(32)) ^ np.asarray(dst, np.uint64)
    mixed = _mix(ends ^ np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64))
    return _mix(mixed + np.asarray(port, np.uint64) * np.uint64(0xD1342543DE82EF95))


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Uplinks:
    """Paths with the hashed uplinks added, as links numbered after the topology's own."""

    path: Ragged
    capacity_bytes_per_s: NDArray[np.float64]  # of the links added


def hashed_uplinks(path: Ragged, topology: Topology) -> Uplinks:
    """Send every message between NICs of different leaves over the uplink its flow is hashed to.

    A flow enters the other leaf from the spine its uplink leads to. Rails without a spine have no uplinks.
    """
    routes, fabric = topology.router, topology.fabric
    if not isinstance(routes, TwoTierRoutes):
        raise InvalidInput("fabric.ecmp_radix hashes NICs of a cluster; this topology names its own links")
    radix = fabric.ecmp_radix
    if radix is None or routes.rails_only:
        return Uplinks(path, np.zeros(0))
    ranks = topology.num_ranks
    row = path.row_of_value
    src, dst = np.full(len(path), -1), np.full(len(path), -1)
    out = (path.values >= routes.nic_out) & (path.values < routes.nic_in)
    into = (path.values >= routes.nic_in) & (path.values < routes.nic_in + ranks)
    src[row[out]] = path.values[out] - routes.nic_out
    dst[row[into]] = path.values[into] - routes.nic_in
    between = np.flatnonzero((src >= 0) & (dst >= 0))
    src, dst = src[between], dst[between]
    leaf = routes.place_on_leaves() // radix
    crosses = leaf[src] != leaf[dst]
    src, dst = src[crosses], dst[crosses]
    port = before_in_group(src * ranks + dst) % fabric.ecmp_flows
    up, down, capacity = uplinks_of_flows(topology, src, dst, port)
    links = topology.num_links + np.stack([up, down], axis=1)
    return Uplinks(_append(path, between[crosses], links), capacity)


def uplinks_of_flows(
    topology: Topology, src: NDArray[np.int64], dst: NDArray[np.int64], port: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The uplink that a flow from NIC to NIC is hashed to and the way down from its spine, -1 within a leaf, numbered
    from 0 on; and what each of them carries."""
    routes, fabric = topology.router, topology.fabric
    assert isinstance(routes, TwoTierRoutes) and fabric.ecmp_radix is not None, "the caller knows that leaves hash"
    uplinks, num_leaves = fabric.ecmp_uplinks or fabric.ecmp_radix, -(-topology.num_ranks // fabric.ecmp_radix)
    leaf = routes.place_on_leaves() // fabric.ecmp_radix
    crosses = leaf[src] != leaf[dst]
    uplink = (flow_hash(src, dst, port, fabric.ecmp_seed) % np.uint64(uplinks)).astype(np.int64)
    up = np.where(crosses, leaf[src] * uplinks + uplink, -1)
    down = np.where(crosses, (num_leaves + leaf[dst]) * uplinks + uplink, -1)
    nic = topology.bandwidth_bytes_per_s[routes.nic_out : routes.nic_in]
    return up, down, np.full(2 * num_leaves * uplinks, nic.mean())


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
