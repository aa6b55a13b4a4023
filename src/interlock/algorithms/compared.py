"""Collectives: candidates are built and timed, the quick ones first, until one is as good as proven.

On a cluster that is `tiers`, then what libraries run while that is few messages; on a graph what needs no search, then
`guided`. A candidate that meets the lower bound ends it. Without a clock, or with parameters that only one of them
takes, the first that supports the problem is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from interlock.algorithms import registry
from interlock.algorithms.rounds import group_members
from interlock.algorithms.tiers import WORTH_MESSAGES
from interlock.collectives import CollectiveKind
from interlock.cost import lower_bound
from interlock.problem import Problem, demand_problem
from interlock.schedule import CompactSchedule, Schedule
from interlock.traffic import Demand

__all__ = ["FIRST", "FOR_DEMAND", "Compared", "candidates", "compare", "compare_on_faults"]

OURS = ("tiers", "guided")
QUICK = (
    "direct",
    "weighted-direct",
    "halving-doubling",
    "hierarchical",
    "nvls",
    "nvls-tree",
    "double-tree",
    "ring",
    "multitree",
)
MOST_ROWS = 150_000  # pairs of item and rank: what a quick candidate is about to write out, some 0.3 s
MET = 1.005  # of the bound: nothing is left to find
MOST_WRITTEN_BESIDE_TIERS = 100_000  # messages of all that libraries run: some 0.3 s
WAITS_PER_MESSAGE = 16  # messages to wait for that take as long to write as a message
MOST_FOR_MULTITREE = 32  # ranks, a tenth of a second: it tries all links of all ranks for all trees
# A search where ranks share links takes seconds; not for less than this, nor for more pairs of ends.
WORTH_A_SEARCH = 1.25
MOST_PAIRS_SEARCHED = 600  # 24 ranks: up to 10 s
# All-to-Allv: what is tried without a search, the first that supports the problem if there is no time to compare.
FOR_DEMAND = ("adaptive", "rails-split", "forward", "no-stage", "direct")
FIRST = "the first of the list that supports the problem"
MOST_RANKS_ON_FAULTS = 64  # simulating all of them takes a second
NEAR_ON_FAULTS = 1.15  # of the bound: not worth trying another


@dataclass(frozen=True, slots=True)
class Compared:
    """The best candidate, and the seconds of all that were timed (none: the first that supports it)."""

    name: str
    compact: CompactSchedule
    seconds: dict[str, float]

    def reason(self) -> str:
        """Who won, and by how much."""
        own = self.compact.reason
        winner = f"{self.name} ({own})" if own else self.name
        if not self.seconds:
            return f"{winner}: {FIRST}"
        mine = self.seconds[self.name]
        others = sorted((seconds, name) for name, seconds in self.seconds.items() if name != self.name)
        beside = ", ".join(f"{name} {seconds / mine:.2f}x" for seconds, name in others)
        return f"{winner}: {mine * 1e6:.1f} us" + (f"; beside it {beside}" if beside else ", no other was timed")


def candidates(problem: Problem) -> Iterator[str]:
    """Algorithms that support the problem, in the order they are tried."""
    for name in (*OURS, *QUICK):
        if registry.get(name).supports(problem) is None:
            yield name


def compare(
    problem: Problem,
    time_of: Callable[[CompactSchedule], float] | None,
    build: Callable[[str, Problem], CompactSchedule],
) -> Compared:
    """The best of the candidates that can be built quickly; `build` makes one by name."""
    if time_of is None:
        first = next(candidates(problem))
        return Compared(first, build(first, problem), {})
    contest = _Contest(problem, time_of, build)
    has_tiers = registry.get("tiers").supports(problem) is None
    if has_tiers:
        contest.enter("tiers")
    contest.enter_as_demand()
    most_written = contest.written + MOST_WRITTEN_BESIDE_TIERS if has_tiers else np.inf
    if sum(_ends(problem)) <= MOST_ROWS:
        for name in QUICK:
            if contest.is_near(MET) or contest.written > most_written:
                break
            is_long = has_tiers and name == "multitree" and len(group_members(problem)) > MOST_FOR_MULTITREE
            if not is_long and registry.get(name).supports(problem) is None:
                contest.enter(name)
    if has_tiers or contest.is_near(MET):
        return contest.result()
    if registry.get("guided").supports(problem) is None and contest.is_worth_a_search():
        contest.enter("guided")
    return contest.result()


def compare_on_faults(
    problem: Problem,
    time_of: Callable[[CompactSchedule], float],
    build: Callable[[str, Problem], CompactSchedule],
) -> Compared:
    """An All-to-Allv where NICs or GPUs are slow, dead or missing: `adaptive`, or what comes nearer to the bound.

    `adaptive` sends between NICs of one index and over no third server. Where faults leave two servers little in
    common, others may do better, and `guided` takes whatever ways are left.
    """
    contest = _Contest(problem, time_of, build)
    for name in FOR_DEMAND:
        if registry.get(name).supports(problem) is None:
            contest.enter(name)
        if contest.is_near(NEAR_ON_FAULTS):
            return contest.result()
    if registry.get("guided").supports(problem) is None:
        contest.enter("guided")
    return contest.result()


class _Contest:
    """Candidates so far, each timed when it enters."""

    def __init__(
        self,
        problem: Problem,
        time_of: Callable[[CompactSchedule], float],
        build: Callable[[str, Problem], CompactSchedule],
    ) -> None:
        self.problem, self.time_of, self.build = problem, time_of, build
        self.bound_s = lower_bound(problem).seconds
        self.seconds: dict[str, float] = {}
        self.written = 0
        self.best: tuple[str, CompactSchedule] | None = None

    def enter(self, name: str, problem: Problem | None = None) -> None:
        made = self.build(name, problem or self.problem)
        seconds = self.time_of(made)
        if self.best is None or self._is_better(seconds, made):
            self.best = name, made
        self.seconds[name] = seconds
        waits = len(made.deps.values) if isinstance(made, Schedule) else 0
        self.written += made.num_messages + waits // WAITS_PER_MESSAGE

    def _is_better(self, seconds: float, made: CompactSchedule) -> bool:
        assert self.best is not None
        name, best = self.best
        return seconds * (WORTH_MESSAGES if made.num_messages > best.num_messages else 1.0) < self.seconds[name]

    def enter_as_demand(self) -> None:
        """An All-to-All on a cluster is an All-to-Allv: its items are the same, in the same order."""
        collective, cluster = self.problem.collective, self.problem.cluster
        if collective is None or collective.kind is not CollectiveKind.ALL_TO_ALL or cluster is None:
            return
        matrix = np.zeros((cluster.num_ranks, cluster.num_ranks), np.int64)
        items = self.problem.items
        matrix[items.origin, items.destinations.to_ragged().values] = items.size_bytes
        alike = demand_problem(cluster, Demand(matrix))
        if len(alike.items) != len(items) or (alike.items.origin != items.origin).any():
            return  # a group in another order
        if registry.get("adaptive").supports(alike) is None:
            self.enter("adaptive", alike)

    def is_near(self, share: float) -> bool:
        return self.best is not None and self.seconds[self.best[0]] <= share * self.bound_s

    def is_worth_a_search(self) -> bool:
        """Always on links between ranks; where ranks share links, and much is to be gained, on small problems."""
        is_switched = self.problem.topology.num_nodes > self.problem.num_ranks
        return (
            self.best is None
            or not is_switched
            or (not self.is_near(WORTH_A_SEARCH) and max(_ends(self.problem)) <= MOST_PAIRS_SEARCHED)
        )

    def result(self) -> Compared:
        assert self.best is not None
        name, compact = self.best
        return Compared(name, compact, self.seconds)


def _ends(problem: Problem) -> list[int]:
    """Pairs of item and rank that contributes, and of item and rank that receives."""
    sets = (problem.items.contributors, problem.items.destinations)
    return [len(each) * len(each.shared) if each.shared is not None else len(each.to_ragged().values) for each in sets]
