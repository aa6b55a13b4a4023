"""Every sender to every receiver at once (RCCL's All-to-All); for reductions, everyone straight to the owner."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.detours import has_dead_nics, pairs_with_detours, refuses_detours
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import unroutable
from interlock.algorithms.two_tier import Bytes, Group, demand_bytes, dependencies, group
from interlock.problem import Problem, RankSets
from interlock.ragged import Ragged, matches
from interlock.schedule import Batch, Kind, Phase, Schedule, assemble

__all__ = ["ALGORITHM", "direct"]


def direct(problem: Problem, *, seed: int = 0) -> Schedule:
    """One message per (origin, destination) pair; sums go to an owner first and are then spread."""
    items = problem.items
    if problem.cluster is not None and problem.demand is not None:
        rows = demand_bytes(problem)
        made = group(rows, rows.src, rows.dst, num_ranks=problem.num_ranks)
        src, dst = made.keys.astype(np.int32).T.copy()
        return pairs_with_detours(problem, src, dst, made.pieces, np.zeros(len(src), np.int32), made.pieces.length, [])
    if not items.are_reduced:
        return assemble([_pairwise(problem, items.origin, items.destinations, Kind.COPY, Phase.SCALE_OUT, 0)])
    owner = _owners(problem)
    gather = _pairwise(problem, owner, items.contributors, Kind.REDUCE, Phase.REDUCE, 0)
    spread = _pairwise(problem, owner, items.destinations, Kind.COPY, Phase.SPREAD, 1, after=gather)
    return assemble([gather, spread])


def refuses(problem: Problem) -> str | None:
    """None wherever the topology itself routes every pair that must talk, or neighbours of dead NICs do."""
    cluster = problem.cluster
    if cluster is not None and problem.demand is not None and cluster.scale_out != "rail" and has_dead_nics(cluster):
        return refuses_detours(cluster)
    return unroutable(problem, *_talking_pairs(problem))


def _owners(problem: Problem) -> NDArray[np.int32]:
    """The rank where each item's sum is formed: a destination, in turn."""
    destinations = problem.items.destinations.to_ragged()
    turn = np.arange(len(destinations)) % destinations.counts
    return destinations.values[destinations.offsets[:-1] + turn]


def _pairwise(
    problem: Problem,
    hub: NDArray[np.int32],
    others: RankSets,
    kind: Kind,
    phase: Phase,
    stage: int,
    after: Batch | None = None,
) -> Batch:
    """Messages between each item's hub and its other ranks: outward for copies, inward for reductions."""
    rows = others.to_ragged()
    item = rows.row_of_value
    leaves, hubs = rows.values, hub[item]
    away = leaves != hubs
    item, leaves, hubs = item[away], leaves[away], hubs[away]
    src, dst = (hubs, leaves) if kind is Kind.COPY else (leaves, hubs)
    size = problem.items.size_bytes[item]
    bytes_ = Bytes(item, np.zeros(len(item), np.int64), size, src, dst)
    made = group(bytes_, src, dst, num_ranks=problem.num_ranks)
    deps = None if after is None else _after(made, item, after)
    return made.to_batch(phase, deps, kind, stage)


def _after(messages: Group, item: NDArray[np.int64], before: Batch) -> Ragged:
    """Each spreading message waits for every reduction of the items it carries."""
    on, of = matches(before.pieces.item, item)
    return dependencies(messages.message[of], before.pieces.message[on], len(messages))


def _talking_pairs(problem: Problem) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    items = problem.items
    if items.are_reduced:
        owner = _owners(problem)
        into, outof = items.contributors.to_ragged(), items.destinations.to_ragged()
        src = np.concatenate([into.values, owner[outof.row_of_value]])
        dst = np.concatenate([owner[into.row_of_value], outof.values])
    else:
        outof = items.destinations.to_ragged()
        src, dst = items.origin[outof.row_of_value], outof.values
    pair = np.unique(src.astype(np.int64) * problem.num_ranks + dst)
    return (pair // problem.num_ranks).astype(np.int32), (pair % problem.num_ranks).astype(np.int32)


ALGORITHM = Algorithm("direct", "all sends at once (RCCL)", refuses, direct, detours=True)
