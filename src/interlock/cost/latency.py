"""Bounds by distance: overhead and latency of the hops that bytes cannot avoid, and the room those hops take up."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.cost.network import Network
from interlock.problem import Items

__all__ = ["farthest_pair", "hop_volume", "least_message_s"]

MAX_WORK = 2_500_000  # sources * (nodes + links): some 10 ms
SAMPLED_SOURCES = 8
MAX_CROWDED_WORK = 4_000_000  # rounds * nodes * (nodes + links): some 20 ms
LEAST_ROUNDS, MOST_ROUNDS = 100, 600

Floats = NDArray[np.float64]


def least_message_s(network: Network) -> float:
    """Before any byte arrives, some message has paid its overhead and the latency of its links."""
    from_rank = network.src < network.num_ranks
    into_rank = network.dst < network.num_ranks
    last_s = float(network.latency_s[into_rank].min(initial=np.inf))
    first_s = network.message_overhead_s + network.latency_s + np.where(into_rank, 0.0, last_s)
    least = float(first_s[from_rank].min(initial=np.inf))
    return least if np.isfinite(least) else 0.0


def farthest_pair(network: Network, items: Items, orbit: NDArray[np.int64] | None) -> tuple[float, str]:
    """Every contribution pays, at every hop between ranks, a message's overhead and the links' latency."""
    cost_s = network.latency_s + np.where(network.src < network.num_ranks, network.message_overhead_s, 0.0)
    if not cost_s.any():
        return 0.0, "latency"
    contributors, destinations = items.contributors, items.destinations
    if contributors.shared is None and destinations.shared is None and contributors.is_single:
        return _farthest_of_pairs(network, items, cost_s)
    sources = np.unique(contributors.to_ragged().values if contributors.shared is None else contributors.shared)
    ends = np.unique(destinations.to_ragged().values if destinations.shared is None else destinations.shared)
    if contributors.shared is None and destinations.shared is None:
        return 0.0, "latency"  # sums with sets of their own: the messages they share are not told apart here
    turned = len(ends) < len(sources)  # from the few to the many, on links turned round
    if turned:
        sources, ends = ends, sources
    if len(ends) < network.num_ranks:
        orbit = None  # ranks alike are not equally far from some
    best = (0.0, "latency")
    for source, row in _distance_rows(network, cost_s, sources.astype(np.int32), orbit, turned=turned):
        end = int(ends[row[ends].argmax()])
        if row[end] > best[0]:
            pair = (end, source) if turned else (source, end)
            best = (float(row[end]), "latency from rank {} to rank {}".format(*pair))
    return best


def hop_volume(network: Network, items: Items) -> Iterator[tuple[float, str]]:
    """One-to-one bytes fill every link of a shortest way at least: all links together set the pace.

    Any lengths of links give a bound: (sum of bytes * distance) / (sum of rate * length). Tried: every link counts
    the same, every link counts by the time it takes for a byte, and on small graphs lengths that grow where a
    shortest routing is crowded.
    """
    if not (items.contributors.is_single and items.destinations.is_single) or network.num_links == 0:
        return
    origin, end = items.contributors.to_ragged().values, items.destinations.to_ragged().values
    sources = np.flatnonzero(np.bincount(origin))
    if len(sources) * (network.num_nodes + network.num_links) > MAX_WORK:
        return
    rate = network.bandwidth_bytes_per_s
    lengths = [np.ones(network.num_links), rate.max() / rate]
    rounds = min(MOST_ROUNDS, MAX_CROWDED_WORK // (network.num_nodes * (network.num_nodes + network.num_links) + 1))
    if rounds >= LEAST_ROUNDS:
        bytes_ = np.zeros((network.num_nodes, network.num_nodes))
        np.add.at(bytes_, (origin, end), items.size_bytes)
        lengths.append(_core.crowded_lengths(network.num_nodes, network.src, network.dst, rate, bytes_, rounds))
    place = np.zeros(network.num_ranks, np.int64)
    place[sources] = np.arange(len(sources))
    channels = np.unique(network.channel, return_inverse=True)[1]
    for length in lengths:
        table = _core.shortest_distances(network.num_nodes, network.src, network.dst, length, sources.astype(np.int32))
        volume = float((items.size_bytes * table[place[origin], end]).sum())
        room = np.zeros(network.num_links)
        np.maximum.at(room, channels, rate * length)
        yield volume / float(room.sum()), "all links together, by distance"


def _farthest_of_pairs(network: Network, items: Items, cost_s: Floats) -> tuple[float, str]:
    origin = items.contributors.to_ragged().values
    rows = items.destinations.to_ragged()
    sources = np.flatnonzero(np.bincount(origin))[: max(1, MAX_WORK // (network.num_nodes + network.num_links))]
    distance = _core.shortest_distances(network.num_nodes, network.src, network.dst, cost_s, sources.astype(np.int32))
    place = np.full(network.num_ranks, -1, np.int64)
    place[sources] = np.arange(len(sources))
    from_, to = origin if rows.is_single else origin[rows.row_of_value], rows.values
    known = place[from_] >= 0
    from_, to = from_[known], to[known]
    seconds = distance[place[from_], to]
    worst = int(seconds.argmax())
    return float(seconds[worst]), f"latency from rank {from_[worst]} to rank {to[worst]}"


def _distance_rows(
    network: Network, cost_s: Floats, sources: NDArray[np.int32], orbit: NDArray[np.int64] | None, *, turned: bool
) -> Iterator[tuple[int, Floats]]:
    """Distances from all sources (to them, if `turned`), or from one of each orbit, or from a few that lie far out."""
    links = (network.dst, network.src) if turned else (network.src, network.dst)
    if orbit is not None:
        sources = sources[np.unique(orbit[sources], return_index=True)[1]]
    if len(sources) * (network.num_nodes + network.num_links) <= MAX_WORK:
        table = _core.shortest_distances(network.num_nodes, *links, cost_s, sources)
        yield from zip(sources.tolist(), table, strict=True)
        return
    source = int(sources[0])
    for _ in range(SAMPLED_SOURCES):
        row = _core.shortest_distances(network.num_nodes, *links, cost_s, np.array([source], np.int32))[0]
        yield source, row
        source = int(sources[row[sources].argmax()])
