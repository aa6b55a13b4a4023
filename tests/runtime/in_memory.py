"""Runs the programs of all ranks in one process: messages are dictionary entries, order is drawn at random."""

from __future__ import annotations

import random

import numpy as np
import torch

from interlock.planning import Plan
from interlock.runtime import Layout
from interlock.runtime.buffers import combining, copy_own, pack, start, unpack
from interlock.schedule import Buffer, Program

COLUMNS = ("buffer", "start", "bytes", "peer", "tag")


class Rank:
    """One rank's program and how far it has come."""

    def __init__(self, program: Program, source: torch.Tensor, target: torch.Tensor) -> None:
        self.program = program
        scratch = torch.full((max(1, program.scratch_bytes),), 0xEE, dtype=torch.uint8)
        self.buffers = (source, target, scratch)
        self.columns = {name: column.tolist() for name, column in program.columns.items()}
        self.waits = np.diff(program.columns["wait_offsets"]).tolist()
        self.done = [False] * len(self.waits)
        self.ready = [step for step, count in enumerate(self.waits) if count == 0]
        start(self.columns, self.buffers)
        copy_own(self.columns, self.buffers)


def run(
    plan: Plan,
    layouts: list[Layout],
    sources: list[torch.Tensor],
    targets: list[torch.Tensor],
    seed: int,
    element: torch.dtype | None = None,
) -> int:
    """Execute a plan on every rank's buffers in a random legal order; give the number of messages moved."""
    programs = [plan.program(rank, layouts[rank]) for rank in range(plan.problem.num_ranks)]
    ranks = [Rank(*parts) for parts in zip(programs, sources, targets, strict=True)]
    draw = random.Random(seed)
    wire: dict[tuple[int, int, int], torch.Tensor] = {}
    moved = 0
    while any(rank.ready for rank in ranks):
        progressed = False
        for rank in draw.sample(ranks, len(ranks)):
            for step in draw.sample(rank.ready, len(rank.ready)):
                if _run_step(rank, step, wire, element):
                    moved += step < rank.program.num_sends
                    progressed = True
        assert progressed, "no rank can go on: the order has a cycle, or a message is never sent"
    assert not wire, f"messages nobody received: {sorted(wire)[:5]}"
    assert all(all(rank.done) for rank in ranks), "steps that never became ready"
    return moved


def _run_step(
    rank: Rank, step: int, wire: dict[tuple[int, int, int], torch.Tensor], element: torch.dtype | None
) -> bool:
    program, columns, buffers = rank.program, rank.columns, rank.buffers
    place = step - program.num_sends
    if place < 0:
        pack(columns, step, buffers)
        buffer, begin, length, peer, tag = (columns[f"send_{name}"][step] for name in COLUMNS)
        assert not (buffer == Buffer.OUTPUT and columns["pack_offsets"][step] < columns["pack_offsets"][step + 1])
        assert (program.rank, peer, tag) not in wire
        wire[program.rank, peer, tag] = buffers[buffer].narrow(0, begin, length).clone()
    elif place < program.num_receives:
        buffer, begin, length, peer, tag = (columns[f"receive_{name}"][place] for name in COLUMNS)
        if (peer, program.rank, tag) not in wire:
            return False
        buffers[buffer].narrow(0, begin, length).copy_(wire.pop((peer, program.rank, tag)))
        unpack(columns, place, buffers, None if element is None else combining(element))
    rank.ready.remove(step)
    rank.done[step] = True
    for later in columns["release_to"][columns["release_offsets"][step] : columns["release_offsets"][step + 1]]:
        rank.waits[later] -= 1
        if rank.waits[later] == 0:
            rank.ready.append(later)
    return True
