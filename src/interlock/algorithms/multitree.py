"""MultiTree: one spanning tree per rank, all grown together, every link given to at most one tree per round.

Round by round each tree in turn may add a rank over a free link from one it had before the round. All-Gather copies
every rank's share down its tree; Reduce-Scatter runs trees grown on the reversed links backwards; All-Reduce does one
after the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.neighbours import adjacency, reached_from_first
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import Ids, Moves, group_members, owned_parts, schedule_moves
from interlock.collectives import CollectiveKind
from interlock.problem import Problem
from interlock.schedule import Schedule, empty_schedule
from interlock.topology import Topology

__all__ = ["ALGORITHM", "multitree"]

KINDS = (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE)
MAX_RANKS = 512

Edges = list[tuple[int, int, int, int]]  # root, from, to (places in the group), round


def multitree(problem: Problem, *, seed: int = 0) -> Schedule:
    """Shares along the trees, one round per level."""
    assert problem.collective is not None
    members = group_members(problem)
    if len(members) == 1 or len(problem.items) == 0:
        return empty_schedule()
    parts, owner = owned_parts(problem)
    moves = []
    if problem.collective.reduces:
        edges = np.array(_grow(problem.topology, members, backwards=True))
        last = edges[:, 3].max()
        moves.append(_along(owner, members, edges[:, 0], edges[:, 2], edges[:, 1], last - edges[:, 3], reduces=True))
    if problem.collective.spreads:
        edges = np.array(_grow(problem.topology, members, backwards=False))
        made = _along(owner, members, edges[:, 0], edges[:, 1], edges[:, 2], edges[:, 3], reduces=False)
        moves.append(made.later(moves[0].num_rounds if moves else 0))
    return schedule_moves(problem, parts, Moves.join(moves))


def _along(
    owner: Ids, members: NDArray[np.int32], root: Ids, src: Ids, dst: Ids, round_: Ids, *, reduces: bool
) -> Moves:
    """Every part along all edges of its owner's tree."""
    by_root = np.argsort(root, kind="stable").reshape(len(members), len(members) - 1)
    edge = by_root[owner]  # [num_parts, num_members - 1]
    ranks = members.astype(np.int64)
    return Moves.of(np.arange(len(owner))[:, None], ranks[src[edge]], ranks[dst[edge]], round_[edge], reduces=reduces)


def _grow(topology: Topology, members: NDArray[np.int32], *, backwards: bool) -> Edges:
    """Edges of all trees, in the order they are added."""
    count = len(members)
    table = adjacency(topology)[np.ix_(members, members)]
    out, into = np.nonzero(table)
    routes = topology.routes(members[out], members[into])
    ways: list[list[tuple[int, list[int]]]] = [[] for _ in range(count)]  # by the place a tree grows from
    for pair, (a, b) in enumerate(zip(out.tolist(), into.tolist(), strict=True)):
        near, far = (b, a) if backwards else (a, b)
        ways[near].append((far, topology.channel[routes[pair]].tolist()))
    joined = [[root] for root in range(count)]  # by tree, in order of joining
    has = np.eye(count, dtype=np.bool_).tolist()
    edges: Edges = []
    round_ = 0
    while len(edges) < count * (count - 1):
        busy: set[int] = set()
        old = [len(nodes) for nodes in joined]
        progress = True
        while progress:  # each tree in turn adds one rank, until no free link helps any
            progress = False
            for root in range(count):
                found = _free_way(joined[root][: old[root]], has[root], ways, busy)
                if found is None:
                    continue
                near, far, channels = found
                busy.update(channels)
                has[root][far] = True
                joined[root].append(far)
                edges.append((root, near, far, round_))
                progress = True
        round_ += 1
    return edges


def _free_way(
    nodes: list[int], has: list[bool], ways: list[list[tuple[int, list[int]]]], busy: set[int]
) -> tuple[int, int, list[int]] | None:
    """The first free link, from the ranks nearest the root on, to a rank that the tree lacks."""
    if len(nodes) == len(has):
        return None
    for near in nodes:
        for far, channels in ways[near]:
            if not has[far] and busy.isdisjoint(channels):
                return near, far, channels
    return None


def refuses(problem: Problem) -> str | None:
    """None for any group that its links connect; at most 512 ranks."""
    members = group_members(problem)
    if len(members) > MAX_RANKS:
        return f"it grows trees for at most {MAX_RANKS} ranks, not {len(members)}"
    table = adjacency(problem.topology)[np.ix_(members, members)]
    if all(reached_from_first(way).all() for way in (table, table.T)):
        return None
    return "its ranks do not all reach each other without a relay outside the group"


ALGORITHM = Algorithm("multitree", "one tree per rank, grown together", refuses, multitree, collectives=KINDS)
