"""Writes MSCCL XML.

One threadblock per connection and direction (both directions share one where a GPU has many peers), all following one
order of messages, so that none can deadlock. Several dependencies become a chain of `nop`. Threadblocks that are full
continue on another channel. An All-to-Allv takes the chunk-matrix form: ``coll="allreduce"``, buffers as large as the
largest any GPU needs, and nothing sent beyond the chunks of the demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import write_atomically
from interlock.interchange.contract import ExportReport
from interlock.interchange.msccl import limits
from interlock.interchange.msccl.flavors import Flavor, get_flavor
from interlock.interchange.shared.chunks.layout import ChunkLayout, lay_out
from interlock.interchange.shared.chunks.program import ChunkProgram, LocalCopy, Place, Run, Transfer, lower
from interlock.interchange.shared.chunks.quantise import ChunkPolicy, Quantised, fit_chunks
from interlock.interchange.shared.sequence import sequence_messages, unsaid_by_sends
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["write_schedule"]

MANY_BLOCKS = 64  # above this many, sending and receiving share threadblocks

# (rank, kind, peer or distance, channel); kind: "send", "receive", "both" or "copy"
BlockKey = tuple[int, str, int, int]


@dataclass(slots=True)
class _Step:
    type: str
    source: Place
    target: Place
    count: int
    waits_for: tuple[BlockKey, int] | None  # threadblock and step
    is_waited_for: bool = False


@dataclass(slots=True)
class _Block:
    send: int = -1
    receive: int = -1
    steps: list[_Step] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Algorithm:
    layout: ChunkLayout
    quantised: Quantised
    scratch_chunks: list[int]
    blocks_of_rank: list[list[tuple[int, _Block]]]  # (channel, threadblock), in the order of their ids
    id_of_block: dict[BlockKey, int]
    num_channels: int
    flavor: Flavor
    root: int | None  # of a rooted collective

    @property
    def is_alltoallv(self) -> bool:
        return self.layout.chunk_matrix is not None

    @property
    def chunks_per_loop(self) -> int:
        return max(int(self.layout.input_chunks.max()), int(self.layout.output_chunks.max()))

    @property
    def exact_bytes(self) -> int | None:
        """The one size it is for: an All-to-Allv's, and a rooted collective's, lest any broadcast takes it."""
        if not self.is_alltoallv and self.root is None:
            return None
        return self.chunks_per_loop * self.quantised.chunk_bytes


def write_schedule(
    schedule: Schedule, problem: Problem, path: Path, *, chunk_bytes: int | None = None, flavor: str = "rccl"
) -> ExportReport:
    """Write the XML for one of `FLAVORS` and, for an All-to-Allv, its chunk matrix as CSV beside it."""
    algorithm = _build(schedule, problem, chunk_bytes, get_flavor(flavor))
    lines = [line.encode() for line in _render(algorithm)]
    write_atomically(path, lambda file: file.writelines(lines))
    files, notes = [path], _notes(schedule, algorithm)
    matrix = algorithm.layout.chunk_matrix
    if matrix is not None:
        beside = path.with_suffix(".chunks.csv")
        write_atomically(beside, lambda file: _write_matrix(file, matrix))
        files.append(beside)
    quantised = algorithm.quantised
    return ExportReport("msccl-xml", tuple(files), quantised.chunk_bytes, quantised.policy, quantised.inflation, notes)


def _notes(schedule: Schedule, algorithm: _Algorithm) -> tuple[str, ...]:
    notes = unsaid_by_sends(schedule, "MSCCL", at="GPU")
    if algorithm.is_alltoallv:
        notes.append(
            f'an All-to-Allv has coll="allreduce" and one size: call ncclAllReduce, out of place, on buffers of '
            f"{algorithm.exact_bytes} bytes"
        )
    if algorithm.root is not None:
        notes.append(
            f"MSCCL names no root: {algorithm.flavor.reader} takes this file for calls with any root, and it is right "
            f"for root {algorithm.root} only; calls of other sizes than {algorithm.exact_bytes} bytes do not take it"
        )
    return tuple(notes)


def _write_matrix(file: BinaryIO, matrix: NDArray[np.int64]) -> None:
    for row in matrix.tolist():
        file.write((",".join(map(str, row)) + "\n").encode())


def _build(schedule: Schedule, problem: Problem, chunk_bytes: int | None, flavor: Flavor) -> _Algorithm:
    if problem.demand is None and problem.collective is None:
        raise InvalidInput("MSCCL XML holds collectives and All-to-Allv; this problem is neither")
    if problem.collective is not None and str(problem.collective.kind) not in flavor.names:
        raise InvalidInput(f"{flavor.reader} never calls a {problem.collective.kind}; see --flavor")
    sequence = sequence_messages(schedule, problem.topology)
    root = problem.collective.root if problem.collective is not None and problem.collective.is_rooted else None

    def build(quantised: Quantised) -> _Algorithm:
        layout = lay_out(problem, quantised, equal_buffers=True)
        program = lower(schedule, problem, quantised, layout, sequence, limits.MAX_COUNT)
        return _number(layout, quantised, program, _assign(program), flavor, root)

    policy = ChunkPolicy(chunk_bytes, limits.MAX_OFFSET // 2, limits.ALIGNMENT)
    return fit_chunks(schedule, problem, policy, build)[1]


def _assign(program: ChunkProgram) -> dict[BlockKey, _Block]:
    """Put every move into threadblocks, opening further channels where one is full."""
    ranks = len(program.layout.input_chunks)
    peers = {(t.src, t.dst) for t in program.transfers}
    degree = np.bincount([rank for pair in peers for rank in pair], minlength=ranks)
    shares_blocks = bool(degree.max(initial=0) > MANY_BLOCKS)
    assigner = _Assigner(program, ranks, shares_blocks=shares_blocks)
    for transfer in program.transfers:
        for run in transfer.runs:
            assigner.move(transfer, run)
    for copy in program.copies:
        assigner.copy(copy)
    return assigner.blocks


class _Assigner:
    def __init__(self, program: ChunkProgram, num_ranks: int, *, shares_blocks: bool) -> None:
        self.program, self.num_ranks, self.shares_blocks = program, num_ranks, shares_blocks
        self.groups = -(-max(1, num_ranks - 1) // limits.MAX_PEERS_PER_CHANNEL)
        self.blocks: dict[BlockKey, _Block] = {}
        self.full: dict[tuple[int, int], int] = {}  # pair -> how many channels it has filled
        self.copy_blocks: dict[int, int] = {}
        self.place: dict[int, tuple[BlockKey, int]] = {}  # event -> threadblock and step

    def move(self, transfer: Transfer, run: Run) -> None:
        """A send step and its receive step."""
        pair = (transfer.src, transfer.dst)
        while True:
            send, receive = self._keys(*pair)
            send_waits = self._outside(run.send_event, send)
            receive_waits = self._outside(run.receive_event, receive)
            if self._fits(send, len(send_waits)) and self._fits(receive, len(receive_waits)):
                break
            self._check_room(pair, max(len(send_waits), len(receive_waits)))
            self.full[pair] = self.full.get(pair, 0) + 1
        self._block(send).send = transfer.dst
        self._block(receive).receive = transfer.src
        self._append(send, run.send_event, send_waits, _Step("s", run.source, run.target, run.count, None))
        if run.added_to is None:
            step = _Step("r", run.source, run.target, run.count, None)
        else:
            step = _Step("rrc", run.added_to, run.target, run.count, None)
        self._append(receive, run.receive_event, receive_waits, step)

    def copy(self, copy: LocalCopy) -> None:
        """A step that copies within a rank."""
        key: BlockKey = (copy.rank, "copy", self.copy_blocks.setdefault(copy.rank, 0), 0)
        waits = self._outside(copy.event, key)
        if not self._fits(key, len(waits)):
            self.copy_blocks[copy.rank] += 1
            key = (copy.rank, "copy", self.copy_blocks[copy.rank], 0)
            waits = self._outside(copy.event, key)
        self._append(key, copy.event, waits, _Step("cpy", copy.source, copy.target, copy.count, None))

    def _keys(self, src: int, dst: int) -> tuple[BlockKey, BlockKey]:
        distance = (dst - src) % self.num_ranks
        group = (distance - 1) // limits.MAX_PEERS_PER_CHANNEL
        channel = self.full.get((src, dst), 0) * self.groups + group
        if self.shares_blocks:
            return (src, "both", distance, channel), (dst, "both", distance, channel)
        return (src, "send", dst, channel), (dst, "receive", src, channel)

    def _check_room(self, pair: tuple[int, int], waits: int) -> None:
        if waits >= limits.MAX_STEPS_WRITTEN:
            raise LimitExceeded(
                f"rank {pair[0]} to rank {pair[1]}: a step waits for {waits} threadblocks; at most "
                f"{limits.MAX_STEPS_WRITTEN - 1} fit a threadblock of MSCCL"
            )
        if (self.full.get(pair, 0) + 2) * self.groups > limits.MAX_CHANNELS:
            raise LimitExceeded(
                f"rank {pair[0]} to rank {pair[1]} needs more than {limits.MAX_CHANNELS} channels of "
                f"{limits.MAX_STEPS_WRITTEN} steps; use larger chunks or fewer messages"
            )

    def _block(self, key: BlockKey) -> _Block:
        return self.blocks.setdefault(key, _Block())

    def _fits(self, key: BlockKey, waits: int) -> bool:
        steps = len(self.blocks[key].steps) if key in self.blocks else 0
        return steps + max(1, waits) <= limits.MAX_STEPS_WRITTEN

    def _outside(self, event: int, key: BlockKey) -> list[tuple[BlockKey, int]]:
        """The last step to wait for in each other threadblock."""
        last: dict[BlockKey, int] = {}
        for earlier in self.program.waits_for[event] | self.program.paced_after.get(event, set()):
            block, step = self.place[earlier]
            if block != key:
                last[block] = max(step, last.get(block, -1))
        return sorted(last.items())

    def _append(self, key: BlockKey, event: int, waits: list[tuple[BlockKey, int]], step: _Step) -> None:
        steps = self._block(key).steps
        for block, earlier in waits:
            self.blocks[block].steps[earlier].is_waited_for = True
        for wait in waits[:-1]:
            steps.append(_Step("nop", ("i", -1), ("o", -1), 0, wait))
        step.waits_for = waits[-1] if waits else None
        self.place[event] = (key, len(steps))
        steps.append(step)


def _number(
    layout: ChunkLayout,
    quantised: Quantised,
    program: ChunkProgram,
    blocks: dict[BlockKey, _Block],
    flavor: Flavor,
    root: int | None,
) -> _Algorithm:
    """Give threadblocks their ids, those that others wait for first, and check what is left of the limits."""
    ranks = len(layout.input_chunks)
    waited_for = {step.waits_for[0] for block in blocks.values() for step in block.steps if step.waits_for}
    keys_of_rank: list[list[BlockKey]] = [[] for _ in range(ranks)]
    for key in sorted(blocks):
        keys_of_rank[key[0]].append(key)
    id_of_block: dict[BlockKey, int] = {}
    blocks_of_rank = []
    for rank, keys in enumerate(keys_of_rank):
        if len(keys) > limits.MAX_DEPENDED_BLOCK:
            keys.sort(key=lambda key: (key not in waited_for, key))
        id_of_block |= {key: k for k, key in enumerate(keys)}
        depended = [k for k, key in enumerate(keys) if key in waited_for]
        _check_gpu(rank, ranks, keys, blocks, depended[-1] if depended else 0, flavor)
        blocks_of_rank.append([(key[3], blocks[key]) for key in keys])
    largest = max(int(layout.input_chunks.max()), int(layout.output_chunks.max()), *program.scratch_chunks)
    if largest > limits.MAX_OFFSET:
        raise LimitExceeded(f"a buffer of {largest} chunks is above MSCCL's {limits.MAX_OFFSET}; use larger chunks")
    channels = 1 + max((key[3] for key in blocks), default=0)
    return _Algorithm(layout, quantised, program.scratch_chunks, blocks_of_rank, id_of_block, channels, flavor, root)


def _check_gpu(
    rank: int, ranks: int, keys: list[BlockKey], blocks: dict[BlockKey, _Block], depended: int, flavor: Flavor
) -> None:
    steps = sum(len(blocks[key].steps) for key in keys)
    if 1 + ranks + len(keys) + steps > limits.MAX_NODES_PER_GPU:
        raise LimitExceeded(
            f"gpu {rank}: {len(keys)} threadblocks with {steps} steps are more than the {limits.MAX_NODES_PER_GPU} XML "
            "elements that MSCCL's executors keep; use larger chunks or fewer messages"
        )
    if len(keys) > flavor.max_threadblocks or depended > limits.MAX_DEPENDED_BLOCK:
        raise LimitExceeded(
            f"gpu {rank}: {len(keys)} threadblocks, the last that others wait for being {depended}; at most "
            f"{flavor.max_threadblocks} and {limits.MAX_DEPENDED_BLOCK} are allowed"
        )


def _render(algorithm: _Algorithm) -> Iterator[str]:
    layout, chunk_bytes = algorithm.layout, algorithm.quantised.chunk_bytes
    per_loop, flavor = algorithm.chunks_per_loop, algorithm.flavor
    least, most = flavor.sizes(algorithm.exact_bytes)
    yield f"<!-- interlock: {layout.collective}, chunk_bytes={chunk_bytes} -->\n"
    yield (
        f'<algo name="interlock" proto="Simple" nchannels="{algorithm.num_channels}" '
        f'nchunksperloop="{per_loop}" ngpus="{len(layout.input_chunks)}" '
        f'coll="{flavor.names[layout.collective]}" inplace="0" outofplace="1" '
        f'minBytes="{least}" maxBytes="{most}">\n'
    )
    for rank, blocks in enumerate(algorithm.blocks_of_rank):
        yield (
            f'  <gpu id="{rank}" i_chunks="{layout.input_chunks[rank]}" o_chunks="{layout.output_chunks[rank]}" '
            f's_chunks="{algorithm.scratch_chunks[rank]}">\n'
        )
        for number, (channel, block) in enumerate(blocks):
            yield f'    <tb id="{number}" send="{block.send}" recv="{block.receive}" chan="{channel}">\n'
            for s, step in enumerate(block.steps):
                depid, deps = (-1, -1)
                if step.waits_for is not None:
                    depid, deps = algorithm.id_of_block[step.waits_for[0]], step.waits_for[1]
                yield (
                    f'      <step s="{s}" type="{step.type}" srcbuf="{step.source[0]}" srcoff="{step.source[1]}" '
                    f'dstbuf="{step.target[0]}" dstoff="{step.target[1]}" cnt="{step.count}" depid="{depid}" '
                    f'deps="{deps}" hasdep="{int(step.is_waited_for)}"/>\n'
                )
            yield "    </tb>\n"
        yield "  </gpu>\n"
    yield "</algo>\n"
