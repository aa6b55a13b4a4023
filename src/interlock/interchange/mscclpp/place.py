"""Which threadblock of an MSCCL++ plan does an action, and which ones wait for what it brings.

An action goes where the actions it follows are, if there is room; those that share a link's order go together; others
go by peer.
"""

from __future__ import annotations

from collections import defaultdict

from interlock.interchange.mscclpp import limits
from interlock.interchange.mscclpp.actions import Action, Actions, Arrival

__all__ = ["BlockId", "place_actions", "place_waits"]

BlockId = tuple[int, int]  # rank, threadblock


def place_actions(actions: Actions, per_block: int) -> dict[Action, BlockId]:
    """A threadblock for every action."""
    count: dict[int, int] = defaultdict(int)  # threadblocks per rank
    load: dict[BlockId, int] = defaultdict(int)
    current: dict[tuple[int, object], BlockId] = {}
    placed: dict[Action, BlockId] = {}
    for action in actions.in_order:
        homes = {placed[earlier] for earlier in action.after}
        block = homes.pop() if len(homes) == 1 else None
        if block is None or load[block] >= per_block:
            key = (action.rank, _key(action))
            block = current.get(key)
            if block is None or load[block] >= per_block:
                block = (action.rank, count[action.rank])
                count[action.rank] += 1
                current[key] = block
        placed[action] = block
        load[block] += 1
    return placed


def _key(action: Action) -> object:
    """Which actions share threadblocks: those paced on one link, those fed by one sender, those to one peer."""
    if action.is_paced or action.kind in ("multicast", "switch-sum"):
        return action.kind
    feeders = sorted({arrival.sender.rank for arrival in action.needs})
    if feeders:
        return "from", tuple(feeders) if len(feeders) <= 2 else action.peer
    return "to", action.peer


def place_waits(actions: Actions, placed: dict[Action, BlockId]) -> dict[Arrival, list[BlockId]]:
    """Threadblocks that wait for each arrival; one that nothing at its rank needs is waited for all the same."""
    waiters: dict[Arrival, list[BlockId]] = {}
    for action in actions.in_order:
        for arrival in action.brings:
            waiters[arrival] = []
    for action in actions.in_order:
        for arrival in action.needs:
            if placed[action] not in waiters[arrival]:  # a handful at most
                waiters[arrival].append(placed[action])
    last: dict[int, int] = defaultdict(lambda: -1)
    for rank, k in placed.values():
        last[rank] = max(last[rank], k)
    sinks: dict[BlockId, BlockId] = {}  # sending threadblock and receiving rank -> where it is waited for
    partner: dict[tuple[BlockId, int], BlockId] = {}
    for arrival, blocks in waiters.items():
        for block in blocks:
            partner.setdefault((placed[arrival.sender], arrival.rank), block)
    load: dict[BlockId, int] = defaultdict(int)
    for arrival, blocks in waiters.items():
        if blocks:
            continue
        key = (placed[arrival.sender], arrival.rank)
        if key not in partner:
            partner[key] = _sink(arrival.rank, last, sinks, load)
            load[partner[key]] += 1
        blocks.append(partner[key])
    return waiters


def _sink(rank: int, last: dict[int, int], sinks: dict[BlockId, BlockId], load: dict[BlockId, int]) -> BlockId:
    """A threadblock that only waits, with room for one more sender."""
    block = sinks.get((rank, -1))
    if block is None or load[block] >= limits.MAX_CHANNELS // 2:
        last[rank] += 1
        block = sinks[rank, -1] = (rank, last[rank])
    return block
