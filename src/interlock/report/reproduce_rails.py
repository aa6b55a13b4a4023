"""RailS's published bands, and ours over the baselines it names."""

from __future__ import annotations

import numpy as np

from interlock.moe.iteration import iteration_times
from interlock.moe.models import model
from interlock.planning import solve
from interlock.problem import demand_problem
from interlock.report.claims import Claim, Status, judge, judge_over_baseline
from interlock.topology import Cluster, cluster
from interlock.traffic import Demand, sparse, zipf

__all__ = ["claims"]

BASELINES = ("ecmp", "forward", "pxn")
NOTE = "simulated; the paper's cluster sizes, rates and baselines are not known to us"


def claims(quick: bool = True) -> list[Claim]:
    """Bus bandwidth, completion time and Mixtral's step time."""
    where = cluster("h200", servers=4 if quick else 8, scale_out="rail-spine")
    return [*_bands(where), *_iterations(where, quick)]


def _bands(where: Cluster) -> list[Claim]:
    """Least and most gain of rails-split over the baselines, over the loads."""
    gains, published_form = [], []
    for demand in _loads(where):
        problem = demand_problem(where, demand)
        ours = solve(problem, "rails-split").simulate(1e-3).makespan_s
        theirs = solve(problem, "rails", chunk="256 kB").simulate(1e-3).makespan_s
        for name in BASELINES:
            baseline = solve(problem, name).simulate(1e-3).makespan_s
            gains.append(baseline / ours)
            published_form.append(baseline / theirs)
    made = []
    for what, values in (("rails-split (ours)", gains), ("rails, 256 kB chunks (LPT)", published_form)):
        bandwidth = 100 * (np.array(values) - 1)
        faster = 100 * (1 - 1 / np.array(values))
        made += [
            _claim(f"{what}: bus bandwidth gain, least", "+20 to +78", float(bandwidth.min()), 20, 78),
            _most(f"{what}: bus bandwidth gain, most", float(bandwidth.max())),
            _claim(f"{what}: completion time cut, median", "17 to 78", float(np.median(faster)), 17, 78),
        ]
    return made


def _claim(words: str, published: str, ours: float, low: float, high: float) -> Claim:
    return Claim("rails", words, published, ours, "%", judge(ours, low, high), NOTE)


def _most(words: str, ours: float) -> Claim:
    status = judge_over_baseline(ours, 20, 78, slack=0.1)
    note = (
        NOTE
        if status is not Status.NOT_COMPARABLE
        else f"above the published band, perhaps for a weaker baseline; {NOTE}"
    )
    return Claim("rails", words, "+20 to +78", ours, "%", status, note)


def _loads(where: Cluster) -> list[Demand]:
    skewed = [zipf(where, skew=skew, bytes_per_gpu="64 MB", seed=1) for skew in (0.6, 0.8, 1.0)]
    return [*skewed, sparse(where, density=0.05, bytes_per_gpu="64 MB", seed=1)]


def _iterations(where: Cluster, quick: bool) -> list[Claim]:
    made = []
    for name in ("mixtral-8x7b",) if quick else ("mixtral-8x7b", "mixtral-8x22b"):
        rows = iteration_times(model(name), where, ["ecmp", "rails-split"], skew=0.8)
        cut = 100 * (1 - rows[1].iteration_s / rows[0].iteration_s)
        status = judge(cut, 18, 40)
        why = NOTE
        if status is Status.NOT_REACHED:
            share = 100 * rows[0].communication_share
            why = f"communication is {share:.0f} % of our modelled step with ECMP; no plan can cut more; {NOTE}"
        made.append(Claim("rails", f"{name} step time cut against ECMP", "18 to 40", cut, "%", status, why))
    return made
