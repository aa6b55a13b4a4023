"""Ours: any collective on any topology. Several ways are tried, each good at something; the fastest schedule is kept.

Copies flow along trees from a root; sums are the same read backwards, on links turned round; sums that all ranks need
go up one tree and down another, or are copied when all of them are made. `docs/reference/guided.md` explains the ways.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.synthesis.answers import Answer, TranslatedAnswer
from interlock.algorithms.synthesis.arcs import arcs_of
from interlock.algorithms.synthesis.bounds import least_seconds, least_seconds_in_and_out
from interlock.algorithms.synthesis.budget import Budget, SearchBound, check_counts
from interlock.algorithms.synthesis.connections import unreachable
from interlock.algorithms.synthesis.goal import Direction, TreeGoal, goal_of
from interlock.algorithms.synthesis.graph import Graph, graph_of
from interlock.algorithms.synthesis.greedy_rounds import (
    can_go_in_rounds,
    greedy_rounds,
    is_as_good_as_it_gets,
    keep_table,
)
from interlock.algorithms.synthesis.in_switch import has_one_root, in_switch
from interlock.algorithms.synthesis.matching import can_match, random_matching
from interlock.algorithms.synthesis.packed_pairs import packed_pairs, sharing_pairs
from interlock.algorithms.synthesis.packed_trees import packed_trees, sharing_trees
from interlock.algorithms.synthesis.paths import MOST_SEARCHED, balanced_paths, can_share_links, sharing_paths
from interlock.algorithms.synthesis.proportioned_trees import fits_a_program, proportioned_trees
from interlock.algorithms.synthesis.symmetric import looks_alike, symmetric
from interlock.algorithms.synthesis.tree_per_chunk import has_many_links, is_good_for_many_links, tree_per_chunk
from interlock.cost import lower_bound
from interlock.problem import Problem
from interlock.schedule import MAX_ROWS, CompactSchedule, SlotSchedule, empty_schedule

__all__ = ["ALGORITHM", "guided"]

MOST_TRANSFERS = 4_000_000  # scheduled in one search, a cap on time: some seconds
MOST_RANKS_TO_PROVE = 100  # above, the certificate's bound takes longer than it could save
MOST_FOR_MATCHING = 100_000  # transfers of random matchings: a fraction of a second
MOST_FOR_PROGRAM = 5_000_000  # transfers of the linear program's trees, which leave the others theirs
MANY_MOVES = 200_000  # a cap on time: above, what symmetry gives is not compared with anything
MUCH_LONGER = 1.25  # where sums and copies one after the other need so much more, both at once comes first
MOST_TIMED = 300_000  # transfers, simulated in a second: above, the estimate is taken
INTERRUPTED = "interrupted"
MOST_SEEDS = 2**63  # attempts count on from the seed, and stay below 2^64


@dataclass(frozen=True, slots=True)
class SearchWay:
    """A named way to a schedule, and when to try it."""

    name: str  # as `plan.reason` tells it
    purpose: str
    fits: Callable[[TreeGoal, Graph], bool]
    search: Callable[[TreeGoal, Graph, Budget], Iterator[Answer]]  # better and better ones
    suffices: Callable[[TreeGoal, Graph, Answer], bool] = lambda goal, graph, best: False  # are others not worth it?
    own_transfers: int | None = None  # None: it spends what the ways before it left
    is_estimated: bool = False  # does it only guess how much flows that meet slow each other down?


def always(goal: TreeGoal, graph: Graph, best: Answer | None = None) -> bool:
    """For any goal on any graph."""
    return True


# fmt: off
IN_SWITCH = (
    SearchWay("in the switch, chunk after chunk", "a switch that adds or copies", has_one_root, in_switch),
)
COPIES = (  # and sums into a root, read backwards
    SearchWay("one rank's part, moved by symmetry", "what looks the same from every rank", looks_alike, symmetric,
              lambda goal, graph, best: goal.parts is not None or goal.num_moves > MANY_MOVES),
    SearchWay("balanced paths", "items with one destination each",
              lambda goal, graph: goal.is_pairwise, balanced_paths,
              lambda goal, graph, best: not can_share_links(goal, graph)),
    SearchWay("paths that share links", "the same, where links are faster than what they carry",
              can_share_links, sharing_paths, always, is_estimated=True),
    SearchWay("greedy rounds", "everything to all over equal links, up to 40,000 ranks",
              can_go_in_rounds, greedy_rounds, is_as_good_as_it_gets),
    SearchWay("random matching", "small messages, or links that are nowhere scarce",
              lambda goal, graph: can_match(goal, graph) and
              (goal.num_moves <= MOST_FOR_MATCHING or not can_go_in_rounds(goal, graph)), random_matching,
              own_transfers=MOST_FOR_MATCHING),
    SearchWay("a tree per chunk", "ranks with many links of unlike speeds",
              has_many_links, tree_per_chunk, is_good_for_many_links),
    SearchWay("trees in the best proportions", "near the fluid optimum on up to a few hundred links",
              fits_a_program, proportioned_trees, own_transfers=MOST_FOR_PROGRAM),
    SearchWay("packed trees that share links", "as packed trees, where links are faster than what they carry",
              lambda goal, graph: graph.shared is not None, sharing_trees, own_transfers=MOST_TRANSFERS,
              is_estimated=True),
    SearchWay("packed trees", "anything: groups, a given number of chunks, large graphs", always, packed_trees),
)
ALONE = tuple(way for way in COPIES if not way.is_estimated)  # halves of one answer, both exact
SUMS_THEN_COPIES = SearchWay(
    "sums, then copies",
    "where overlapping them could gain little, or there are more than 10 million messages to write",
    lambda goal, graph: goal.num_moves > MAX_ROWS or not _is_much_longer_apart(goal, graph),
    lambda goal, graph, budget: _sums_then_copies(goal, graph, budget),
    lambda goal, graph, best: goal.num_moves > MAX_ROWS)
SUMS_FOR_ALL = (
    SUMS_THEN_COPIES,
    SearchWay("a pair of trees per chunk", "ranks with many links of unlike speeds",
              has_many_links, tree_per_chunk, is_good_for_many_links),
    SearchWay("pairs of trees in the best proportions", "near the fluid optimum on up to a few hundred links",
              fits_a_program, proportioned_trees, own_transfers=MOST_FOR_PROGRAM),
    SearchWay("packed pairs of trees that share links", "as packed pairs, where links are faster than what they carry",
              lambda goal, graph: graph.shared is not None, sharing_pairs, own_transfers=MOST_TRANSFERS,
              is_estimated=True),
    SearchWay("packed pairs of trees", "anything", always, packed_pairs,
              lambda goal, graph, best: best.makespan_s <= _least_apart_s(goal, graph)),
    replace(SUMS_THEN_COPIES, purpose="where pairs of trees were slower than these could be",
            fits=lambda goal, graph: _is_much_longer_apart(goal, graph)),
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found, and how fast the best of each way is."""

    answer: Answer
    way: str
    seconds_by_way: dict[str, float]
    spent: int
    end: str  # of the search, as `plan.reason` tells it
    without: tuple[str, ...] = ()  # ways that were tried and gave no schedule

    @property
    def is_interrupted(self) -> bool:
        """Whether the user ended it."""
        return self.end == INTERRUPTED

    @property
    def reason(self) -> str:
        """Which way won, by how much over the others, and what ended the search."""
        name = f"{self.way} ({self.answer.details})" if self.answer.details else self.way
        best_s = self.seconds_by_way[self.way]
        ahead = sorted((seconds / best_s, way) for way, seconds in self.seconds_by_way.items() if way != self.way)
        told = [name]
        if ahead:
            others = " and ".join(f"{times:.3f} times as {way}" for times, way in ahead[1:])
            lead = f"{ahead[0][0]:.3f} times as fast as the next best, {ahead[0][1]}"
            told.append(f"{lead}{others and f', and {others}'}")
        if self.without:
            told.append(f"{', '.join(self.without)} gave no schedule")
        if not ahead and not self.without:
            told.append("no other way was tried")
        return "; ".join([*told, self.end])


def search(
    goal: TreeGoal,
    graph: Graph,
    budget: Budget,
    ways: tuple[SearchWay, ...],
    seconds_of: Callable[[Answer], float] | None = None,
    *,
    all_estimated: bool = False,
) -> Outcome:
    """One way after another, until the best is near the bound, a way suffices, or the budget is spent.

    What a way only estimates is measured by `seconds_of` where it may be the best so far, and so is the best of every
    such way in the end; with `all_estimated` no way tells more than an estimate. An interruption keeps the best so far,
    and is passed on where there is none.
    """
    best: Answer | None = None
    best_way, answers, tried = "", dict[str, Answer](), list[str]()
    left, spent, end = budget.limit, 0, "nothing more to try"
    try:
        for way in ways:
            if not way.fits(goal, graph):
                continue
            # Without budget (an answer is wanted at once) no way has one of its own.
            limit = left if way.own_transfers is None or left <= 0 else way.own_transfers
            best_s = np.inf if best is None else best.makespan_s
            own = replace(budget, limit=limit, spent_before=spent, best_s=best_s)
            is_enough = is_sure = False
            measure = None if not (way.is_estimated or all_estimated) else seconds_of
            tried.append(way.name)
            for answer in way.search(goal, graph, own):
                is_new = measure is not None and answer.makespan_s < best_s
                if measure is not None and is_new:
                    answer = _measured(answer, measure)
                    own.best_s = best_s  # which the way has set to its estimate
                if way.name not in answers or answer.makespan_s < answers[way.name].makespan_s:
                    answers[way.name], is_sure = answer, is_new
                if best is None or answer.makespan_s < best.makespan_s:
                    best, best_way, best_s = answer, way.name, answer.makespan_s
                is_enough = own.is_enough(answer.makespan_s)
                if is_enough or own.is_spent:
                    break
            if measure is not None and way.name in answers and not is_sure:
                answers[way.name] = answer = _measured(answers[way.name], measure)
                if best is not None and answer.makespan_s < best.makespan_s:
                    best, best_way = answer, way.name
            spent += own.spent
            left -= own.spent if way.own_transfers is None else 0
            if best is None or way.name not in answers:
                continue
            if is_enough:
                end = own.why_enough
            elif left <= 0:
                end = "the budget is spent"
            elif way.suffices(goal, graph, best):
                end = "the rest is not worth trying"
            else:
                continue
            break
    except KeyboardInterrupt:
        if best is None:
            raise
        end = INTERRUPTED
    assert best is not None, "some way fits every goal"
    seconds_by_way = {name: answer.makespan_s for name, answer in answers.items()}
    without = tuple(name for name in tried if name not in answers)
    return Outcome(best, best_way, seconds_by_way, spent, end, without)


def _measured(answer: Answer, seconds_of: Callable[[Answer], float]) -> Answer:
    """With its time by the clock, in whole ticks as others are, unless that would take long."""
    return answer if answer.num_transfers > MOST_TIMED else answer.measured(seconds_of(answer))


def guided(
    problem: Problem,
    *,
    seed: int = 0,
    parts: int | None = None,
    threads: int | None = None,
    table_file: str | os.PathLike[str] | None = None,
    report: Callable[[float], None] = lambda share: None,
    time_of: Callable[[CompactSchedule], float] | None = None,
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
    time_of
        Tells how many seconds a schedule takes, where an estimate is not exact.
    """
    check_counts(parts=parts, threads=threads)
    goal = goal_of(problem)
    assert isinstance(goal, TreeGoal), "`refuses` names other goals"
    graph = graph_of(problem.topology)
    if goal.num_moves == 0 or problem.num_ranks == 1 or len(graph.arcs) == 0:
        return empty_schedule()  # `refuses` has seen that everything is where it must be
    goal = replace(goal, parts=parts).in_pairs()
    if goal.direction is Direction.IN:
        graph = graph.reversed()
    proves = problem.num_ranks <= MOST_RANKS_TO_PROVE
    # Backwards in time nobody knows when a rank's first message goes, and so when its stage opens; and what symmetry
    # gives, or sums and copies apart, has no openings.
    opening_s = problem.topology.stage_overhead_s
    opens_unseen = opening_s > 0 and (goal.direction is not Direction.OUT or graph.quotient is not None)
    budget = Budget(
        limit=MOST_TRANSFERS,
        bound=SearchBound(_least_s(goal, graph), (lambda: lower_bound(problem).seconds) if proves else None),
        seed=seed % MOST_SEEDS,
        threads=threads or os.cpu_count() or 1,
        table_file=None if table_file is None else Path(table_file),
        report=_rising(report),
        unseen_s=opening_s if opens_unseen else 0.0,
    )

    def schedule_of(answer: Answer, reason: str = "") -> CompactSchedule:
        flowing = answer.backwards() if goal.direction is Direction.IN else answer
        return flowing.compact(staged=opening_s == 0.0, reason=reason)

    ways = IN_SWITCH + (SUMS_FOR_ALL if goal.direction is Direction.IN_AND_OUT else COPIES)
    seconds_of = None if time_of is None else lambda answer: time_of(schedule_of(answer))
    try:
        outcome = search(goal, graph, budget, ways, seconds_of, all_estimated=opens_unseen)
    except KeyboardInterrupt:
        # There was no answer yet: the first that comes will do, unless it takes long or is interrupted too.
        if goal.num_moves > MOST_TRANSFERS:
            raise
        outcome = _soonest(goal, graph, budget)

    made = schedule_of(outcome.answer, outcome.reason)
    if budget.table_file is not None and isinstance(made, SlotSchedule):
        keep_table(made.table, budget.table_file)
    return made


def _soonest(goal: TreeGoal, graph: Graph, budget: Budget) -> Outcome:
    """Any answer. Pairs of trees take longest; the symmetric half of a sum might fit no other half."""
    at_once = replace(budget, limit=0)
    if goal.direction is Direction.IN_AND_OUT:
        return search(goal, replace(graph, quotient=None), at_once, (replace(SUMS_THEN_COPIES, fits=always),))
    return search(goal, graph, at_once, COPIES)


def _sums_then_copies(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """Two searches, which cut items alike: copies out of roots, and sums into them."""
    out = replace(goal, direction=Direction.OUT, is_cut_evenly=True).in_pairs()
    graph = graph.opened()
    copies = search(out, graph, _for_half(out, graph, budget), ALONE)
    parts = int(np.count_nonzero(copies.answer.chunks.item == 0))
    turned = graph.reversed()
    if not isinstance(copies.answer, TranslatedAnswer):
        turned = replace(turned, quotient=None)
    into = replace(goal, direction=Direction.IN, parts=parts).in_pairs()
    half = _for_half(into, turned, budget)
    is_interrupted = copies.is_interrupted
    try:
        sums = search(into, turned, replace(half, limit=0) if is_interrupted else half, ALONE)
    except KeyboardInterrupt:
        # Half an answer is none: the first that makes it whole will do, unless that is interrupted too.
        sums, is_interrupted = search(into, turned, replace(half, limit=0), ALONE), True
    budget.spent += copies.spent + sums.spent
    if isinstance(sums.answer, TranslatedAnswer) == isinstance(copies.answer, TranslatedAnswer):
        whole = sums.answer.backwards().then(copies.answer)
        yield replace(whole, details=sums.way if sums.way == copies.way else f"{sums.way}, then {copies.way}")
    if is_interrupted or sums.is_interrupted:
        raise KeyboardInterrupt  # the search that this is part of ends too


def _for_half(goal: TreeGoal, graph: Graph, budget: Budget) -> Budget:
    limit = MOST_TRANSFERS if budget.limit else 0
    return replace(
        budget,
        limit=limit,
        bound=SearchBound(_least_s(goal, graph)),
        best_s=np.inf,
        spent=0,
        spent_before=0,
        unseen_s=0.0,
    )


def _least_s(goal: TreeGoal, graph: Graph) -> float:
    """What the ports of any one rank need at least; of all ranks, for sums that all need."""
    if goal.direction is Direction.IN_AND_OUT:
        return least_seconds_in_and_out(goal, graph.arcs)
    return least_seconds(goal, graph.arcs)


def _least_apart_s(goal: TreeGoal, graph: Graph) -> float:
    """What sums, and copies after them, need at least."""
    return least_seconds(goal, graph.arcs) + least_seconds(goal, graph.arcs.reversed())


def _is_much_longer_apart(goal: TreeGoal, graph: Graph) -> bool:
    return _least_apart_s(goal, graph) > MUCH_LONGER * _least_s(goal, graph)


def _rising(report: Callable[[float], None]) -> Callable[[float], None]:
    """Passes on only what is more than before: several searches follow each other, each from its own beginning."""
    most = 0.0

    def report_more(share: float) -> None:
        nonlocal most
        most = max(most, share)
        report(most)

    return report_more


def refuses(problem: Problem) -> str | None:
    """None for whatever trees can serve, where every rank can reach every other; unlike pairs only up to a size."""
    goal, arcs = goal_of(problem), arcs_of(problem.topology)
    if isinstance(goal, str):
        return goal
    is_large = goal.in_pairs().is_pairwise and arcs.num_ranks * len(arcs) > MOST_SEARCHED
    if is_large and not looks_alike(goal.in_pairs(), graph_of(problem.topology)):
        return (
            f"it searches paths from every rank over every link, and {arcs.num_ranks:,} ranks x {len(arcs):,} links "
            f"are more than {MOST_SEARCHED:,}"
        )
    return unreachable(goal, arcs)


ALGORITHM = Algorithm(
    "guided",
    "packed trees, symmetry and greedy matching (ours)",
    refuses,
    guided,
    cuts_items=True,
    reports=True,
    times=True,
)
