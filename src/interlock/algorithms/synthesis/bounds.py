"""Quick lower bounds that tell a search when to stop; the certificate's own bound is stronger."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.arcs import ArcSet
from interlock.algorithms.synthesis.goal import TreeGoal
from interlock.ragged import run_starts

__all__ = ["least_seconds", "least_seconds_in_and_out"]


def least_seconds(goal: TreeGoal, arcs: ArcSet) -> float:
    """What a rank must take in, or a root give out, over all its ports at once."""
    into, outof = np.zeros(goal.num_ranks), np.zeros(goal.num_ranks)
    np.add.at(outof, goal.root, goal.size_bytes)
    if goal.ends.shared is not None:
        into[goal.ends.shared] = float(goal.size_bytes.sum())
        into = np.maximum(0.0, into - outof)
    else:
        ends = goal.ends.to_ragged()
        away = ends.values != goal.root[ends.row_of_value]
        np.add.at(into, ends.values[away], goal.size_bytes[ends.row_of_value[away]])
    rate_in, rate_out = port_rates(arcs)
    return max(_longest(into, rate_in), _longest(outof, rate_out))


def least_seconds_in_and_out(goal: TreeGoal, arcs: ArcSet) -> float:
    """For sums that all ranks need: every other rank gives and takes all of it once, and some do both twice."""
    total = float(goal.size_bytes.sum())
    ends = goal.ends.shared if goal.ends.shared is not None else np.arange(goal.num_ranks)
    rate_in, rate_out = port_rates(arcs)
    slowest = min(float(rate_in[ends].min()), float(rate_out[ends].min()))
    all_ranks = min(float(rate_in.sum()), float(rate_out.sum()))
    if slowest <= 0.0:
        return 0.0
    return max(total / slowest if len(ends) > 2 else 0.0, 2 * (len(ends) - 1) * total / all_ranks)


def port_rates(arcs: ArcSet) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bytes per second into and out of each rank, every port counted once."""
    first, last = arcs.resources.offsets[:-1], arcs.resources.offsets[1:] - 1
    held = arcs.resources.values
    return _port_rate(arcs, arcs.dst, held[last]), _port_rate(arcs, arcs.src, held[first])


def _port_rate(arcs: ArcSet, rank: NDArray[np.int32], port: NDArray[np.int32]) -> NDArray[np.float64]:
    rate = 1.0 / arcs.seconds_per_byte
    order = np.lexsort((-rate, port, rank))
    rank, port, rate = rank[order], port[order], rate[order]
    is_first = run_starts(rank, port)
    total = np.zeros(arcs.num_ranks)
    np.add.at(total, rank[is_first], rate[is_first])
    return total


def _longest(size_bytes: NDArray[np.float64], rate: NDArray[np.float64]) -> float:
    busy = (size_bytes > 0) & (rate > 0)
    return float((size_bytes[busy] / rate[busy]).max(initial=0.0))
