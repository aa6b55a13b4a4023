"""Multicast and sums inside a switch that all ranks concerned hang on, chunk after chunk.

Towards a root, every other rank sends up at once and the switch sends the sum down to the root; away from it, the root
sends up once and the switch sends copies down to all. The two use different links, so while one chunk is copied the
next is summed: an All-Reduce takes little more than its bytes over one port, where links alone need nearly twice that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.goal import Flow, Goal, cut
from interlock.ragged import Ragged
from interlock.schedule import Chunks, CompactSchedule, Kind, Routes, TransferSchedule
from interlock.topology import Topology
from interlock.topology.lowering import DEAD_BANDWIDTH

__all__ = ["InSwitchAnswer", "in_switch"]

MOST_CHUNKS = 1024
LEAST_CHUNK_BYTES = 64


@dataclass(frozen=True, slots=True, eq=False)
class InSwitchAnswer:
    """Slots of one chunk each; a sum in slot k is copied in slot k + 1."""

    chunks: Chunks
    flow: Flow
    routes: Routes  # towards the root, away from it
    slot_s: float
    latency_s: float

    @property
    def makespan_s(self) -> float:
        """Slots, one after the other."""
        return (len(self.chunks) + (self.flow is Flow.BOTH)) * (self.slot_s + self.latency_s)

    def compact(self, *, staged: bool) -> CompactSchedule:
        """As a schedule: in each slot the copy of one chunk beside the sum of the next."""
        count = len(self.chunks)
        number = np.arange(count, dtype=np.int32)
        sums, copies = self.flow is not Flow.SPREAD, self.flow is not Flow.COLLECT
        slot = np.concatenate([number] * sums + [number + sums] * copies)
        route = np.concatenate([np.zeros(count, np.int32)] * sums + [np.ones(count, np.int32)] * copies)
        chunk = np.concatenate([number] * (sums + copies))
        order = np.lexsort((route, slot))
        return TransferSchedule(
            chunks=self.chunks,
            routes=self.routes,
            route=route[order],
            chunk=chunk[order],
            message=np.arange(len(order), dtype=np.int32),
            kind=np.where(route[order] == 0, Kind.REDUCE, Kind.COPY).astype(np.uint8),
            stage=slot[order].astype(np.int32) if staged else np.zeros(len(order), np.int32),
            reason="in the switch, chunk after chunk",
        )


def in_switch(goal: Goal, topology: Topology, parts: int | None) -> InSwitchAnswer | None:
    """An answer where one switch is able and everything has one root; None elsewhere."""
    members = goal.ends.shared
    if members is None or len(members) < 3:
        return None
    root = int(members.min()) if goal.flow is Flow.BOTH else int(goal.root[0])
    if goal.flow is not Flow.BOTH and (goal.root != root).any():
        return None
    ranks = np.union1d(members, [root])
    for switch in _able(topology, goal.flow).tolist():
        up, down = _ports(topology, ranks, switch)
        if up is not None and down is not None:
            return _answer(goal, topology, ranks, root, up, down, parts)
    return None


def _able(topology: Topology, flow: Flow) -> NDArray[np.int64]:
    able = np.ones(topology.num_nodes, np.bool_)
    if flow is not Flow.SPREAD:
        able &= topology.reduces
    if flow is not Flow.COLLECT:
        able &= topology.multicasts
    return np.flatnonzero(able)


def _ports(
    topology: Topology, ranks: NDArray[np.int32], switch: int
) -> tuple[NDArray[np.int32] | None, NDArray[np.int32] | None]:
    """The links of each rank to and from a switch; None where one has none."""
    alive = topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH
    found: list[NDArray[np.int32] | None] = []
    for near, far in ((topology.link_src, topology.link_dst), (topology.link_dst, topology.link_src)):
        links = np.flatnonzero(alive & (far == switch) & np.isin(near, ranks))
        by_rank = np.full(topology.num_nodes, -1, np.int32)
        by_rank[near[links][::-1]] = links[::-1]
        ports = by_rank[ranks]
        found.append(None if (ports < 0).any() else ports)
    return found[0], found[1]


def _answer(
    goal: Goal,
    topology: Topology,
    ranks: NDArray[np.int32],
    root: int,
    up: NDArray[np.int32],
    down: NDArray[np.int32],
    parts: int | None,
) -> InSwitchAnswer:
    others = ranks[ranks != root]
    is_root = ranks == root
    towards = np.concatenate([up[~is_root], down[is_root]])
    away = np.concatenate([up[is_root], down[~is_root]])
    used = np.concatenate([towards, away])
    rate = float(topology.bandwidth_bytes_per_s[used].min())
    overhead_s = float(topology.message_overhead_s[used].max())
    latency_s = float(topology.latency_s[up].max() + topology.latency_s[down].max())
    total_bytes = int(goal.size_bytes.sum())
    if parts is None:
        # More chunks overlap better, each with its overhead.
        wanted = math.sqrt(total_bytes / rate / (overhead_s + latency_s)) if overhead_s + latency_s > 0 else MOST_CHUNKS
        most = min(MOST_CHUNKS, max(1, total_bytes // LEAST_CHUNK_BYTES))
        count = min(most, max(1, round(wanted))) if goal.flow is Flow.BOTH else 1
        parts = max(1, count // len(goal.size_bytes))
    chunks = cut(goal.size_bytes, parts)
    routes = Routes(
        src=Ragged.from_lists([others.tolist(), [root]]),
        dst=Ragged.from_lists([[root], others.tolist()]),
        path=Ragged.from_lists([towards.tolist(), away.tolist()]),
    )
    slot_s = overhead_s + int(chunks.length.max()) / rate
    return InSwitchAnswer(chunks, goal.flow, routes, slot_s, latency_s)
