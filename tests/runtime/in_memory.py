"""Runs the programs of all ranks in one process: messages are dictionary entries, order is drawn at random."""

from __future__ import annotations

import random

import torch

from interlock.planning import Plan
from interlock.runtime import Layout
from interlock.runtime.buffers import copy, start, unpack
from interlock.runtime.lowering import lower
from interlock.runtime.program import Buffer, Program


class Rank:
    """One rank's program and how far it has come."""

    def __init__(self, program: Program, source: torch.Tensor, target: torch.Tensor) -> None:
        self.program = program
        scratch = torch.full((max(1, program.scratch_bytes),), 0xEE, dtype=torch.uint8)
        self.buffers = (source, target, scratch)
        self.waits = list(program.waits)
        self.done = [False] * len(self.waits)
        self.ready = [step for step, count in enumerate(self.waits) if count == 0]
        start(program, self.buffers)
        copy(program.own_copies, self.buffers)


def run(
    plan: Plan,
    layouts: list[Layout],
    sources: list[torch.Tensor],
    targets: list[torch.Tensor],
    seed: int,
    element: torch.dtype | None = None,
) -> int:
    """Execute a plan on every rank's buffers in a random legal order; give the number of messages moved."""
    programs = [lower(plan.for_rank(rank), plan.problem, layouts[rank]) for rank in range(plan.problem.num_ranks)]
    ranks = [Rank(*parts) for parts in zip(programs, sources, targets, strict=True)]
    draw = random.Random(seed)
    wire: dict[tuple[int, int, int], torch.Tensor] = {}
    moved = 0
    while any(rank.ready for rank in ranks):
        progressed = False
        for rank in draw.sample(ranks, len(ranks)):
            for step in draw.sample(rank.ready, len(rank.ready)):
                if _run_step(rank, step, wire, element):
                    moved += step < len(rank.program.sends)
                    progressed = True
        assert progressed, "no rank can go on: the order has a cycle, or a message is never sent"
    assert not wire, f"messages nobody received: {sorted(wire)[:5]}"
    assert all(all(rank.done) for rank in ranks), "steps that never became ready"
    return moved


def _run_step(
    rank: Rank, step: int, wire: dict[tuple[int, int, int], torch.Tensor], element: torch.dtype | None
) -> bool:
    program, buffers = rank.program, rank.buffers
    place = step - len(program.sends)
    if place < 0:
        send = program.sends[step]
        copy(send.packing, buffers)
        assert not (send.buffer == Buffer.OUTPUT and send.packing)
        for tag, begin, length in send.parts:
            wire[program.rank, send.peer, tag] = buffers[send.buffer].narrow(0, begin, length).clone()
    elif place < len(program.receives):
        receive = program.receives[place]
        parts = [arrival for arrival in program.arrivals if arrival.place == place]
        if any((receive.peer, program.rank, part.tag) not in wire for part in parts):
            return False
        for part in parts:
            landing = buffers[receive.buffer].narrow(0, part.start, part.length)
            landing.copy_(wire.pop((receive.peer, program.rank, part.tag)))
        unpack(receive, buffers, element)
    rank.ready.remove(step)
    rank.done[step] = True
    for later in program.releases[step]:
        rank.waits[later] -= 1
        if rank.waits[later] == 0:
            rank.ready.append(later)
    return True
