"""A topology in figures: what it is made of, how far apart its ranks are, and where it is narrow.

Cuts here are for pictures and tables; proven bounds are in `interlock.cost`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.errors import LimitExceeded
from interlock.topology.graph import DEAD_BANDWIDTH, NodeKind, Topology

__all__ = ["GraphCut", "TopologySummary", "describe", "narrowest_cut", "tightest_cut"]

MAX_CUT_RANKS = 1024
MAX_SPECTRAL_NODES = 256
CUTS_PER_ORDER = 12
_UNITS = 2**30  # the fastest link, in the whole numbers of the flow kernel
MAX_VISITS = 5_000_000  # links looked at to find the longest way


@dataclass(frozen=True, slots=True, eq=False)
class GraphCut:
    """A set of nodes with ranks inside and outside, and the links that lead out of it."""

    is_inside: NDArray[np.bool_]  # [num_nodes]
    links: NDArray[np.int32]  # from inside to outside
    capacity_bytes_per_s: float
    ranks_inside: int
    ranks_outside: int

    @property
    def pairs_per_bandwidth(self) -> float:
        """Pairs of ranks an All-to-All sends across, over the capacity: how tight the cut is."""
        pairs = self.ranks_inside * self.ranks_outside
        return pairs / self.capacity_bytes_per_s if self.capacity_bytes_per_s > 0 else float("inf")


def narrowest_cut(topology: Topology) -> GraphCut | None:
    """The cut of least capacity between any two working ranks, by maximum flow; None where there are not two."""
    ranks = _working_ranks(topology)
    if len(ranks) < 2:
        return None
    src, dst, capacity = topology.link_src, topology.link_dst, _whole_capacities(topology)
    first, nodes = int(ranks[0]), topology.num_nodes
    if nodes == topology.num_ranks == len(ranks):  # one preflow serves all sinks; reversed links, all sources
        value, side = _core.narrowest_cut_from(nodes, src, dst, capacity, first)
        back_value, back_side = _core.narrowest_cut_from(nodes, dst, src, capacity, first)
        return _cut(topology, side == 1 if value <= back_value else back_side == 0, ranks)
    flows = (
        _core.narrowest_cut_between(nodes, src, dst, capacity, source, sink)
        for other in ranks[1:].tolist()
        for source, sink in ((first, other), (other, first))
    )
    _, side = min(flows, key=lambda flow: flow[0])
    return _cut(topology, side == 1, ranks)


def tightest_cut(topology: Topology) -> GraphCut | None:
    """The cut found to have the most pairs of ranks across it for its capacity: what slows an All-to-All most.

    Tries single ranks and prefixes of several orders of the ranks, switches placed by maximum flow; the best found, not
    proven to be the tightest of all.
    """
    ranks = _working_ranks(topology)
    if len(ranks) < 2:
        return None
    seen: set[bytes] = set()
    best: GraphCut | None = None
    for chosen in _candidates(topology, ranks):
        key = np.packbits(chosen).tobytes()
        if key in seen:
            continue
        seen.add(key)
        cut = _cut(topology, _with_switches(topology, chosen, ranks), ranks)
        if best is None or cut.pairs_per_bandwidth > best.pairs_per_bandwidth:
            best = cut
    return best


def _working_ranks(topology: Topology) -> NDArray[np.int64]:
    """Ranks with at least one link that works."""
    if topology.num_ranks > MAX_CUT_RANKS:
        raise LimitExceeded(f"{topology.num_ranks} ranks are above the limit of {MAX_CUT_RANKS} for finding cuts")
    works = topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH
    has_link = np.zeros(topology.num_nodes, np.bool_)
    has_link[topology.link_src[works]] = True
    has_link[topology.link_dst[works]] = True
    return np.flatnonzero(has_link[: topology.num_ranks])


def _whole_capacities(topology: Topology) -> NDArray[np.int64]:
    rate = topology.bandwidth_bytes_per_s
    scaled = np.rint(rate / rate.max() * _UNITS).astype(np.int64)
    return np.asarray(np.where(rate > DEAD_BANDWIDTH, np.maximum(scaled, 1), 0), np.int64)


def _cut(topology: Topology, is_inside: NDArray[np.bool_], ranks: NDArray[np.int64]) -> GraphCut:
    out = is_inside[topology.link_src] & ~is_inside[topology.link_dst]
    links = np.flatnonzero(out & (topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH)).astype(np.int32)
    inside = int(is_inside[ranks].sum())
    capacity = float(topology.bandwidth_bytes_per_s[links].sum())
    return GraphCut(is_inside, links, capacity, inside, len(ranks) - inside)


def _candidates(topology: Topology, ranks: NDArray[np.int64]) -> Iterator[NDArray[np.bool_]]:
    """Sets of ranks worth looking at, ``[num_ranks]`` each, and their complements."""
    for chosen in _prefixes(topology, ranks):
        yield chosen
        rest = np.zeros_like(chosen)
        rest[ranks] = ~chosen[ranks]
        yield rest


def _prefixes(topology: Topology, ranks: NDArray[np.int64]) -> Iterator[NDArray[np.bool_]]:
    out = np.bincount(topology.link_src, topology.bandwidth_bytes_per_s, topology.num_nodes)[ranks]
    into = np.bincount(topology.link_dst, topology.bandwidth_bytes_per_s, topology.num_nodes)[ranks]
    for weakest in (ranks[out.argmin()], ranks[into.argmin()]):
        yield np.arange(topology.num_ranks) == weakest
    divisors = [size for size in range(1, len(ranks)) if len(ranks) % size == 0]  # servers, rows, rails
    spread = np.linspace(1, len(ranks) - 1, min(CUTS_PER_ORDER, len(ranks) - 1)).astype(np.int64)
    for order in _orders(topology, ranks):
        for size in np.union1d(spread, [*divisors, len(ranks) // 2]):
            chosen = np.zeros(topology.num_ranks, np.bool_)
            chosen[order[:size]] = True
            yield chosen


def _orders(topology: Topology, ranks: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Ranks by number, by number modulo each divisor (columns of grids, rails), and by the graph's slowest modes."""
    yield ranks
    for width in range(2, min(topology.num_ranks, 65)):
        if topology.num_ranks % width == 0:
            yield ranks[np.lexsort((ranks, ranks % width))]
    if topology.num_nodes <= MAX_SPECTRAL_NODES:
        laplacian = np.zeros((topology.num_nodes, topology.num_nodes))
        np.add.at(laplacian, (topology.link_src, topology.link_dst), -topology.bandwidth_bytes_per_s)
        laplacian = laplacian + laplacian.T
        np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
        _, modes = np.linalg.eigh(laplacian / np.abs(laplacian).max())
        for mode in modes.T[1:4]:
            yield ranks[np.argsort(np.round(mode[ranks], 9), kind="stable")]


def _with_switches(topology: Topology, chosen: NDArray[np.bool_], ranks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The set of nodes with exactly these ranks inside whose links out are narrowest."""
    source, sink = topology.num_nodes, topology.num_nodes + 1
    inside, outside = ranks[chosen[ranks]], ranks[~chosen[ranks]]
    if topology.num_nodes == topology.num_ranks:
        return chosen
    capacity = _whole_capacities(topology)
    endless = np.full(len(ranks), int(capacity.sum()) + 1, np.int64)
    src = np.concatenate([topology.link_src, np.full(len(inside), source), outside]).astype(np.int32)
    dst = np.concatenate([topology.link_dst, inside, np.full(len(outside), sink)]).astype(np.int32)
    _, side = _core.narrowest_cut_between(
        topology.num_nodes + 2, src, dst, np.concatenate([capacity, endless]), source, sink
    )
    return side[: topology.num_nodes].astype(np.bool_)


@dataclass(frozen=True, slots=True)
class LinkClass:
    """Links of equal cost."""

    ends: str  # like "gpu -> switch"
    count: int
    bandwidth_bytes_per_s: float
    latency_s: float
    message_overhead_s: float


@dataclass(frozen=True, slots=True)
class TopologySummary:
    """What `interlock topology show` prints."""

    name: str
    num_ranks: int
    num_nics: int
    num_switches: int  # with links that work
    num_links: int
    dead_links: int
    classes: tuple[LinkClass, ...]  # fastest first
    least_out_bytes_per_s: float  # of a rank that has any link
    least_in_bytes_per_s: float
    hops: int | None  # links on the longest of the shortest ways between ranks, relays allowed; None: some are apart
    hops_are_proven: bool  # false on a large graph, where only some ranks were searched from
    narrowest: GraphCut | None  # None: not looked for, the graph is too large
    tightest: GraphCut | None


def describe(topology: Topology) -> TopologySummary:
    """Count and measure a topology."""
    works = topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH
    out = np.bincount(topology.link_src[works], topology.bandwidth_bytes_per_s[works], topology.num_nodes)
    into = np.bincount(topology.link_dst[works], topology.bandwidth_bytes_per_s[works], topology.num_nodes)
    here = (out + into)[: topology.num_ranks] > 0
    has_cuts = topology.num_ranks <= MAX_CUT_RANKS
    return TopologySummary(
        name=topology.name,
        num_ranks=topology.num_ranks,
        num_nics=int((topology.node_kinds == NodeKind.NIC).sum()),
        num_switches=int(((topology.node_kinds == NodeKind.SWITCH) & (out + into > 0)).sum()),
        num_links=topology.num_links,
        dead_links=int((~works).sum()),
        classes=_classes(topology, works),
        least_out_bytes_per_s=float(out[: topology.num_ranks][here].min(initial=np.inf)) if here.any() else 0.0,
        least_in_bytes_per_s=float(into[: topology.num_ranks][here].min(initial=np.inf)) if here.any() else 0.0,
        hops=_hops(topology, works, np.flatnonzero(here)),
        hops_are_proven=_num_searches(topology, int(here.sum())) == int(here.sum()),
        narrowest=narrowest_cut(topology) if has_cuts else None,
        tightest=tightest_cut(topology) if has_cuts else None,
    )


def _classes(topology: Topology, works: NDArray[np.bool_]) -> tuple[LinkClass, ...]:
    columns = np.empty((5, topology.num_links))
    columns[0] = -topology.bandwidth_bytes_per_s
    columns[1], columns[2] = topology.latency_s, topology.message_overhead_s
    columns[3], columns[4] = topology.node_kinds[topology.link_src], topology.node_kinds[topology.link_dst]
    if not works.any():
        return ()
    rows, counts = np.unique(columns[:, works], axis=1, return_counts=True)
    return tuple(
        LinkClass(
            f"{NodeKind(int(src)).name.lower()} -> {NodeKind(int(dst)).name.lower()}",
            int(count),
            -float(rate),
            float(latency_s),
            float(overhead_s),
        )
        for (rate, latency_s, overhead_s, src, dst), count in zip(rows.T, counts, strict=True)
    )


def _hops(topology: Topology, works: NDArray[np.bool_], ranks: NDArray[np.int64]) -> int | None:
    """Most links between two ranks; on a large graph, from as many of them as there is time for."""
    if len(ranks) < 2:
        return 0 if len(ranks) else None
    distances = _core.shortest_distances(
        topology.num_nodes,
        np.ascontiguousarray(topology.link_src[works]),
        np.ascontiguousarray(topology.link_dst[works]),
        np.ones(int(works.sum())),
        ranks[: _num_searches(topology, len(ranks))].astype(np.int32),
    )
    farthest = float(distances[:, ranks].max())
    return int(farthest) if np.isfinite(farthest) else None


def _num_searches(topology: Topology, num_ranks: int) -> int:
    return max(1, min(num_ranks, MAX_VISITS // max(1, topology.num_links)))
