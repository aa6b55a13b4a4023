"""A cluster as a graph.

With R ranks and a scale-up switch, links are numbered: rank r to its server's switch r, switch to rank R + r, NIC out
2R + r, NIC in 3R + r; links between leaves and spine follow where oversubscription makes them matter. A full mesh has
its (gpus_per_server - 1) links per rank first. A dead NIC keeps its number but no route uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged
from interlock.topology.graph import NodeKind, Topology

if TYPE_CHECKING:
    from interlock.topology.cluster import Cluster

__all__ = ["TwoTierRoutes", "lower"]

DEAD_BANDWIDTH = 1e-9  # keeps the column positive; no route names such a link


@dataclass(frozen=True, slots=True)
class TwoTierRoutes:
    """Closed-form routes: scale-up inside a server, NIC to NIC between servers."""

    ranks_per_server: int
    num_ranks: int
    is_mesh: bool
    rails_only: bool
    nic_alive: NDArray[np.bool_]  # [num_ranks]
    leaf_of_rank: NDArray[np.int32] | None  # where the links between leaf and spine can bind
    leaf_up: int  # first link id, leaf to spine
    leaf_down: int

    @property
    def nic_out(self) -> int:
        """Link id of rank 0's NIC, outward; rank r's is that plus r."""
        return self.num_ranks * (self.ranks_per_server - 1) if self.is_mesh else 2 * self.num_ranks

    @property
    def nic_in(self) -> int:
        """Link id of rank 0's NIC, inward."""
        return self.nic_out + self.num_ranks

    def scale_up_links(self, src: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.int32]:
        """Links of each scale-up hop: ``[n, 2]`` through a switch, ``[n, 1]`` in a mesh."""
        if not self.is_mesh:
            return np.stack([src, self.num_ranks + dst], axis=1).astype(np.int32)
        width = self.ranks_per_server
        peer = dst % width
        place = peer - (peer > src % width)
        return (src * (width - 1) + place).astype(np.int32)[:, None]

    def routes(self, topology: Topology, src: NDArray[np.int32], dst: NDArray[np.int32]) -> Ragged:
        """Link ids of each route; refuses what the fabric cannot carry."""
        inside = src // self.ranks_per_server == dst // self.ranks_per_server
        self._refuse_impossible(src, dst, inside)
        crosses_spine = np.zeros(len(src), np.bool_)
        if self.leaf_of_rank is not None:
            crosses_spine = ~inside & (self.leaf_of_rank[src] != self.leaf_of_rank[dst])
        hops_inside = 1 if self.is_mesh else 2
        counts = np.where(inside, np.where(src == dst, 0, hops_inside), 2 + 2 * crosses_spine)
        offsets = np.zeros(len(src) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        values = np.zeros(int(offsets[-1]), np.int32)
        near = np.flatnonzero(inside & (src != dst))
        for hop, links in enumerate(self.scale_up_links(src[near], dst[near]).T):
            values[offsets[near] + hop] = links
        far = np.flatnonzero(~inside)
        values[offsets[far]] = self.nic_out + src[far]
        values[offsets[far + 1] - 1] = self.nic_in + dst[far]
        if self.leaf_of_rank is not None:
            spine = np.flatnonzero(crosses_spine)
            values[offsets[spine] + 1] = self.leaf_up + self.leaf_of_rank[src[spine]]
            values[offsets[spine] + 2] = self.leaf_down + self.leaf_of_rank[dst[spine]]
        return Ragged(offsets, values)

    def _refuse_impossible(self, src: NDArray[np.int32], dst: NDArray[np.int32], inside: NDArray[np.bool_]) -> None:
        if self.rails_only:
            across = ~inside & (src % self.ranks_per_server != dst % self.ranks_per_server)
            if across.any():
                bad = int(np.flatnonzero(across)[0])
                raise InvalidInput(f"rank {src[bad]} cannot reach rank {dst[bad]}: rails join equal GPU indices only")
        dead = ~inside & ~(self.nic_alive[src] & self.nic_alive[dst])
        if dead.any():
            bad = int(np.flatnonzero(dead)[0])
            raise InvalidInput(f"rank {src[bad]} cannot reach rank {dst[bad]}: a NIC on the way is dead or missing")


def lower(cluster: Cluster) -> Topology:
    """The graph of a cluster."""
    ranks, width = cluster.num_ranks, cluster.gpus_per_server
    rank = np.arange(ranks, dtype=np.int32)
    server_switch = ranks + rank // width
    leaf_of_rank, num_leaves = _leaves(cluster)
    leaf = ranks + cluster.servers + leaf_of_rank
    spine = ranks + cluster.servers + num_leaves
    if cluster.scale_up == "mesh":
        own = np.repeat(rank, width - 1)
        peer = _mesh_peers(ranks, width)
        inner = [(own, peer, cluster.scale_up_bandwidth_bytes_per_s / max(1, width - 1), cluster.scale_up_latency_s)]
    else:
        half_latency_s = cluster.scale_up_latency_s / 2
        inner = [
            (rank, server_switch, cluster.scale_up_bandwidth_bytes_per_s, half_latency_s),
            (server_switch, rank, cluster.scale_up_bandwidth_bytes_per_s, half_latency_s),
        ]
    nic = np.asarray(np.maximum(cluster.nic_bandwidth_bytes_per_s, DEAD_BANDWIDTH), np.float64)
    outer: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64] | float, float]] = [
        (rank, leaf, nic, cluster.scale_out_latency_s / 2),
        (leaf, rank, nic, cluster.scale_out_latency_s / 2),
    ]
    spine_links = cluster.scale_out != "rail" and cluster.oversubscription > 1.0
    if spine_links:
        leaves = np.arange(num_leaves, dtype=np.int32) + ranks + cluster.servers
        into = np.full(num_leaves, spine, np.int32)
        nominal = cluster.scale_out_bandwidth_bytes_per_s * cluster.nics_per_gpu
        gpus = np.bincount(leaf_of_rank, minlength=num_leaves).astype(np.float64)
        uplink: NDArray[np.float64] = gpus * (nominal / cluster.oversubscription)
        outer += [(leaves, into, uplink, 0.0), (into, leaves, uplink, 0.0)]
    columns = [np.concatenate(c) for c in zip(*(_columns(*part) for part in [*inner, *outer]), strict=True)]
    src, dst, bandwidth, latency = columns
    num_nodes = ranks + cluster.servers + num_leaves + 1
    kinds = np.full(num_nodes, NodeKind.SWITCH, np.uint8)
    kinds[:ranks] = NodeKind.GPU
    is_server_switch = np.zeros(num_nodes, np.bool_)
    is_server_switch[ranks : ranks + cluster.servers] = cluster.scale_up == "switch"
    first_nic = ranks * (width - 1) if cluster.scale_up == "mesh" else 2 * ranks
    return Topology(
        name=cluster.name,
        num_ranks=ranks,
        node_kinds=kinds,
        link_src=src.astype(np.int32),
        link_dst=dst.astype(np.int32),
        bandwidth_bytes_per_s=bandwidth,
        latency_s=latency,
        message_overhead_s=np.full(len(src), cluster.message_overhead_s),
        channel=np.arange(len(src), dtype=np.int32),
        multicasts=is_server_switch & cluster.multicasts,
        reduces=is_server_switch & cluster.reduces,
        stage_overhead_s=cluster.stage_overhead_s,
        fabric=cluster.fabric,
        router=TwoTierRoutes(
            ranks_per_server=width,
            num_ranks=ranks,
            is_mesh=cluster.scale_up == "mesh",
            rails_only=cluster.scale_out == "rail",
            nic_alive=cluster.nic_bandwidth_bytes_per_s > 0,
            leaf_of_rank=leaf_of_rank if spine_links else None,
            leaf_up=first_nic + 2 * ranks,
            leaf_down=first_nic + 2 * ranks + num_leaves,
        ),
    )


def _columns(
    src: NDArray[np.int32], dst: NDArray[np.int32], bandwidth: NDArray[np.float64] | float, latency_s: float
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    return src, dst, np.broadcast_to(bandwidth, len(src)), np.full(len(src), latency_s)


def _leaves(cluster: Cluster) -> tuple[NDArray[np.int32], int]:
    """Leaf switch of each rank: one per rail on rails, one per server on a flat fabric; one for all where the spine
    never binds, so that every route is connected."""
    rank = np.arange(cluster.num_ranks, dtype=np.int32)
    if cluster.scale_out != "rail" and cluster.oversubscription <= 1.0:
        return np.zeros_like(rank), 1
    if cluster.scale_out == "flat":
        return rank // np.int32(cluster.gpus_per_server), cluster.servers
    return rank % np.int32(cluster.gpus_per_server), cluster.gpus_per_server


def _mesh_peers(ranks: int, width: int) -> NDArray[np.int32]:
    """The other ranks of each rank's server, ascending: flat [ranks * (width - 1)]."""
    gpu = np.arange(width)
    others = np.array([[peer for peer in gpu if peer != own] for own in gpu], np.int32).reshape(width, width - 1)
    base = np.arange(ranks, dtype=np.int32) // width * width
    return (base[:, None] + others[np.arange(ranks) % width]).reshape(-1).astype(np.int32)
