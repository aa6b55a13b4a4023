"""Closed forms behind the numbers of blocks and slices, by hand and by trying all."""

from __future__ import annotations

import math

import pytest

from interlock.cost import predict
from interlock.cost.predict import Link, Tier, best_blocks, chain_s, narrowest_link, ramp, slices_s
from interlock.topology import from_edges


def test_a_chain_pays_every_block_once_and_every_hop_its_latency() -> None:
    """3 hops, 2 blocks of 500 B at 1 kB/s: (3 + 2 - 1) * (0.1 + 0.5) + 3 * 0.2."""
    assert chain_s(3, 1000, 2, Link(0.1, 0.2, 1000.0)) == pytest.approx(3.0)


@pytest.mark.parametrize("num_hops", [1, 2, 3, 17])
@pytest.mark.parametrize("size_bytes", [1, 2, 3, 5000, 10**6])
@pytest.mark.parametrize("overhead_s", [0.0, 1e-7, 1e-4])
@pytest.mark.parametrize("latency_s", [0.0, 1e-5])
def test_the_number_of_blocks_is_the_best_of_all(
    num_hops: int, size_bytes: int, overhead_s: float, latency_s: float
) -> None:
    """Of those that keep a connection no fuller than it may be: a turn is an overhead or a share of the latency."""
    link = Link(overhead_s, latency_s, 1e9)
    turn_s = max(overhead_s, latency_s / predict.MOST_ON_THE_WAY)
    found = best_blocks(num_hops, size_bytes, link)
    most = min(predict.MAX_BLOCKS, size_bytes)
    assert 1 <= found <= most
    if num_hops == 1 or size_bytes == 1:
        assert found == 1
    elif turn_s == 0.0:
        assert found == most
    else:
        ideal = math.sqrt((num_hops - 1) * size_bytes / 1e9 / turn_s)
        assert found in {max(1, min(most, math.floor(ideal))), max(1, min(most, math.ceil(ideal)))}
        times = {blocks: chain_s(num_hops, size_bytes, blocks, link) for blocks in range(1, most + 1)}
        if latency_s == 0.0:
            assert times[found] == pytest.approx(min(times.values()), rel=1e-12)


def test_the_narrowest_link_of_several_ways_is_slowest_in_every_respect() -> None:
    """Through switch 2 there are two latencies and the least rate of both; back there is one slow link."""
    ends, rates, latencies = ([0, 2, 1], [2, 1, 0]), [4e9, 2e9, 3e9], [1e-6, 2e-6, 2.5e-6]
    graph = from_edges(*ends, rates, latencies, num_ranks=2, message_overhead=5e-7)
    assert narrowest_link(graph, [0, 1], [1, 0]) == Link(5e-7 + graph.stage_overhead_s, 3e-6, 2e9)
    assert narrowest_link(graph, [1], [0]) == Link(5e-7 + graph.stage_overhead_s, 2.5e-6, 3e9)
    assert narrowest_link(graph, [], []) == Link(graph.stage_overhead_s, 0.0, math.inf)


def plainly(tiers: list[Tier], weights: list[float]) -> float:
    """Slice k of tier t begins when it has left t - 1 and the ports are free; ports serve by k + t, then by t."""
    arrived: dict[tuple[int, int], float] = {}
    free = {tier.ports: 0.0 for tier in tiers}
    for turn, which in sorted((k + t, t) for t in range(len(tiers)) for k in range(len(weights))):
        tier, k = tiers[which], turn - which
        busy_s = tier.messages * tier.overhead_s + tier.busy_s * weights[k] / sum(weights)
        end_s = max(arrived.get((k, which - 1), 0.0), free[tier.ports]) + busy_s
        beside = 0 if tier.under_way is None else tier.under_way - 1
        arrived[k, which] = end_s + tier.latency_s + beside * busy_s
        free[tier.ports] = end_s + (0.0 if tier.under_way is None else max(0.0, tier.latency_s - beside * busy_s))
    return max(arrived.values())


@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("under_way", [None, 1, 2, 3])
@pytest.mark.parametrize("ports", [("a", "b", "c"), ("a", "b", "a"), ("a", "a", "a"), ("a",)])
def test_slices_follow_each_other_through_the_tiers(count: int, under_way: int | None, ports: tuple[str, ...]) -> None:
    tiers = [
        Tier(port, 1.0 + place, 1 + place, 0.01 * (3 - place), 0.05 * (1 + place), under_way if place == 1 else None)
        for place, port in enumerate(ports)
    ]
    weights = ramp(count, 4)
    assert slices_s(tiers, weights) == pytest.approx(plainly(tiers, list(weights)), rel=1e-12)


def test_ramps_are_short_at_both_ends() -> None:
    assert ramp(1) == (1.0,)
    assert ramp(3) == (1.0, 2.0, 1.0)
    assert ramp(9) == (1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 4.0, 2.0, 1.0)
    assert ramp(5, 2) == (1.0, 2.0, 2.0, 2.0, 1.0)
