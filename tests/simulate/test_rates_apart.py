"""Rates many orders apart: refused at the door, or simulated, bounded and proven alike."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import interlock as il
from interlock.planning import Plan
from interlock.topology import Topology, from_edges

STAR_RATES = [1.0, 33314.67611315085, 1.638189875263604, 666019.8392721019, 1e15]
STAR_RATES += [1.0, 1e9, 25973.895043335782, 2.198293934296204, 1e9]


def agrees(plan: Plan) -> None:
    """Valid, simulated, and no faster than the bound, which is finite."""
    proof = plan.certificate()
    assert proof.valid
    assert 0 < proof.lower_bound_s <= proof.makespan_s * (1 + 1e-9) < np.inf


@pytest.mark.parametrize("rate", [1e-8, 0.34, 1e15 * (1 + 1e-9), 1e18, np.nan, np.inf])
def test_rates_outside_the_range_are_refused_by_name(rate: float) -> None:
    with pytest.raises(il.InvalidInput, match=r"bandwidth\[1\]=.* must be between 1 and 1e\+15 B/s"):
        from_edges([0, 1], [1, 0], [1e9, rate])


def test_a_proven_sum_over_slow_and_fast_links_is_simulated() -> None:
    overheads = [0, 1e-7, 1e-3, 1e-7, 1e-3, 1e-7, 1e-3, 0, 1e-7, 0]
    ends = [0, 1, 2, 3, 4, *[5] * 5], [*[5] * 5, 0, 1, 2, 3, 4]
    star = from_edges(*ends, STAR_RATES, message_overhead=overheads, num_ranks=5)
    agrees(il.synthesize(star, il.reduce(10**9, root=3), "guided"))


@pytest.mark.parametrize("fast", [1e12, 1e14, 1e15])
@pytest.mark.parametrize("collective", [il.all_gather(3000), il.scatter(3000, root=1)], ids=str)
def test_no_bound_loses_a_slow_link_beside_fast_ones(fast: float, collective: il.Collective) -> None:
    triangle = from_edges([0, 1, 2, 0, 2, 1], [1, 2, 0, 2, 1, 0], [fast, 3.7, fast, 1.3, fast, fast])
    agrees(il.synthesize(triangle, collective, "guided"))


@pytest.mark.parametrize("seed", range(12))
def test_random_rates_over_fifteen_orders_agree(seed: int) -> None:
    random = np.random.default_rng([2026, seed])
    src, dst = zip(*itertools.permutations(range(5), 2), strict=True)
    rates = 10.0 ** random.uniform(0, 15, len(src))
    overheads = random.choice([0, 1e-7, 1e-3], len(src))
    graph: Topology = from_edges(src, dst, rates, message_overhead=overheads)
    for collective in (il.reduce_scatter(10**6), il.all_gather(10**6), il.reduce(1000, root=0)):
        agrees(il.synthesize(graph, collective, "guided"))
