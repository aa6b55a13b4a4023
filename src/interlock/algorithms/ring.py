"""Ring: every share travels once around a ring through all ranks, a hop per round.

All-Gather copies it onward, Reduce-Scatter adds to it, All-Reduce does one after the other. Where the links back are
others than the links forth, half of every share goes each way. Broadcast and Reduce send blocks one after the other
down the chain that starts or ends at the root.

On a cluster there is a ring per NIC, as collective libraries make them (see `interlock.algorithms.channels`): each
enters and leaves every server by its own, and carries an equal share in slices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.channels import (
    MOST_MESSAGES,
    Channel,
    nic_link,
    ring_channels,
    scale_up_link,
    schedule_channels,
)
from interlock.algorithms.neighbours import MAX_NODES, embedded_ring
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import (
    Ids,
    Moves,
    cut_each,
    cut_evenly,
    group_members,
    owned_parts,
    schedule_moves,
)
from interlock.collectives import CollectiveKind
from interlock.cost.predict import best_blocks, narrowest_link
from interlock.errors import check_whole
from interlock.problem import Problem
from interlock.schedule import Chunks, Schedule, empty_schedule

__all__ = ["ALGORITHM", "around", "is_duplex", "ring", "split_in_two"]

KINDS = (
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.BROADCAST,
    CollectiveKind.REDUCE,
)


def ring(
    problem: Problem,
    *,
    seed: int = 0,
    both_ways: bool | None = None,
    blocks: int | None = None,
    channels: int | None = None,
) -> Schedule:
    """Shares around the ring. `both_ways` None: on graphs, where forth and back share no link. `blocks`: of a Broadcast
    or Reduce. `channels` of a cluster, at most. None: chosen by the alpha-beta model."""
    if problem.cluster is not None and len(problem.items) and len(group_members(problem)) > 1:
        rings = ring_channels(problem)
        if rings:
            return _in_channels(problem, rings, bool(both_ways), blocks, channels)
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
    return schedule_moves(problem, parts, _passes(problem, order, owner, forth))


def _passes(problem: Problem, order: NDArray[np.int32], owner: Ids, forth: NDArray[np.bool_]) -> Moves:
    """Sums around the ring, copies, or one after the other."""
    assert problem.collective is not None
    moves = [around(order, owner, forth, reduces=True)] if problem.collective.reduces else []
    if problem.collective.spreads:
        moves.append(around(order, owner, forth, reduces=False).later(len(moves) * (len(order) - 1)))
    return Moves.join(moves)


def around(order: NDArray[np.int32], owner: Ids, forth: NDArray[np.bool_], *, reduces: bool) -> Moves:
    """Part p of the owner at place `owner[p]` of a ring: copied from there on, or added up on its way there."""
    count = len(order)
    step = np.arange(count - 1)
    way = np.where(forth, 1, -1)[:, None]
    start = owner[:, None] + (way if reduces else 0)
    src = order[(start + way * step) % count].astype(np.int64)
    dst = order[(start + way * (step + 1)) % count].astype(np.int64)
    return Moves.of(np.arange(len(owner))[:, None], src, dst, step, reduces=reduces)


def split_in_two(parts: Chunks, owner: Ids) -> tuple[Chunks, Ids, NDArray[np.bool_]]:
    """Both halves of every part, the owner of each, and which half goes forth; an odd byte goes forth."""
    back = parts.length // 2
    first = Chunks(parts.item, parts.offset, parts.length - back)
    halves = Chunks.join([first, Chunks(parts.item, parts.offset + first.length, back)])
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


def _in_channels(
    problem: Problem, rings: list[Channel], both_ways: bool, blocks: int | None, most: int | None
) -> Schedule:
    """An equal part of every share around each ring, or of the blocks down each chain. Shares need no slices: as many
    are on the way at any time as there are ranks."""
    assert problem.collective is not None
    count = _num_channels(problem, rings)
    rings = rings[: count if most is None else check_whole(most, "channels", 1)]
    orders = [np.concatenate([np.array(ranks, np.int32) for ranks in channel]) for channel in rings]
    if both_ways and len(orders[0]) > 2:
        orders += [order[::-1] for order in orders]
    if problem.collective.is_rooted:
        if blocks is None:
            hops, size = len(orders[0]) - 1, int(problem.items.size_bytes.sum()) // len(orders)
            most_blocks = max(1, MOST_MESSAGES // (len(orders) * hops))
            blocks = min(best_blocks(hops, size, nic_link(problem, rings)), most_blocks)
        parts, joined, chain = _down_chains(problem, orders, check_whole(blocks, "blocks", 1))
        return schedule_channels(problem, parts, joined, chain[joined.part])
    shares, owner = owned_parts(problem)
    parts, share, chain = cut_each(shares, len(orders))
    members, moves = group_members(problem), []
    for channel, order in enumerate(orders):
        place = np.zeros(problem.num_ranks, np.int64)
        place[order] = np.arange(len(order))
        mine = np.flatnonzero(chain == channel)
        start, forth = place[members[owner[share[mine]]]], np.ones(len(mine), np.bool_)
        made = _passes(problem, order, start, forth)
        moves.append(Moves(mine[made.part], made.src, made.dst, made.round, made.reduces))
    joined = Moves.join(moves)
    return schedule_channels(problem, parts, joined, chain[joined.part])


def _num_channels(problem: Problem, rings: list[Channel]) -> int:
    """The fewest channels whose rounds take at most 1 % longer than the shortest: every NIC serves one channel, while
    the port to a switch serves a message of each."""
    assert problem.cluster is not None
    far, near = nic_link(problem, rings), scale_up_link(problem)
    is_mesh = problem.cluster.scale_up == "mesh"
    share = int(problem.items.size_bytes.sum()) / len(group_members(problem))
    took_s = [
        max(far.arrival_s(share / count), (1 if is_mesh else count) * near.busy_s(share / count) + near.latency_s)
        for count in range(1, len(rings) + 1)
    ]
    return 1 + next(place for place, seconds in enumerate(took_s) if seconds <= 1.01 * min(took_s))


def _chain(problem: Problem, order: NDArray[np.int32], both_ways: bool, blocks: int | None) -> Schedule:
    """Blocks down the ring cut open at the root; and the other way."""
    orders = [order, order[::-1]][: 1 + both_ways]
    if blocks is None:
        link = narrowest_link(problem.topology, order, np.roll(order, -1))
        blocks = best_blocks(len(order) - 1, int(problem.items.size_bytes.sum()) // len(orders), link)
    parts, moves, _ = _down_chains(problem, orders, check_whole(blocks, "blocks", 1))
    return schedule_moves(problem, parts, moves)


def _down_chains(problem: Problem, orders: list[NDArray[np.int32]], blocks: int) -> tuple[Chunks, Moves, Ids]:
    """Blocks from the root to its successor and so on, or from its successor round to the root: parts, their moves,
    and the chain of each part."""
    assert problem.collective is not None
    adds = problem.collective.kind is CollectiveKind.REDUCE
    parts, block = cut_evenly(problem, len(orders) * blocks)
    step = np.arange(len(orders[0]) - 1)
    moves = []
    for number, order in enumerate(orders):
        root = int(np.flatnonzero(order == problem.collective.root)[0])
        line = np.roll(order, -root - adds).astype(np.int64)
        mine = np.flatnonzero(block // blocks == number)[:, None]
        moves.append(Moves.of(mine, line[step], line[step + 1], block[mine] % blocks + step, reduces=adds))
    return parts, Moves.join(moves), block // blocks


def refuses(problem: Problem) -> str | None:
    """None wherever a ring through all ranks of the group is found."""
    if problem.cluster is not None and ring_channels(problem):
        return None
    if problem.topology.num_nodes > MAX_NODES:
        return f"it looks for rings in graphs of at most {MAX_NODES} nodes"
    if embedded_ring(problem.topology, group_members(problem)) is None:
        return "no ring through all ranks was found that needs no relay"
    return None


ALGORITHM = Algorithm("ring", "shares around a ring; on clusters a ring per NIC", refuses, ring, collectives=KINDS)
