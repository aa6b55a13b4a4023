"""Parses MSCCL++ execution plans and checks their form and limits, also those that MSCCL++'s own loader lets pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.interchange.mscclpp import limits
from interlock.interchange.shared.chunks.execution import ThreadblockProgram
from interlock.interchange.shared.chunks.goal import ChunkBuffers
from interlock.interchange.shared.json_text import Json, entries, number, read_json, table, text

__all__ = ["Threadblock", "Channel", "Operation", "MscclppPlan", "Stretch", "parse_mscclpp"]

MAX_GPUS = 4096
MAX_CHUNKS = 1 << 20
MAX_SPLIT = 64  # pieces of a chunk handled by groups of threadblocks

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
    top = table(read_json(path), str(path))
    collective, protocol = text(top, "collective", str(path)), text(top, "protocol", str(path), ("Simple", "LL"))
    text(top, "name", str(path))
    if not isinstance(top.get("inplace"), bool):
        raise InvalidInput(f"{path}: 'inplace' must be true or false")
    gpus = [table(gpu, f"{path}: gpus[{k}]") for k, gpu in enumerate(entries(top, "gpus", str(path), MAX_GPUS))]
    if not gpus:
        raise InvalidInput(f"{path}: 'gpus' is empty")
    if "inputChunks" in gpus[0]:
        raise InvalidInput(f"{path} has the keys of MSCCL++'s first plan format (inputChunks, …), which is not read")
    for k, gpu in enumerate(gpus):
        if number(gpu, "id", f"{path}: gpus[{k}]", MAX_GPUS) != k:
            raise InvalidInput(f"{path}: gpus[{k}] has id {gpu['id']}; the loader needs them in order")
    split = _split(path, gpus)
    parser = _Parser(path, gpus, split, in_place=top["inplace"] is True)
    blocks = [parser.blocks(k) for k in range(len(gpus))]
    alignment = number(top, "buffer_alignment", str(path), 1 << 20, 1, default=limits.ALIGNMENT)
    notes = [] if alignment == limits.ALIGNMENT else [f"buffer_alignment is {alignment} bytes"]
    if protocol == "LL":
        notes.append("LL packets carry their own flags; a read of one waits for its write")
    kind = limits.COLLECTIVE_BY_NAME.get(collective, collective[:64])
    buffers = ChunkBuffers(str(path), parser.inputs, parser.outputs, kind, _chunk_bytes(path, top, split))
    semaphores = [parser.semaphores(k) for k in range(len(gpus))]
    return MscclppPlan(buffers, top["inplace"] is True, parser.scratch, blocks, notes, semaphores, split)


def _chunk_bytes(path: Path, top: dict[str, Json], split: int) -> int | None:
    """Our own exports say how large a chunk is."""
    if "interlock" not in top:
        return None
    ours = table(top["interlock"], f"{path}: 'interlock'")
    size = number(ours, "chunk_bytes", f"{path}: 'interlock'", limits.MAX_BUFFER_BYTES, 1)
    return size // split if size % split == 0 else None


def _split(path: Path, gpus: list[dict[str, Json]]) -> int:
    """Into how many pieces groups of threadblocks divide chunks."""
    split = 1
    for k, gpu in enumerate(gpus):
        for block in entries(gpu, "threadblocks", f"{path}: gpu {k}", limits.MAX_THREADBLOCKS):
            where = f"{path}: gpu {k}"
            for op in entries(table(block, where), "ops", where, 4 * limits.MAX_OPERATIONS):
                inner = table(op, where)
                if "tbg_info" in inner:
                    group = table(inner["tbg_info"], f"{where}: 'tbg_info'")
                    split = math.lcm(split, number(group, "tbg_size", f"{where}: 'tbg_info'", MAX_SPLIT, 1))
                    if split > MAX_SPLIT:
                        raise LimitExceeded(f"{where}: groups of threadblocks divide chunks into {split} pieces")
    return split


class _Parser:
    def __init__(self, path: Path, gpus: list[dict[str, Json]], split: int, *, in_place: bool) -> None:
        self.path, self.gpus, self.split, self.in_place = path, gpus, split, in_place
        sizes: list[list[int]] = [
            [number(gpu, f"{name}_chunks", f"{path}: gpu {k}", MAX_CHUNKS) * split for k, gpu in enumerate(gpus)]
            for name in ("input", "output", "scratch")
        ]
        self.inputs, self.outputs, self.scratch = sizes
        self.connections = [self._connections(k) for k in range(len(gpus))]
        self.remote = [self._remote_buffers(k) for k in range(len(gpus))]

    def semaphores(self, gpu: int) -> list[int]:
        """Initial values of a GPU's semaphores."""
        where = f"{self.path}: gpu {gpu}"
        found = entries(self.gpus[gpu], "semaphores", where, limits.MAX_SEMAPHORES, default=[])
        return [number(table(s, f"{where}: semaphore"), "init_value", f"{where}: semaphore", 1 << 20) for s in found]

    def blocks(self, gpu: int) -> list[Threadblock]:
        """A GPU's threadblocks."""
        made = []
        for k, entry in enumerate(entries(self.gpus[gpu], "threadblocks", f"{self.path}: gpu {gpu}", 1024)):
            where = f"{self.path}: gpu {gpu}, threadblock {k}"
            block = table(entry, where)
            if number(block, "id", where, limits.MAX_THREADBLOCKS) != k:
                raise InvalidInput(f"{where} has id {block['id']}; the loader needs them in order")
            made.append(self._block(gpu, k, where, block))
        return made

    def _connections(self, gpu: int) -> dict[str, list[Channel] | list[tuple[str, tuple[int, ...]]]]:
        """Channels by type, in the order of their ids; switch channels as (buffer, ranks)."""
        memory: dict[str, list[Channel]] = {"memory": [], "port": []}
        switch: list[tuple[str, tuple[int, ...]]] = []
        seen: dict[tuple[str, int], int] = {}
        where = f"{self.path}: gpu {gpu}"
        for entry in entries(self.gpus[gpu], "channels", where, 4096):
            channel = table(entry, f"{where}: channel")
            kind = text(channel, "channel_type", f"{where}: channel", ("memory", "port", "switch"))
            if kind == "switch":
                buffer = text(channel, "buffer_type", f"{where}: switch channel", ("i", "o", "s"))
                for group in entries(channel, "rank_groups", f"{where}: switch channel", 4096):
                    inner = table(group, f"{where}: rank group")
                    switch.append((buffer, self._ranks(inner, "ranks", f"{where}: rank group")))
                continue
            for peer in self._ranks(channel, "connected_to", f"{where}: channel", repeated=True):
                if peer == gpu:
                    raise InvalidInput(f"{where}: a {kind} channel is connected to its own gpu")
                nth = seen.setdefault((kind, peer), 0)
                seen[kind, peer] += 1
                memory[kind].append(Channel(kind, peer, (kind, min(gpu, peer), max(gpu, peer), nth)))
        return {"memory": memory["memory"], "port": memory["port"], "switch": switch}

    def _ranks(self, holder: dict[str, Json], key: str, where: str, *, repeated: bool = False) -> tuple[int, ...]:
        ranks = self._ids(holder, key, where, len(self.gpus), "gpu ")
        if not repeated and len(set(ranks)) != len(ranks):
            raise InvalidInput(f"{where}: {key!r} names a gpu twice")
        return tuple(ranks)

    def _remote_buffers(self, gpu: int) -> list[tuple[int, str, tuple[str, ...]]]:
        where = f"{self.path}: gpu {gpu}: remote buffer"
        made = []
        for entry in entries(self.gpus[gpu], "remote_buffers", f"{self.path}: gpu {gpu}", 1 << 16):
            buffer = table(entry, where)
            rank = number(buffer, "rank", where, len(self.gpus) - 1)
            access = entries(buffer, "access_channel_types", where, 3)
            if rank == gpu or not all(kind in ("memory", "port") for kind in access):
                raise InvalidInput(f"{where} must be another gpu's, reached by memory or port channels")
            made.append((rank, text(buffer, "type", where, ("i", "o", "s")), tuple(str(kind) for kind in access)))
        return made

    def _block(self, gpu: int, k: int, where: str, block: dict[str, Json]) -> Threadblock:
        channels: dict[str, list[int]] = {"memory": [], "port": [], "switch": []}
        for entry in entries(block, "channels", where, 16):
            channel = table(entry, f"{where}: channel")
            kind = text(channel, "channel_type", f"{where}: channel", ("memory", "port", "switch"))
            known = len(self.connections[gpu][kind])
            channels[kind] += self._ids(channel, "channel_ids", f"{where}: {kind} channel", known)
        buffers: dict[str, list[int]] = {"memory": [], "port": []}
        for entry in entries(block, "remote_buffer_refs", where, 16, default=[]):
            reference = table(entry, f"{where}: remote buffer")
            kind = text(reference, "access_channel_type", f"{where}: remote buffer", ("memory", "port"))
            ids = self._ids(reference, "remote_buffer_ids", f"{where}: remote buffer", len(self.remote[gpu]))
            for number_ in ids:
                if kind not in self.remote[gpu][number_][2]:
                    raise InvalidInput(f"{where}: remote buffer {number_} is not reached by {kind} channels")
            buffers[kind] += ids
        for kind, ids in [*channels.items(), *((f"{kind} buffer", ids) for kind, ids in buffers.items())]:
            if len(ids) > limits.MAX_CHANNELS:
                raise LimitExceeded(f"{where} has {len(ids)} {kind} channels; at most {limits.MAX_CHANNELS} fit")
        made = Threadblock(gpu, k)
        count = 0
        for o, entry in enumerate(entries(block, "ops", where, 4 * limits.MAX_OPERATIONS)):
            op = table(entry, f"{where}, operation {o}")
            inner = entries(op, "ops", where, limits.MAX_OPERATIONS, default=[]) if op.get("name") == "pipeline" else []
            count += 1 + len(inner)
            for step in [op, *(table(i, f"{where}, operation {o}") for i in inner)]:
                made.steps.append(self._operation(gpu, f"{where}, operation {o}", step, channels, buffers))
        if count > limits.MAX_OPERATIONS:
            raise LimitExceeded(f"{where} has {count} operations; at most {limits.MAX_OPERATIONS} fit the executor")
        return made

    def _ids(self, holder: dict[str, Json], key: str, where: str, known: int, what: str = "") -> list[int]:
        made = []
        for entry in entries(holder, key, where, 1 << 16):
            if isinstance(entry, bool) or not isinstance(entry, int) or not 0 <= entry < known:
                raise InvalidInput(f"{where}: {key!r} names {what}{str(entry)[:20]}; there are {known}")
            made.append(entry)
        return made

    def _operation(
        self, gpu: int, where: str, op: dict[str, Json], channels: dict[str, list[int]], buffers: dict[str, list[int]]
    ) -> Operation:
        name = text(op, "name", where, OPERATIONS)
        kind = text(op, "channel_type", where, ("memory", "port", "switch", "none")) if "channel_type" in op else "none"
        ids = []
        if "channel_ids" in op:
            ids = self._ids(op, "channel_ids", where, len(channels.get(kind, [])))
        if len(ids) > limits.MAX_CHANNELS_PER_OPERATION:
            raise LimitExceeded(f"{where} names {len(ids)} channels; {limits.MAX_CHANNELS_PER_OPERATION} fit")
        if name in NEEDS_CHANNELS and not ids:
            raise InvalidInput(f"{where}: {name} names no channel")
        mine = self.connections[gpu]
        used = tuple(c for i in ids if isinstance(c := mine[kind][channels[kind][i]], Channel))
        slices = self._slice(op, where)
        ends = []
        for end in ("src_buff", "dst_buff"):
            listed = entries(op, end, where, limits.MAX_CHANNELS_PER_OPERATION + 2, default=[])
            ends.append(
                tuple(
                    self._stretch(gpu, f"{where}: {end}", table(b, f"{where}: {end}"), kind, channels, buffers, slices)
                    for b in listed
                )
            )
        self._check_ends(where, name, ends[0], ends[1])
        barrier = None
        if name == "barrier":
            size = number(op, "num_threadblocks", where, limits.MAX_THREADBLOCKS, 1)
            barrier = (number(op, "barrier_id", where, limits.MAX_BARRIERS - 1), size)
        semaphores: tuple[int, ...] = ()
        if name in ("sem_acquire", "sem_release"):
            known = len(entries(self.gpus[gpu], "semaphores", where, limits.MAX_SEMAPHORES, default=[]))
            semaphores = tuple(self._ids(op, "semaphore_ids", where, known))
        return Operation(name, used, ends[0], ends[1], barrier, semaphores)

    def _slice(self, op: dict[str, Json], where: str) -> tuple[int, int]:
        if "tbg_info" not in op:
            return 0, 1
        group = table(op["tbg_info"], f"{where}: 'tbg_info'")
        size = number(group, "tbg_size", where, MAX_SPLIT, 1)
        return number(group, "tb_id", where, size - 1), size

    def _stretch(
        self,
        gpu: int,
        where: str,
        buffer: dict[str, Json],
        kind: str,
        channels: dict[str, list[int]],
        buffers: dict[str, list[int]],
        slices: tuple[int, int],
    ) -> Stretch:
        if "switch_channel_id" in buffer:
            k = number(buffer, "switch_channel_id", where, len(channels["switch"]) - 1)
            group = self.connections[gpu]["switch"][channels["switch"][k]]
            assert not isinstance(group, Channel)
            name, ranks = group
            if gpu not in ranks:
                raise InvalidInput(f"{where}: gpu {gpu} is not in its switch channel's group")
        elif "buffer_id" in buffer:
            known = buffers.get(kind, [])
            k = number(buffer, "buffer_id", where, len(known) - 1)
            rank, name, _ = self.remote[gpu][known[k]]
            ranks = (rank,)
        else:
            name, ranks = text(buffer, "type", where, ("i", "o", "s")), (gpu,)
        first = number(buffer, "index", where, MAX_CHUNKS) * self.split
        count = number(buffer, "size", where, MAX_CHUNKS, 1) * self.split
        for rank in ranks:
            self._check_bounds(where, rank, name, first, count)
        part, parts = slices
        begin = first + count * part // parts
        return Stretch(ranks, name, begin, first + count * (part + 1) // parts - begin)

    def _check_bounds(self, where: str, rank: int, name: str, first: int, count: int) -> None:
        sizes = {"i": self.inputs[rank], "o": self.outputs[rank], "s": self.scratch[rank]}
        size = max(sizes["i"], sizes["o"]) if self.in_place and name in "io" else sizes[name]
        if first + count > size:
            raise InvalidInput(
                f"{where}: chunks {first // self.split} to {(first + count) // self.split - 1} lie outside buffer "
                f"{name!r} of gpu {rank}, which has {size // self.split}"
            )

    def _check_ends(self, where: str, name: str, sources: tuple[Stretch, ...], targets: tuple[Stretch, ...]) -> None:
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
