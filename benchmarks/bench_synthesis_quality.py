"""How close to the optimum is synthesis on graphs it has never seen?

Random graphs of five families, irregular, asymmetric, with links missing and of mixed speeds. Up to 24 ranks
(All-Reduce: 16) the exact fluid optimum is the yardstick, above that the best bound. 1 GiB, every schedule validated.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import interlock as il
from common import arguments, report
from interlock.collectives import Collective
from interlock.cost.lp import fluid_optimum_s
from interlock.validate import check

GIB = 2**30
SPEEDS = np.array([12.5, 25, 50, 100, 200]) * GIB
OVERHEADS_S = (0.0, 0.5e-6, 2e-6)
Pairs = set[tuple[int, int]]


def ring_with_chords(rng: np.random.Generator, ranks: int) -> Pairs:
    """One way round in random order, and some chords."""
    order = rng.permutation(ranks)
    chords = rng.integers(0, ranks, (int(rng.integers(0, 3 * ranks)), 2)).tolist()
    return {(int(a), int(b)) for a, b in [*zip(order, np.roll(order, 1), strict=True), *chords] if a != b}


def both_ways_with_chords(rng: np.random.Generator, ranks: int) -> Pairs:
    """A random tree and some chords, links both ways."""
    tree = [(int(rng.integers(0, rank)), rank) for rank in range(1, ranks)]
    chords = rng.integers(0, ranks, (int(rng.integers(0, 2 * ranks)), 2)).tolist()
    pairs = {(a, b) for a, b in [*tree, *chords] if a != b}
    return pairs | {(b, a) for a, b in pairs}


def broken_mesh(rng: np.random.Generator, ranks: int) -> Pairs:
    """A mesh, nearly square, that has lost a tenth of its links."""
    width = max(2, int(np.sqrt(ranks)))
    pairs = {(a, a + 1) for a in range(ranks - 1) if (a + 1) % width} | {(a, a + width) for a in range(ranks - width)}
    links = sorted(pairs | {(b, a) for a, b in pairs})
    lost = rng.permutation(len(links))[: len(links) // 10].tolist()
    for place in lost:
        rest = [link for link in links if link != links[place]]
        if is_connected(set(rest), ranks):
            links[place] = rest[0]
    return set(links)


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


FAMILIES: dict[str, Callable[[np.random.Generator, int], Pairs]] = {
    "ring with chords": ring_with_chords,
    "tree with chords, both ways": both_ways_with_chords,
    "mesh with links missing": broken_mesh,
    "clusters with bridges": clusters_with_bridges,
    "dense": dense,
}


def is_connected(pairs: Pairs, ranks: int) -> bool:
    """Whether every rank reaches every other."""
    reach: NDArray[np.bool_] = np.eye(ranks, dtype=np.bool_)
    for a, b in pairs:
        reach[a, b] = True
    for _ in range(int(np.ceil(np.log2(ranks)))):
        reach = reach @ reach
    return bool(reach.all())


def random_graph(family: str, rng: np.random.Generator, ranks: int) -> il.Topology:
    """A graph of a family, all links equal in one of three, else each of its own speed (either way or both)."""
    pairs = sorted(FAMILIES[family](rng, ranks))
    src, dst = np.array(pairs, np.int32).T
    rate = rng.choice(SPEEDS, (ranks, ranks))
    mixing = int(rng.integers(0, 3))
    if mixing == 0:
        rate[:] = 50 * GIB
    elif mixing == 1:
        rate = np.triu(rate) + np.triu(rate, 1).T
    overhead_s = float(rng.choice(OVERHEADS_S))
    return il.topology.from_edges(src, dst, rate[src, dst], message_overhead=overhead_s, num_ranks=ranks)


def measured(collective: Collective, family: str, ranks: tuple[int, int], seed: int, exact: bool) -> dict[str, object]:
    """One graph: makespan over the optimum, or over the bound."""
    rng = np.random.default_rng([seed, ranks[1], list(FAMILIES).index(family)])
    topology = random_graph(family, rng, int(rng.integers(*ranks, endpoint=True)))
    start = time.perf_counter()
    plan = il.synthesize(topology, collective, "guided", seed=0)
    took_s = time.perf_counter() - start
    least_s = max(plan.bound.seconds, fluid_optimum_s(plan.problem) if exact else 0.0)
    return {
        "family": family,
        "seed": seed,
        "ranks": topology.num_ranks,
        "valid": check(plan.schedule, plan.problem).valid,
        "ratio": plan.simulate().makespan_s / least_s,
        "synthesis_s": took_s,
    }


CASES = (
    ("all-gather", il.all_gather("1 GiB"), (4, 24), True, 1.10),
    ("all-reduce", il.all_reduce("1 GiB"), (4, 16), True, 1.10),
    ("reduce-scatter", il.reduce_scatter("1 GiB"), (4, 24), True, 1.10),
    ("all-to-all", il.all_to_all("1 GiB"), (4, 24), True, 1.25),
    ("broadcast", il.broadcast("1 GiB"), (4, 24), True, 1.25),
    ("all-gather", il.all_gather("1 GiB"), (32, 64), False, 1.25),
    ("all-reduce", il.all_reduce("1 GiB"), (32, 64), False, 1.25),
)


def main() -> None:
    """One row per collective, size and family."""
    options = arguments(__doc__ or "", graphs=20, only="", verbose=False)
    rows = []
    for name, collective, ranks, exact, most in CASES:
        if options.only not in f"{name} {ranks[1]}":
            continue
        for family in FAMILIES:
            found = [measured(collective, family, ranks, options.seed + k, exact) for k in range(options.graphs)]
            ratios = np.array([float(str(row["ratio"])) for row in found])
            if options.verbose:
                print(*(row for row in found if float(str(row["ratio"])) > most - 0.05), sep="\n")
            rows.append(
                {
                    "collective": name,
                    "ranks": f"{ranks[0]}-{ranks[1]}",
                    "family": family,
                    "against": "optimum" if exact else "bound",
                    "graphs": len(found),
                    "valid": all(bool(row["valid"]) for row in found),
                    "median": float(np.median(ratios)),
                    "worst": float(ratios.max()),
                    "limit": most,
                    "above limit": int((ratios > most).sum()),
                    "median_s": float(np.median([float(str(row["synthesis_s"])) for row in found])),
                }
            )
    report("synthesis_quality", rows, options)


if __name__ == "__main__":
    main()
