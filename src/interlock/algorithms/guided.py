"""Ours: any collective on any topology, the best of several ways from greedy matching to packed trees.

Copies flow along trees from a root; sums are the same read backwards, on links turned round; what all ranks need summed
is either one after the other, or both at once along pairs of trees. See `interlock.algorithms.synthesis` for the ways.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.synthesis.answer import Answer, TranslatedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet, arcs_of
from interlock.algorithms.synthesis.both import both_ways
from interlock.algorithms.synthesis.bounds import least_seconds, least_seconds_both_ways
from interlock.algorithms.synthesis.budget import Budget, check_counts, keep_best
from interlock.algorithms.synthesis.goal import Flow, Goal, goal_of
from interlock.algorithms.synthesis.inswitch import in_switch
from interlock.algorithms.synthesis.reach import unreachable
from interlock.algorithms.synthesis.rounds import RoundsOptions, keep_table
from interlock.algorithms.synthesis.spread import spread
from interlock.algorithms.synthesis.symmetry import Quotient, quotient_of
from interlock.cost import lower_bound
from interlock.problem import Problem
from interlock.schedule import MAX_ROWS, CompactSchedule, SlotSchedule, empty_schedule

__all__ = ["ALGORITHM", "guided"]

MOST_TRANSFERS = 4_000_000  # tried for an answer
MOST_SEEDS = 2**63  # attempts count on from the seed, and stay below 2^64
MOST_FOR_SUMS = 8_000_000  # where sums go to all ranks: trees and their orders matter more there
# More where many links differ in speed: what is slow on some needs more chunks, and trees cost more to lay.
MORE_PER_ARC = 6_000
MOST_RANKS_FOR_MORE = 100
MOST_RANKS_TO_PROVE = 100  # the certificate's bound is asked for below, which may end the search sooner
APART = 1.25  # where sums and copies one after the other need so much more than both at once, those come first


def guided(
    problem: Problem,
    *,
    seed: int = 0,
    parts: int | None = None,
    threads: int | None = None,
    table_file: str | os.PathLike[str] | None = None,
    report: Callable[[float], None] = lambda share: None,
) -> CompactSchedule:
    """Synthesize a schedule.

    Parameters
    ----------
    parts
        Chunks that every item is cut into; None: chosen by overhead and pipelining.
    threads
        Cores to use (None: all); the result does not depend on it.
    table_file
        Where the slot table of a huge All-Gather is kept, row by row, from the beginning; None: in memory, or a
        temporary file. A schedule that is no slot table leaves no file.
    report
        Called with the share of the work done, which never falls. An interruption keeps the best answer so far.
    """
    check_counts(parts=parts, threads=threads)
    goal = goal_of(problem)
    assert isinstance(goal, Goal), "`supports` refuses other goals"
    if goal.num_moves == 0 or problem.num_ranks == 1:
        return empty_schedule()
    arcs = arcs_of(problem.topology)
    if len(arcs) == 0:  # `supports` has seen that everything is where it must be
        return empty_schedule()
    quotient = quotient_of(problem.topology, arcs)
    file = None if table_file is None else Path(table_file)
    report = _rising(report)
    options = RoundsOptions(threads=threads or os.cpu_count() or 1, table_file=file, report=report)

    shortcut = in_switch(goal, problem.topology, parts)
    staged = problem.topology.stage_overhead_s == 0.0
    if shortcut is not None and shortcut.makespan_s <= _least_without_switch_s(goal, arcs):
        return shortcut.compact(staged=staged)

    more = _more_for_mixed_speeds(arcs)

    proves = arcs.num_ranks <= MOST_RANKS_TO_PROVE

    def prove() -> float:
        return lower_bound(problem).seconds if proves else 0.0

    def budget() -> Budget:
        return Budget(parts, seed % MOST_SEEDS, options, limit=MOST_TRANSFERS + more, report=report)

    try:
        if goal.flow is Flow.SPREAD:
            answer = spread(goal, arcs, quotient, replace(budget(), prove=prove))
        elif goal.flow is Flow.COLLECT:
            answer = collect(goal, arcs, quotient, replace(budget(), prove=prove))
        else:
            whole = replace(budget(), limit=MOST_FOR_SUMS + 3 * more, prove=prove)
            ways = _sums_for_all(goal, arcs, quotient, budget, whole)
            answer = keep_best(ways, whole, _least_without_switch_s(goal, arcs))
    except KeyboardInterrupt:
        # There was no answer yet: the first that comes will do, unless it takes long or is interrupted too.
        if goal.num_moves > MOST_TRANSFERS:
            raise
        answer = _first(goal, arcs, quotient, budget)
    if shortcut is not None and shortcut.makespan_s < answer.makespan_s:
        return shortcut.compact(staged=staged)
    made = answer.compact(staged=staged)
    if file is not None and isinstance(made, SlotSchedule):
        keep_table(made.table, file)
    return made


def _first(goal: Goal, arcs: ArcSet, quotient: Quotient | None, budget: Callable[[], Budget]) -> Answer:
    """Any answer, soon."""

    def stopped() -> Budget:
        made = budget()
        made.stop()
        return made

    if goal.flow is Flow.SPREAD:
        return spread(goal, arcs, quotient, stopped())
    if goal.flow is Flow.COLLECT:
        return collect(goal, arcs, quotient, stopped())
    return keep_best(_sums_for_all(goal, arcs, quotient, stopped, stopped(), is_soon=True), stopped(), 0.0)


def _more_for_mixed_speeds(arcs: ArcSet) -> int:
    if arcs.num_ranks > MOST_RANKS_FOR_MORE or np.ptp(arcs.seconds_per_byte) == 0.0:
        return 0
    return MORE_PER_ARC * len(arcs)


def _rising(report: Callable[[float], None]) -> Callable[[float], None]:
    """Passes on only what is more than before: several searches follow each other, each from its own beginning."""
    most = 0.0

    def report_more(share: float) -> None:
        nonlocal most
        most = max(most, share)
        report(most)

    return report_more


def _least_without_switch_s(goal: Goal, arcs: ArcSet) -> float:
    """What messages between two ranks need at least."""
    if goal.flow is Flow.BOTH:
        return least_seconds_both_ways(goal, arcs)
    return least_seconds(goal, arcs if goal.flow is Flow.SPREAD else arcs.reversed())


def collect(goal: Goal, arcs: ArcSet, quotient: Quotient | None, budget: Budget) -> Answer:
    """Sums into roots: copies out of them on links turned round, read backwards."""
    return spread(goal, arcs.reversed(), None if quotient is None else quotient.reversed(), budget).backwards()


def _sums_for_all(
    goal: Goal,
    arcs: ArcSet,
    quotient: Quotient | None,
    budget: Callable[[], Budget],
    whole: Budget,
    *,
    is_soon: bool = False,
) -> Iterator[Answer]:
    """A sum into each rank and a copy out of it, one after the other, unless that must be long; then both at once.

    Both at once is no slot table: not where there are more messages than can be written out. It takes longer to find:
    last where an answer must come soon.
    """
    if goal.num_moves > MAX_ROWS or is_soon:
        yield from _one_after_the_other(goal, arcs, quotient, budget, whole)
        if not is_soon:
            return
    apart_s = least_seconds(goal, arcs) + least_seconds(goal, arcs.reversed())
    best_s = np.inf
    if apart_s > APART * least_seconds_both_ways(goal, arcs):
        for answer in both_ways(goal, arcs, whole):
            yield answer
            best_s = min(best_s, answer.makespan_s)
        if best_s <= apart_s:
            return
    yield from _one_after_the_other(goal, arcs, quotient, budget, whole)
    if best_s == np.inf:
        yield from both_ways(goal, arcs, whole)


def _one_after_the_other(
    goal: Goal, arcs: ArcSet, quotient: Quotient | None, budget: Callable[[], Budget], whole: Budget
) -> Iterator[Answer]:
    out = replace(budget(), is_even=True)
    outward = spread(goal, arcs, quotient, out)
    alike = replace(budget(), parts=int(np.count_nonzero(outward.chunks.item == 0)))
    if out.is_stopped:
        alike.stop()
    symmetry = quotient if isinstance(outward, TranslatedAnswer) else None
    try:
        inward = collect(goal, arcs, symmetry, alike)
    except KeyboardInterrupt:
        # Half an answer is none: the first that makes it whole will do, unless that is interrupted too.
        alike.stop()
        inward = collect(goal, arcs, symmetry, alike)
    if alike.is_stopped:
        whole.stop()
    whole.spent += out.spent + alike.spent
    if isinstance(inward, TranslatedAnswer) == isinstance(outward, TranslatedAnswer):
        yield inward.then(outward)


def supports(problem: Problem) -> str | None:
    """Whatever trees can serve, where every rank can reach every other."""
    goal = goal_of(problem)
    return goal if isinstance(goal, str) else unreachable(goal, arcs_of(problem.topology))


ALGORITHM = Algorithm(
    "guided",
    "packed trees, symmetry and greedy matching (ours)",
    supports,
    guided,
    cuts_items=True,
    reports=True,
)
