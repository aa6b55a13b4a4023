"""Random graphs of ten families: irregular, asymmetric, with links missing, of mixed speeds, some with switches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import interlock as il

__all__ = ["FAMILIES", "WITH_SWITCHES", "random_graph"]

GIB = 2**30
SPEEDS = np.array([12.5, 25, 50, 100, 200]) * GIB
UNLIKE = (4 * GIB, 400 * GIB)
OVERHEADS_S = (0.0, 0.5e-6, 2e-6)
Pairs = set[tuple[int, int]]


def both_ways(pairs: Pairs) -> Pairs:
    """Every link there and back."""
    return pairs | {(b, a) for a, b in pairs}


def one_way_rings(rng: np.random.Generator, ranks: int) -> Pairs:
    """One or two rings in random order, one way round."""
    orders = [rng.permutation(ranks) for _ in range(int(rng.integers(1, 3)))]
    return {(int(a), int(b)) for order in orders for a, b in zip(order, np.roll(order, 1), strict=True)}


def ring_with_chords(rng: np.random.Generator, ranks: int) -> Pairs:
    """One way round in random order, and some chords."""
    order = rng.permutation(ranks)
    chords = rng.integers(0, ranks, (int(rng.integers(0, 3 * ranks)), 2)).tolist()
    return {(int(a), int(b)) for a, b in [*zip(order, np.roll(order, 1), strict=True), *chords] if a != b}


def both_ways_with_chords(rng: np.random.Generator, ranks: int) -> Pairs:
    """A random tree and some chords, links both ways."""
    tree = [(int(rng.integers(0, rank)), rank) for rank in range(1, ranks)]
    chords = rng.integers(0, ranks, (int(rng.integers(0, 2 * ranks)), 2)).tolist()
    return both_ways({(a, b) for a, b in [*tree, *chords] if a != b})


def broken_mesh(rng: np.random.Generator, ranks: int) -> Pairs:
    """A mesh, nearly square, that has lost a tenth of its links."""
    width = max(2, int(np.sqrt(ranks)))
    pairs = {(a, a + 1) for a in range(ranks - 1) if (a + 1) % width} | {(a, a + width) for a in range(ranks - width)}
    return less_a_tenth(rng, both_ways(pairs), ranks)


def clusters_with_bridges(rng: np.random.Generator, ranks: int) -> Pairs:
    """Fully connected groups, a few bridges between neighbouring ones."""
    groups = max(2, ranks // int(rng.integers(3, 6)))
    group = np.sort(np.arange(ranks) % groups)
    pairs = {(a, b) for a in range(ranks) for b in range(ranks) if a != b and group[a] == group[b]}
    for left in range(groups):
        for _ in range(int(rng.integers(1, 3))):
            a = int(rng.choice(np.flatnonzero(group == left)))
            b = int(rng.choice(np.flatnonzero(group == (left + 1) % groups)))
            pairs |= {(a, b), (b, a)}
    return pairs


def dense(rng: np.random.Generator, ranks: int) -> Pairs:
    """Every other pair has a link."""
    return {
        (a, b) for a in range(ranks) for b in range(ranks) if a != b and (rng.random() < 0.5 or b == (a + 1) % ranks)
    }


def hypercube(rng: np.random.Generator, ranks: int) -> Pairs:
    """A hypercube that has lost a tenth of its links; ranks beyond a power of two hang on one rank each."""
    bits = int(np.log2(ranks))
    cube = {(a, a ^ (1 << bit)) for a in range(1 << bits) for bit in range(bits)}
    extra = {(rank, int(rng.integers(0, 1 << bits))) for rank in range(1 << bits, ranks)}
    return less_a_tenth(rng, both_ways(cube | extra), ranks)


def dumbbell(rng: np.random.Generator, ranks: int) -> Pairs:
    """Two fully connected halves, not equal, and up to three bridges."""
    left = int(rng.integers(2, ranks - 1))
    pairs = {(a, b) for a in range(ranks) for b in range(ranks) if a != b and (a < left) == (b < left)}
    bridges = {(int(rng.integers(0, left)), int(rng.integers(left, ranks))) for _ in range(int(rng.integers(1, 4)))}
    return pairs | both_ways(bridges)


def star_of_switches(rng: np.random.Generator, ranks: int) -> Pairs:
    """Ranks on a few switches, switches on one in the middle."""
    leaves = max(2, ranks // int(rng.integers(3, 6)))
    middle = ranks + leaves
    ports = {(rank, ranks + rank % leaves) for rank in range(ranks)}
    return both_ways(ports | {(ranks + leaf, middle) for leaf in range(leaves)})


def unlike_servers(rng: np.random.Generator, ranks: int) -> Pairs:
    """Servers of different sizes: links between all ranks of one, and some of its ranks on a switch for all."""
    cuts = np.sort(rng.permutation(np.arange(1, ranks))[: max(1, ranks // 6)])
    server = np.searchsorted(cuts, np.arange(ranks), side="right")
    pairs = {(a, b) for a in range(ranks) for b in range(ranks) if a != b and server[a] == server[b]}
    for number in range(int(server.max()) + 1):
        own = np.flatnonzero(server == number)
        nics = rng.permutation(own)[: max(1, len(own) // 2)]
        pairs |= both_ways({(int(rank), ranks) for rank in nics})
    return pairs


FAMILIES: dict[str, Callable[[np.random.Generator, int], Pairs]] = {
    "one-way rings": one_way_rings,
    "ring with chords": ring_with_chords,
    "tree with chords": both_ways_with_chords,
    "mesh less a tenth": broken_mesh,
    "hypercube less a tenth": hypercube,
    "clusters with bridges": clusters_with_bridges,
    "dumbbell": dumbbell,
    "dense": dense,
    "star of switches": star_of_switches,
    "unlike servers": unlike_servers,
}
WITH_SWITCHES = ("star of switches", "unlike servers")


def less_a_tenth(rng: np.random.Generator, pairs: Pairs, ranks: int) -> Pairs:
    """Without a tenth of the links, but for those that are needed."""
    links = sorted(pairs)
    for place in rng.permutation(len(links))[: len(links) // 10].tolist():
        rest = pairs - {links[place]}
        pairs = rest if is_connected(rest, ranks) else pairs
    return pairs


def is_connected(pairs: Pairs, ranks: int) -> bool:
    """Whether every rank reaches every other."""
    reach: NDArray[np.bool_] = np.eye(ranks, dtype=np.bool_)
    for a, b in pairs:
        reach[a, b] = True
    for _ in range(int(np.ceil(np.log2(ranks)))):
        reach = reach @ reach
    return bool(reach.all())


def random_graph(family: str, rng: np.random.Generator, ranks: int) -> il.Topology:
    """A graph of a family: all links equal, or each of its own speed (either way or both), or of very unlike ones; with
    the same message overhead on all or one of its own on each."""
    pairs = sorted(FAMILIES[family](rng, ranks))
    src, dst = np.array(pairs, np.int32).T
    nodes = int(max(src.max(), dst.max())) + 1
    rate = rng.choice(SPEEDS, (nodes, nodes))
    mixing = int(rng.integers(0, 4))
    if mixing == 0:
        rate[:] = 50 * GIB
    elif mixing == 1:
        rate = np.triu(rate) + np.triu(rate, 1).T
    elif mixing == 2:
        rate = np.exp(rng.uniform(*np.log(UNLIKE), rate.shape))
    overhead_s = rng.choice(OVERHEADS_S, len(src) if rng.random() < 0.5 else 1) + np.zeros(len(src))
    return il.topology.from_edges(src, dst, rate[src, dst], message_overhead=overhead_s, num_ranks=ranks)
