"""Published graphs that are not products: DGX-1, DragonFly, Clos with spines, rail clusters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.topology.cluster import Cluster
from interlock.topology.graph import Topology, check_links, from_edges
from interlock.topology.shapes import PerDimension, check_dims, one_each
from interlock.units import Quantity

__all__ = ["clos", "dgx1", "dragonfly", "rail"]

# NVLinks between the V100s of a DGX-1 (hybrid cube mesh), six per GPU: [GPU, GPU].
_DGX1_NVLINKS = np.array(
    [
        [0, 1, 1, 2, 2, 0, 0, 0],
        [1, 0, 2, 1, 0, 2, 0, 0],
        [1, 2, 0, 2, 0, 0, 1, 0],
        [2, 1, 2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 1, 1, 2],
        [0, 2, 0, 0, 1, 0, 2, 1],
        [0, 0, 1, 0, 1, 2, 0, 2],
        [0, 0, 0, 1, 2, 1, 2, 0],
    ]
)


def dgx1(*, bandwidth: Quantity = "25 GB/s", latency: Quantity = 0, message_overhead: Quantity = 0) -> Topology:
    """The eight V100s of a DGX-1; `bandwidth` is of one NVLink, and a doubled NVLink is one link of twice that.

    >>> dgx1()
    Topology('dgx1', 8 ranks, 8 nodes, 32 links)
    """
    src, dst = np.nonzero(_DGX1_NVLINKS)
    rates = _DGX1_NVLINKS[src, dst] * one_each(bandwidth, 1, "bandwidth")[0]
    return from_edges(src, dst, rates, latency, message_overhead, name="dgx1")


def dragonfly(
    ranks_per_group: int,
    num_groups: int,
    *,
    bandwidth: PerDimension,
    latency: PerDimension = 0,
    message_overhead: PerDimension = 0,
) -> Topology:
    """Groups of fully connected ranks, one link each way between every two groups; quantities are (inside, between).

    The ranks of a group take its links to the next groups in turn, so with 4 ranks and 5 groups each has exactly one.

    >>> dragonfly(4, 5, bandwidth=("100 GB/s", "25 GB/s"))
    Topology('dragonfly:4x5', 20 ranks, 20 nodes, 80 links)
    """
    check_dims((ranks_per_group, num_groups))
    width, groups = ranks_per_group, num_groups
    if width * groups == 1:
        raise InvalidInput("dragonfly 1x1 has a single rank; a topology needs at least two")
    check_links(groups * (width * (width - 1) + groups - 1), f"dragonfly {width}x{groups}")
    ids = np.arange(width * groups, dtype=np.int32).reshape(groups, width)
    own, peer = np.nonzero(~np.eye(width, dtype=np.bool_))
    # Cable k of a group leads to the group k + 1 further on, where it is cable (groups - 2 - k).
    group, cable = (block.ravel() for block in np.indices((groups, groups - 1)))
    far = (group + cable + 1) % groups
    src = np.concatenate([ids[:, own].ravel(), ids[group, cable % width]])
    dst = np.concatenate([ids[:, peer].ravel(), ids[far, (groups - 2 - cable) % width]])
    counts = [groups * len(own), len(group)]
    return from_edges(
        src,
        dst,
        np.repeat(one_each(bandwidth, 2, "bandwidth"), counts),
        np.repeat(one_each(latency, 2, "latency"), counts),
        np.repeat(one_each(message_overhead, 2, "message_overhead"), counts),
        symmetries=np.roll(ids, -1, axis=0).reshape(1, -1).astype(np.int32),
        name=f"dragonfly:{width}x{groups}",
    )


def clos(
    num_leaves: int,
    ranks_per_leaf: int,
    num_spines: int,
    *,
    bandwidth: PerDimension,
    latency: PerDimension = 0,
    message_overhead: PerDimension = 0,
) -> Topology:
    """Leaf switches with ranks below and spines above; quantities are (rank to leaf, leaf to spine).

    One `bandwidth` is that of a rank; the links to the spines then share out what a leaf's ranks need, so nothing is
    oversubscribed. Default routes spread destinations over the spines.

    >>> clos(4, 8, 4, bandwidth="50 GB/s")
    Topology('clos:4x8x4', 32 ranks, 40 nodes, 96 links)
    """
    check_dims((num_leaves, ranks_per_leaf, num_spines))
    if isinstance(bandwidth, str | int | float):
        edge = one_each(bandwidth, 1, "bandwidth")[0]
        bandwidth = (edge, edge * ranks_per_leaf / num_spines)
    ranks = np.arange(num_leaves * ranks_per_leaf, dtype=np.int32).reshape(num_leaves, ranks_per_leaf)
    check_links(2 * (ranks.size + num_leaves * num_spines), f"clos of {num_leaves} leaves and {num_spines} spines")
    leaves = np.arange(num_leaves, dtype=np.int32) + ranks.size
    spines = np.arange(num_spines, dtype=np.int32) + ranks.size + num_leaves
    low = np.concatenate([ranks.ravel(), np.repeat(leaves, num_spines)])
    high = np.concatenate([np.repeat(leaves, ranks_per_leaf), np.tile(spines, num_leaves)])
    counts = 2 * [ranks.size, num_leaves * num_spines]
    return from_edges(
        np.concatenate([low, high]),
        np.concatenate([high, low]),
        np.repeat(np.tile(one_each(bandwidth, 2, "bandwidth"), 2), counts),
        np.repeat(np.tile(one_each(latency, 2, "latency"), 2), counts),
        np.repeat(np.tile(one_each(message_overhead, 2, "message_overhead"), 2), counts),
        num_ranks=ranks.size,
        symmetries=_clos_symmetries(ranks, leaves, spines),
        name=f"clos:{num_leaves}x{ranks_per_leaf}x{num_spines}",
    )


def _clos_symmetries(
    ranks: NDArray[np.int32], leaves: NDArray[np.int32], spines: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Next rank of the leaf, next leaf, next spine."""
    rows = [
        (np.roll(ranks, -1, axis=1).ravel(), leaves, spines),
        (np.roll(ranks, -1, axis=0).ravel(), np.roll(leaves, -1), spines),
        (ranks.ravel(), leaves, np.roll(spines, -1)),
    ]
    return np.stack([np.concatenate(row) for row in rows]).astype(np.int32)


def rail(
    servers: int,
    gpus_per_server: int,
    *,
    bandwidth: PerDimension,
    latency: PerDimension = 0,
    message_overhead: Quantity = 0,
) -> Topology:
    """Servers of switched GPUs whose k-th NICs share rail switch k; quantities are (inside, between) servers.

    The same graph as a `Cluster` with ``scale_out="rail"``: latencies are end to end, over two links.

    >>> rail(4, 8, bandwidth=("450 GB/s", "400 Gb/s"))
    Topology('rail:4x8', 32 ranks, 45 nodes, 128 links)
    """
    inside, between = one_each(bandwidth, 2, "bandwidth")
    inside_s, between_s = one_each(latency, 2, "latency")
    return Cluster(
        name=f"rail:{servers}x{gpus_per_server}",
        servers=servers,
        gpus_per_server=gpus_per_server,
        scale_up_bandwidth_bytes_per_s=float(inside),
        scale_up_latency_s=float(inside_s),
        scale_out="rail",
        scale_out_bandwidth_bytes_per_s=float(between),
        scale_out_latency_s=float(between_s),
        message_overhead_s=float(one_each(message_overhead, 1, "message_overhead")[0]),
    ).topology
