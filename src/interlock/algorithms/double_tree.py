"""Double binary tree: two complementary trees carry half of the bytes each, up and then down, in blocks.

The first tree hangs ranks by their lowest set bit, so that odd places are leaves; the second is the first one mirrored
(an even number of ranks) or shifted by one, so that a leaf of one is inside the other.

On a cluster the trees join servers, and there is a pair of them for every NIC, as collective libraries make them (see
`interlock.algorithms.channels`): inside a server the ranks hang in a chain below the one whose NIC the channel uses.
"""

from __future__ import annotations

from itertools import pairwise

from interlock.algorithms.channels import Channel, blocks_of_trees, gate_channels, schedule_channels
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import group_members
from interlock.algorithms.trees import Tree, along_trees, moves_along, unroutable_trees
from interlock.collectives import CollectiveKind
from interlock.errors import check_whole
from interlock.problem import Problem
from interlock.schedule import Schedule, empty_schedule

__all__ = ["ALGORITHM", "double_tree", "pair_of_trees"]


def double_tree(problem: Problem, *, seed: int = 0, blocks: int | None = None) -> Schedule:
    """Both trees at once. `blocks` of each tree's share; None chooses by the alpha-beta model."""
    given = None if blocks is None else check_whole(blocks, "blocks", 1)
    channels = _channels(problem)
    if not channels:
        return along_trees(problem, _trees(problem), given)
    return _in_channels(problem, channels, given)


def _channels(problem: Problem) -> list[Channel]:
    """None on graphs, nor in a single server."""
    channels = [] if problem.cluster is None else gate_channels(problem)
    return channels if channels and len(channels[0]) > 1 else []


def _in_channels(problem: Problem, channels: list[Channel], blocks: int | None) -> Schedule:
    """A pair of trees over servers for every channel."""
    if len(problem.items) == 0:
        return empty_schedule()
    trees = [
        Tree.from_parents(
            {walk[0]: channel[pair[server]][0] for server, walk in enumerate(channel) if server in pair}
            | {below: above for walk in channel for above, below in pairwise(walk)}
        )
        for channel in channels
        for pair in pair_of_trees(len(channel))
    ]
    if blocks is None:
        hops, messages = 2 * max(tree.height for tree in trees), 2 * len(trees) * len(trees[0].child)
        blocks = blocks_of_trees(problem, channels, hops, len(trees), messages)
    parts, moves, tree = moves_along(problem, trees, blocks)
    return schedule_channels(problem, parts, moves, tree[moves.part], orders_nics=False)


def pair_of_trees(count: int) -> tuple[dict[int, int], dict[int, int]]:
    """Parents of all places but the root's in two complementary trees."""
    first = {place: _parent(place, count) for place in range(1, count)}
    if count % 2 == 0:
        return first, {count - 1 - child: count - 1 - parent for child, parent in first.items()}
    return first, {(child + 1) % count: (parent + 1) % count for child, parent in first.items()}


def _trees(problem: Problem) -> list[Tree]:
    members = group_members(problem).tolist()
    pair = pair_of_trees(len(members))
    return [Tree.from_parents({members[child]: members[parent] for child, parent in tree.items()}) for tree in pair]


def _parent(place: int, count: int) -> int:
    """Clear the lowest set bit and set the next higher one, if there is such a place; else just clear it."""
    bit = place & -place
    up = (place ^ bit) | (bit << 1)
    return up if up < count else place ^ bit


def refuses(problem: Problem) -> str | None:
    """None wherever all edges of both trees can be used without a relay."""
    if _channels(problem) or len(group_members(problem)) == 1:
        return None
    return unroutable_trees(problem, _trees(problem))


ALGORITHM = Algorithm(
    "double-tree",
    "two binary trees, half of the bytes each; on clusters a pair per NIC (NCCL)",
    refuses,
    double_tree,
    collectives=(CollectiveKind.ALL_REDUCE,),
)
