"""Placement: which ranks hold each expert, contiguous or replicated the way EPLB does."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interlock.errors import InvalidInput, check_whole
from interlock.ragged import Ragged
from interlock.traffic.demand import MAX_RANKS

__all__ = ["MAX_EXPERTS", "Placement", "contiguous_placement", "eplb_placement"]

MAX_EXPERTS = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The ranks that hold each expert; one with several has replicas."""

    num_ranks: int
    ranks_of_expert: Ragged  # [num_experts]

    def __post_init__(self) -> None:
        ranks = self.ranks_of_expert
        if not 1 <= self.num_experts <= MAX_EXPERTS:
            raise InvalidInput(f"{self.num_experts} experts; there must be between 1 and {MAX_EXPERTS}")
        if not 1 <= self.num_ranks <= MAX_RANKS:
            raise InvalidInput(f"num_ranks={self.num_ranks} must be between 1 and {MAX_RANKS}")
        if (ranks.counts == 0).any():
            raise InvalidInput(
                f"expert {int(np.flatnonzero(ranks.counts == 0)[0])} has no rank; every expert needs one"
            )
        if ranks.values.min() < 0 or ranks.values.max() >= self.num_ranks:
            low, high = ranks.values.min(), ranks.values.max()
            raise InvalidInput(f"experts are on ranks {low}..{high}; they must be between 0 and {self.num_ranks - 1}")

    @property
    def num_experts(self) -> int:
        """Logical experts, replicas not counted."""
        return len(self.ranks_of_expert)

    @property
    def num_slots(self) -> int:
        """Replicas in all."""
        return len(self.ranks_of_expert.values)

    @property
    def is_replicated(self) -> bool:
        """Whether any expert has several ranks."""
        return self.num_slots > self.num_experts

    def rank_loads(self, expert_loads: ArrayLike) -> NDArray[np.float64]:
        """What each rank carries if every expert's load is split evenly over its replicas, ``[num_ranks]``."""
        ranks = self.ranks_of_expert
        share = np.asarray(expert_loads, np.float64) / ranks.counts
        loads = np.bincount(ranks.values, share[ranks.row_of_value], minlength=self.num_ranks)
        return np.asarray(loads, np.float64)


def contiguous_placement(num_experts: int, num_ranks: int, present: NDArray[np.bool_] | None = None) -> Placement:
    """Experts in order over the ranks, as evenly as whole numbers allow; with fewer experts than ranks, equal replicas.

    >>> contiguous_placement(8, 4).ranks_of_expert.values.tolist()
    [0, 0, 1, 1, 2, 2, 3, 3]
    >>> contiguous_placement(2, 4).ranks_of_expert[1].tolist()
    [2, 3]
    """
    check_whole(num_experts, "num_experts", 1, MAX_EXPERTS)
    check_whole(num_ranks, "num_ranks", 1, MAX_RANKS)
    here = np.arange(num_ranks) if present is None else np.flatnonzero(present)
    slots = max(num_experts, len(here))
    slot = np.arange(slots)
    expert, rank = slot * num_experts // slots, here[slot * len(here) // slots]
    counts = np.bincount(expert, minlength=num_experts)
    return Placement(num_ranks, Ragged.from_counts(counts, rank.astype(np.int32)))


def eplb_placement(
    expert_loads: ArrayLike, num_ranks: int, extra_slots_per_rank: int = 1, ranks_per_server: int | None = None
) -> Placement:
    """Replicate the experts with the highest load per replica, then pack replicas onto the least loaded ranks.

    The published method of DeepSeek's EPLB, in our words. With `ranks_per_server`, experts are first packed onto
    servers and replicated only inside them (its hierarchical policy); without, anywhere (its global policy).

    Parameters
    ----------
    expert_loads
        Tokens (or any measure of load) per expert, ``[num_experts]``.
    extra_slots_per_rank
        Slots for replicas on every rank, beside its even share of the experts.
    """
    loads = _checked_loads(expert_loads)
    check_whole(num_ranks, "num_ranks", 1, MAX_RANKS)
    check_whole(extra_slots_per_rank, "extra_slots_per_rank", 0, 4096)
    width = num_ranks if ranks_per_server is None else ranks_per_server
    check_whole(width, "ranks_per_server", 1, num_ranks)
    servers, uneven = divmod(num_ranks, width)
    if uneven or len(loads) % num_ranks:
        raise InvalidInput(
            f"{len(loads)} experts on {num_ranks} ranks, {width} per server, do not divide evenly; shares must be equal"
        )
    slots_per_rank = len(loads) // num_ranks + extra_slots_per_rank
    rows: list[list[int]] = [[] for _ in loads]
    for server, experts in enumerate(_pack(loads.tolist(), servers, len(loads) // servers)):
        counts = _replicas([float(loads[e]) for e in experts], width * slots_per_rank)
        replica_loads = [float(loads[e]) / c for e, c in zip(experts, counts, strict=True) for _ in range(c)]
        expert_of_replica = [e for e, c in zip(experts, counts, strict=True) for _ in range(c)]
        for rank, replicas in enumerate(_pack(replica_loads, width, slots_per_rank, expert_of_replica)):
            for replica in replicas:
                rows[expert_of_replica[replica]].append(server * width + rank)
    return Placement(num_ranks, Ragged.from_lists([sorted(set(row)) for row in rows]))


def _replicas(loads: list[float], num_slots: int) -> list[int]:
    """How many replicas each expert gets: every further slot goes to the highest load per replica, ties by index."""
    counts = [1] * len(loads)
    queue = [(-load, expert) for expert, load in enumerate(loads)]
    heapq.heapify(queue)
    for _ in range(num_slots - len(loads)):
        _, expert = queue[0]
        counts[expert] += 1
        heapq.heapreplace(queue, (-loads[expert] / counts[expert], expert))
    return counts


def _pack(loads: list[float], num_bins: int, capacity: int, owner: list[int] | None = None) -> list[list[int]]:
    """Largest first, each to the least loaded bin with room, ties by index; owners apart where possible."""
    bins: list[list[int]] = [[] for _ in range(num_bins)]
    totals = [0.0] * num_bins
    for thing in sorted(range(len(loads)), key=lambda t: (-loads[t], t)):
        open_bins = [b for b in range(num_bins) if len(bins[b]) < capacity]
        if owner is not None:
            apart = [b for b in open_bins if owner[thing] not in {owner[held] for held in bins[b]}]
            open_bins = apart or open_bins
        chosen = min(open_bins, key=lambda b: (totals[b], b))
        bins[chosen].append(thing)
        totals[chosen] += loads[thing]
    return bins


def _checked_loads(expert_loads: ArrayLike) -> NDArray[np.float64]:
    loads = np.asarray(expert_loads)
    if loads.ndim != 1 or not 1 <= len(loads) <= MAX_EXPERTS or loads.dtype.kind not in "iuf":
        raise InvalidInput(
            f"expert_loads must be a flat list of at most {MAX_EXPERTS} numbers, not shape {loads.shape}"
        )
    bad = ~(np.isfinite(loads) & (loads >= 0))
    if bad.any():
        expert = int(np.flatnonzero(bad)[0])
        raise InvalidInput(f"expert_loads[{expert}]={loads[expert]} must be finite and at least 0")
    return loads.astype(np.float64)
