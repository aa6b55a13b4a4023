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
    refuses_missing,
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
    moves = []
    if problem.collective.kind is not CollectiveKind.ALL_GATHER:
        moves.append(_halve(owner, members))
    if problem.collective.kind is not CollectiveKind.REDUCE_SCATTER:
        moves.append(_double(owner, members).later(moves[0].num_rounds if moves else 0))
    return schedule_moves(problem, parts, Moves.join(moves))


def _halve(owner: Ids, members: Ids) -> Moves:
    """Round k: whoever shares the owner's upper k bits but not the next one hands over what it has."""
    made = [_exchange(owner, members, bit, k) for k, bit in enumerate(_bits(len(members)))]
    return Moves.join([Moves.of(part, there, here, round_, reduces=True) for part, here, there, round_ in made])


def _double(owner: Ids, members: Ids) -> Moves:
    """The same exchanges backwards."""
    made = [_exchange(owner, members, bit, k) for k, bit in enumerate(_bits(len(members))[::-1])]
    return Moves.join([Moves.of(part, here, there, round_, reduces=False) for part, here, there, round_ in made])


def _exchange(owner: Ids, members: Ids, bit: int, round_: int) -> tuple[Ids, Ids, Ids, Ids]:
    """Parts, ranks on the owner's side of the bit, their partners across it."""
    low = np.arange(bit)
    near = (owner[:, None] & ~(bit - 1)) | low  # the owner's bits down to `bit`, any bits below
    part = np.broadcast_to(np.arange(len(owner))[:, None], near.shape)
    return part, members[near], members[near ^ bit], np.array(round_)


def _bits(count: int) -> list[int]:
    """count / 2, count / 4, ..., 1."""
    return [count >> k for k in range(1, count.bit_length())]


def refuses(problem: Problem) -> str | None:
    """None for a power of two of ranks whose partners reach each other without a relay."""
    reason = refuses_missing(problem)
    if reason is not None:
        return reason
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
