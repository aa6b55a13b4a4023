"""Ring: every share travels once around a ring through all ranks, a hop per round.

All-Gather copies it onward, Reduce-Scatter adds to it, All-Reduce does one after the other. Where the links back are
others than the links forth, half of every share goes each way. Broadcast and Reduce send blocks one after the other
down the chain that starts or ends at the root.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.neighbours import MAX_NODES, embedded_ring
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import (
    Ids,
    Moves,
    Parts,
    cut_evenly,
    group_members,
    owned_parts,
    refuses_kinds,
    schedule_moves,
    whole_number,
)
from interlock.collectives import CollectiveKind
from interlock.cost.predict import best_blocks, narrowest_link
from interlock.problem import Problem
from interlock.schedule import Schedule, empty_schedule

__all__ = ["ALGORITHM", "around", "is_duplex", "ring", "split_in_two"]

KINDS = (
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.BROADCAST,
    CollectiveKind.REDUCE,
)


def ring(problem: Problem, *, seed: int = 0, both_ways: bool | None = None, blocks: int | None = None) -> Schedule:
    """Shares around the ring. `both_ways` None: where forth and back share no link. `blocks`: of a Broadcast or
    Reduce; None chooses by the alpha-beta model."""
    order = embedded_ring(problem.topology, group_members(problem))
    if order is None or len(problem.items) == 0 or len(order) == 1:
        return empty_schedule()
    assert problem.collective is not None
    if both_ways is None:
        both_ways = is_duplex(problem, order)
    if problem.collective.is_rooted:
        return _chain(problem, order, both_ways, blocks)
    parts, owner = owned_parts(problem)
    place_in_ring = np.zeros(problem.num_ranks, np.int64)
    place_in_ring[order] = np.arange(len(order))
    owner = place_in_ring[group_members(problem)[owner]]
    forth = np.ones(len(parts), np.bool_)
    if both_ways:
        parts, owner, forth = split_in_two(parts, owner)
    kind = problem.collective.kind
    moves = []
    if kind is not CollectiveKind.ALL_GATHER:
        moves.append(around(order, owner, forth, reduces=True))
    if kind is not CollectiveKind.REDUCE_SCATTER:
        moves.append(around(order, owner, forth, reduces=False).later(len(order) - 1 if moves else 0))
    return schedule_moves(problem, parts, Moves.join(moves))


def around(order: NDArray[np.int32], owner: Ids, forth: NDArray[np.bool_], *, reduces: bool) -> Moves:
    """Part p of the owner at place `owner[p]` of a ring: copied from there on, or added up on its way there."""
    count = len(order)
    step = np.arange(count - 1)
    way = np.where(forth, 1, -1)[:, None]
    start = owner[:, None] + (way if reduces else 0)
    src = order[(start + way * step) % count].astype(np.int64)
    dst = order[(start + way * (step + 1)) % count].astype(np.int64)
    return Moves.of(np.arange(len(owner))[:, None], src, dst, step, reduces=reduces)


def split_in_two(parts: Parts, owner: Ids) -> tuple[Parts, Ids, NDArray[np.bool_]]:
    """Both halves of every part, the owner of each, and which half goes forth; an odd byte goes forth."""
    back = parts.length // 2
    halves = Parts(
        np.concatenate([parts.item, parts.item]),
        np.concatenate([parts.offset, parts.offset + parts.length - back]),
        np.concatenate([parts.length - back, back]),
    )
    forth = np.arange(len(halves)) < len(parts)
    some = np.flatnonzero(halves.length > 0)
    return halves.take(some), np.tile(owner, 2)[some], forth[some]


def is_duplex(problem: Problem, order: NDArray[np.int32]) -> bool:
    """Whether the ring can also be walked backwards, over other channels."""
    if len(order) < 3:
        return False
    following = np.roll(order, -1)
    try:
        forth, back = problem.topology.routes(order, following), problem.topology.routes(following, order)
    except ValueError:
        return False
    channel = problem.topology.channel
    return not np.isin(channel[forth.values], channel[back.values]).any()


def _chain(problem: Problem, order: NDArray[np.int32], both_ways: bool, blocks: int | None) -> Schedule:
    """Blocks from the root to its successor and so on, or from its successor round to the root; and the other way."""
    assert problem.collective is not None
    adds = problem.collective.kind is CollectiveKind.REDUCE
    lines = []
    for ring_order in (order, order[::-1])[: 1 + both_ways]:
        root = int(np.flatnonzero(ring_order == problem.collective.root)[0])
        lines.append(np.roll(ring_order, -root - adds).astype(np.int64))
    hops, num_lines = len(order) - 1, len(lines)
    if blocks is None:
        link = narrowest_link(problem.topology, lines[0][:-1], lines[0][1:])
        blocks = best_blocks(hops, int(problem.items.size_bytes.sum()) // num_lines, link)
    parts, block = cut_evenly(problem, num_lines * whole_number(blocks, "blocks"))
    step = np.arange(hops)
    moves = []
    for number, line in enumerate(lines):
        mine = np.flatnonzero(block // blocks == number)[:, None]
        moves.append(Moves.of(mine, line[step], line[step + 1], block[mine] % blocks + step, reduces=adds))
    return schedule_moves(problem, parts, Moves.join(moves))


def supports(problem: Problem) -> str | None:
    """Wherever a ring through all ranks of the group is found."""
    reason = refuses_kinds(problem, KINDS)
    if reason is not None:
        return reason
    if problem.topology.num_nodes > MAX_NODES:
        return f"it looks for rings in graphs of at most {MAX_NODES} nodes"
    if embedded_ring(problem.topology, group_members(problem)) is None:
        return "no ring through all ranks was found that needs no relay"
    return None


ALGORITHM = Algorithm("ring", "shares around a ring through all ranks", supports, ring)
