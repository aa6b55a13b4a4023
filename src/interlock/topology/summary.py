"""A topology in figures: what it is made of, how far apart its ranks are, and where it is narrow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.topology.cuts import MAX_CUT_RANKS, GraphCut, narrowest_cut, tightest_cut
from interlock.topology.graph import NodeKind, Topology
from interlock.topology.routing import DEAD_BANDWIDTH

__all__ = ["LinkClass", "TopologySummary", "describe"]

MAX_VISITS = 5_000_000  # links looked at to find the longest way


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
