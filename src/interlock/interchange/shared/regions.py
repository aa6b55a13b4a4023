"""Names for bytes that do not depend on how a plan numbered its items.

Bytes of an All-to-Allv are known by source, destination and offset; those of collectives by owner and offset in the
owner's share, or by offset alone where the whole buffer is one thing. Formats that cannot say what a message carries
can carry these names beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective, CollectiveKind, collective
from interlock.errors import InvalidInput
from interlock.interchange.contract import Intent
from interlock.interchange.shared.chunks.goal import TargetNetwork, items_by_pair, network_of
from interlock.problem import Items, Problem, RankSets, collective_ends, demand_problem
from interlock.ragged import before_in_group

__all__ = ["NONE", "Regions", "problem_of_regions", "regions_of"]

NONE = -1
OWNED = (CollectiveKind.ALL_GATHER, CollectiveKind.GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.SCATTER)


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """For each item: first name, second name (NONE where there is no second), and its offset under them."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    offset: NDArray[np.int64]


def regions_of(problem: Problem) -> Regions | None:
    """Names of a problem's items; None where it is neither an All-to-Allv nor a collective."""
    items = problem.items
    if problem.demand is None and problem.collective is None:
        return None
    none = np.full(len(items), NONE, np.int64)
    kind = None if problem.collective is None else problem.collective.kind
    if kind in (None, CollectiveKind.ALL_TO_ALL):
        src = items.origin.astype(np.int64)
        dst = items.destinations.to_ragged().values.astype(np.int64)
        return Regions(src, dst, before_in_group(src * problem.num_ranks + dst, items.size_bytes))
    if kind in OWNED:
        gathers = kind in (CollectiveKind.ALL_GATHER, CollectiveKind.GATHER)
        owner = (items.contributors if gathers else items.destinations).to_ragged().values.astype(np.int64)
        return Regions(owner, none, before_in_group(owner, items.size_bytes))
    whole = np.zeros(len(items), np.int64)
    return Regions(whole, none, before_in_group(whole, items.size_bytes))


def problem_of_regions(
    intent: Intent, num_ranks: int, file: str, ends: dict[tuple[int, int], int]
) -> tuple[Problem, dict[tuple[int, int], int]]:
    """The problem the user names, and the item of each region; `ends` are the bytes each region needs."""
    network = network_of(intent, num_ranks, file)
    if intent.demand is not None:
        problem = demand_problem(network.cluster or network.topology, intent.demand)
        return problem, items_by_pair(problem)
    if intent.collective is None:
        raise InvalidInput(f"{file} does not say what must arrive where; say it with --demand or --collective")
    kind = collective(intent.collective, 0).kind
    if not ends:
        raise InvalidInput(f"{file} moves nothing")
    if not 0 <= intent.root < num_ranks:
        raise InvalidInput(f"root={intent.root} must be between 0 and {num_ranks - 1}")
    return _collective_problem(kind, network, ends, intent, file)


def _collective_problem(
    kind: CollectiveKind, network: TargetNetwork, ends: dict[tuple[int, int], int], intent: Intent, file: str
) -> tuple[Problem, dict[tuple[int, int], int]]:
    """One item per region, as large as what the file moves of it."""
    ranks = network.topology.num_ranks
    if kind is CollectiveKind.ALL_TO_ALL:
        names = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    else:
        names = [(a, NONE) for a in (range(ranks) if kind in OWNED else (0,))]
    if kind in (CollectiveKind.GATHER, CollectiveKind.SCATTER):
        del names[intent.root]
    strange = sorted(set(ends) - set(names))
    if strange:
        raise InvalidInput(f"{file} carries bytes of {strange[0]}, which {kind} does not have")
    share = max(ends.values())
    sizes = np.array([ends.get(name, share) for name in names], np.int64)
    first = np.array([name[0] for name in names], np.int32)
    second = np.array([name[1] for name in names], np.int32)
    if kind is CollectiveKind.ALL_TO_ALL:
        contributors, destinations = RankSets.one(first), RankSets.one(second)
    else:
        contributors, destinations = collective_ends(kind, first, np.arange(ranks, dtype=np.int32), intent.root)
    total = _nccl_size(kind, sizes, share, ranks)
    problem = Problem(
        network.topology,
        Items(sizes, contributors, destinations),
        cluster=network.cluster,
        collective=Collective(kind, total, None, intent.root),
    )
    return problem, {name: item for item, name in enumerate(names)}


def _nccl_size(kind: CollectiveKind, sizes: NDArray[np.int64], share: int, ranks: int) -> int:
    """The size as nccl-tests count it; shares that never move count like the largest."""
    if kind is CollectiveKind.ALL_TO_ALL:
        return int(sizes[: ranks - 1].sum()) + share
    if kind in (CollectiveKind.GATHER, CollectiveKind.SCATTER):
        return int(sizes.sum()) + share
    return int(sizes.sum())
