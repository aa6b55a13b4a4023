"""Direct All-Reduce whose owners' shares follow their ports, in slices: everyone straight to the owner, and back.

A rank sends all of the buffer but what it owns, and receives what it owns from all others; then the other way round.
Its port is busy for (1 + (N - 2) w) / rate, w its share: shares that make that alike for all, so that a slow rank owns
little or nothing. Links are shared by as many messages as come together, and sums of one slice go beside copies of
another.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms import direct
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import group_members
from interlock.algorithms.tier_shares import cut_lines
from interlock.algorithms.two_tier import Bytes, dependencies, group
from interlock.collectives import CollectiveKind
from interlock.cost.predict import Tier, narrowest_link, ramp, slices_s
from interlock.errors import check_whole
from interlock.problem import Problem
from interlock.ragged import matches
from interlock.schedule import Kind, Phase, Schedule, assemble, empty_schedule

__all__ = ["ALGORITHM", "weighted_direct"]

MOST_SLICES = 32
MOST_WAITS = 2_000_000  # of copies for sums


def weighted_direct(problem: Problem, *, seed: int = 0, slices: int | None = None) -> Schedule:
    """`slices` None: as many as the ledger of slices says, and the number of waits allows."""
    members = group_members(problem).astype(np.int64)
    count = len(members)
    if count == 1 or len(problem.items) == 0:
        return empty_schedule()
    weights = np.array(ramp(_best_slices(problem, members) if slices is None else check_whole(slices, "slices", 1)))
    share = _shares(problem, members)
    ends = np.cumsum((weights / weights.sum())[:, None] * share).ravel()
    cells = cut_lines(problem.items.size_bytes, np.zeros(len(problem.items), np.int64), np.append(0.0, ends))
    number, owner = np.divmod(cells.cell, count)
    part, other = np.nonzero(owner[:, None] != np.arange(count))
    hub, leaf = members[owner[part]], members[other]
    chunks = cells.chunks.take(part)
    columns = chunks.item, chunks.offset, chunks.length
    sums = group(Bytes(*columns, leaf.astype(np.int32), hub.astype(np.int32)), leaf, hub, number[part])
    copies = group(Bytes(*columns, hub.astype(np.int32), leaf.astype(np.int32)), hub, leaf, number[part])
    return assemble(
        [
            replace(
                sums.to_batch(Phase.REDUCE, dependencies(*_in_turn(sums.keys), len(sums)), Kind.REDUCE),
                slice=sums.keys[:, 2].astype(np.int32),
            ),
            replace(
                copies.to_batch(Phase.SPREAD, dependencies(*_after_sums(copies.keys, sums.keys), len(copies))),
                slice=copies.keys[:, 2].astype(np.int32),
            ),
        ]
    )


def _best_slices(problem: Problem, members: NDArray[np.int64]) -> int:
    """By the slowest rank, which sends everything and receives everything."""
    link = narrowest_link(problem.topology, members, np.roll(members, -1))
    busy_s = float(problem.items.size_bytes.sum()) / link.bandwidth_bytes_per_s
    each = Tier("out", busy_s, len(members) - 1, link.overhead_s, link.latency_s, under_way=1)
    most = int(np.clip(MOST_WAITS // len(members) ** 3, 1, MOST_SLICES))
    return min(range(1, most + 1), key=lambda slices: slices_s([each, replace(each, ports="in")], ramp(slices)))


def _shares(problem: Problem, members: NDArray[np.int64]) -> NDArray[np.float64]:
    """What each member owns."""
    topology, count = problem.topology, len(members)
    rate = topology.bandwidth_bytes_per_s
    ports = [np.bincount(ends, rate, topology.num_nodes)[members] for ends in (topology.link_src, topology.link_dst)]
    port = np.minimum(*ports)
    if count == 2:
        return np.full(2, 0.5)
    share = np.maximum((2 * count - 2) * port / port.sum() - 1, 0.0)
    return np.asarray(share / share.sum())


def _in_turn(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each message after the slice before it between the same ranks."""
    follows = np.flatnonzero((keys[1:, :2] == keys[:-1, :2]).all(axis=1))
    return follows + 1, follows


def _after_sums(copies: NDArray[np.int64], sums: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each copy after all sums of its slice into its owner."""
    width = 1 + int(max(copies[:, 2].max(), sums[:, 2].max()))
    brought, needed = sums[:, 1] * width + sums[:, 2], copies[:, 0] * width + copies[:, 2]
    on, of = matches(brought, needed)
    return of, on


ALGORITHM = Algorithm(
    "weighted-direct",
    "direct All-Reduce, owners by the rates of their ports (ours)",
    direct.refuses,
    weighted_direct,
    collectives=(CollectiveKind.ALL_REDUCE,),
)
