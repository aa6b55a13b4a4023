"""Textbook alpha-beta times of collectives: microseconds without a schedule, for choosing among algorithms.

A message of s bytes holds its link for ``overhead_s + s / bandwidth`` and arrives `latency_s` after that. The forms are
exact where every round uses links of one kind and no two messages of a round share one; `size_bytes` is counted as
`interlock.collectives` counts it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.topology import Topology

__all__ = [
    "Link",
    "best_blocks",
    "binomial_tree_s",
    "chain_s",
    "direct_s",
    "double_tree_s",
    "halving_doubling_s",
    "hierarchical_s",
    "multitree_s",
    "narrowest_link",
    "ring_s",
    "tree_all_reduce_s",
]

MAX_BLOCKS = 1024


@dataclass(frozen=True, slots=True)
class Link:
    """What a message pays on its way from one rank to another."""

    overhead_s: float  # opening a stage included, where every message opens one
    latency_s: float
    bandwidth_bytes_per_s: float

    def busy_s(self, size_bytes: float) -> float:
        """How long a message holds the link."""
        return self.overhead_s + size_bytes / self.bandwidth_bytes_per_s

    def arrival_s(self, size_bytes: float) -> float:
        """Start to arrival of a message alone."""
        return self.busy_s(size_bytes) + self.latency_s


def narrowest_link(topology: Topology, src: NDArray[np.integer], dst: NDArray[np.integer]) -> Link:
    """The slowest in every respect of several rank-to-rank ways."""
    routes = topology.routes(np.asarray(src, np.int32), np.asarray(dst, np.int32))
    if len(routes.values) == 0:
        return Link(topology.stage_overhead_s, 0.0, np.inf)
    first = routes.values[routes.offsets[:-1]]
    latency_s = np.add.reduceat(topology.latency_s[routes.values], routes.offsets[:-1])
    return Link(
        float(topology.message_overhead_s[first].max()) + topology.stage_overhead_s,
        float(latency_s.max()),
        float(topology.bandwidth_bytes_per_s[routes.values].min()),
    )


def ring_s(num_ranks: int, size_bytes: float, link: Link, *, passes: int = 1, both_ways: bool = False) -> float:
    """All-Gather or Reduce-Scatter (one pass) or All-Reduce (two): (N - 1) rounds of a share each.

    >>> ring_s(4, 4e9, Link(0.0, 0.0, 1e9))
    3.0
    """
    share = size_bytes / num_ranks / (2 if both_ways else 1)
    return passes * (num_ranks - 1) * link.arrival_s(share)


def halving_doubling_s(num_ranks: int, size_bytes: float, link: Link, *, passes: int = 1) -> float:
    """log2 N rounds with half, a quarter, ... of the bytes; All-Reduce makes two passes."""
    rounds = num_ranks.bit_length() - 1
    return passes * sum(link.arrival_s(size_bytes / 2**k) for k in range(1, rounds + 1))


def hierarchical_s(dims: Sequence[int], size_bytes: float, links: Sequence[Link], *, passes: int = 1) -> float:
    """Rings dimension by dimension, each on the share that the ones before left (BlueConnect)."""
    seconds, left = 0.0, size_bytes
    for dim, link in zip(dims, links, strict=True):
        seconds += ring_s(dim, left, link)
        left /= dim
    return passes * seconds


def chain_s(num_hops: int, size_bytes: float, blocks: int, link: Link) -> float:
    """Blocks one after the other down a chain: Broadcast or Reduce on a line, or along a tree of that depth."""
    return (num_hops + blocks - 1) * link.busy_s(size_bytes / blocks) + num_hops * link.latency_s


def tree_all_reduce_s(depth: int, size_bytes: float, blocks: int, link: Link) -> float:
    """Up a tree and down again, blocks one after the other, every tree edge on links of its own."""
    return chain_s(2 * depth, size_bytes, blocks, link)


def double_tree_s(num_ranks: int, size_bytes: float, blocks: int, link: Link) -> float:
    """All-Reduce over two binary trees of depth ceil(log2 N) with half of the bytes each."""
    return tree_all_reduce_s(math.ceil(math.log2(num_ranks)), size_bytes / 2, blocks, link) if num_ranks > 1 else 0.0


def binomial_tree_s(num_ranks: int, size_bytes: float, link: Link) -> float:
    """Broadcast or Reduce in ceil(log2 N) rounds of all bytes."""
    return math.ceil(math.log2(num_ranks)) * link.arrival_s(size_bytes)


def multitree_s(num_rounds: int, num_ranks: int, size_bytes: float, link: Link) -> float:
    """Rounds of one share each."""
    return num_rounds * link.arrival_s(size_bytes / num_ranks)


def direct_s(num_ranks: int, size_bytes: float, link: Link, *, passes: int = 1) -> float:
    """Every rank to every rank at once over links of their own."""
    return passes * link.arrival_s(size_bytes / num_ranks) if num_ranks > 1 else 0.0


def best_blocks(num_hops: int, size_bytes: float, link: Link) -> int:
    """The number of blocks that makes `chain_s` least.

    >>> best_blocks(9, 8e6, Link(1e-6, 0.0, 1e9))
    253
    """
    if num_hops <= 1 or size_bytes < 2:
        return 1
    most = int(min(MAX_BLOCKS, size_bytes))
    if link.overhead_s <= 0.0:
        return most
    ideal = math.sqrt((num_hops - 1) * size_bytes / link.bandwidth_bytes_per_s / link.overhead_s)
    near = {max(1, min(most, math.floor(ideal))), max(1, min(most, math.ceil(ideal)))}
    return min(sorted(near), key=lambda blocks: chain_s(num_hops, size_bytes, blocks, link))
