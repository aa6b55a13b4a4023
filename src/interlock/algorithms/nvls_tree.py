"""Sums in every server's switch, trees between servers rail by rail, multicast in the switch (NVLS and trees).

Every channel has a NIC of each server and a pair of complementary trees over servers, as `double-tree` has them: what a
server's ranks hold is summed in its switch at the rank of that NIC, goes up the tree and down again, and is multicast.
"""

from __future__ import annotations

import numpy as np

from interlock.algorithms.channels import blocks_of_trees, gate_channels
from interlock.algorithms.double_tree import pair_of_trees
from interlock.algorithms.nvls import SwitchMoves, refuses_switch
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import cut_evenly
from interlock.algorithms.trees import Tree
from interlock.collectives import CollectiveKind
from interlock.errors import check_whole
from interlock.problem import Problem
from interlock.schedule import Schedule, empty_schedule

__all__ = ["ALGORITHM", "nvls_tree"]


def nvls_tree(problem: Problem, *, seed: int = 0, blocks: int | None = None) -> Schedule:
    """A pair of trees per channel. `blocks` of each tree's share; None chooses by the alpha-beta model."""
    if len(problem.items) == 0:
        return empty_schedule()
    channels = gate_channels(problem)
    servers = len(channels[0])
    trees = [Tree.from_parents(parents) for parents in pair_of_trees(servers)]
    height, count = max(tree.height for tree in trees), 2 * len(channels)
    if blocks is None:
        blocks = blocks_of_trees(problem, channels, 2 * height + 2, count, count * (4 * servers - 2))
    parts, block = cut_evenly(problem, count * check_whole(blocks, "blocks", 1))
    moves = SwitchMoves(problem)
    for chain in range(count):
        channel, tree = channels[chain // 2], trees[chain % 2]
        mine = np.flatnonzero(block // blocks == chain)
        if len(mine) == 0:
            continue
        turn = block[mine] % blocks
        for walk in channel:
            moves.add(mine, turn, chain, walk[1:], walk[:1], adds=True)
            moves.add(mine, turn + 2 * height + 1, chain, walk[:1], walk[1:], adds=False)
        for child, parent, depth in zip(
            *(column.tolist() for column in (tree.child, tree.parent, tree.depth)), strict=True
        ):
            below, above = channel[child][:1], channel[parent][:1]
            moves.add(mine, turn + 1 + height - depth, chain, below, above, adds=True)
            moves.add(mine, turn + height + depth, chain, above, below, adds=False)
    return moves.schedule(parts, orders_nics=False)


def refuses(problem: Problem) -> str | None:
    """None for servers whose switches are able, joined by NICs."""
    reason = refuses_switch(problem, adds=True, copies=True)
    if reason is not None:
        return reason
    channels = gate_channels(problem)
    if not channels:
        return "a server has no NIC that the others reach"
    if len(channels[0]) == 1:
        return "it joins several servers; nvls is for one"
    return None


ALGORITHM = Algorithm(
    "nvls-tree",
    "sums in switches, trees per rail, multicast (NVLS tree)",
    refuses,
    nvls_tree,
    collectives=(CollectiveKind.ALL_REDUCE,),
)
