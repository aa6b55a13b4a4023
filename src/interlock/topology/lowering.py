"""A cluster as a graph.

With R ranks and a scale-up switch, links are numbered: rank r to its server's switch r, switch to rank R + r, NIC out
2R + r, NIC in 3R + r; links between leaves and spine follow where oversubscription makes them matter. A full mesh has
its (gpus_per_server - 1) links per rank first. The links of a dead NIC or a missing GPU keep their numbers, at
`DEAD_BANDWIDTH`, and no route uses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged
from interlock.topology.graph import DEAD_BANDWIDTH, NodeKind, Topology, check_links

if TYPE_CHECKING:
    from interlock.topology.cluster import Cluster

__all__ = ["DEAD_BANDWIDTH", "TwoTierRoutes", "lower", "receiving_ports"]

Part = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64] | float, float]  # src, dst, bandwidth, latency


@dataclass(frozen=True, slots=True)
class TwoTierRoutes:
    """Closed-form routes: scale-up inside a server, NIC to NIC between servers."""

    ranks_per_server: int
    num_ranks: int
    is_mesh: bool
    rails_only: bool
    leaves_are_rails: bool
    nic_alive: NDArray[np.bool_]  # [num_ranks]
    present: NDArray[np.bool_]  # [num_ranks]
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

    def place_on_leaves(self) -> NDArray[np.int64]:
        """Each NIC's place on leaves that hash: rail by rail where a spine joins rails, else in rank order."""
        rank = np.arange(self.num_ranks)
        if not self.leaves_are_rails:
            return rank
        width = self.ranks_per_server
        return np.asarray(rank % width * (self.num_ranks // width) + rank // width)

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
            leaves_rail = ~inside & (src % self.ranks_per_server != dst % self.ranks_per_server)
            if leaves_rail.any():
                bad = int(np.flatnonzero(leaves_rail)[0])
                raise InvalidInput(f"rank {src[bad]} cannot reach rank {dst[bad]}: rails join equal GPU indices only")
        dead = ~inside & ~(self.nic_alive[src] & self.nic_alive[dst])
        if dead.any():
            bad = int(np.flatnonzero(dead)[0])
            raise InvalidInput(f"rank {src[bad]} cannot reach rank {dst[bad]}: a NIC on the way is dead or missing")
        absent = (src != dst) & ~(self.present[src] & self.present[dst])
        if absent.any():
            bad = int(np.flatnonzero(absent)[0])
            raise InvalidInput(f"rank {src[bad]} cannot reach rank {dst[bad]}: one of the two GPUs is missing")


def receiving_ports(topology: Topology) -> NDArray[np.bool_]:
    """Links on which concurrent senders are counted, ``[num_links]``.

    In a cluster these are the NICs, inward: a scale-up switch paces its senders. In any other graph they are the links
    from a switch to a rank or NIC.
    """
    if isinstance(topology.router, TwoTierRoutes):
        ports = np.zeros(topology.num_links, np.bool_)
        ports[topology.router.nic_in : topology.router.nic_in + topology.num_ranks] = True
        return ports
    from_switch = topology.node_kinds[topology.link_src] == NodeKind.SWITCH
    to_end = topology.node_kinds[topology.link_dst] != NodeKind.SWITCH
    return np.asarray(from_switch & to_end, np.bool_)


def lower(cluster: Cluster) -> Topology:
    """The graph of a cluster: its ranks, a switch per server, the leaves and one spine."""
    ranks, width = cluster.num_ranks, cluster.gpus_per_server
    check_links(ranks * (width + 1 if cluster.scale_up == "mesh" else 4), f"the graph of {cluster.name!r}")
    leaf_of_rank, num_leaves = _leaves(cluster)
    has_spine = cluster.scale_out != "rail" and cluster.oversubscription > 1.0
    parts = [*_scale_up_links(cluster), *_nic_links(cluster, leaf_of_rank)]
    first_leaf_link = sum(len(src) for src, *_ in parts)
    if has_spine:
        parts += _spine_links(cluster, leaf_of_rank, num_leaves)
    src = np.concatenate([part[0] for part in parts]).astype(np.int32)
    num_nodes = ranks + cluster.servers + num_leaves + 1
    kinds = np.full(num_nodes, NodeKind.SWITCH, np.uint8)
    kinds[:ranks] = NodeKind.GPU
    is_server_switch = np.zeros(num_nodes, np.bool_)
    is_server_switch[ranks : ranks + cluster.servers] = cluster.scale_up == "switch"
    return Topology(
        name=cluster.name,
        num_ranks=ranks,
        node_kinds=kinds,
        link_src=src,
        link_dst=np.concatenate([part[1] for part in parts]).astype(np.int32),
        bandwidth_bytes_per_s=np.concatenate([np.broadcast_to(part[2], len(part[0])) for part in parts]),
        latency_s=np.concatenate([np.full(len(part[0]), part[3]) for part in parts]),
        message_overhead_s=np.full(len(src), float(cluster.message_overhead_s)),
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
            leaves_are_rails=cluster.scale_out == "rail-spine",
            nic_alive=cluster.nic_bandwidth_bytes_per_s > 0,
            present=cluster.present,
            leaf_of_rank=leaf_of_rank if has_spine else None,
            leaf_up=first_leaf_link,
            leaf_down=first_leaf_link + num_leaves,
        ),
        symmetries=_symmetries(cluster, leaf_of_rank, num_leaves),
    )


def _scale_up_links(cluster: Cluster) -> list[Part]:
    ranks, width = cluster.num_ranks, cluster.gpus_per_server
    rank = np.arange(ranks, dtype=np.int32)
    if cluster.scale_up == "mesh":
        own, peer = np.repeat(rank, width - 1), _mesh_peers(ranks, width)
        works = cluster.present[own] & cluster.present[peer]
        share = cluster.server_scale_up_bytes_per_s[own // width] / max(1, width - 1)
        return [(own, peer, np.where(works, share, DEAD_BANDWIDTH), cluster.scale_up_latency_s)]
    switch = ranks + rank // np.int32(width)
    rate = np.where(cluster.present, np.repeat(cluster.server_scale_up_bytes_per_s, width), DEAD_BANDWIDTH)
    return [
        (rank, switch, rate, cluster.scale_up_latency_s / 2),
        (switch, rank, rate, cluster.scale_up_latency_s / 2),
    ]


def _nic_links(cluster: Cluster, leaf_of_rank: NDArray[np.int32]) -> list[Part]:
    rank = np.arange(cluster.num_ranks, dtype=np.int32)
    leaf = np.int32(cluster.num_ranks + cluster.servers) + leaf_of_rank
    rate = np.asarray(np.maximum(cluster.nic_bandwidth_bytes_per_s, DEAD_BANDWIDTH), np.float64)
    return [
        (rank, leaf, rate, cluster.scale_out_latency_s / 2),
        (leaf, rank, rate, cluster.scale_out_latency_s / 2),
    ]


def _spine_links(cluster: Cluster, leaf_of_rank: NDArray[np.int32], num_leaves: int) -> list[Part]:
    """A leaf's links to the spine carry what its NICs could with nothing broken, over the oversubscription."""
    leaves = np.arange(num_leaves, dtype=np.int32) + np.int32(cluster.num_ranks + cluster.servers)
    spine = np.full(num_leaves, cluster.num_ranks + cluster.servers + num_leaves, np.int32)
    nominal = np.bincount(leaf_of_rank, cluster.nominal_nic_bandwidth_bytes_per_s, minlength=num_leaves)
    rate = np.asarray(np.maximum(nominal / cluster.oversubscription, DEAD_BANDWIDTH), np.float64)
    return [(leaves, spine, rate, 0.0), (spine, leaves, rate, 0.0)]


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
    own, peer = np.divmod(np.arange(width * (width - 1)), max(1, width - 1))
    others = peer + (peer >= own)
    base = np.repeat(np.arange(ranks // width) * width, len(others))
    peers: NDArray[np.int32] = (base + np.tile(others, ranks // width)).astype(np.int32)
    return peers


def _symmetries(cluster: Cluster, leaf_of_rank: NDArray[np.int32], num_leaves: int) -> NDArray[np.int32]:
    """Swaps and rotations of equal servers, and a rotation of the GPUs of every server where all are equal."""
    ranks, servers, width = cluster.num_ranks, cluster.servers, cluster.gpus_per_server
    rates = cluster.nic_bandwidth_bytes_per_s.reshape(servers, width)
    here = cluster.present.reshape(servers, width)
    rows = []

    def add(server: NDArray[np.int64], gpu: NDArray[np.int64]) -> None:
        rank = (server[:, None] * width + gpu[None, :]).ravel()
        leaf = np.zeros(num_leaves, np.int64)
        leaf[leaf_of_rank] = leaf_of_rank[rank]
        rows.append(np.concatenate([rank, ranks + server, ranks + servers + leaf, [ranks + servers + num_leaves]]))

    all_servers, all_gpus = np.arange(servers), np.arange(width)
    inside = cluster.server_scale_up_bytes_per_s[:, None]
    _, kind = np.unique(np.concatenate([rates, here, inside], axis=1), axis=0, return_inverse=True)
    for equal in (np.flatnonzero(kind.ravel() == k) for k in range(int(kind.max()) + 1)):
        for count in sorted({2, len(equal)}) if len(equal) > 1 else ():
            moved = all_servers.copy()
            moved[equal[:count]] = np.roll(equal[:count], -1)
            add(moved, all_gpus)
    # Nominal rates too: on rails they set what a leaf passes to the spine.
    nominal = cluster.nominal_nic_bandwidth_bytes_per_s[:width]
    gpus_are_equal = (rates == rates[:, :1]).all() and (here == here[:, :1]).all() and (nominal == nominal[0]).all()
    if width > 1 and gpus_are_equal:
        add(all_servers, np.roll(all_gpus, -1))
    return np.array(rows, np.int32).reshape(len(rows), ranks + servers + num_leaves + 1)
