"""Recursive halving and doubling: partners at distance N/2, N/4, ..., 1 swap halves of what is left, then back.

Reduce-Scatter halves, All-Gather doubles, All-Reduce does one after the other: 2 log2 N rounds in all.
"""

from __future__ import annotations

import numpy as np

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import (
    Ids,
    Moves,
    group_members,
    owned_parts,
    schedule_moves,
    unroutable,
)
from interlock.collectives import CollectiveKind
from interlock.problem import Problem
from interlock.schedule import Schedule, empty_schedule

__all__ = ["ALGORITHM", "halving_doubling"]

KINDS = (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE)


def halving_doubling(problem: Problem, *, seed: int = 0) -> Schedule:
    """Halving, doubling, or both."""
    assert problem.collective is not None
    members = group_members(problem).astype(np.int64)
    if len(members) == 1 or len(problem.items) == 0:
        return empty_schedule()
    parts, owner = owned_parts(problem)
    bits, moves = _bits(len(members)), []
    # Halving: whoever shares the owner's upper k bits but not the next one hands over what it has. Doubling: backwards.
    if problem.collective.reduces:
        moves += [_exchange(owner, members, bit, k, reduces=True) for k, bit in enumerate(bits)]
    if problem.collective.spreads:
        start = len(moves)
        moves += [_exchange(owner, members, bit, start + k, reduces=False) for k, bit in enumerate(bits[::-1])]
    return schedule_moves(problem, parts, Moves.join(moves))


def _exchange(owner: Ids, members: Ids, bit: int, round_: int, *, reduces: bool) -> Moves:
    """Every part between the ranks on its owner's side of the bit and their partners across it."""
    near = (owner[:, None] & ~(bit - 1)) | np.arange(bit)  # the owner's bits down to `bit`, any bits below
    here, there = members[near], members[near ^ bit]
    src, dst = (there, here) if reduces else (here, there)
    return Moves.of(np.arange(len(owner))[:, None], src, dst, np.array(round_), reduces=reduces)


def _bits(count: int) -> list[int]:
    """count / 2, count / 4, ..., 1."""
    return [count >> k for k in range(1, count.bit_length())]


def refuses(problem: Problem) -> str | None:
    """None for a power of two of ranks whose partners reach each other without a relay."""
    members = group_members(problem).astype(np.int64)
    count = len(members)
    if count & (count - 1):
        return f"it needs a power of two of ranks, not {count}"
    place = np.arange(count)
    partners = [members[place ^ bit] for bit in _bits(count)]
    return unroutable(problem, np.tile(members, len(partners)), np.concatenate([members[:0], *partners]))


ALGORITHM = Algorithm(
    "halving-doubling", "partners swap halves, log2 N rounds", refuses, halving_doubling, collectives=KINDS
)
