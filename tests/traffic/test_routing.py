"""Routing: byte counts against brute force, placements, and the shared routing data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock as il
from interlock.problem import combine_problem, dispatch_problem
from interlock.ragged import Ragged
from interlock.traffic import Placement, Routing, contiguous_placement, eplb_placement, read_routing

SHARED = "esft_top6_routing.npz"


@st.composite
def routings(draw: st.DrawFn) -> tuple[il.Cluster, Routing]:
    """Small routings, experts on any ranks, some replicated."""
    servers, gpus = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    ranks, experts, tokens = servers * gpus, draw(st.integers(1, 6)), draw(st.integers(1, 8))
    top_k = draw(st.integers(1, experts))
    rank = st.integers(0, ranks - 1)
    held = [sorted(draw(st.sets(rank, min_size=1, max_size=3))) for _ in range(experts)]
    chosen = [draw(st.permutations(range(experts)))[:top_k] for _ in range(tokens)]
    home = draw(st.lists(rank, min_size=tokens, max_size=tokens))
    routing = Routing(np.array(chosen, np.int32), np.array(home, np.int32), Placement(ranks, Ragged.from_lists(held)))
    return il.cluster("h200", servers=servers, gpus_per_server=gpus), routing


def serving_rank(routing: Routing, token: int, expert: int) -> int:
    """The rule of the docstring, word by word."""
    replicas = routing.placement.ranks_of_expert[expert]
    return int(replicas[token % len(replicas)])


def brute_force(routing: Routing, width: int) -> dict[str, Counter[tuple[int, int]]]:
    """Copies between ranks, counted token by token."""
    counts: dict[str, Counter[tuple[int, int]]] = {kind: Counter() for kind in ("expert", "rank", "server", "fan-out")}
    for token, (home, experts) in enumerate(zip(routing.rank_of_token.tolist(), routing.experts.tolist(), strict=True)):
        serving = [serving_rank(routing, token, expert) for expert in experts]
        for rank in serving:
            counts["expert"][home, rank] += 1
        entered = set()
        for rank in set(serving):
            counts["rank"][home, rank] += 1
            if rank // width == home // width:
                counts["server"][home, rank] += 1
                continue
            entry = rank // width * width + home % width
            if entry not in entered:
                counts["server"][home, entry] += 1
                entered.add(entry)
            counts["fan-out"][entry, rank] += 1
    return counts


def as_counter(demand: il.Demand, size: int) -> Counter[tuple[int, int]]:
    matrix = demand.bytes_matrix
    assert (matrix % size == 0).all()
    return Counter({(int(i), int(j)): int(matrix[i, j]) // size for i, j in np.argwhere(matrix)})


@given(case=routings())
def test_copies_agree_with_brute_force(case: tuple[il.Cluster, Routing]) -> None:
    cluster, routing = case
    width = cluster.gpus_per_server
    counted = brute_force(routing, width)

    for copies in ("expert", "rank", "server"):
        assert as_counter(routing.to_demand(10, copies, width), 10) == counted[copies]
    assert as_counter(routing.fan_out(10, width), 10) == counted["fan-out"]


@given(case=routings())
def test_items_are_the_tokens_that_travel(case: tuple[il.Cluster, Routing]) -> None:
    cluster, routing = case
    dispatch, combine = dispatch_problem(cluster, routing, 64).items, combine_problem(cluster, routing, 64).items
    item = 0
    for token, (home, experts) in enumerate(zip(routing.rank_of_token.tolist(), routing.experts.tolist(), strict=True)):
        serving = {serving_rank(routing, token, expert) for expert in experts}
        if serving == {home}:
            continue
        assert dispatch.contributors[item].tolist() == [home] == combine.destinations[item].tolist()
        assert dispatch.destinations[item].tolist() == sorted(serving - {home})
        assert combine.contributors[item].tolist() == sorted(serving)
        item += 1
    assert len(dispatch) == len(combine) == item
    assert (dispatch.size_bytes == 64).all() and (combine.size_bytes == 64).all()


# From papers/dysharp.md, section 6: hottest expert, variation, then at EP8/16/32 pairs and copies of the fullest rank
# over the mean; the distinct ranks per token are given once for both tasks.
PUBLISHED = {
    "intent": (3.81, 0.79, (1.44, 1.80, 2.45), (1.31, 1.70, 2.42)),
    "summary": (4.28, 0.74, (1.40, 1.83, 2.68), (1.28, 1.71, 2.60)),
}
RANKS_PER_TOKEN = (4.55, 5.34, 5.77)


@pytest.mark.parametrize("task", sorted(PUBLISHED))
def test_the_shared_routing_has_the_published_statistics(task: str, shared_data: Path) -> None:
    hottest, variation, pairs, copies = PUBLISHED[task]
    for place, ranks in enumerate((8, 16, 32)):
        layers = [
            read_routing(shared_data / "moe" / SHARED, ranks, task, layer, num_experts=64).statistics()
            for layer in range(26)
        ]

        def mean(name: str, layers: list[il.traffic.RoutingStatistics] = layers) -> float:
            return float(np.mean([getattr(layer, name) for layer in layers]))

        assert mean("hottest_expert") == pytest.approx(hottest, abs=0.006)
        assert mean("expert_variation") == pytest.approx(variation, abs=0.006)
        assert mean("pairs_per_rank") == pytest.approx(pairs[place], abs=0.006)
        assert mean("copies_per_rank") == pytest.approx(copies[place], abs=0.006)
        assert mean("ranks_per_token") == pytest.approx(RANKS_PER_TOKEN[place], abs=0.02)


@pytest.mark.parametrize("task", sorted(PUBLISHED))
def test_the_shared_routing_dedups_as_brute_force_counts(task: str, shared_data: Path) -> None:
    routing = read_routing(shared_data / "moe" / SHARED, 32, task, layer=10, num_experts=64)
    counted = brute_force(routing, 8)

    for copies in ("expert", "rank", "server"):
        assert as_counter(routing.to_demand(4096, copies, 8), 4096) == counted[copies]
    assert as_counter(routing.fan_out(4096, 8), 4096) == counted["fan-out"]
    sent = {copies: routing.to_demand(4096, copies, 8).moved_bytes for copies in ("expert", "rank", "server")}
    assert sent["expert"] > sent["rank"] > sent["server"]


def test_routing_files(tmp_path: Path) -> None:
    experts = np.array([[[0, 1], [2, 3], [1, 0], [3, 2]], [[1, 2], [1, 3], [0, 3], [2, 0]]], np.uint8)
    weights = np.full((2, 4, 2), 0.5, np.float16)
    np.savez(tmp_path / "two.npz", experts=experts, experts_weights=weights)
    routing = read_routing(tmp_path / "two.npz", num_ranks=2, layer=1)

    assert routing.experts.tolist() == experts[1].tolist() and routing.rank_of_token.tolist() == [0, 0, 1, 1]
    assert routing.gate_weights is not None and routing.gate_weights.tolist() == [[0.5, 0.5]] * 4
    assert routing.targets().tolist() == [[0, 1], [0, 1], [0, 1], [1, 0]]


def test_contiguous_placement_leaves_out_missing_gpus() -> None:
    present = np.array([True, False, True, True])

    assert contiguous_placement(6, 4, present).ranks_of_expert.values.tolist() == [0, 0, 2, 2, 3, 3]


@given(
    loads=st.lists(st.integers(0, 1000), min_size=8, max_size=8),
    ranks=st.sampled_from([1, 2, 4, 8]),
    extra=st.integers(0, 3),
)
def test_replicas_fill_slots_and_share_load(loads: list[int], ranks: int, extra: int) -> None:
    plain, placed = contiguous_placement(8, ranks), eplb_placement(loads, ranks, extra)
    slots = np.bincount(placed.ranks_of_expert.values, minlength=ranks)

    assert slots.max() <= 8 // ranks + extra
    assert placed.rank_loads(loads).sum() == pytest.approx(sum(loads))
    assert placed.ranks_of_expert.counts.min() >= 1
    if extra == 0:
        assert placed.num_slots == 8
    if ranks == 8 and extra == 0:
        assert sorted(placed.rank_loads(loads)) == sorted(plain.rank_loads(loads))


def test_the_hottest_expert_gets_the_spare_slots() -> None:
    placed = eplb_placement([100, 10, 10, 10], num_ranks=2, extra_slots_per_rank=1)

    assert placed.ranks_of_expert.counts.tolist()[0] == 2
    assert placed.rank_loads([100, 10, 10, 10]).max() <= 70


def test_replication_flattens_the_shared_routing(shared_data: Path) -> None:
    routing = read_routing(shared_data / "moe" / SHARED, 32, "intent", layer=10, num_experts=64)
    placed = routing.with_placement(eplb_placement(routing.expert_loads(), 32, extra_slots_per_rank=2))

    assert routing.statistics().pairs_per_rank > 1.8 > 1.15 > placed.statistics().pairs_per_rank


def test_hierarchical_replicas_stay_in_one_server() -> None:
    rng = np.random.default_rng(0)
    placed = eplb_placement(rng.integers(1, 100, 64), num_ranks=16, extra_slots_per_rank=2, ranks_per_server=8)

    for ranks in placed.ranks_of_expert:
        assert len(set(ranks // 8)) == 1
    assert np.bincount([int(ranks[0]) // 8 for ranks in placed.ranks_of_expert]).tolist() == [32, 32]
