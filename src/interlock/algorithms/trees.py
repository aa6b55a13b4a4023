"""All-Reduce, Broadcast and Reduce along rooted trees, blocks one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interlock.algorithms.rounds import Ids, Moves, cut_evenly, schedule_moves, unroutable
from interlock.cost.predict import best_blocks, narrowest_link
from interlock.problem import Problem
from interlock.schedule import Chunks, Schedule, empty_schedule

__all__ = ["Tree", "along_trees", "moves_along", "unroutable_trees"]


Port = tuple[str, int]  # "out" or "in", and a rank


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Who is whose parent, over ranks; the root is not listed among the children."""

    child: Ids
    parent: Ids
    depth: Ids  # of each child; the root's children have 1

    @classmethod
    def from_parents(cls, parent_by_child: dict[int, int]) -> Tree:
        """Depths follow from the parents."""

        def depth(node: int) -> int:
            steps = 0
            while node in parent_by_child:
                node, steps = parent_by_child[node], steps + 1
            return steps

        children = sorted(parent_by_child)
        return cls(
            np.array(children, np.int64),
            np.array([parent_by_child[child] for child in children], np.int64),
            np.array([depth(child) for child in children], np.int64),
        )

    @property
    def height(self) -> int:
        """Edges from the root to its farthest descendant."""
        return int(self.depth.max(initial=0))


def along_trees(problem: Problem, trees: Sequence[Tree], blocks: int | None) -> Schedule:
    """The bytes shared equally by the trees, each share in blocks: up the tree, down it, or up and down."""
    assert problem.collective is not None
    if len(problem.items) == 0 or not len(trees[0].child):
        return empty_schedule()
    if blocks is None:
        passes = problem.collective.reduces + problem.collective.spreads
        blocks = min(_chosen_blocks(problem, tree, len(trees), passes) for tree in trees)
    parts, moves, _ = moves_along(problem, trees, blocks)
    return schedule_moves(problem, parts, moves, _turns(moves))


def moves_along(problem: Problem, trees: Sequence[Tree], blocks: int) -> tuple[Chunks, Moves, Ids]:
    """Parts, how they move block after block, and the tree of each part."""
    assert problem.collective is not None
    goes_up, goes_down = problem.collective.reduces, problem.collective.spreads
    parts, block = cut_evenly(problem, blocks * len(trees))
    moves = []
    for number, tree in enumerate(trees):
        mine = np.flatnonzero(block // blocks == number)
        turn = (block[mine] % blocks)[:, None]
        if goes_up:
            rounds = turn + (tree.height - tree.depth)
            moves.append(Moves.of(mine[:, None], tree.child, tree.parent, rounds, reduces=True))
        if goes_down:
            rounds = turn + (tree.depth - 1) + (tree.height if goes_up else 0)
            moves.append(Moves.of(mine[:, None], tree.parent, tree.child, rounds, reduces=False))
    return parts, Moves.join(moves), block // blocks


def _turns(moves: Moves) -> Ids:
    """Turns within a round such that no rank sends, and none receives, along two tree edges in one turn.

    Where a rank has one port for all its peers, messages of a round would otherwise wait for each other in circles.
    There are no more turns than the busiest port has edges (edge colouring of a bipartite graph).
    """
    edges, edge_of_move = np.unique(np.stack([moves.src, moves.dst, moves.reduces]), axis=1, return_inverse=True)
    ends = [(("out", src), ("in", dst)) for src, dst, _ in edges.T.tolist()]
    edge_at: dict[Port, dict[int, int]] = {port: {} for pair in ends for port in pair}  # by turn
    turns: list[int] = []
    for edge, (sender, receiver) in enumerate(ends):
        turn, other = _first_free(edge_at[sender]), _first_free(edge_at[receiver])
        _swap_turns(turns, ends, edge_at, receiver, turn, other)
        turns.append(turn)
        edge_at[sender][turn] = edge_at[receiver][turn] = edge
    of_move: Ids = np.array(turns)[edge_of_move.ravel()]
    return of_move


def _first_free(taken: dict[int, int]) -> int:
    return next(turn for turn in range(len(taken) + 1) if turn not in taken)


def _swap_turns(
    turns: list[int],
    ends: list[tuple[Port, Port]],
    edge_at: dict[Port, dict[int, int]],
    port: Port,
    turn: int,
    other: int,
) -> None:
    """Free `turn` at a port where `other` is free, along the path of edges that take the two turns alternately."""
    path = []
    while turn != other and turn in edge_at[port]:
        path.append(edge_at[port][turn])
        near, far = ends[path[-1]]
        port = far if port == near else near
        turn, other = other, turn
    for edge in path:
        for port in ends[edge]:
            del edge_at[port][turns[edge]]
    for edge in path:
        turns[edge] = turn + other - turns[edge]
        for port in ends[edge]:
            edge_at[port][turns[edge]] = edge


def unroutable_trees(problem: Problem, trees: Sequence[Tree]) -> str | None:
    """A reason where an edge of a tree cannot be used both ways."""
    child = np.concatenate([tree.child for tree in trees])
    parent = np.concatenate([tree.parent for tree in trees])
    return unroutable(problem, np.concatenate([child, parent]), np.concatenate([parent, child]))


def _chosen_blocks(problem: Problem, tree: Tree, num_trees: int, passes: int) -> int:
    link = narrowest_link(problem.topology, tree.child, tree.parent)
    return best_blocks(passes * tree.height, int(problem.items.size_bytes.sum()) // num_trees, link)
