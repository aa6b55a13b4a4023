"""Parses MSCCL XML and checks its form and its consumers' limits, also those that their loaders let pass."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import read_bytes
from interlock.interchange.msccl import limits
from interlock.interchange.msccl.flavors import FLAVORS, Header, refusals
from interlock.interchange.shared.chunks.execution import ThreadblockProgram
from interlock.interchange.shared.chunks.goal import ChunkBuffers
from interlock.interchange.shared.files import MAX_FILE_BYTES
from interlock.interchange.shared.xml_text import Element, parse_xml, whole_number

__all__ = ["ADDS", "RECEIVES", "SENDS", "Threadblock", "Instruction", "parse_msccl_xml"]

MAX_GPUS = 4096
SENDS = ("s", "rcs", "rrs", "rrcs")
RECEIVES = ("r", "rcs", "rrs", "rrc", "rrcs")
ADDS = ("rrs", "rrc", "rrcs", "re")
TYPES = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a threadblock."""

    type: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    waits_for: tuple[int, int] | None  # threadblock, step
    is_waited_for: bool


@dataclass(slots=True)
class Threadblock:
    """A threadblock."""

    gpu: int
    id: int
    send: int | None
    receive: int | None
    channel: int
    steps: list[Instruction] = field(default_factory=list)


def parse_msccl_xml(path: Path) -> ThreadblockProgram[Threadblock]:
    """The program in a file, checked."""
    document = parse_xml(read_bytes(path, MAX_FILE_BYTES), path)
    root = document.root
    if root.name != "algo":
        raise InvalidInput(f"{path}: the root is <{root.name[:64]}>, not <algo>; this is not an MSCCL algorithm")
    name = root.attributes.get("coll", "")
    if name not in limits.COLLECTIVE_BY_NAME:
        raise InvalidInput(f"{path}: coll={name[:64]!r} is not one of {', '.join(sorted(limits.COLLECTIVE_BY_NAME))}")
    num_gpus = whole_number(root, "ngpus", str(path), 1, MAX_GPUS)
    channels = whole_number(root, "nchannels", str(path), 1, limits.MAX_CHANNELS)
    per_loop = whole_number(root, "nchunksperloop", str(path), 1)
    in_place = whole_number(root, "inplace", str(path), 0, 1) == 1
    gpus: dict[int, Element] = {}
    for element in root.all("gpu"):
        gpu = whole_number(element, "id", str(path), 0, num_gpus - 1)
        if gpu in gpus:
            raise InvalidInput(f"{path}: gpu {gpu} is given twice (line {element.line})")
        gpus[gpu] = element
    if len(gpus) != num_gpus:
        missing = min(set(range(num_gpus)) - set(gpus))
        raise InvalidInput(f"{path}: ngpus={num_gpus} but gpu {missing} is not there")
    ordered = [gpus[g] for g in range(num_gpus)]
    counts = [_chunk_counts(path, g, element) for g, element in enumerate(ordered)]
    inputs, outputs = _buffers([c[:2] for c in counts], limits.COLLECTIVE_BY_NAME[name], in_place=in_place)
    blocks = [_gpu_blocks(path, g, element, counts[g], num_gpus, channels) for g, element in enumerate(ordered)]
    _check_channels(path, blocks)
    buffers = ChunkBuffers(str(path), inputs, outputs, limits.COLLECTIVE_BY_NAME[name], _chunk_bytes(document.comments))
    notes = _notes(root, blocks, per_loop, buffers)
    return ThreadblockProgram(buffers, in_place, [c[2] for c in counts], blocks, notes)


def _buffers(counts: list[tuple[int, int]], collective: str, *, in_place: bool) -> tuple[list[int], list[int]]:
    """Input and output chunks of each GPU; in-place files may declare only the larger buffer of the two."""
    ranks = len(counts)
    if not in_place:
        return [i for i, _ in counts], [o for _, o in counts]
    if collective in ("all-gather", "gather"):
        return [i or o // ranks for i, o in counts], [o or i * ranks for i, o in counts]
    if collective in ("reduce-scatter", "scatter"):
        return [i or o * ranks for i, o in counts], [o or i // ranks for i, o in counts]
    whole = [max(i, o) for i, o in counts]
    return whole, list(whole)


def _chunk_counts(path: Path, gpu: int, element: Element) -> tuple[int, int, int]:
    where = f"{path}: gpu {gpu}"
    return (
        whole_number(element, "i_chunks", where, 0, limits.MAX_OFFSET + 1),
        whole_number(element, "o_chunks", where, 0, limits.MAX_OFFSET + 1),
        whole_number(element, "s_chunks", where, 0, limits.MAX_OFFSET + 1),
    )


def _chunk_bytes(comments: tuple[str, ...]) -> int | None:
    for comment in comments:
        found = re.search(r"\binterlock: .*\bchunk_bytes=([0-9]{1,18})\b", comment)
        if found:
            return int(found.group(1)) or None
    return None


def _gpu_blocks(
    path: Path, gpu: int, element: Element, chunks: tuple[int, int, int], num_gpus: int, channels: int
) -> list[Threadblock]:
    blocks: dict[int, Threadblock] = {}
    nodes = 1 + num_gpus
    for tb in element.all("tb"):
        number = whole_number(tb, "id", f"{path}: gpu {gpu}", 0, limits.MAX_THREADBLOCKS - 1)
        where = f"{path}: gpu {gpu}, threadblock {number}"
        if number in blocks:
            raise InvalidInput(f"{where} is given twice (line {tb.line})")
        peers = [whole_number(tb, key, where, -1, num_gpus - 1) for key in ("send", "recv")]
        if gpu in peers:
            raise InvalidInput(f"{where} sends to or receives from its own gpu")
        channel = whole_number(tb, "chan", where, 0, channels - 1)
        send, receive = (None if peer < 0 else peer for peer in peers)
        block = Threadblock(gpu, number, send, receive, channel)
        for s, step in enumerate(tb.all("step")):
            if s >= limits.MAX_STEPS:
                raise LimitExceeded(f"{where} has more than {limits.MAX_STEPS} steps")
            block.steps.append(_parse_step(f"{where}, step {s}", s, step, block, chunks))
        _check_nops(where, block)
        blocks[number] = block
        nodes += 1 + len(block.steps)
    if nodes > limits.MAX_NODES_PER_GPU:
        raise LimitExceeded(
            f"{path}: gpu {gpu} has {nodes} XML elements with all gpus'; executors keep {limits.MAX_NODES_PER_GPU}"
        )
    missing = set(range(len(blocks))) - set(blocks)
    if missing:
        raise InvalidInput(f"{path}: gpu {gpu} lacks threadblock {min(missing)}; ids must be consecutive")
    made = [blocks[k] for k in range(len(blocks))]
    _check_dependencies(path, gpu, made)
    return made


def _parse_step(where: str, s: int, element: Element, block: Threadblock, chunks: tuple[int, int, int]) -> Instruction:
    if whole_number(element, "s", where) != s:
        raise InvalidInput(f"{where}: s={element.attributes['s']}; steps must be numbered 0, 1, 2, …")
    kind = element.attributes.get("type", "")
    if kind == "ra":
        raise InvalidInput(f"{where}: type 'ra' adds a residual that is part of no collective; it is not read")
    if kind not in TYPES:
        raise InvalidInput(f"{where}: type={kind[:20]!r} is not one of {', '.join(TYPES)}")
    count = whole_number(element, "cnt", where, 0 if kind == "nop" else 1, limits.MAX_COUNT)
    if kind in SENDS and block.send is None:
        raise InvalidInput(f"{where} sends, but its threadblock names no peer to send to")
    if kind in RECEIVES and block.receive is None:
        raise InvalidInput(f"{where} receives, but its threadblock names no peer to receive from")
    sizes = dict(zip("ios", chunks, strict=True))
    places = []
    for end in ("src", "dst"):
        buffer = element.attributes.get(f"{end}buf", "")
        if buffer not in sizes:
            raise InvalidInput(f"{where}: {end}buf={buffer[:20]!r} is not i, o or s")
        offset = whole_number(element, f"{end}off", where, -1, limits.MAX_OFFSET)
        places.append((buffer, offset))
    used = {"s": "s", "cpy": "sd", "re": "sd", "r": "d", "rcs": "d", "rrs": "s", "rrc": "sd", "rrcs": "sd"}.get(
        kind, ""
    )
    for letter, (buffer, offset) in zip("sd", places, strict=True):
        if letter in used and not 0 <= offset <= _size(sizes, buffer) - count:
            raise InvalidInput(
                f"{where}: chunks {offset} to {offset + count - 1} lie outside buffer {buffer!r} of "
                f"{_size(sizes, buffer)} chunks"
            )
    depid = whole_number(element, "depid", where, -1, limits.MAX_THREADBLOCKS - 1)
    deps = whole_number(element, "deps", where, -1, limits.MAX_STEPS - 1)
    if (depid < 0) != (deps < 0):
        raise InvalidInput(f"{where}: depid={depid} and deps={deps}; both or neither must be -1")
    has_dep = whole_number(element, "hasdep", where, 0, 1) == 1
    return Instruction(kind, places[0], places[1], count, (depid, deps) if depid >= 0 else None, has_dep)


def _size(sizes: dict[str, int], buffer: str) -> int:
    """Chunks of a buffer; in-place files declare the one buffer they have on one side only."""
    return max(sizes["i"], sizes["o"]) if buffer in "io" and 0 in (sizes["i"], sizes["o"]) else sizes[buffer]


def _check_nops(where: str, block: Threadblock) -> None:
    """Executors fold nops into the next step: each must wait for something, and so must the step after them."""
    for s, step in enumerate(block.steps):
        if step.type != "nop":
            continue
        if step.waits_for is None:
            raise InvalidInput(f"{where}, step {s}: a nop that waits for nothing shifts the numbers of later steps")
        if s + 1 < len(block.steps) and block.steps[s + 1].waits_for is None:
            raise InvalidInput(
                f"{where}, step {s + 1} follows a nop but waits for nothing: the last dependency of a chain must be on "
                "the step itself"
            )


def _check_dependencies(path: Path, gpu: int, blocks: list[Threadblock]) -> None:
    for block in blocks:
        for s, step in enumerate(block.steps):
            if step.waits_for is None:
                continue
            where = f"{path}: gpu {gpu}, threadblock {block.id}, step {s}"
            other, awaited = step.waits_for
            if other >= len(blocks) or awaited >= len(blocks[other].steps):
                raise InvalidInput(f"{where} waits for step {awaited} of threadblock {other}, which does not exist")
            if other > limits.MAX_DEPENDED_BLOCK:
                raise LimitExceeded(f"{where} waits for threadblock {other}; executors know ids up to 127 there")
            if not blocks[other].steps[awaited].is_waited_for:
                raise InvalidInput(
                    f'{where} waits for step {awaited} of threadblock {other}, which has hasdep="0" and never says '
                    "that it is done"
                )


def _check_channels(path: Path, blocks: list[list[Threadblock]]) -> None:
    """Per channel, one threadblock sends to a given peer and one receives from it, and both ends exist."""
    sends: dict[tuple[int, int, int], Threadblock] = {}
    receives: dict[tuple[int, int, int], Threadblock] = {}
    for gpu, mine in enumerate(blocks):
        count: dict[tuple[bool, int], int] = {}
        for block in mine:
            for peer, table, way in ((block.send, sends, "sends to"), (block.receive, receives, "receives from")):
                if peer is None:
                    continue
                key = (gpu, peer, block.channel) if table is sends else (peer, gpu, block.channel)
                where = f"{path}: gpu {gpu}, threadblock {block.id}"
                if key in table:
                    raise InvalidInput(
                        f"{where} {way} gpu {peer} on channel {block.channel}, as threadblock {table[key].id} does; "
                        "one per channel is allowed"
                    )
                table[key] = block
                count[table is sends, block.channel] = count.get((table is sends, block.channel), 0) + 1
                if count[table is sends, block.channel] > limits.MAX_PEERS_PER_CHANNEL:
                    raise LimitExceeded(
                        f"{where}: more than {limits.MAX_PEERS_PER_CHANNEL} threadblocks of channel {block.channel} "
                        f"{'send' if table is sends else 'receive'}"
                    )
    for key, block in sends.items():
        if key not in receives and any(step.type in SENDS for step in block.steps):
            raise InvalidInput(
                f"{path}: gpu {key[0]}, threadblock {block.id} sends to gpu {key[1]} on channel {key[2]}, where no "
                "threadblock receives from it"
            )


def _notes(root: Element, blocks: list[list[Threadblock]], per_loop: int, buffers: ChunkBuffers) -> list[str]:
    """What some readers would refuse or ignore, though the file is sound."""
    header = Header(
        root.attributes,
        max((len(block.steps) for gpu in blocks for block in gpu), default=0),
        max(map(len, blocks)),
        tuple(zip(buffers.inputs, buffers.outputs, strict=True)),
    )
    notes = [f"{made.reader} would not take it: {why}" for made in FLAVORS.values() for why in refusals(made, header)]
    if len(root.attributes.get("name", "")) > limits.MAX_NAME:
        notes.append(f"its name is longer than {limits.MAX_NAME} characters: microsoft/msccl cuts it off")
    whole = max(*buffers.inputs, *buffers.outputs)
    if per_loop != whole:
        notes.append(f"nchunksperloop={per_loop}, but the larger buffer has {whole} chunks")
    return notes
