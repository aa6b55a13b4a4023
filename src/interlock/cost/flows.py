"""Bounds by the narrowest cut, found by maximum flow.

The bound of a cut X is (bytes that must leave X) / (rate of the links out of X). Starting from a known bound T, give
every link the room T * rate and every root its bytes: if all bytes cannot reach some destination, the cut that stops
them has a larger bound; repeat from there. It ends at the best cut of all, usually within a few rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.cost.network import Network
from interlock.cost.streams import Stream

__all__ = ["stream_bounds"]

SCALE = 2**44  # whole numbers for the flow kernel; the bound itself is taken from the cut in floating point
MAX_ROUNDS = 30
FEW_SINKS = 8
MAX_WORK_ALL_SINKS = 10_000_000  # nodes * links: some 30 ms
MAX_WORK_PER_SINK = 1_000_000  # sinks * links

Sides = NDArray[np.bool_]  # [num_nodes], whether a node is on the sending side of a cut
KernelCut = tuple[int, NDArray[np.uint8]]


def stream_bounds(
    network: Network, stream: Stream, known_s: float, orbit: NDArray[np.int64] | None
) -> Iterator[tuple[float, str]]:
    """Bounds of one stream that beat `known_s`. `orbit` numbers alike the ranks that a symmetry maps to each other."""
    if stream.root_bytes is not None and stream.destinations is not None:
        search = _RootedSearch.of(network, stream.root_bytes)
        yield from search.run(stream.destinations, orbit, known_s, "into")
    elif stream.root_bytes is not None and stream.contributors is not None:
        search = _RootedSearch.of(network.reversed(), stream.root_bytes)
        yield from search.run(stream.contributors, orbit, known_s, "out of")
    elif stream.contributors is not None and stream.is_all_reduce:
        yield from _separating_cuts(network, stream.total_bytes, stream.contributors, known_s)


@dataclass(frozen=True, slots=True, eq=False)
class _RootedSearch:
    """Bytes at roots, fed by a hub, that must reach every end along the links."""

    network: Network
    root_bytes: NDArray[np.float64]
    src: NDArray[np.int32]  # links of the network, then hub to roots
    dst: NDArray[np.int32]
    supply: NDArray[np.int64]  # of the hub's links

    @classmethod
    def of(cls, network: Network, root_bytes: NDArray[np.float64]) -> _RootedSearch:
        roots = np.flatnonzero(root_bytes).astype(np.int32)
        hub = np.full(len(roots), network.num_nodes, np.int32)
        supply = np.floor(root_bytes[roots] * (SCALE / root_bytes.sum())).astype(np.int64)
        return cls(
            network, root_bytes, np.concatenate([network.src, hub]), np.concatenate([network.dst, roots]), supply
        )

    def run(
        self, ends: NDArray[np.int32], orbit: NDArray[np.int64] | None, known_s: float, verb: str
    ) -> Iterator[tuple[float, str]]:
        hub, num_arcs = self.network.num_nodes, len(self.src)
        sinks = self._representatives(ends, orbit)
        finders: list[Callable[[NDArray[np.int64]], KernelCut]] = []
        if len(ends) == hub and len(sinks) > FEW_SINKS and hub * num_arcs <= MAX_WORK_ALL_SINKS:
            finders.append(lambda room: _core.narrowest_cut_from(hub + 1, self.src, self.dst, room, hub))
        elif len(sinks) * num_arcs <= MAX_WORK_PER_SINK:
            finders.extend(self._towards(sink) for sink in sinks.tolist())
        for find in finders:
            better = self._improve(find, known_s)
            if better is not None:
                known_s, sides = better
                yield known_s, f"cut {verb} {_name_of_ranks(~sides[: self.network.num_ranks])}"

    def _representatives(self, ranks: NDArray[np.int32], orbit: NDArray[np.int64] | None) -> NDArray[np.int32]:
        """One rank of each orbit, where the symmetry also maps the bytes onto themselves (but for rounding)."""
        if orbit is None:
            return ranks
        most, least = np.zeros(len(orbit)), np.full(len(orbit), np.inf)
        np.maximum.at(most, orbit, self.root_bytes)
        np.minimum.at(least, orbit, self.root_bytes)
        if (most[orbit] > least[orbit] * (1 + 1e-6) + 1).any():
            return ranks
        return ranks[np.unique(orbit[ranks], return_index=True)[1]]

    def _towards(self, sink: int) -> Callable[[NDArray[np.int64]], KernelCut]:
        hub = self.network.num_nodes
        return lambda room: _core.narrowest_cut_between(hub + 1, self.src, self.dst, room, hub, sink)

    def _improve(self, find: Callable[[NDArray[np.int64]], KernelCut], known_s: float) -> tuple[float, Sides] | None:
        best: tuple[float, Sides] | None = None
        rate, total = self.network.bandwidth_bytes_per_s, float(self.root_bytes.sum())
        for _ in range(MAX_ROUNDS):
            room = np.minimum(rate * (known_s / total), 1.0) * SCALE
            _, side = find(np.concatenate([room.astype(np.int64), self.supply]))
            inside = side[:-1] == 1
            crossing_rate = float(rate[inside[self.network.src] & ~inside[self.network.dst]].sum())
            needed = float(self.root_bytes[inside[: len(self.root_bytes)]].sum())
            seconds = needed / crossing_rate if crossing_rate > 0 else (np.inf if needed > 0 else 0.0)
            if seconds <= known_s * (1 + 1e-9):
                break
            known_s, best = seconds, (seconds, inside)
            if seconds == np.inf:
                break
        return best


def _separating_cuts(
    network: Network, total_bytes: float, members: NDArray[np.int32], known_s: float
) -> Iterator[tuple[float, str]]:
    """All bytes of a sum cross every cut that has members on both sides, both ways."""
    rate = network.bandwidth_bytes_per_s
    room = np.floor(rate * (SCALE / rate.sum())).astype(np.int64)
    first, others = int(members[0]), members[1:].tolist()
    for src, dst, verb in ((network.src, network.dst, "into"), (network.dst, network.src, "out of")):
        cuts: list[KernelCut] = []
        if len(members) == network.num_nodes and network.num_nodes * network.num_links <= MAX_WORK_ALL_SINKS:
            cuts.append(_core.narrowest_cut_from(network.num_nodes, src, dst, room, first))
        elif len(others) * network.num_links <= MAX_WORK_PER_SINK:
            cuts.extend(_core.narrowest_cut_between(network.num_nodes, src, dst, room, first, end) for end in others)
        for _, side in cuts:
            inside = side == 1
            crossing_rate = float(rate[inside[src] & ~inside[dst]].sum())
            seconds = total_bytes / crossing_rate if crossing_rate > 0 else np.inf
            if seconds > known_s:
                known_s = seconds
                yield seconds, f"cut {verb} {_name_of_ranks(~inside[: network.num_ranks])}"


def _name_of_ranks(chosen: Sides) -> str:
    ranks = np.flatnonzero(chosen)
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= 8:
        return f"ranks {', '.join(map(str, ranks.tolist()))}"
    return f"{len(ranks)} ranks ({ranks[0]}, {ranks[1]}, {ranks[2]}, ...)"
