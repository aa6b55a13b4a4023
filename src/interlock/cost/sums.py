"""Bounds of sums that all ranks need, where every node is a rank (docs/reference/bounds.md has the proofs).

Split into m parts, a sum crosses between them, whole, at least 2 (m - 1) times; and whatever lengths links are given,
each of its bytes fills at least the shortest tree towards some part and a shortest link into every other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.cost.network import Network

__all__ = ["sum_bounds"]

SCALE = 2**44  # whole numbers for the flow kernel; bounds are taken from what it finds in floating point
MAX_SPLITS = 30
MAX_WORK_SPLIT = 100_000  # nodes * links: some 10 ms
MAX_WORK_CROWDED = 60_000  # rounds * links: some 15 ms
LEAST_ROUNDS, MOST_ROUNDS = 30, 1000
ROUNDING = 1e-9

Parts = NDArray[np.int32]  # [num_nodes], the part that each node is in


def sum_bounds(network: Network, total_bytes: float, known_s: float) -> Iterator[tuple[float, str]]:
    """Bounds that beat `known_s`: by the best partition, then by crowded links between ranks and between parts."""
    is_small = network.num_nodes * network.num_links <= MAX_WORK_SPLIT
    coarsest: Parts | None = None
    for seconds, parts in _best_partitions(network, total_bytes, known_s) if is_small else ():
        known_s, coarsest = seconds, parts
        yield seconds, f"links between {int(parts.max()) + 1} parts of the graph"
    each_rank = np.arange(network.num_nodes, dtype=np.int32)
    coarse = np.zeros_like(each_rank) if coarsest is None else coarsest
    for parts in (each_rank, *(_between(network, coarse, each_rank) if is_small else ())):
        num_parts = int(parts.max()) + 1
        who = "ranks" if num_parts == network.num_nodes else f"{num_parts} parts of the graph"
        seconds = total_bytes * _crowded(network, parts, known_s / total_bytes) * (1 - ROUNDING)
        if seconds > known_s:
            known_s = seconds
            yield seconds, f"crowded links between {who}"


def _best_partitions(network: Network, total_bytes: float, known_s: float) -> Iterator[tuple[float, Parts]]:
    """Newton's method on the price of a part: better and better partitions."""
    rate = network.bandwidth_bytes_per_s
    for _ in range(MAX_SPLITS):
        parts = _cheapest(network, 2 * total_bytes / known_s if known_s > 0 else float(rate.sum()))
        crossing_rate, num_parts = _between_parts(network, parts)
        if num_parts < 2:
            return
        seconds = 2 * (num_parts - 1) * total_bytes / crossing_rate if crossing_rate > 0 else np.inf
        if seconds <= known_s * (1 + 1e-9):
            return
        known_s = seconds
        yield seconds, parts


def _between(network: Network, coarse: Parts, fine: Parts) -> list[Parts]:
    """Partitions that are best for some price of a part, the coarsest first: what ties nodes together falls apart."""
    found: list[Parts] = []
    pending = [(coarse, fine)]
    for _ in range(MAX_SPLITS):
        if not pending:
            break
        coarse, fine = pending.pop()
        (low, fewer), (high, more) = _between_parts(network, coarse), _between_parts(network, fine)
        if more - fewer < 2:
            continue
        price = (high - low) / (more - fewer)
        parts = _cheapest(network, price)
        crossing_rate, number = _between_parts(network, parts)
        if fewer < number < more and crossing_rate - price * number < (low - price * fewer) * (1 - ROUNDING):
            found.append(parts)
            pending += [(parts, fine), (coarse, parts)]
    return sorted(found, key=lambda parts: int(parts.max()))


def _cheapest(network: Network, price: float) -> Parts:
    rate = network.bandwidth_bytes_per_s
    unit = SCALE / rate.sum()
    room = np.floor(rate * unit).astype(np.int64)
    return np.asarray(_core.cheapest_partition(network.num_nodes, network.src, network.dst, room, int(price * unit)))


def _between_parts(network: Network, parts: Parts) -> tuple[float, int]:
    """Rate of the links between parts, and how many parts there are."""
    crosses = parts[network.src] != parts[network.dst]
    return float(network.bandwidth_bytes_per_s[crosses].sum()), int(parts.max()) + 1


def _crowded(network: Network, parts: Parts, known: float) -> float:
    """Seconds per byte, of what is known and of what links between parts prove, forwards and backwards in time."""
    src, dst = parts[network.src], parts[network.dst]
    crossing = np.flatnonzero(src != dst)
    rounds = min(MOST_ROUNDS, MAX_WORK_CROWDED // max(1, len(crossing)))
    if rounds < LEAST_ROUNDS:
        return known
    channels, channel = np.unique(network.channel[crossing], return_inverse=True)
    columns = network.bandwidth_bytes_per_s[crossing], channel.astype(np.int32), len(channels)
    for tail, head in ((src[crossing], dst[crossing]), (dst[crossing], src[crossing])):
        seconds, _ = _core.crowded_sum(int(parts.max()) + 1, tail, head, *columns, known, rounds)
        known = max(known, seconds)
    return known
