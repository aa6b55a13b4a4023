"""What must leave groups of ranks, against sets of Python: rank sets shared or not, single or not, many groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.cost.cuts import group_partition, must_leave, sweep_cuts, total_bandwidth
from interlock.cost.network import Network, usable_network
from interlock.problem import Items, Problem, RankSets
from interlock.ragged import Ragged
from interlock.topology import from_edges

RATE = 1e9


@st.composite
def rank_sets(draw: st.DrawFn, ranks: int, count: int) -> tuple[RankSets, list[set[int]]]:
    one = st.sets(st.integers(0, ranks - 1), min_size=1, max_size=4)
    kind = draw(st.sampled_from(["shared", "single", "rows"]))
    if kind == "shared":
        chosen = draw(one)
        return RankSets.same(np.array(sorted(chosen), np.int32), count), [chosen] * count
    if kind == "single":
        each = draw(st.lists(st.integers(0, ranks - 1), min_size=count, max_size=count))
        return RankSets.one(np.array(each, np.int32)), [{rank} for rank in each]
    sets = draw(st.lists(one, min_size=count, max_size=count))
    return RankSets.of(Ragged.from_lists(sorted(each) for each in sets)), sets


@st.composite
def cases(draw: st.DrawFn) -> tuple[Items, list[set[int]], list[set[int]], list[int]]:
    """Items, their contributors and destinations, and the group of every rank; at times more groups than a word has."""
    ranks = draw(st.sampled_from([2, 5, 9, 70, 131]))
    count = draw(st.integers(1, 6))
    sizes = draw(st.lists(st.integers(1, 1000), min_size=count, max_size=count))
    give, givers = draw(rank_sets(ranks, count))
    take, takers = draw(rank_sets(ranks, count))
    width = draw(st.sampled_from([1, 1, 3]))
    return Items(np.array(sizes, np.int64), give, take), givers, takers, [rank // width for rank in range(ranks)]


def star(ranks: int) -> Network:
    """Every rank on a switch that can neither copy nor add."""
    ends, hub = np.arange(ranks), np.full(ranks, ranks)
    src, dst = np.concatenate([ends, hub]), np.concatenate([hub, ends])
    graph = from_edges(src, dst, RATE, num_ranks=ranks, switches=[ranks])
    pair = Items(np.array([1]), RankSets.one(np.array([0], np.int32)), RankSets.one(np.array([1], np.int32)))
    return usable_network(Problem(graph, pair))


@given(cases())
def test_what_must_leave_a_group_is_what_is_in_it_and_wanted_beyond(
    case: tuple[Items, list[set[int]], list[set[int]], list[int]],
) -> None:
    items, givers, takers, home = case
    groups = max(home) + 1
    for group, of in ((None, list(range(len(home)))), (np.array(home), home)):
        number = len(home) if group is None else groups
        wanted = np.zeros(number)
        for size, give, take in zip(items.size_bytes.tolist(), givers, takers, strict=True):
            for place in {of[rank] for rank in give}:
                wanted[place] += size * any(of[rank] != place for rank in take)
        found = must_leave(items.size_bytes, items.contributors, items.destinations, number, group)
        assert found.tolist() == wanted.tolist()


@given(cases())
def test_a_sum_visits_every_group_that_gives_or_takes_and_starts_in_one_of_them(
    case: tuple[Items, list[set[int]], list[set[int]], list[int]],
) -> None:
    items, givers, takers, home = case
    ranks, network = len(home), star(len(home))
    crossings, hops = 0, 0
    for size, give, take in zip(items.size_bytes.tolist(), givers, takers, strict=True):
        from_, to = {home[rank] for rank in give}, {home[rank] for rank in take}
        crossings += size * (len(from_) + len(to) - 1 - bool(from_ & to))
        hops += size * (len(give) + len(take) - 1 - bool(give & take))
    between, _ = group_partition(network, items, np.array([*home, -1]), "all")
    assert between == pytest.approx(crossings / (ranks * RATE))
    assert total_bandwidth(network, items)[0] == pytest.approx(hops / (ranks * RATE))


@given(cases(), st.data())
def test_a_sweep_is_the_worst_cut_between_small_keys_and_large_ones(
    case: tuple[Items, list[set[int]], list[set[int]], list[int]], data: st.DataObject
) -> None:
    """Bytes cross a cut upward where something below it gives to something above; a link does where its ends do."""
    items, givers, takers, home = case
    ranks = min(len(home), 9)
    givers, takers = ([{rank % ranks for rank in each} for each in sets] for sets in (givers, takers))
    few = [RankSets.of(Ragged.from_lists(sorted(each) for each in sets)) for sets in (givers, takers)]
    count = data.draw(st.integers(1, 12))
    ends = st.lists(st.integers(0, ranks - 1), min_size=count, max_size=count)
    src, step = data.draw(ends), data.draw(st.lists(st.integers(1, ranks - 1), min_size=count, max_size=count))
    dst = [(a + b) % ranks for a, b in zip(src, step, strict=True)]
    rates = [RATE * (1 + k % 3) for k in range(count)]
    network = usable_network(Problem(from_edges(src, dst, rates, num_ranks=ranks), Items(items.size_bytes, *few)))
    key = np.array(data.draw(st.lists(st.integers(0, 3), min_size=ranks, max_size=ranks)), np.int64)
    found = list(sweep_cuts(network, Items(items.size_bytes, *few), key, "key"))
    assert len(found) == (2 if key.max() > 0 else 0)
    for (seconds, words), sign in zip(found, (1, -1), strict=False):
        worst = {}
        for cut in range(1, int(key.max()) + 1):
            above = sign * (key - cut + 0.5) > 0
            needed = sum(
                size
                for size, give, take in zip(items.size_bytes.tolist(), givers, takers, strict=True)
                if any(not above[rank] for rank in give) and any(above[rank] for rank in take)
            )
            rate = sum(r for a, b, r in zip(src, dst, rates, strict=True) if above[b] and not above[a])
            worst[cut] = needed / rate if rate else (np.inf if needed else 0.0)
        assert seconds == pytest.approx(max(worst.values()))
        assert worst[int(words.split(" = ")[1].split(",")[0])] == pytest.approx(seconds)
