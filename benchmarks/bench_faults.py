"""Does anything hang when a rank dies or stalls? Trials over phases and signals, and pulled links in the lab.

python benchmarks/bench_faults.py --trials 100
"""

from __future__ import annotations

import os
import signal

import numpy as np

import interlock as il
from common import arguments, report
from interlock.lab import LabSpec, Network, ranks_in
from interlock.lab.faults import Fault, Verdict, pull_link, try_fault
from interlock.lab.ranks import Ranks, Seat
from interlock.schedule import Phase

TIMEOUT_S = 8.0
KINDS = [
    ("killed", Phase.BALANCE, signal.SIGKILL),
    ("killed", Phase.SCALE_OUT, signal.SIGKILL),
    ("killed", Phase.REDISTRIBUTE, signal.SIGKILL),
    ("killed", Phase.LOCAL, signal.SIGKILL),
    ("stopped", Phase.SCALE_OUT, signal.SIGSTOP),
]


def main() -> None:
    """Print one row per kind of fault."""
    options = arguments(__doc__ or "", trials=100)
    rng = np.random.default_rng(options.seed)
    verdicts: dict[str, list[Verdict]] = {}
    can_pull = os.geteuid() == 0
    for trial in range(options.trials):
        kind = trial % (len(KINDS) + can_pull)
        if kind == len(KINDS):
            verdicts.setdefault("link pulled", []).append(_pulled(int(rng.integers(6))))
            continue
        words, phase, number = KINDS[kind]
        name = f"{words} in {phase.name.lower().replace('_', '-')}"
        algorithm = "adaptive" if trial % 2 else "no-stage"
        verdicts.setdefault(name, []).append(_signalled(Fault(int(rng.integers(8)), phase, number), algorithm, trial))
    rows = [_row(name, made) for name, made in verdicts.items()]
    hangs = sum(verdict.num_hanging for made in verdicts.values() for verdict in made)
    report("faults", rows, options, hangs=hangs, timeout_s=TIMEOUT_S)


def _signalled(fault: Fault, algorithm: str, seed: int) -> Verdict:
    cluster = il.cluster("h200", servers=4, gpus_per_server=2, fan_in=2)
    demand = il.traffic.zipf(cluster, skew=1.0, bytes_per_gpu="400 kB", seed=seed)
    with Ranks([Seat()] * 8, timeout_s=TIMEOUT_S) as ranks:
        return try_fault(ranks, cluster, demand, algorithm, fault, TIMEOUT_S)


def _pulled(victim: int) -> Verdict:
    spec = LabSpec(3, 2, 100e6 / 8, 1000e6 / 8)
    demand = il.traffic.uniform(spec.to_cluster(), "300 kB")
    with Network(spec) as network, ranks_in(network, timeout_s=TIMEOUT_S) as ranks:
        return pull_link(ranks, network, demand, "adaptive", victim, TIMEOUT_S)


def _row(name: str, made: list[Verdict]) -> dict[str, object]:
    survivors = sum(verdict.num_survivors for verdict in made)
    return {
        "fault": name,
        "trials": len(made),
        "hangs": sum(verdict.num_hanging for verdict in made),
        "named": sum(verdict.num_naming for verdict in made) / survivors,
        "slowest_s": max(verdict.slowest_s for verdict in made),
        "fresh_group_works": sum(verdict.works_again for verdict in made) / len(made),
    }


if __name__ == "__main__":
    main()
