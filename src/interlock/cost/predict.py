"""What a message costs on its way, blocks down a chain, and slices through tiers: for choosing how many there are.

A message of s bytes holds its link for ``overhead_s + s / bandwidth`` and arrives `latency_s` after that. A slice
enters a tier when it has left the one before and its predecessor this one; two tiers that use the same ports (sums and
copies by the same NICs) take turns: later slices of the one beside earlier slices of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.topology import Topology

__all__ = ["Link", "Tier", "best_blocks", "chain_s", "narrowest_link", "ramp", "slices_s"]


MAX_BLOCKS = 1024
MOST_ON_THE_WAY = 16  # messages of one connection: shorter ones would wait for arrivals


@dataclass(frozen=True, slots=True)
class Link:
    """What a message pays on its way from one rank to another."""

    overhead_s: float  # opening a stage included, where every message opens one
    latency_s: float
    bandwidth_bytes_per_s: float

    def busy_s(self, size_bytes: float) -> float:
        """How long a message holds the link."""
        return self.overhead_s + size_bytes / self.bandwidth_bytes_per_s

    @property
    def turn_s(self) -> float:
        """The least between two messages."""
        return max(self.overhead_s, self.latency_s / MOST_ON_THE_WAY)

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


def chain_s(num_hops: int, size_bytes: float, blocks: int, link: Link) -> float:
    """Blocks one after the other down a chain: Broadcast or Reduce on a line, or along a tree of that depth."""
    return (num_hops + blocks - 1) * link.busy_s(size_bytes / blocks) + num_hops * link.latency_s


def best_blocks(num_hops: int, size_bytes: float, link: Link) -> int:
    """The number of blocks that makes `chain_s` least.

    >>> best_blocks(9, 8e6, Link(1e-6, 0.0, 1e9))
    253
    """
    if num_hops <= 1 or size_bytes < 2:
        return 1
    most = int(min(MAX_BLOCKS, size_bytes))
    if link.turn_s <= 0.0:
        return most
    ideal = math.sqrt((num_hops - 1) * size_bytes / link.bandwidth_bytes_per_s / link.turn_s)
    near = {max(1, min(most, math.floor(ideal))), max(1, min(most, math.ceil(ideal)))}
    return min(sorted(near), key=lambda blocks: chain_s(num_hops, size_bytes, blocks, link))


@dataclass(frozen=True, slots=True)
class Tier:
    """What a slice that holds all bytes would take, and what each slice pays beside that."""

    ports: str  # tiers that name the same ones share them
    busy_s: float  # of all bytes
    messages: int  # of one slice at one port, one after the other
    overhead_s: float
    latency_s: float
    # Of a tier whose slices follow each other by waiting (nothing else holds them back): how many are under way. One:
    # each is sent when the one before has arrived. Two share the ports, so that the first of them takes as long again.
    under_way: int | None = None


def ramp(count: int, most: int = 8) -> tuple[float, ...]:
    """Weights 1, 2, 4, ... of slices: short ones at both ends, so that all tiers begin soon and end together.

    >>> ramp(6)
    (1.0, 2.0, 4.0, 4.0, 2.0, 1.0)
    """
    return tuple(float(min(2**k, 2 ** (count - 1 - k), most)) for k in range(count))


def slices_s(tiers: Sequence[Tier], weights: Sequence[float]) -> float:
    """Arrival of the last slice.

    >>> slices_s([Tier("up", 1.0, 1, 0.0, 0.0), Tier("nic", 1.0, 1, 0.0, 0.0)], (1.0, 1.0))
    1.5
    """
    number: dict[str, int] = {}
    return _core.tier_slices_s(
        np.array([tier.busy_s for tier in tiers]),
        np.array([tier.messages * tier.overhead_s for tier in tiers]),
        np.array([tier.latency_s for tier in tiers]),
        np.array([number.setdefault(tier.ports, len(number)) for tier in tiers], np.int32),
        np.array([tier.under_way or 0 for tier in tiers], np.int32),
        np.array(weights),
    )
