"""How close to the optimum is synthesis on graphs it has never seen?

Random graphs of ten families, irregular, asymmetric, with links missing, of mixed speeds, some with switches. Up to 24
ranks (All-Reduce: 16) the exact fluid optimum is the yardstick, above that the best bound. Limits are for 1 GiB: the
fluid optimum knows no message overhead, which is most of the time of small messages. Every schedule is validated.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import interlock as il
from common import arguments, report
from graph_families import FAMILIES, WITH_SWITCHES, random_graph
from interlock.collectives import Collective
from interlock.cost.lp import fluid_optimum_s
from interlock.validate import check

LARGE = "1 GiB"
SIZES = (LARGE, "64 MiB")
OFTEN = ("all-gather", "all-reduce")  # with every size


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


CASES: tuple[tuple[str, Callable[[str], Collective], tuple[int, int], bool, float], ...] = (
    ("all-gather", il.all_gather, (4, 24), True, 1.10),
    ("reduce-scatter", il.reduce_scatter, (4, 24), True, 1.10),
    ("all-reduce", il.all_reduce, (4, 16), True, 1.10),
    ("all-to-all", il.all_to_all, (4, 24), True, 1.25),
    ("broadcast", il.broadcast, (4, 24), True, 1.25),
    ("all-gather", il.all_gather, (32, 64), False, 1.25),
    ("reduce-scatter", il.reduce_scatter, (32, 64), False, 1.25),
    ("all-reduce", il.all_reduce, (32, 64), False, 1.25),
)


def row_of(found: list[dict[str, object]], most: float) -> dict[str, object]:
    """What the graphs of a row have in common."""
    ratios = np.array([float(str(row["ratio"])) for row in found])
    seconds = [float(str(row["synthesis_s"])) for row in found]
    return {
        "graphs": len(found),
        "valid": all(bool(row["valid"]) for row in found),
        "median": float(np.median(ratios)),
        "worst": float(ratios.max()),
        "worst family": found[int(ratios.argmax())]["family"],
        "limit": most,
        "above limit": int((ratios > most).sum()),
        "median_s": float(np.median(seconds)),
        "most_s": max(seconds),
    }


def main() -> None:
    """One row per collective, range of ranks and size of data, for graphs of links and for those with switches."""
    options = arguments(__doc__ or "", graphs=4, only="", verbose=False)
    seeds = range(options.seed, options.seed + options.graphs)
    rows = []
    for name, collective, ranks, exact, most in CASES:
        for size in SIZES if name in OFTEN and exact else SIZES[:1]:
            if options.only not in f"{name} {ranks[1]} {size}":
                continue
            for has_switches in (False, True):
                families = [family for family in FAMILIES if (family in WITH_SWITCHES) == has_switches]
                found = [
                    measured(collective(size), family, ranks, seed, exact) for family in families for seed in seeds
                ]
                if options.verbose:
                    print(*(row for row in found if float(str(row["ratio"])) > most), sep="\n", flush=True)
                rows.append(
                    {
                        "collective": name,
                        "ranks": f"{ranks[0]}-{ranks[1]}",
                        "size": size,
                        "joined by": "switches too" if has_switches else "links",
                        "over": "optimum" if exact else "bound",
                        **row_of(found, most),
                    }
                )
                if size != LARGE:
                    rows[-1] |= {"limit": "-", "above limit": "-"}
    report("synthesis_quality", rows, options)


if __name__ == "__main__":
    main()
