"""Which threadblock of an MSCCL++ plan does an action, and which ones wait for what it brings.

An action goes where the actions it follows are, if there is room; those that share a link's order go together; puts go
by stream: what a plan sends one by one, from a GPU to a peer in a phase, stays one by one. A stream that outgrows a
threadblock goes on in the next, which waits for the one before where the plan has the stream's puts wait.

A signal tells of everything that its threadblock put before, so a threadblock waits only for the last of what it needs
from another, and a GPU at its end only for the last of what a threadblock sent it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from interlock.interchange.mscclpp import limits
from interlock.interchange.mscclpp.actions import Action, Actions, Arrival

__all__ = ["BlockId", "PlacedActions", "place_actions"]

BlockId = tuple[int, int]  # rank, threadblock


@dataclass(slots=True)
class PlacedActions:
    """Where everything is done."""

    block: dict[Action, BlockId] = field(default_factory=dict)
    waiters: dict[Arrival, list[BlockId]] = field(default_factory=dict)  # threadblocks that its sender signals
    goes_on: dict[Action, Action] = field(default_factory=dict)  # last put of a full threadblock -> next of its stream


def place_actions(actions: Actions, room: int) -> PlacedActions:
    """Threadblocks with about `room` operations each."""
    placer = _Placer(actions, room)
    for action in actions.in_order:
        placer.place(action)
    placer.wait_at_the_end(actions)
    return placer.placed


class _Placer:
    def __init__(self, actions: Actions, room: int) -> None:
        self.room, self.placed = room, PlacedActions()
        self.place_of = {action: place for place, action in enumerate(actions.in_order)}
        self.is_needed = {arrival for action in actions.in_order for arrival in action.needs}
        self.num_blocks: dict[int, int] = defaultdict(int)  # by rank
        self.load: dict[BlockId, int] = defaultdict(int)
        self.current: dict[tuple[int, object], BlockId] = {}
        self.last: dict[BlockId, Action] = {}
        self.heard: dict[tuple[BlockId, BlockId], int] = {}  # (sender, waiter) -> place of the last action waited for

    def place(self, action: Action) -> None:
        """A threadblock for the next action, and what that one waits for."""
        needs = self._last_of_each_sender(action.needs)
        homes = {self.placed.block[earlier] for earlier in action.after}
        block = homes.pop() if len(homes) == 1 else None
        if block is None or not self._fits(block, action, needs):
            key = (action.rank, _key(action))
            block = self.current.get(key)
            if block is None or not self._fits(block, action, needs):
                if block is not None and action.follows:
                    self.placed.goes_on[self.last[block]] = action
                block = self.current[key] = self._new_block(action.rank)
        self.load[block] += self._operations(block, action, needs)
        self.placed.block[action], self.last[block] = block, action
        self.placed.waiters |= {arrival: [] for arrival in action.brings}
        for arrival in self._unheard(block, needs):
            self.placed.waiters[arrival].append(block)
            self.heard[self.placed.block[arrival.sender], block] = self.place_of[arrival.sender]

    def wait_at_the_end(self, actions: Actions) -> None:
        """Let each GPU wait for the last that every threadblock sent it, wherever it waits for that one already."""
        last: dict[tuple[BlockId, int], Arrival] = {}
        partner: dict[tuple[BlockId, int], BlockId] = {}
        for action in actions.in_order:
            for arrival in action.brings:
                key = (self.placed.block[action], arrival.rank)
                last[key] = arrival
                if self.placed.waiters[arrival]:
                    partner.setdefault(key, self.placed.waiters[arrival][0])
        sinks: dict[int, BlockId] = {}
        for key, arrival in last.items():
            if self.placed.waiters[arrival]:
                continue
            if key not in partner:
                rank = arrival.rank
                if rank not in sinks or self.load[sinks[rank]] >= limits.MAX_CHANNELS:
                    sinks[rank] = self._new_block(rank)
                partner[key] = sinks[rank]
                self.load[sinks[rank]] += 1
            self.placed.waiters[arrival].append(partner[key])

    def _last_of_each_sender(self, needs: Iterable[Arrival]) -> list[Arrival]:
        last: dict[BlockId, Arrival] = {}
        for arrival in sorted(needs, key=lambda arrival: self.place_of[arrival.sender]):
            last[self.placed.block[arrival.sender]] = arrival
        return list(last.values())

    def _unheard(self, block: BlockId, needs: list[Arrival]) -> list[Arrival]:
        """What the threadblock has not waited for yet."""
        return [
            arrival
            for arrival in needs
            if self.heard.get((self.placed.block[arrival.sender], block), -1) < self.place_of[arrival.sender]
        ]

    def _new_block(self, rank: int) -> BlockId:
        self.num_blocks[rank] += 1
        return rank, self.num_blocks[rank] - 1

    def _fits(self, block: BlockId, action: Action, needs: list[Arrival]) -> bool:
        return self.load[block] + self._operations(block, action, needs) <= self.room

    def _operations(self, block: BlockId, action: Action, needs: list[Arrival]) -> int:
        """About how many it takes: waits, itself, a signal, and what keeps threads together between these."""
        waits = len(self._unheard(block, needs))
        signals = any(arrival in self.is_needed for arrival in action.brings)
        return (waits + 1 if waits else 0) + 1 + (2 if signals and not action.is_far else 0)


def _key(action: Action) -> object:
    """Which actions share threadblocks: those paced on one link, those of one stream, those fed by the same senders."""
    if action.is_paced or action.kind in ("multicast", "switch-sum"):
        return action.kind
    if action.stream is not None:
        return action.stream
    feeders = sorted({arrival.sender.rank for arrival in action.needs})
    return "from", tuple(feeders) if len(feeders) <= 2 else None
