"""Parses MSCCL++ execution plans and checks their form and limits, also those that MSCCL++'s own loader lets pass."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.interchange.mscclpp import limits
from interlock.interchange.shared.chunks.execution import ThreadblockProgram
from interlock.interchange.shared.chunks.goal import ChunkBuffers
from interlock.interchange.shared.json_text import Table, read_json

__all__ = ["Threadblock", "Channel", "Operation", "MscclppPlan", "Stretch", "parse_mscclpp"]

MAX_GPUS = 4096
MAX_CHUNKS = 1 << 20
MAX_SPLIT = 64  # pieces of a chunk handled by groups of threadblocks

PAIRED = ("memory", "port")  # channels with another GPU at the other end
BUFFERS = ("i", "o", "s")
PAIRED_MOVES = ("put", "pws", "pwsf", "get", "ppkt")  # as many sources as targets
OTHER_MOVES = ("copy", "re", "res", "rre", "rres", "rppkt", "respkt", "cpkt", "upkt", "repkt", "recpkt", "recspkt")
SWITCH_MOVES = ("glres", "gstore", "gstorepkt")
MOVES = (*PAIRED_MOVES, *OTHER_MOVES, *SWITCH_MOVES)
SYNCS = ("signal", "wait", "rlxsignal", "rlxwait", "flush")
OPERATIONS = (*MOVES, *SYNCS, "nop", "barrier", "pipeline", "sem_acquire", "sem_release")
NEEDS_CHANNELS = (*SYNCS, "pws", "pwsf")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive chunks of a buffer: of one rank, or of all ranks of a switch's group."""

    ranks: tuple[int, ...]
    buffer: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Channel:
    """One end of a connection: `pair` is the same at both ends."""

    type: str
    peer: int
    pair: tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation with everything it names resolved."""

    name: str
    channels: tuple[Channel, ...]
    sources: tuple[Stretch, ...]
    targets: tuple[Stretch, ...]
    barrier: tuple[int, int] | None = None  # id, number of threadblocks
    semaphores: tuple[int, ...] = ()


@dataclass(slots=True)
class Threadblock:
    """A threadblock."""

    gpu: int
    id: int
    steps: list[Operation] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class MscclppPlan(ThreadblockProgram[Threadblock]):
    """Its chunks are counted in the smallest pieces that groups of threadblocks divide them into."""

    semaphores: list[list[int]]  # initial values, per GPU
    split: int


def parse_mscclpp(path: Path) -> MscclppPlan:
    """The plan in a file, checked."""
    top = Table.of(read_json(path), str(path))
    collective, protocol = top.text("collective"), top.text("protocol", ("Simple", "LL"))
    top.text("name")
    if not isinstance(top.values.get("inplace"), bool):
        raise InvalidInput(f"{path}: 'inplace' must be true or false")
    gpus = top.tables("gpus", MAX_GPUS, ": gpu {}")
    if not gpus:
        raise InvalidInput(f"{path}: 'gpus' is empty")
    if "inputChunks" in gpus[0]:
        raise InvalidInput(f"{path} has the keys of MSCCL++'s first plan format (inputChunks, …), which is not read")
    _check_ids(gpus, MAX_GPUS)
    split = _split(gpus)
    parser = _Parser(gpus, split, in_place=top.values["inplace"] is True)
    blocks = [parser.blocks(k) for k in range(len(gpus))]
    alignment = top.number("buffer_alignment", 1 << 20, 1, default=limits.ALIGNMENT)
    notes = [] if alignment == limits.ALIGNMENT else [f"buffer_alignment is {alignment} bytes"]
    if protocol == "LL":
        notes.append("LL packets carry their own flags; a read of one waits for its write")
    kind = limits.COLLECTIVE_BY_NAME.get(collective, collective[:64])
    buffers = ChunkBuffers(str(path), parser.inputs, parser.outputs, kind, _chunk_bytes(top, split))
    return MscclppPlan(buffers, parser.in_place, parser.scratch, blocks, notes, parser.semaphores, split)


def _check_ids(tables: list[Table], most: int) -> None:
    for place, table in enumerate(tables):
        if table.number("id", most) != place:
            raise InvalidInput(f"{table.where} has id {table.values['id']}; the loader needs them in order")


def _chunk_bytes(top: Table, split: int) -> int | None:
    """Our own exports say how large a chunk is."""
    if "interlock" not in top:
        return None
    size = top.table("interlock").number("chunk_bytes", limits.MAX_BUFFER_BYTES, 1)
    return size // split if size % split == 0 else None


def _split(gpus: list[Table]) -> int:
    """Into how many pieces groups of threadblocks divide chunks."""
    split = 1
    for gpu in gpus:
        for block in gpu.tables("threadblocks", limits.MAX_THREADBLOCKS, ""):
            for op in block.tables("ops", 4 * limits.MAX_OPERATIONS, ""):
                split = math.lcm(split, _slice(op)[1])
                if split > MAX_SPLIT:
                    raise LimitExceeded(f"{gpu.where}: groups of threadblocks divide chunks into {split} pieces")
    return split


def _slice(op: Table) -> tuple[int, int]:
    """Which part of its chunks an operation handles, and of how many."""
    if "tbg_info" not in op:
        return 0, 1
    group = op.table("tbg_info")
    size = group.number("tbg_size", MAX_SPLIT, 1)
    return group.number("tb_id", size - 1), size


@dataclass(frozen=True, slots=True)
class _Resources:
    """What the operations of a threadblock may name: ids of its GPU's channels and remote buffers, by type."""

    gpu: int
    channels: dict[str, list[int]]
    buffers: dict[str, list[int]]


class _Parser:
    def __init__(self, gpus: list[Table], split: int, *, in_place: bool) -> None:
        self.gpus, self.split, self.in_place = gpus, split, in_place
        self.inputs, self.outputs, self.scratch = (
            [gpu.number(f"{name}_chunks", MAX_CHUNKS) * split for gpu in gpus]
            for name in ("input", "output", "scratch")
        )
        most = limits.MAX_SEMAPHORES
        self.semaphores = [
            [each.number("init_value", 1 << 20) for each in gpu.tables("semaphores", most, ": semaphore", [])]
            for gpu in gpus
        ]
        # By GPU, in the order of their ids: channels by type, (buffer, ranks) of switches, and (rank, buffer, types).
        self.channels: list[dict[str, list[Channel]]] = [{kind: [] for kind in PAIRED} for _ in gpus]
        self.switches: list[list[tuple[str, tuple[int, ...]]]] = [[] for _ in gpus]
        for gpu in range(len(gpus)):
            self._connect(gpu)
        self.remote = [self._remote_buffers(gpu) for gpu in range(len(gpus))]

    def blocks(self, gpu: int) -> list[Threadblock]:
        """A GPU's threadblocks."""
        tables = self.gpus[gpu].tables("threadblocks", limits.MAX_THREADBLOCKS, ", threadblock {}")
        _check_ids(tables, limits.MAX_THREADBLOCKS)
        return [self._block(gpu, number, table) for number, table in enumerate(tables)]

    def _connect(self, gpu: int) -> None:
        seen: Counter[tuple[str, int]] = Counter()
        for channel in self.gpus[gpu].tables("channels", 4096, ": channel"):
            kind = channel.text("channel_type", (*PAIRED, "switch"))
            if kind == "switch":
                buffer = channel.text("buffer_type", BUFFERS)
                for group in channel.tables("rank_groups", 4096, ": rank group"):
                    ranks = tuple(group.indices("ranks", len(self.gpus), "gpu "))
                    if len(set(ranks)) != len(ranks):
                        raise InvalidInput(f"{group.where}: 'ranks' names a gpu twice")
                    self.switches[gpu].append((buffer, ranks))
                continue
            for peer in channel.indices("connected_to", len(self.gpus), "gpu "):
                if peer == gpu:
                    raise InvalidInput(f"{channel.where}: a {kind} channel is connected to its own gpu")
                ends = (kind, min(gpu, peer), max(gpu, peer), seen[kind, peer])
                self.channels[gpu][kind].append(Channel(kind, peer, ends))
                seen[kind, peer] += 1

    def _remote_buffers(self, gpu: int) -> list[tuple[int, str, tuple[str, ...]]]:
        made = []
        for buffer in self.gpus[gpu].tables("remote_buffers", 1 << 16, ": remote buffer"):
            rank, access = buffer.number("rank", len(self.gpus) - 1), buffer.entries("access_channel_types", 3)
            if rank == gpu or not all(kind in PAIRED for kind in access):
                raise InvalidInput(f"{buffer.where} must be another gpu's, reached by memory or port channels")
            made.append((rank, buffer.text("type", BUFFERS), tuple(str(kind) for kind in access)))
        return made

    def _block(self, gpu: int, number: int, block: Table) -> Threadblock:
        channels: dict[str, list[int]] = {kind: [] for kind in (*PAIRED, "switch")}
        for channel in block.tables("channels", 16, ": channel"):
            kind = channel.text("channel_type", tuple(channels))
            known = self.switches[gpu] if kind == "switch" else self.channels[gpu][kind]
            channels[kind] += channel.indices("channel_ids", len(known))
        buffers: dict[str, list[int]] = {kind: [] for kind in PAIRED}
        for reference in block.tables("remote_buffer_refs", 16, ": remote buffer", []):
            kind = reference.text("access_channel_type", PAIRED)
            ids = reference.indices("remote_buffer_ids", len(self.remote[gpu]))
            for buffer in ids:
                if kind not in self.remote[gpu][buffer][2]:
                    raise InvalidInput(f"{block.where}: remote buffer {buffer} is not reached by {kind} channels")
            buffers[kind] += ids
        for kind, ids in [*channels.items(), *((f"{kind} buffer", ids) for kind, ids in buffers.items())]:
            if len(ids) > limits.MAX_CHANNELS:
                raise LimitExceeded(f"{block.where} has {len(ids)} {kind} channels; at most {limits.MAX_CHANNELS} fit")
        steps: list[Table] = []
        for op in block.tables("ops", 4 * limits.MAX_OPERATIONS, ", operation {}"):
            steps.append(op)
            if op.values.get("name") == "pipeline":
                steps += op.tables("ops", limits.MAX_OPERATIONS, "", [])
        if len(steps) > limits.MAX_OPERATIONS:
            raise LimitExceeded(
                f"{block.where} has {len(steps)} operations; at most {limits.MAX_OPERATIONS} fit the executor"
            )
        resources = _Resources(gpu, channels, buffers)
        return Threadblock(gpu, number, [self._operation(step, resources) for step in steps])

    def _operation(self, op: Table, resources: _Resources) -> Operation:
        name, kind, ids = op.text("name", OPERATIONS), "none", list[int]()
        if "channel_type" in op:
            kind = op.text("channel_type", (*PAIRED, "switch", "none"))
        mine = resources.channels.get(kind, [])
        if "channel_ids" in op:
            ids = op.indices("channel_ids", len(mine))
        if len(ids) > limits.MAX_CHANNELS_PER_OPERATION:
            raise LimitExceeded(f"{op.where} names {len(ids)} channels; {limits.MAX_CHANNELS_PER_OPERATION} fit")
        if name in NEEDS_CHANNELS and not ids:
            raise InvalidInput(f"{op.where}: {name} names no channel")
        paired = self.channels[resources.gpu].get(kind)
        channels = () if paired is None else tuple(paired[mine[number]] for number in ids)
        sources, targets = (
            tuple(
                self._stretch(buffer, kind, resources, _slice(op))
                for buffer in op.tables(end, limits.MAX_CHANNELS_PER_OPERATION + 2, f": {end}", [])
            )
            for end in ("src_buff", "dst_buff")
        )
        _check_ends(op.where, name, sources, targets)
        barrier = None
        if name == "barrier":
            size = op.number("num_threadblocks", limits.MAX_THREADBLOCKS, 1)
            barrier = (op.number("barrier_id", limits.MAX_BARRIERS - 1), size)
        semaphores: tuple[int, ...] = ()
        if name in ("sem_acquire", "sem_release"):
            semaphores = tuple(op.indices("semaphore_ids", len(self.semaphores[resources.gpu])))
        return Operation(name, channels, sources, targets, barrier, semaphores)

    def _stretch(self, buffer: Table, kind: str, resources: _Resources, part: tuple[int, int]) -> Stretch:
        gpu, where = resources.gpu, buffer.where
        if "switch_channel_id" in buffer:
            ids = resources.channels["switch"]
            name, ranks = self.switches[gpu][ids[buffer.number("switch_channel_id", len(ids) - 1)]]
            if gpu not in ranks:
                raise InvalidInput(f"{where}: gpu {gpu} is not in its switch channel's group")
        elif "buffer_id" in buffer:
            ids = resources.buffers.get(kind, [])
            rank, name, _ = self.remote[gpu][ids[buffer.number("buffer_id", len(ids) - 1)]]
            ranks = (rank,)
        else:
            name, ranks = buffer.text("type", BUFFERS), (gpu,)
        first = buffer.number("index", MAX_CHUNKS) * self.split
        count = buffer.number("size", MAX_CHUNKS, 1) * self.split
        for rank in ranks:
            self._check_bounds(where, rank, name, first, count)
        number, parts = part
        begin = first + count * number // parts
        return Stretch(ranks, name, begin, first + count * (number + 1) // parts - begin)

    def _check_bounds(self, where: str, rank: int, name: str, first: int, count: int) -> None:
        sizes = {"i": self.inputs[rank], "o": self.outputs[rank], "s": self.scratch[rank]}
        size = max(sizes["i"], sizes["o"]) if self.in_place and name in "io" else sizes[name]
        if first + count > size:
            raise InvalidInput(
                f"{where}: chunks {first // self.split} to {(first + count) // self.split - 1} lie outside buffer "
                f"{name!r} of gpu {rank}, which has {size // self.split}"
            )


def _check_ends(where: str, name: str, sources: tuple[Stretch, ...], targets: tuple[Stretch, ...]) -> None:
    if name not in MOVES:
        return
    if not sources or not targets:
        raise InvalidInput(f"{where}: {name} needs src_buff and dst_buff")
    if name in PAIRED_MOVES:
        if len(sources) != len(targets):
            raise InvalidInput(f"{where}: {name} has {len(sources)} sources and {len(targets)} targets")
        differs = any(s.count != t.count for s, t in zip(sources, targets, strict=True))
    else:
        differs = len({stretch.count for stretch in (*sources, *targets)}) > 1
    if differs:
        raise InvalidInput(f"{where}: {name} has sources and targets of different sizes")
