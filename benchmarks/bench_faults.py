"""Does anything hang when a rank dies or stalls? Trials over phases and signals, and pulled links in the lab.

python benchmarks/bench_faults.py --trials 100

A trial is 2 to 14 seconds of waiting, mostly for the timeout of a call, and hardly any work: one after the other a
hundred take a quarter of an hour on any machine. So the kinds run beside each other, the trials of a kind in turn;
`slowest_s` is of a machine that starts and stops the ranks of the other kinds meanwhile.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

import interlock as il
from common import arguments, report
from interlock.lab import LabNetwork, LabSpec, ranks_in
from interlock.lab.ranks import RankProcesses, Seat
from interlock.schedule import Phase
from rank_faults import Fault, Verdict, pull_link, try_fault

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
    trials: dict[str, list[partial[Verdict]]] = {}
    kinds = len(KINDS) + (os.geteuid() == 0)  # only root can pull a link
    for trial in range(options.trials):
        turn, kind = divmod(trial, kinds)
        if kind == len(KINDS):
            trials.setdefault("link pulled", []).append(partial(_pulled, int(rng.integers(6))))
            continue
        words, phase, number = KINDS[kind]
        name = f"{words} in {phase.name.lower().replace('_', '-')}"
        algorithm = "adaptive" if turn % 2 else "no-stage"
        fault = Fault(int(rng.integers(8)), phase, number)
        trials.setdefault(name, []).append(partial(_signalled, fault, algorithm, trial))
    with ThreadPoolExecutor(len(trials)) as beside:
        made = list(beside.map(lambda kind: [each() for each in kind], trials.values()))
    rows = [_row(name, verdicts) for name, verdicts in zip(trials, made, strict=True)]
    hangs = sum(verdict.num_hanging for verdicts in made for verdict in verdicts)
    report("faults", rows, options, hangs=hangs, timeout_s=TIMEOUT_S)


def _signalled(fault: Fault, algorithm: str, seed: int) -> Verdict:
    cluster = il.cluster("h200", servers=4, gpus_per_server=2, fan_in=2)
    demand = il.traffic.zipf(cluster, skew=1.0, bytes_per_gpu="400 kB", seed=seed)
    with RankProcesses([Seat()] * 8, timeout_s=TIMEOUT_S) as ranks:
        return try_fault(ranks, cluster, demand, algorithm, fault, TIMEOUT_S)


def _pulled(victim: int) -> Verdict:
    spec = LabSpec(3, 2, 100e6 / 8, 1000e6 / 8)
    demand = il.traffic.uniform(spec.to_cluster(), "300 kB")
    with LabNetwork(spec) as network, ranks_in(network, timeout_s=TIMEOUT_S) as ranks:
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
