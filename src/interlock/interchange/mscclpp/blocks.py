"""Divides the actions of an MSCCL++ plan into threadblocks and writes out their operations.

Every threadblock follows the one order of all actions. What is left to be ordered between threadblocks of one GPU is
ordered by semaphores.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from interlock.errors import LimitExceeded
from interlock.interchange.mscclpp import limits
from interlock.interchange.mscclpp.actions import Action, Actions, Arrival, is_far
from interlock.interchange.mscclpp.place import BlockId, PlacedActions, place_actions
from interlock.interchange.shared.chunks.program import Place
from interlock.problem import Problem

__all__ = ["Blocks", "build_blocks"]

Json = dict[str, object]
Pair = tuple[str, BlockId, BlockId]  # channel type and both ends, the lesser first
Switch = tuple[str, tuple[int, ...]]  # buffer and the ranks whose buffers the switch joins


class Blocks:
    """Operations and resources of all threadblocks."""

    def __init__(self, num_ranks: int) -> None:
        self.operations: list[list[list[Json]]] = [[] for _ in range(num_ranks)]  # [rank][threadblock]
        self.num_semaphores = [0] * num_ranks
        self.channel_ids: list[dict[str, dict[Pair, int]]] = [{} for _ in range(num_ranks)]  # [rank][type]: their ids
        self.block_channels: dict[BlockId, dict[str, dict[Pair, int]]] = defaultdict(dict)
        self.remote_buffers: list[list[tuple[int, str, str]]] = [[] for _ in range(num_ranks)]  # peer, buffer, type
        self.block_buffers: dict[BlockId, dict[str, list[tuple[int, str, str]]]] = defaultdict(dict)
        self.switches: list[list[Switch]] = [[] for _ in range(num_ranks)]
        self.block_switches: dict[BlockId, list[Switch]] = defaultdict(list)
        self.covered_chunks: dict[Switch, int] = defaultdict(int)  # from the buffer's start, by a switch

    def channels_of(self, rank: int, k: int) -> list[Json]:
        """Channels that a threadblock uses, as ids of its GPU."""
        made: list[Json] = []
        for kind, used in self.block_channels[rank, k].items():
            ids = [self.channel_ids[rank][kind][pair] for pair in used]
            made.append({"channel_type": kind, "channel_ids": ids})
        if self.block_switches[rank, k]:
            ids = [self.switches[rank].index(switch) for switch in self.block_switches[rank, k]]
            made.append({"channel_type": "switch", "channel_ids": ids})
        return made

    def buffers_of(self, rank: int, k: int) -> list[Json]:
        """Remote buffers that a threadblock uses, as ids of its GPU."""
        return [
            {"access_channel_type": kind, "remote_buffer_ids": [self.remote_buffers[rank].index(b) for b in used]}
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
        self.last_of_lane: dict[Action, Action] = {}  # by the put that goes on with it in another threadblock
        self._chain(placed.goes_on)

    def _chain(self, goes_on: dict[Action, Action]) -> None:
        """Let streams go on one by one, as far as semaphores that nothing else needs allow."""
        pairs = {(self.placed[earlier], block) for earlier, blocks in self.awaited_by.items() for block in blocks}
        used = Counter(block[0] for block, _ in pairs)
        for earlier, action in goes_on.items():
            if used[action.rank] < limits.MAX_SEMAPHORES:
                used[action.rank] += 1
                self.awaited_by[earlier].add(self.placed[action])
                self.last_of_lane[action] = earlier

    def act(self, action: Action) -> None:
        """An action, what it waits for, and the signals after it."""
        block = self.placed[action]
        for arrival in sorted(action.needs, key=lambda a: self.placed[a.sender]):
            self.wait(block, arrival)
        before = [*action.after, *([self.last_of_lane[action]] if action in self.last_of_lane else [])]
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
            mine = self.channel_ids[block[0]].setdefault(kind, {})
            mine.setdefault(pair, len(mine))
            used = self.block_channels[block].setdefault(kind, {})
            used.setdefault(pair, len(used))
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
        if buffer not in self.remote_buffers[action.rank]:
            self.remote_buffers[action.rank].append(buffer)
        used = self.block_buffers[block].setdefault(kind, [])
        if buffer not in used:
            used.append(buffer)
        return used.index(buffer)

    def _switched(self, block: BlockId, place: Place, action: Action) -> Json:
        """A stretch of a buffer that the switch joins over a group; every member must list the group's channel."""
        switch = (place[0], action.group)
        self.covered_chunks[switch] = max(self.covered_chunks[switch], place[1] + action.count)
        for rank in action.group:
            if switch not in self.switches[rank]:
                self.switches[rank].append(switch)
        used = self.block_switches[block]
        if switch not in used:
            used.append(switch)
        return {"switch_channel_id": used.index(switch), "index": place[1], "size": action.count}


def _pair(kind: str, a: BlockId, b: BlockId) -> Pair:
    return (kind, a, b) if a < b else (kind, b, a)


def _local(place: Place, count: int) -> Json:
    return {"type": place[0], "index": place[1], "size": count}


def _in_eights(ids: Sequence[int]) -> list[list[int]]:
    most = limits.MAX_CHANNELS_PER_OPERATION
    return [list(ids[k : k + most]) for k in range(0, len(ids), most)]
