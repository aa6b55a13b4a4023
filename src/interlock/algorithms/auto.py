"""Picks an algorithm by predicted time and says why.

All-to-Allv on a cluster goes to `adaptive`, whose ledger prices sending directly, in bursts, in stages and by detours
in microseconds; other algorithms seldom beat the best of these (docs/reference/adaptive.md). Where NICs or GPUs are
broken they are built and timed beside it, as those for collectives are (`interlock.algorithms.compared`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms import registry
from interlock.algorithms.compared import (
    FIRST,
    FOR_DEMAND,
    MOST_RANKS_ON_FAULTS,
    candidates,
    compare,
    compare_on_faults,
)
from interlock.algorithms.registry import Algorithm, DemandPlanner
from interlock.problem import Problem, demand_problem
from interlock.schedule import CompactSchedule, Message, Schedule, Wrapped
from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["ALGORITHM", "Chosen", "auto"]


@dataclass(frozen=True, slots=True)
class Chosen(Wrapped):
    """A schedule with the name of the algorithm that made it and the reason why that one."""

    compact: CompactSchedule
    algorithm: str
    explain: Callable[[], str]
    timed_s: float | None = None  # where candidates were compared

    @property
    def reason(self) -> str:
        return self.explain()

    @property
    def predicted_s(self) -> float | None:
        """Seconds that the schedule was timed at, or is predicted to take."""
        return self.compact.predicted_s if self.timed_s is None else self.timed_s

    def expand(self) -> Schedule:
        return self.compact.expand()

    def iter_messages(self) -> Iterator[Message]:
        return self.compact.iter_messages()

    def rows_of(self, rank: int) -> Schedule:
        return self.compact.rows_of(rank)

    def decided(self) -> tuple[NDArray[np.generic], ...]:
        return self.compact.decided()


def auto(
    problem: Problem,
    *,
    seed: int = 0,
    parts: int | None = None,
    report: Callable[[float], None] | None = None,
    time_of: Callable[[CompactSchedule], float] | None = None,
    **parameters: object,
) -> Chosen:
    """The first algorithm of the list for this kind of problem that supports it, the best of those that are quick for a
    collective; `parts` if it cuts items itself. `time_of` tells how many seconds a schedule takes."""
    may_compare = parts is None and not parameters
    if may_compare and (not _is_demand(problem) or (time_of is not None and _is_faulty(problem))):

        def build(name: str, of: Problem) -> CompactSchedule:
            algorithm, given = registry.get(name), dict[str, object]()
            if report is not None and algorithm.reports:
                given["report"] = report
            if algorithm.times:
                given["time_of"] = time_of
            return algorithm.build(of, seed=seed, **given)

        if _is_demand(problem):
            assert time_of is not None
            best = compare_on_faults(problem, time_of, build)
        else:
            best = compare(problem, time_of, build)
        return Chosen(best.compact, best.name, best.reason, best.seconds.get(best.name))
    name = _choose(problem, parameters)
    assert name is not None
    chosen = registry.get(name)
    if report is not None and chosen.reports:
        parameters["report"] = report
    if parts is not None and chosen.cuts_items:
        parameters["parts"] = parts
    chosen.check_parameters(parameters)
    compact = chosen.build(problem, seed=seed, **parameters)
    return Chosen(compact, name, lambda: f"{name}: {compact.reason or FIRST}")


def refuses(problem: Problem) -> str | None:
    """None wherever any of the candidates plans; otherwise the reason of the most capable, which is the first."""
    if _choose(problem) is not None:
        return None
    first = FOR_DEMAND[0] if _is_demand(problem) else "guided"
    return f"no algorithm does; {first} says: {registry.get(first).supports(problem)}"


def prepare(cluster: Cluster) -> DemandPlanner:
    """Plan demands on one cluster in microseconds; with NICs missing, `adaptive` may not be the one."""
    has_all_nics = bool((cluster.nic_bandwidth_bytes_per_s > 0).all())
    prepared = registry.get("adaptive").prepare
    assert prepared is not None
    build = prepared(cluster)

    def plan_demand(demand: Demand, previous: CompactSchedule | None = None) -> CompactSchedule:
        if has_all_nics:
            return build(demand, previous.compact if isinstance(previous, Chosen) else previous)
        return auto(demand_problem(cluster, demand))

    return plan_demand


def _is_demand(problem: Problem) -> bool:
    return problem.demand is not None and problem.cluster is not None


def _is_faulty(problem: Problem) -> bool:
    """Whether faults may leave `adaptive` far behind others, on a cluster where those can be tried."""
    assert problem.cluster is not None
    return bool(problem.cluster.faults) and problem.num_ranks <= MOST_RANKS_ON_FAULTS


def _choose(problem: Problem, parameters: Iterable[str] = ()) -> str | None:
    if not _is_demand(problem):
        first = None
        for name in candidates(problem):  # one at a time: to find out whether a graph is supported takes long
            if registry.get(name).takes(parameters):
                return name
            first = first or name
        return first
    return next((name for name in FOR_DEMAND if registry.get(name).supports(problem) is None), None)


ALGORITHM = Algorithm(
    "auto", "picks by predicted time and says why", refuses, auto, prepare, cuts_items=True, reports=True, times=True
)
