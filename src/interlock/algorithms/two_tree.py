"""Two trees along physical links, reduction and broadcast chained block by block (the idea of C-Cube).

Both trees grow from a central root over neighbours joined both ways, two children each where possible; the second
avoids the first one's links, and its inner ranks, wherever it can.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.neighbours import MAX_NODES, adjacency, reached_from_first
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import group_members
from interlock.algorithms.trees import Tree, along_trees
from interlock.collectives import CollectiveKind
from interlock.errors import check_whole
from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.topology import Topology

__all__ = ["ALGORITHM", "two_tree"]

KINDS = (CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE)
REFERENCE_BYTES = 2**20  # the size whose time makes one link better than another
BRANCHES = 2


def two_tree(problem: Problem, *, seed: int = 0, blocks: int | None = None) -> Schedule:
    """Half of the bytes along each tree. `blocks` of each half; None chooses by the alpha-beta model."""
    return along_trees(problem, _trees(problem), None if blocks is None else check_whole(blocks, "blocks", 1))


def _trees(problem: Problem) -> list[Tree]:
    members, topology = group_members(problem), problem.topology
    table = _both_ways(topology, members)
    src, dst = np.nonzero(table)
    routes = topology.routes(members[src], members[dst])
    link_s = REFERENCE_BYTES / topology.bandwidth_bytes_per_s + topology.latency_s + topology.message_overhead_s
    cost = np.full(table.shape, np.inf)
    cost[src, dst] = np.add.reduceat(link_s[routes.values], routes.offsets[:-1]) if len(src) else 0.0
    root = _root(problem, table, members)
    first = _grow(cost, np.zeros(table.shape, np.bool_), root, set())
    used = np.zeros(topology.num_links, np.bool_)
    row = {pair: number for number, pair in enumerate(zip(src.tolist(), dst.tolist(), strict=True))}
    for child, parent in first.items():
        used[routes[row[child, parent]]] = used[routes[row[parent, child]]] = True
    shared = np.zeros(table.shape, np.bool_)
    shared[src, dst] = np.add.reduceat(used[routes.values], routes.offsets[:-1]) > 0 if len(src) else False
    second = _grow(cost, shared, root, set(first.values()) - {root})
    return [
        Tree.from_parents({int(members[child]): int(members[parent]) for child, parent in tree.items()})
        for tree in (first, second)
    ]


def _both_ways(topology: Topology, members: NDArray[np.int32]) -> NDArray[np.bool_]:
    table = adjacency(topology)[np.ix_(members, members)]
    joined: NDArray[np.bool_] = table & table.T
    return joined


def _root(problem: Problem, table: NDArray[np.bool_], members: NDArray[np.int32]) -> int:
    """The collective's root, or the place from which the others are nearest."""
    assert problem.collective is not None
    if problem.collective.is_rooted:
        return int(np.flatnonzero(members == problem.collective.root)[0])
    reached = np.eye(len(members), dtype=np.bool_)
    for _ in range(len(members)):
        if reached.all(axis=1).any():
            break
        reached = reached | ((reached.astype(np.float32) @ table.astype(np.float32)) > 0)
    return int(reached.sum(axis=1).argmax())


def _grow(cost: NDArray[np.float64], shared: NDArray[np.bool_], root: int, tired: set[int]) -> dict[int, int]:
    """Parents of a tree with two children each where possible: free links first, then near the root, then not under
    a `tired` rank, then the faster link."""
    parent_by_child: dict[int, int] = {}
    depth, num_children, limit = {root: 0}, {root: 0}, BRANCHES
    while len(depth) < len(cost):
        best: tuple[tuple[bool, int, bool, float, int, int], int, int] | None = None
        for parent in depth:
            if num_children[parent] >= limit:
                continue
            for child in np.flatnonzero(np.isfinite(cost[parent])).tolist():
                if child in depth:
                    continue
                speed = float(cost[parent, child])
                key = (bool(shared[parent, child]), depth[parent], parent in tired, speed, parent, child)
                if best is None or key < best[0]:
                    best = key, parent, child
        if best is None:
            if limit > len(cost):
                return parent_by_child  # not connected
            limit += 1
            continue
        _, parent, child = best
        parent_by_child[child] = parent
        depth[child], num_children[child] = depth[parent] + 1, 0
        num_children[parent] += 1
    return parent_by_child


def refuses(problem: Problem) -> str | None:
    """None wherever links that go both ways connect the group."""
    if problem.topology.num_nodes > MAX_NODES:
        return f"it grows trees in graphs of at most {MAX_NODES} nodes"
    members = group_members(problem)
    if not reached_from_first(_both_ways(problem.topology, members)).all():
        return "links that go both ways do not connect its ranks without a relay"
    return None


ALGORITHM = Algorithm(
    "two-tree", "two trees along links, reduce and spread chained (C-Cube)", refuses, two_tree, collectives=KINDS
)
