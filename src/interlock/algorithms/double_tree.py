"""Double binary tree: two complementary trees carry half of the bytes each, up and then down, in blocks.

The first tree hangs ranks by their lowest set bit, so that odd places are leaves; the second is the first one mirrored
(an even number of ranks) or shifted by one, so that a leaf of one is inside the other.
"""

from __future__ import annotations

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import group_members, refuses_kinds, whole_number
from interlock.algorithms.trees import Tree, along_trees, unroutable_trees
from interlock.collectives import CollectiveKind
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["ALGORITHM", "double_tree"]


def double_tree(problem: Problem, *, seed: int = 0, blocks: int | None = None) -> Schedule:
    """Both trees at once. `blocks` of each tree's half; None chooses by the alpha-beta model."""
    return along_trees(problem, _trees(problem), None if blocks is None else whole_number(blocks, "blocks"))


def _trees(problem: Problem) -> list[Tree]:
    members = group_members(problem).tolist()
    count = len(members)
    first = {place: _parent(place, count) for place in range(1, count)}
    if count % 2 == 0:
        second = {count - 1 - child: count - 1 - parent for child, parent in first.items()}
    else:
        second = {(child + 1) % count: (parent + 1) % count for child, parent in first.items()}
    ranked = [{members[child]: members[parent] for child, parent in tree.items()} for tree in (first, second)]
    return [Tree.from_parents(tree) for tree in ranked]


def _parent(place: int, count: int) -> int:
    """Clear the lowest set bit and set the next higher one, if there is such a place; else just clear it."""
    bit = place & -place
    up = (place ^ bit) | (bit << 1)
    return up if up < count else place ^ bit


def supports(problem: Problem) -> str | None:
    """Wherever all edges of both trees can be used without a relay."""
    reason = refuses_kinds(problem, (CollectiveKind.ALL_REDUCE,))
    if reason is None and len(group_members(problem)) > 1:
        reason = unroutable_trees(problem, _trees(problem))
    return reason


ALGORITHM = Algorithm("double-tree", "two binary trees, half of the bytes each (NCCL)", supports, double_tree)
