"""Multicast and sums inside a switch that all ranks concerned hang on, chunk after chunk.

Towards a root, every other rank sends up at once and the switch sends the sum down to the root; away from it, the root
sends up once and the switch sends copies down to all. The two use different links, so while one chunk is copied the
next is summed: an All-Reduce takes little more than its bytes over one port, where links alone need nearly twice that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.answers import Answer, InSwitchAnswer
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.goal import LEAST_CHUNK_BYTES, Direction, TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.ragged import Ragged
from interlock.schedule import Routes
from interlock.topology import Topology
from interlock.topology.lowering import DEAD_BANDWIDTH

__all__ = ["has_one_root", "in_switch"]

MOST_CHUNKS = 1024  # all but the last thousandth of the sums is copied while others are summed


def has_one_root(goal: TreeGoal, graph: Graph) -> bool:
    """Whether some switch can copy or add what is needed, and everything has, or may have, one root."""
    members = goal.ends.shared
    if members is None or len(members) < 3 or not len(_able(graph.topology, goal.direction)):
        return False
    return goal.direction is Direction.IN_AND_OUT or bool((goal.root == goal.root[0]).all())


def in_switch(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """On the first able switch that all ranks concerned hang on, if there is one."""
    members = goal.ends.shared
    assert members is not None
    root = int(members.min()) if goal.direction is Direction.IN_AND_OUT else int(goal.root[0])
    ranks = np.union1d(members, [root])
    for switch in _able(graph.topology, goal.direction).tolist():
        up, down = _ports(graph.topology, ranks, switch)
        if up is not None and down is not None:
            yield _answer(goal, graph.topology, ranks, root, up, down)
            return


def _able(topology: Topology, direction: Direction) -> NDArray[np.int64]:
    able = np.ones(topology.num_nodes, np.bool_)
    if direction is not Direction.OUT:
        able &= topology.reduces
    if direction is not Direction.IN:
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
    goal: TreeGoal,
    topology: Topology,
    ranks: NDArray[np.int32],
    root: int,
    up: NDArray[np.int32],
    down: NDArray[np.int32],
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
    parts = goal.parts
    if parts is None:
        # More chunks overlap better, each with its overhead.
        wanted = math.sqrt(total_bytes / rate / (overhead_s + latency_s)) if overhead_s + latency_s > 0 else MOST_CHUNKS
        most = min(MOST_CHUNKS, max(1, total_bytes // LEAST_CHUNK_BYTES))
        count = min(most, max(1, round(wanted))) if goal.direction is Direction.IN_AND_OUT else 1
        parts = max(1, count // len(goal.size_bytes))
    chunks = cut(goal.size_bytes, parts)
    routes = Routes(
        src=Ragged.from_lists([others.tolist(), [root]]),
        dst=Ragged.from_lists([[root], others.tolist()]),
        path=Ragged.from_lists([towards.tolist(), away.tolist()]),
    )
    slot_s = overhead_s + int(chunks.length.max()) / rate
    return InSwitchAnswer(chunks, goal.direction, routes, slot_s, latency_s)
