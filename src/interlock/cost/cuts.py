"""Bounds by cuts that are known in advance: around each rank, around groups of nodes, across the graph.

For any set of nodes X, every item with a contributor inside and a destination outside must cross out of X at least
once, whole, however it is split, copied or added up on the way; the links out of X set the pace.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from interlock.cost.network import Network
from interlock.problem import Items, RankSets
from interlock.ragged import run_starts

__all__ = [
    "cut_loads",
    "cut_seconds",
    "group_cut_loads",
    "group_partition",
    "link_capacity",
    "must_leave",
    "rank_cuts",
    "sweep_cuts",
    "total_bandwidth",
]

Floats = NDArray[np.float64]

GROUPS_PER_WORD = 63  # bits of a 64-bit word, less the sign


def rank_cuts(network: Network, items: Items) -> Iterator[tuple[float, str]]:
    """What each rank must send and receive over its own links."""
    ranks = network.num_ranks
    for seconds, name in zip(cut_loads(network, items), ("links out of rank", "links into rank"), strict=True):
        worst = int(seconds.argmax())
        yield float(seconds[worst]), f"{name} {worst}"
    if network.shares_channels:
        leave = must_leave(items.size_bytes, items.contributors, items.destinations, ranks)
        enter = must_leave(items.size_bytes, items.destinations, items.contributors, ranks)
        rate_both_ways = _capacity_of_pairs(
            network, np.concatenate([network.src, network.dst]), np.tile(np.arange(network.num_links), 2)
        )
        seconds = cut_seconds(leave + enter, rate_both_ways[:ranks])
        worst = int(seconds.argmax())
        yield float(seconds[worst]), f"links of rank {worst}, both ways"


def cut_loads(network: Network, items: Items) -> tuple[Floats, Floats]:
    """Seconds that what each rank must send keeps its links busy, and what it must receive: ``[num_ranks]`` each."""
    ranks = network.num_ranks
    leave = must_leave(items.size_bytes, items.contributors, items.destinations, ranks)
    enter = must_leave(items.size_bytes, items.destinations, items.contributors, ranks)
    out, into = link_capacity(network, network.src)[:ranks], link_capacity(network, network.dst)[:ranks]
    return cut_seconds(leave, out), cut_seconds(enter, into)


def group_cut_loads(network: Network, items: Items, group: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The same for what leaves and what enters each group of nodes (a server, a rail), ``[num_groups]`` each: `group`
    names one per node, negative for none."""
    count = int(group.max()) + 1
    rank_group = group[: network.num_ranks]
    leave = must_leave(items.size_bytes, items.contributors, items.destinations, count, rank_group)
    enter = must_leave(items.size_bytes, items.destinations, items.contributors, count, rank_group)
    crossing = np.flatnonzero(group[network.src] != group[network.dst])
    seconds = []
    for bytes_, ends in ((leave, network.src), (enter, network.dst)):
        at = crossing[group[ends[crossing]] >= 0]
        seconds.append(cut_seconds(bytes_, _capacity_of_pairs(network, group[ends[at]], at, count)))
    return seconds[0], seconds[1]


def total_bandwidth(network: Network, items: Items) -> tuple[float, str]:
    """Every delivery leaves a rank and enters a rank; all ranks' links together set the pace.

    An item with contributors C and destinations D takes at least |D - C| deliveries if it is not reduced; if it is,
    |C| + |D| - 1, less one where C and D share a rank: before any rank holds the sum every other contributor has sent,
    and after that every other destination has received.
    """
    if network.has_switch_abilities:
        return 0.0, "all links together"
    contributors, destinations = items.contributors, items.destinations
    deliveries = _set_sizes(contributors) + _set_sizes(destinations) - 1 - _overlap(contributors, destinations)
    needed = float((items.size_bytes * deliveries).sum(dtype=np.float64))
    is_rank = np.arange(network.num_nodes) < network.num_ranks
    out = _capacity_of_pairs(network, np.where(is_rank[network.src], 0, 1), np.arange(network.num_links))[0]
    into = _capacity_of_pairs(network, np.where(is_rank[network.dst], 0, 1), np.arange(network.num_links))[0]
    return float(cut_seconds(np.array([needed]), np.array([min(out, into)]))[0]), "all links together"


def group_partition(network: Network, items: Items, group: NDArray[np.int64], name: str) -> tuple[float, str]:
    """Deliveries between groups, each group taken as one node; all their links together set the pace."""
    between = network.num_ranks + np.flatnonzero(group[network.num_ranks :] < 0)
    if network.copies[between].any() or network.adds[between].any():
        return 0.0, name
    deliveries = np.full(len(items), -1, np.int64)
    overlaps = np.zeros(len(items), np.bool_)
    num_groups = int(group.max()) + 1
    for first in range(0, num_groups, GROUPS_PER_WORD):
        give = _group_bits(items.contributors, group, first)
        take = _group_bits(items.destinations, group, first)
        overlaps |= (give & take) != 0
        for bit in range(min(GROUPS_PER_WORD, num_groups - first)):
            deliveries += (give >> bit & 1) + (take >> bit & 1)
    needed = float((items.size_bytes * (deliveries - overlaps)).sum(dtype=np.float64))
    crossing = np.flatnonzero(group[network.src] != group[network.dst])
    rates = []
    for ends in (network.src, network.dst):
        at = crossing[group[ends[crossing]] >= 0]
        rates.append(float(_capacity_of_pairs(network, group[ends[at]], at, num_groups).sum()))
    return float(cut_seconds(np.array([needed]), np.array([min(rates)]))[0]), name


def sweep_cuts(network: Network, items: Items, key: NDArray[np.int64], name: str) -> Iterator[tuple[float, str]]:
    """Cuts between nodes of small and large `key`, one for each value it takes."""
    steps = int(key.max())
    if steps < 1:
        return
    of_rank = key[: network.num_ranks]
    first_c, last_c = _extremes(items.contributors, of_rank)
    first_d, last_d = _extremes(items.destinations, of_rank)
    upward = _covering(first_c, last_d, items.size_bytes, steps)
    downward = _covering(first_d, last_c, items.size_bytes, steps)
    low, high = key[network.src], key[network.dst]
    rate = network.bandwidth_bytes_per_s
    for bytes_, start, end, verb in ((upward, low, high, "upward"), (downward, high, low, "downward")):
        seconds = cut_seconds(bytes_, _covering(start, end, rate, steps))
        worst = int(seconds.argmax())
        yield float(seconds[worst]), f"cut at {name} = {worst + 1}, {verb}"


def must_leave(
    size_bytes: NDArray[np.int64],
    inside: RankSets,
    outside: RankSets,
    num_groups: int,
    group: NDArray[np.int64] | None = None,
) -> Floats:
    """Bytes with a rank of `inside` in each group and a rank of `outside` beyond it; a group per rank by default."""
    size = size_bytes.astype(np.float64)
    if inside.shared is not None:
        homes = _home(inside.shared, group)
        homes = homes[homes >= 0]
        loads = np.zeros(num_groups)
        loads[homes] = size.sum()
        only = _only_group(outside, group)
        confined = only >= 0
        inside_too = np.bincount(only[confined], size[confined], num_groups)
        loads[homes] -= inside_too[homes]
        return loads
    rows = inside.to_ragged()
    only = _only_group(outside, group)
    if group is not None and not rows.is_single:
        loads = np.zeros(num_groups)
        for home in range(num_groups):
            bit = home % GROUPS_PER_WORD
            if bit == 0:
                word = _group_bits(inside, group, home)
            loads[home] = size[((word >> bit & 1) == 1) & (only != home)].sum()
        return loads
    homes = _home(rows.values, group)
    item = np.arange(len(inside)) if rows.is_single else rows.row_of_value
    counts = (homes >= 0) & (only[item] != homes)
    return np.bincount(homes[counts], size[item[counts]], num_groups).astype(np.float64)


def link_capacity(network: Network, ends: NDArray[np.int32]) -> Floats:
    """Rate of all links together by the node at one of their ends, ``[num_nodes]``; a shared channel counts once."""
    return _capacity_of_pairs(network, ends, np.arange(network.num_links))


def cut_seconds(bytes_: Floats, rate: Floats) -> Floats:
    """Time to cross; no bytes take none, even where nothing can cross."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bytes_ > 0, bytes_ / rate, 0.0)


def _capacity_of_pairs(
    network: Network, place: NDArray[np.integer], link: NDArray[np.integer], num_places: int | None = None
) -> Floats:
    """Rate by place of (place, link) pairs, each channel counted once per place, at its fastest link."""
    count = max(network.num_nodes, 2) if num_places is None else num_places
    rate = network.bandwidth_bytes_per_s[link]
    if network.shares_channels:
        order = np.lexsort((-rate, network.channel[link], place))
        place, rate, channel = place[order], rate[order], network.channel[link][order]
        first = run_starts(place, channel)
        place, rate = place[first], rate[first]
    return np.bincount(place, rate, count).astype(np.float64)


def _only_group(sets: RankSets, group: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The one group that holds all of an item's ranks, -1 where there are several."""
    if sets.shared is not None:
        common = np.unique(_home(sets.shared, group))
        return np.full(len(sets), common[0] if len(common) == 1 else -1, np.int64)
    assert sets.rows is not None
    homes = _home(sets.rows.values, group)
    if sets.rows.is_single:
        return homes
    starts = sets.rows.offsets[:-1]
    low, high = np.minimum.reduceat(homes, starts), np.maximum.reduceat(homes, starts)
    only: NDArray[np.int64] = np.where(low == high, low, np.int64(-1))
    return only


def _home(ranks: NDArray[np.int32], group: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return ranks.astype(np.int64) if group is None else group[ranks]


def _group_bits(sets: RankSets, group: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Per item, a bit for each of the groups `first`, `first` + 1, ... that holds one of its ranks."""

    def bits(ranks: NDArray[np.int32]) -> NDArray[np.int64]:
        place = group[ranks] - first
        return np.where((place >= 0) & (place < GROUPS_PER_WORD), np.int64(1) << np.clip(place, 0, 62), np.int64(0))

    if sets.shared is not None:
        return np.full(len(sets), np.bitwise_or.reduce(bits(sets.shared)), np.int64)
    assert sets.rows is not None
    return np.bitwise_or.reduceat(bits(sets.rows.values), sets.rows.offsets[:-1])


def _extremes(sets: RankSets, key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Least and largest key among each item's ranks."""
    if sets.shared is not None:
        keys = key[sets.shared]
        return np.full(len(sets), keys.min()), np.full(len(sets), keys.max())
    assert sets.rows is not None
    keys, starts = key[sets.rows.values], sets.rows.offsets[:-1]
    if sets.rows.is_single:
        return keys, keys
    return np.minimum.reduceat(keys, starts), np.maximum.reduceat(keys, starts)


def _covering(
    start: NDArray[np.integer], end: NDArray[np.integer], weight: NDArray[np.integer] | Floats, steps: int
) -> Floats:
    """Weight of the intervals [start, end) over each k in 0 .. steps - 1."""
    real = start < end
    change = np.bincount(start[real], weight[real], steps + 1) - np.bincount(end[real], weight[real], steps + 1)
    return np.maximum(np.cumsum(change)[:steps], 0.0)


def _set_sizes(sets: RankSets) -> NDArray[np.int64]:
    if sets.shared is not None:
        return np.full(len(sets), len(sets.shared))
    assert sets.rows is not None
    return sets.rows.counts


def _overlap(contributors: RankSets, destinations: RankSets) -> NDArray[np.int64]:
    """1 where an item has a rank that both contributes and receives."""
    count = len(contributors)
    if contributors.shared is not None and destinations.shared is not None:
        return np.full(count, int(len(np.intersect1d(contributors.shared, destinations.shared)) > 0))
    if contributors.shared is not None or destinations.shared is not None:
        shared, rows = (contributors, destinations) if contributors.shared is not None else (destinations, contributors)
        assert shared.shared is not None and rows.rows is not None
        hit = np.isin(rows.rows.values, shared.shared)
        return (np.bincount(rows.rows.row_of_value[hit], minlength=count) > 0).astype(np.int64)
    assert contributors.rows is not None and destinations.rows is not None
    if contributors.rows.is_single and destinations.rows.is_single:
        return np.equal(contributors.rows.values, destinations.rows.values).astype(np.int64)
    width = 1 + max(int(contributors.rows.values.max()), int(destinations.rows.values.max()))
    held = contributors.rows.row_of_value * width + contributors.rows.values
    wanted = destinations.rows.row_of_value * width + destinations.rows.values
    hit = np.isin(wanted, held)
    return (np.bincount(destinations.rows.row_of_value[hit], minlength=count) > 0).astype(np.int64)
