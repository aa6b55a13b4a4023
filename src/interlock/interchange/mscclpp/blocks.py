"""Divides the actions of an MSCCL++ plan into threadblocks and writes out their operations.

An action goes where the actions it follows are, if there is room; those that share a link's order go together; puts go
by stream: what a plan sends one by one, from a GPU to a peer in a phase, stays one by one. A stream that outgrows a
threadblock goes on in the next, which waits for the one before where the plan has the stream's puts wait.

A signal tells of everything that its threadblock put before, so a threadblock waits only for the last of what it needs
from another, and a GPU at its end only for the last of what a threadblock sent it.

Every threadblock follows the one order of all actions. What is left to be ordered between threadblocks of one GPU is
ordered by semaphores.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from interlock.errors import LimitExceeded
from interlock.interchange.mscclpp import limits
from interlock.interchange.mscclpp.actions import Action, Actions, Arrival, is_far
from interlock.interchange.shared.chunks.program import Place
from interlock.problem import Problem

__all__ = ["Blocks", "build_blocks"]

Numbered = TypeVar("Numbered", bound=Hashable)
Json = dict[str, object]
BlockId = tuple[int, int]  # rank, threadblock
Pair = tuple[str, BlockId, BlockId]  # channel type and both ends, the lesser first
RemoteBuffer = tuple[int, str, str]  # peer, buffer, channel type
Switch = tuple[str, tuple[int, ...]]  # buffer and the ranks whose buffers the switch joins


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


def _number(numbers: dict[Numbered, int], thing: Numbered) -> int:
    """The number of a thing, the next one if it has none yet."""
    return numbers.setdefault(thing, len(numbers))


class Blocks:
    """Operations and resources of all threadblocks."""

    def __init__(self, num_ranks: int) -> None:
        self.operations: list[list[list[Json]]] = [[] for _ in range(num_ranks)]  # [rank][threadblock]
        self.num_semaphores = [0] * num_ranks
        self.channel_ids: list[dict[str, dict[Pair, int]]] = [{} for _ in range(num_ranks)]  # [rank][type]: their ids
        self.block_channels: dict[BlockId, dict[str, dict[Pair, int]]] = defaultdict(dict)
        self.remote_buffers: list[dict[RemoteBuffer, int]] = [{} for _ in range(num_ranks)]  # [rank]: their ids
        self.block_buffers: dict[BlockId, dict[str, dict[RemoteBuffer, int]]] = defaultdict(dict)
        self.switches: list[dict[Switch, int]] = [{} for _ in range(num_ranks)]  # [rank]: their ids
        self.block_switches: dict[BlockId, dict[Switch, int]] = defaultdict(dict)
        self.covered_chunks: dict[Switch, int] = defaultdict(int)  # from the buffer's start, by a switch

    def channels_of(self, rank: int, k: int) -> list[Json]:
        """Channels that a threadblock uses, as ids of its GPU."""
        made: list[Json] = []
        for kind, used in self.block_channels[rank, k].items():
            ids = [self.channel_ids[rank][kind][pair] for pair in used]
            made.append({"channel_type": kind, "channel_ids": ids})
        if self.block_switches[rank, k]:
            ids = [self.switches[rank][switch] for switch in self.block_switches[rank, k]]
            made.append({"channel_type": "switch", "channel_ids": ids})
        return made

    def buffers_of(self, rank: int, k: int) -> list[Json]:
        """Remote buffers that a threadblock uses, as ids of its GPU."""
        return [
            {"access_channel_type": kind, "remote_buffer_ids": [self.remote_buffers[rank][b] for b in used]}
            for kind, used in self.block_buffers[rank, k].items()
        ]

    def gpu_channels(self, rank: int) -> list[Json]:
        """All channels of a GPU. The n-th to a peer meets the peer's n-th to it: both list them in one order."""
        made: list[Json] = []
        for kind, pairs in self.channel_ids[rank].items():
            peers = [b[0] if a[0] == rank else a[0] for _, a, b in pairs]
            made.append({"channel_type": kind, "connected_to": peers})
        for buffer, group in self.switches[rank]:
            groups = [{"size": self.covered_chunks[buffer, group], "ranks": list(group)}]
            made.append({"channel_type": "switch", "buffer_type": buffer, "rank_groups": groups})
        return made

    def gpu_buffers(self, rank: int) -> list[Json]:
        """All remote buffers of a GPU."""
        return [
            {"rank": peer, "type": buffer, "access_channel_types": [kind]}
            for peer, buffer, kind in self.remote_buffers[rank]
        ]


def build_blocks(actions: Actions, problem: Problem, room: int) -> Blocks:
    """Threadblocks of about `room` operations each; raises LimitExceeded where a limit is still not kept."""
    placed = place_actions(actions, room)
    writer = _Writer(actions, problem, placed)
    for action in actions.in_order:
        writer.act(action)
    for arrival, blocks in placed.waiters.items():
        for block in blocks:
            writer.wait(block, arrival)
    return writer.finish()


@dataclass(slots=True)
class _State:
    """One threadblock while its operations are written."""

    operations: list[Json] = field(default_factory=list)
    has_waited: bool = False  # one thread has; the others must not touch data yet
    has_written: bool = False  # some threads may still; nobody must be told yet

    def sync(self) -> None:
        """Bring the threads together."""
        self.operations.append({"name": "nop"})
        self.has_waited = self.has_written = False


class _Writer(Blocks):
    """Fills them, action by action."""

    def __init__(self, actions: Actions, problem: Problem, placed: PlacedActions) -> None:
        super().__init__(problem.num_ranks)
        self.problem, self.placed, self.waiters = problem, placed.block, placed.waiters
        self.states: dict[BlockId, _State] = defaultdict(_State)
        for block in [*self.placed.values(), *(block for blocks in self.waiters.values() for block in blocks)]:
            self.states[block]
        # What a threadblock has still to take from another, in the order given: signals and releases.
        self.expected: dict[tuple[BlockId, BlockId], dict[Arrival, None]] = defaultdict(dict)
        self.releases: dict[tuple[BlockId, BlockId], dict[Action, None]] = defaultdict(dict)
        self.semaphores: dict[tuple[BlockId, BlockId], int] = {}
        self.awaited_by: dict[Action, set[BlockId]] = defaultdict(set)
        self.sends_on: dict[BlockId, dict[Pair, None]] = defaultdict(dict)
        self.receives_on: dict[BlockId, dict[Pair, None]] = defaultdict(dict)
        for action in actions.in_order:
            for listener in (block for arrival in action.brings for block in self.waiters[arrival]):
                self._channel(self.placed[action], listener)
            for earlier in action.after:
                if self.placed[earlier] != self.placed[action]:
                    self.awaited_by[earlier].add(self.placed[action])
        self.last_of_stream: dict[Action, Action] = {}  # by the put that goes on with it in another threadblock
        self._chain(placed.goes_on)

    def _chain(self, goes_on: dict[Action, Action]) -> None:
        """Let streams go on one by one, as far as semaphores that nothing else needs allow."""
        pairs = {(self.placed[earlier], block) for earlier, blocks in self.awaited_by.items() for block in blocks}
        used = Counter(block[0] for block, _ in pairs)
        for earlier, action in goes_on.items():
            if used[action.rank] < limits.MAX_SEMAPHORES:
                used[action.rank] += 1
                self.awaited_by[earlier].add(self.placed[action])
                self.last_of_stream[action] = earlier

    def act(self, action: Action) -> None:
        """An action, what it waits for, and the signals after it."""
        block = self.placed[action]
        for arrival in sorted(action.needs, key=lambda a: self.placed[a.sender]):
            self.wait(block, arrival)
        before = [*action.after, *([self.last_of_stream[action]] if action in self.last_of_stream else [])]
        for earlier in sorted(before, key=lambda a: self.placed[a]):
            self._acquire(block, earlier)
        listeners = [(arrival, listener) for arrival in action.brings for listener in self.waiters[arrival]]
        for arrival, listener in listeners:
            self.expected[block, listener][arrival] = None
        state = self.states[block]
        if state.has_waited or (state.has_written and any(self.placed[earlier] == block for earlier in before)):
            state.sync()
        signals = self._signal_ids(block, [listener for _, listener in listeners])
        is_signalling = action.is_far and len(listeners) == 1
        state.operations.append(self._data(action, block, signals["port"][0] if is_signalling else None))
        if not is_signalling:
            state.has_written = True
            self._signal(state, signals)
        awaited = sorted(self.awaited_by.get(action, ()))
        if awaited and state.has_written:
            state.sync()
        if awaited and action.is_far:  # a proxy carries it: wait until it has arrived
            port = {"channel_ids": [self._port(block, action)], "channel_type": "port"}
            state.operations.append({"name": "flush", **port})
        for waiting in awaited:
            self._release(block, waiting, action)

    def wait(self, block: BlockId, arrival: Arrival) -> None:
        """Take signals of a sender up to that of an arrival, unless taken before."""
        sender = self.placed[arrival.sender]
        expected = self.expected[sender, block]
        if arrival not in expected:
            return
        kind = self._kind(sender[0], block[0])
        local = self.block_channels[block][kind][_pair(kind, sender, block)]
        while arrival in expected:
            del expected[next(iter(expected))]
            self.states[block].operations.append({"name": "wait", "channel_ids": [local], "channel_type": kind})
        self.states[block].has_waited = True

    def finish(self) -> Blocks:
        """Greetings in front, limits checked."""
        for block in sorted(self.states):
            whole = [*self._greetings(block), *self.states[block].operations]
            self._check(block, len(whole))
            self.operations[block[0]].append(whole)
        for rank, count in enumerate(self.num_semaphores):
            if count > limits.MAX_SEMAPHORES:
                raise LimitExceeded(
                    f"gpu {rank}: {count} pairs of threadblocks wait for each other; {limits.MAX_SEMAPHORES} "
                    "semaphores are allowed"
                )
            if len(self.operations[rank]) > limits.MAX_THREADBLOCKS:
                raise LimitExceeded(f"gpu {rank} needs {len(self.operations[rank])} threadblocks; use larger chunks")
        return self

    def _greetings(self, block: BlockId) -> list[Json]:
        """Tell senders that this GPU has begun, and wait until the receivers have."""
        made: list[Json] = []
        for name, pairs in (("rlxsignal", self.receives_on[block]), ("rlxwait", self.sends_on[block])):
            for kind, used in self.block_channels[block].items():
                ids = [used[pair] for pair in pairs if pair[0] == kind]
                for chosen in _in_eights(ids):
                    made.append({"name": name, "channel_ids": chosen, "channel_type": kind})
        return [*made, {"name": "nop"}] if made else []

    def _check(self, block: BlockId, count: int) -> None:
        where = f"gpu {block[0]}, threadblock {block[1]}"
        if count > limits.MAX_OPERATIONS:
            raise LimitExceeded(f"{where} has {count} operations; {limits.MAX_OPERATIONS} fit")
        channels = {kind: len(used) for kind, used in self.block_channels[block].items()}
        buffers = {kind: len(used) for kind, used in self.block_buffers[block].items()}
        for kind, used in [*channels.items(), *buffers.items()]:
            if used > limits.MAX_CHANNELS:
                raise LimitExceeded(f"{where} has {used} {kind} channels or buffers; {limits.MAX_CHANNELS} fit")

    def _ends(self, action: Action) -> tuple[int, int]:
        assert action.peer is not None
        return action.rank, action.peer

    def _kind(self, a: int, b: int) -> str:
        """Port channels between servers, memory channels within."""
        return "port" if is_far(self.problem, a, b) else "memory"

    def _channel(self, sender: BlockId, receiver: BlockId) -> None:
        kind = self._kind(sender[0], receiver[0])
        pair = _pair(kind, sender, receiver)
        for block in (sender, receiver):
            _number(self.channel_ids[block[0]].setdefault(kind, {}), pair)
            _number(self.block_channels[block].setdefault(kind, {}), pair)
        self.sends_on[sender][pair] = None
        self.receives_on[receiver][pair] = None

    def _signal_ids(self, block: BlockId, listeners: list[BlockId]) -> dict[str, list[int]]:
        ids: dict[str, list[int]] = {"memory": [], "port": []}
        for listener in listeners:
            kind = self._kind(block[0], listener[0])
            ids[kind].append(self.block_channels[block][kind][_pair(kind, block, listener)])
        return ids

    def _signal(self, state: _State, signals: dict[str, list[int]]) -> None:
        if any(signals.values()):
            state.sync()
        for kind, ids in signals.items():
            for chosen in _in_eights(ids):
                state.operations.append({"name": "signal", "channel_ids": chosen, "channel_type": kind})

    def _acquire(self, block: BlockId, earlier: Action) -> None:
        home = self.placed[earlier]
        released = self.releases[home, block]
        while home != block and earlier in released:
            del released[next(iter(released))]
            number = self.semaphores[home, block]
            self.states[block].operations.append({"name": "sem_acquire", "semaphore_ids": [number]})
            self.states[block].has_waited = True

    def _release(self, block: BlockId, waiting: BlockId, action: Action) -> None:
        key = (block, waiting)
        if key not in self.semaphores:
            self.semaphores[key] = self.num_semaphores[waiting[0]]
            self.num_semaphores[waiting[0]] += 1
        self.states[block].operations.append({"name": "sem_release", "semaphore_ids": [self.semaphores[key]]})
        self.releases[key][action] = None

    def _data(self, action: Action, block: BlockId, signalled: int | None) -> Json:
        sources: list[Json] = [_local(place, action.count) for place in action.sources]
        if action.kind == "put":
            kind = self._kind(*self._ends(action))
            target: Json = {"buffer_id": self._buffer(block, action, kind)}
            target |= {"index": action.target[1], "size": action.count}
            made: Json = {"name": "put", "src_buff": sources, "dst_buff": [target], "channel_type": kind}
            if kind == "port":
                made["channel_ids"] = [self._port(block, action) if signalled is None else signalled]
            if signalled is not None:
                made["name"] = "pws"
            return made
        if action.kind in ("multicast", "switch-sum"):
            target = self._switched(block, action.target, action)
            if action.kind == "multicast":
                return {"name": "gstore", "src_buff": sources, "dst_buff": [target], "channel_type": "switch"}
            loaded = [self._switched(block, place, action) for place in action.sources]
            return {
                "name": "glres",
                "src_buff": loaded,
                "dst_buff": [target],
                "channel_type": "switch",
                "reduce_op": "sum",
            }
        if action.kind == "sum":
            target = _local(action.target, action.count)
            return {"name": "re", "src_buff": sources, "dst_buff": [target], "reduce_op": "sum"}
        return {"name": "copy", "src_buff": sources, "dst_buff": [_local(action.target, action.count)]}

    def _port(self, block: BlockId, action: Action) -> int:
        """Any channel of the threadblock to the peer; a put on a port needs one."""
        pairs = self.block_channels[block]["port"]
        return next(k for k, (_, a, b) in enumerate(pairs) if action.peer in (a[0], b[0]))

    def _buffer(self, block: BlockId, action: Action, kind: str) -> int:
        assert action.peer is not None
        buffer = (action.peer, action.target[0], kind)
        _number(self.remote_buffers[action.rank], buffer)
        return _number(self.block_buffers[block].setdefault(kind, {}), buffer)

    def _switched(self, block: BlockId, place: Place, action: Action) -> Json:
        """A stretch of a buffer that the switch joins over a group; every member must list the group's channel."""
        switch = (place[0], action.group)
        self.covered_chunks[switch] = max(self.covered_chunks[switch], place[1] + action.count)
        for rank in action.group:
            _number(self.switches[rank], switch)
        return {
            "switch_channel_id": _number(self.block_switches[block], switch),
            "index": place[1],
            "size": action.count,
        }


def _pair(kind: str, a: BlockId, b: BlockId) -> Pair:
    return (kind, a, b) if a < b else (kind, b, a)


def _local(place: Place, count: int) -> Json:
    return {"type": place[0], "index": place[1], "size": count}


def _in_eights(ids: Sequence[int]) -> list[list[int]]:
    most = limits.MAX_CHANNELS_PER_OPERATION
    return [list(ids[k : k + most]) for k in range(0, len(ids), most)]
