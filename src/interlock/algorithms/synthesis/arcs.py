"""The graph a synthesizer works on: arcs between ranks, each a link or a way through switches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from interlock.errors import LimitExceeded
from interlock.ragged import Ragged, before_in_group, ranges
from interlock.schedule import Routes
from interlock.topology import Topology
from interlock.topology.lowering import DEAD_BANDWIDTH, TwoTierRoutes
from interlock.topology.uplinks import hashed_uplinks

__all__ = ["ArcSet", "Ticks", "arcs_of"]

MAX_ARCS = 4_000_000  # a cap on memory
MAX_WAYS = 16  # equally short ways through switches kept between two nodes: a cap on arcs
MAX_SWITCH_HOPS = 6  # up and down three layers of switches


GraphColumns = tuple[
    int,
    int,
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.float64],
    NDArray[np.float64],
]


@dataclass(frozen=True, slots=True, eq=False)
class Ticks:
    """Times of arcs in whole ticks; a message of b bytes holds an arc for ``overhead + round(b * per_byte)``."""

    overhead: NDArray[np.int64]
    per_byte: NDArray[np.float64]
    latency: NDArray[np.int64]
    opening: int
    tick_s: float

    def of_bytes(self, arc: NDArray[np.int32], size_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ticks of bytes alone, without overhead."""
        return np.rint(size_bytes * self.per_byte[arc]).astype(np.int64)

    def held(self, arc: NDArray[np.int32], size_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ticks of messages that have their arcs alone."""
        return self.overhead[arc] + self.of_bytes(arc, size_bytes)


@dataclass(frozen=True, eq=False)
class ArcSet:
    """Arcs between ranks. Of the time that it sends, an arc holds each of its resources (channels of links) for a
    share, and nobody else can: all of it on its slowest link, a quarter on one four times as fast.

    Arcs of one orbit exclude each other and may share messages: each arc is its own orbit, except where symmetry makes
    one rank stand for all.
    """

    num_ranks: int
    src: NDArray[np.int32]  # [num_arcs]
    dst: NDArray[np.int32]
    path: Ragged  # link ids
    resources: Ragged
    share: NDArray[np.float64]  # as the resources' values, above 0 and at most 1
    counts_senders: NDArray[np.bool_]  # as the share: of a port that tolerates few; a slow message is one too
    num_resources: int
    overhead_s: NDArray[np.float64]
    seconds_per_byte: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    orbit: NDArray[np.int32]
    fan_in: int | None  # messages at once that a receiving port tolerates
    opening_s: float  # before a rank's first message

    def __len__(self) -> int:
        return len(self.src)

    def reversed(self) -> ArcSet:
        """The same arcs with their ends swapped: a schedule on these, read backwards, is one on the others."""
        held = self.resources
        row = held.row_of_value
        back = held.offsets[row] + held.offsets[row + 1] - 1 - np.arange(len(row))
        mirrored = Ragged(held.offsets, held.values[back])
        return replace(
            self,
            src=self.dst,
            dst=self.src,
            resources=mirrored,
            share=self.share[back],
            counts_senders=self.counts_senders[back],
            opening_s=0.0,
        )

    def held_by(self, arc: NDArray[np.integer]) -> tuple[Ragged, NDArray[np.float64], NDArray[np.bool_]]:
        """Resources of some arcs, and the share of each and whether it counts senders."""
        place = Ragged(self.resources.offsets, np.arange(len(self.share), dtype=np.int32)).take(arc)
        held = Ragged(place.offsets, self.resources.values[place.values])
        return held, self.share[place.values], self.counts_senders[place.values]

    def alone(self) -> ArcSet:
        """The same where messages hold all their links alone."""
        return replace(self, share=np.ones(len(self.share)))

    def patient(self) -> ArcSet:
        """The same where a message is followed by the next only when it is known to have arrived."""
        return replace(self, overhead_s=self.overhead_s + self.latency_s, latency_s=0.0 * self.latency_s)

    @cached_property
    def can_share(self) -> bool:
        """Whether some links are faster than what they carry."""
        return bool((self.share < 1.0).any())

    @cached_property
    def routes(self) -> Routes:
        """Arcs as the routes of a schedule."""
        return Routes(Ragged.single(self.src), Ragged.single(self.dst), self.path)

    @cached_property
    def orbit_arc(self) -> NDArray[np.int64]:
        """The first arc of each orbit."""
        return np.unique(self.orbit, return_index=True)[1]

    @cached_property
    def is_simple(self) -> bool:
        """Whether all arcs are single links, each its own resource."""
        return bool((self.path.counts == 1).all()) and len(np.unique(self.resources.values)) == len(self)

    @cached_property
    def is_uniform(self) -> bool:
        """Whether arcs are all links there are, none shares with another, and all are equally fast."""
        return (
            self.is_simple
            and self.num_resources == len(self)
            and all(np.ptp(column) == 0.0 for column in (self.overhead_s, self.seconds_per_byte, self.latency_s))
        )

    def columns(self, ticks: Ticks) -> GraphColumns:
        """As the native kernels take a graph."""
        held = self.resources
        return (
            self.num_ranks,
            self.num_resources,
            self.src,
            self.dst,
            held.offsets,
            held.values,
            ticks.overhead,
            ticks.per_byte,
            self.share,
        )

    def ticks(self, num_transfers: int, total_bytes: float) -> Ticks:
        """Whole ticks, a picosecond or as much more as keeps everything one after the other below 2^60."""
        worst_s = num_transfers * float(self.overhead_s.max() + self.latency_s.max())
        worst_s += num_transfers * self.opening_s + total_bytes * float(self.seconds_per_byte.max())
        tick_s = max(1e-12, math.ldexp(1.0, math.ceil(math.log2(max(worst_s, 1e-30))) - 60))
        return Ticks(
            np.rint(self.overhead_s / tick_s).astype(np.int64),
            self.seconds_per_byte / tick_s,
            np.rint(self.latency_s / tick_s).astype(np.int64),
            round(self.opening_s / tick_s),
            tick_s,
        )


@lru_cache(maxsize=8)
def arcs_of(topology: Topology) -> ArcSet:
    """Arcs of a topology: links from rank to rank, and the shortest ways through switches and NICs."""
    alive = topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH
    ranks = topology.num_ranks
    direct = np.flatnonzero(alive & (topology.link_src < ranks) & (topology.link_dst < ranks)).astype(np.int32)
    paths = [Ragged.single(direct)]
    if topology.num_nodes > ranks:
        paths += _ways_through_switches(topology, alive)
    path = Ragged.concatenate(paths)
    first, last = path.values[path.offsets[:-1]], path.values[path.offsets[1:] - 1]
    channels, channel = np.unique(topology.channel, return_inverse=True)
    held, added_bytes_per_s = _with_uplinks(path, topology)
    number = np.append(channel, len(channels) + np.arange(len(added_bytes_per_s)))
    seconds_per_byte = 1.0 / np.append(topology.bandwidth_bytes_per_s, added_bytes_per_s)[held.values]
    slowest = np.maximum.reduceat(seconds_per_byte, held.offsets[:-1])
    return ArcSet(
        num_ranks=ranks,
        src=topology.link_src[first],
        dst=topology.link_dst[last],
        path=path,
        resources=Ragged(held.offsets, number[held.values].astype(np.int32)),
        share=_shares(seconds_per_byte / slowest[held.row_of_value], held, topology.fabric.fan_in),
        counts_senders=_are_ports(held) & (topology.fabric.fan_in is not None),
        num_resources=len(channels) + len(added_bytes_per_s),
        overhead_s=topology.message_overhead_s[first],
        seconds_per_byte=slowest,
        latency_s=np.add.reduceat(topology.latency_s[path.values], path.offsets[:-1]),
        orbit=np.arange(len(path), dtype=np.int32),
        fan_in=topology.fabric.fan_in,
        opening_s=topology.stage_overhead_s,
    )


def _with_uplinks(path: Ragged, topology: Topology) -> tuple[Ragged, NDArray[np.float64]]:
    """Links of each arc and, before its last, the uplinks that a leaf hashes it to; and the rates of all uplinks.

    Pairs with many flows spread over uplinks message by message, and no arc can say which it will hold.
    """
    fabric = topology.fabric
    if fabric.ecmp_radix is None or fabric.ecmp_flows > 1 or not isinstance(topology.router, TwoTierRoutes):
        return path, np.zeros(0)
    made = hashed_uplinks(path, topology)
    last = made.path.offsets[1:][made.path.counts > path.counts] - 1
    values = made.path.values.copy()
    values[last - 2], values[last - 1], values[last] = values[last - 1], values[last], values[last - 2]
    return Ragged(made.path.offsets, values), made.capacity_bytes_per_s


def _shares(share: NDArray[np.float64], path: Ragged, fan_in: int | None) -> NDArray[np.float64]:
    """No more messages at once into a port than the fabric tolerates."""
    return share if fan_in is None else np.where(_are_ports(path), np.maximum(share, 1.0 / fan_in), share)


def _are_ports(path: Ragged) -> NDArray[np.bool_]:
    """Which links are the last of their path."""
    are_ports = np.zeros(len(path.values), np.bool_)
    are_ports[path.offsets[1:] - 1] = True
    return are_ports


def _ways_through_switches(topology: Topology, alive: NDArray[np.bool_]) -> list[Ragged]:
    """Breadth first from every rank at once, through nodes that are not ranks; one block per length."""
    ranks, nodes = topology.num_ranks, topology.num_nodes
    usable = np.flatnonzero(alive)
    order = usable[np.argsort(topology.link_src[usable], kind="stable")]
    leaving = np.searchsorted(topology.link_src[order], np.arange(nodes + 1))
    origin = np.arange(ranks, dtype=np.int64)
    at_node = origin.copy()
    taken = np.zeros((ranks, 0), np.int32)  # links so far, [num_ways, hops]
    times_reached = np.zeros(ranks * nodes, np.int32)
    found: list[Ragged] = []
    for hop in range(MAX_SWITCH_HOPS):
        counts = leaving[at_node + 1] - leaving[at_node]
        row = np.repeat(np.arange(len(at_node)), counts)
        link = order[ranges(leaving[at_node], counts)]
        at_next, came_from = topology.link_dst[link].astype(np.int64), origin[row]
        ways = np.concatenate([taken[row], link[:, None].astype(np.int32)], axis=1)
        arrives = (at_next < ranks) & (at_next != came_from) & (hop > 0)
        passes = at_next >= ranks
        keep = _first_ways(came_from * nodes + at_next, times_reached, arrives | passes)
        if int(keep.sum()) > MAX_ARCS:
            raise LimitExceeded(f"{topology.name} has more than {MAX_ARCS} ways between ranks through its switches")
        ended = ways[keep & arrives]
        found.append(Ragged.from_counts(np.full(len(ended), hop + 1), ended.reshape(-1)))
        onward = keep & passes
        if not onward.any():
            break
        origin, at_node, taken = came_from[onward], at_next[onward], ways[onward]
    return found


def _first_ways(
    key: NDArray[np.int64], times_reached: NDArray[np.int32], chosen: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Rows that reach their (origin, node) for the first time, or as one of the first few at the same length."""
    rows = np.flatnonzero(chosen)
    rows = rows[times_reached[key[rows]] == 0]
    times_reached[key[rows]] = 1
    keep = np.zeros(len(key), np.bool_)
    keep[rows[before_in_group(key[rows]) < MAX_WAYS]] = True
    return keep
