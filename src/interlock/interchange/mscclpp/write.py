"""Writes MSCCL++ execution plans.

Sending is one-sided: a threadblock puts chunks into another GPU's buffer and signals. Whoever needs them there waits
for the signal itself, so each (sending threadblock, waiting threadblock) has a channel of its own. What must be added,
or would overwrite something, lands in scratch first and is combined by the receiver. Work is split over threadblocks
so that each keeps to 64 operations and 16 channels of a type.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import write_atomically
from interlock.interchange.contract import ExportReport
from interlock.interchange.mscclpp import limits
from interlock.interchange.mscclpp.actions import Actions, collect_actions
from interlock.interchange.mscclpp.blocks import Blocks, build_blocks
from interlock.interchange.shared.chunks.layout import ChunkLayout, lay_out
from interlock.interchange.shared.chunks.program import lower
from interlock.interchange.shared.chunks.quantise import ChunkPolicy, Quantised, fit_chunks
from interlock.interchange.shared.sequence import Sequence, sequence_messages
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["write_schedule"]

ROOM = (56, 48, 40, 32, 24, 16, 12, 8, 4)  # operations of a threadblock, tried in turn until all limits are kept
MAX_MOVES = 4096
MAX_ADDED = 0.002  # of the bytes, by rounding: operations have any length, so small chunks cost none
MAX_CHUNKS_PER_RANK = 16_384  # ours: every chunk is followed one by one
CO_RESIDENT = 108  # threadblocks that run at once on an A100; more may never start


def write_schedule(schedule: Schedule, problem: Problem, path: Path, *, chunk_bytes: int | None = None) -> ExportReport:
    """Write the plan."""
    build = partial(_build, schedule, problem, sequence_messages(schedule, problem.topology))
    policy = ChunkPolicy(chunk_bytes, MAX_CHUNKS_PER_RANK, limits.ALIGNMENT, max_added=MAX_ADDED)
    quantised, (layout, actions, blocks) = fit_chunks(schedule, problem, policy, build)
    text = _render(layout, quantised, actions, blocks).encode()
    write_atomically(path, lambda file: file.writelines([text]))
    notes = [*actions.notes]
    if len(schedule.barriers):
        notes.append("barriers are kept at each GPU, not between GPUs")
    most = max(len(gpu) for gpu in blocks.operations)
    if most > CO_RESIDENT:
        notes.append(f"a GPU has {most} threadblocks; all must run at once, and many GPUs run only {CO_RESIDENT}")
    return ExportReport(
        "mscclpp-json", (path,), quantised.chunk_bytes, quantised.policy, quantised.inflation, tuple(notes)
    )


def _build(
    schedule: Schedule, problem: Problem, sequence: Sequence, quantised: Quantised
) -> tuple[ChunkLayout, Actions, Blocks]:
    layout = lay_out(problem, quantised, equal_buffers=False)
    program = lower(schedule, problem, quantised, layout, sequence, max_run=1 << 20)
    moves = np.bincount([t.src for t in program.transfers], minlength=problem.num_ranks)
    if moves.max(initial=0) > MAX_MOVES:
        raise LimitExceeded(
            f"gpu {moves.argmax()} sends {moves.max()} messages; at most {MAX_MOVES} are divided into threadblocks of "
            f"{limits.MAX_OPERATIONS} operations"
        )
    refusal: LimitExceeded | None = None
    actions = collect_actions(program, problem, schedule)
    for room in ROOM:
        try:
            blocks = build_blocks(actions, problem, room)
        except LimitExceeded as error:
            refusal = error
            continue
        _check_bytes(layout, actions, quantised.chunk_bytes)
        return layout, actions, blocks
    assert refusal is not None
    raise refusal


def _check_bytes(layout: ChunkLayout, actions: Actions, chunk_bytes: int) -> None:
    largest = max(int(layout.input_chunks.max()), int(layout.output_chunks.max()), *actions.scratch_chunks)
    if largest * chunk_bytes > limits.MAX_BUFFER_BYTES:
        raise InvalidInput(
            f"a buffer of {largest} chunks of {chunk_bytes} bytes is above 4 GiB, the reach of MSCCL++'s 32-bit offsets"
        )


def _render(layout: ChunkLayout, quantised: Quantised, actions: Actions, blocks: Blocks) -> str:
    gpus = []
    for rank in range(len(layout.input_chunks)):
        gpus.append(
            {
                "id": rank,
                "input_chunks": int(layout.input_chunks[rank]),
                "output_chunks": int(layout.output_chunks[rank]),
                "scratch_chunks": actions.scratch_chunks[rank],
                "threadblocks": [
                    {
                        "id": k,
                        "ops": operations,
                        "channels": blocks.channels_of(rank, k),
                        "remote_buffer_refs": blocks.buffers_of(rank, k),
                    }
                    for k, operations in enumerate(blocks.operations[rank])
                ],
                "channels": blocks.gpu_channels(rank),
                "remote_buffers": blocks.gpu_buffers(rank),
                "semaphores": [{"init_value": 0} for _ in range(blocks.num_semaphores[rank])],
            }
        )
    plan = {
        "name": "interlock",
        "collective": limits.NAME_BY_COLLECTIVE[layout.collective],
        "protocol": "Simple",
        "inplace": False,
        "reuse_resources": False,
        "use_double_scratch_buffer": False,
        "buffer_alignment": limits.ALIGNMENT,
        "num_threads_per_block": 1024,
        "gpus": gpus,
        "interlock": {"chunk_bytes": quantised.chunk_bytes},
    }
    return json.dumps(plan, indent=1) + "\n"
