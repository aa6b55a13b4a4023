"""TACOS (MICRO'24) as published, but causally valid: random matching on a time-expanded network, best of many starts.

At each event time every rank takes, in random order, the chunks that it wants and that nobody is sending it yet, each
over the fastest free link whose other end holds the chunk by then. The published code credits a transfer with a chunk
that reached its sender only later; counting chunks in flight as taken makes every schedule one that can be run.

Reduce-Scatter is All-Gather on links turned round, read backwards; All-Reduce is one after the other. Switches are
unwound: a port that leads to d ranks becomes d links of a d-th of its bandwidth.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import numpy as np

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.synthesis.answers import Answer, TimedAnswer
from interlock.algorithms.synthesis.arcs import ArcSet, arcs_of
from interlock.algorithms.synthesis.budget import check_counts, in_order
from interlock.algorithms.synthesis.goal import Direction, TreeGoal, goal_of
from interlock.algorithms.synthesis.matching import matched, reach_each_other, tries_by_parts
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import CompactSchedule, TransferSchedule, empty_schedule

__all__ = ["ALGORITHM", "tacos"]

STARTED_TRANSFERS = 500_000  # over all starts, where their number is ours to choose


def tacos(
    problem: Problem, *, seed: int = 0, parts: int | None = None, starts: int | None = None, threads: int | None = None
) -> CompactSchedule:
    """Match at random, several times, and keep the best.

    Parameters
    ----------
    parts
        Chunks that every item is cut into; None: the best of 1, 2, 4 and 8, those that would take long left out.
    starts
        How many seeds to try, from `seed` on; None: as many as are cheap, at most 16.
    threads
        Cores to use (None: all); the result does not depend on it.
    """
    check_counts(parts=parts, starts=starts, threads=threads)
    goal = goal_of(problem)
    assert isinstance(goal, TreeGoal), "`refuses` names other goals"
    if goal.num_moves == 0 or problem.num_ranks == 1:
        return empty_schedule()
    links = unwound(arcs_of(problem.topology))
    workers = threads or os.cpu_count() or 1

    def answered(count: int, tries: int) -> Answer:
        def best(arcs: ArcSet) -> TimedAnswer:
            attempts = [partial(matched, goal, arcs, count, (seed + start) % 2**64) for start in range(tries)]
            return min(in_order(attempts, workers), key=lambda answer: answer.makespan_s)

        if goal.direction is Direction.OUT:
            return best(links)
        if goal.direction is Direction.IN:
            return best(links.reversed()).backwards()
        return best(links.reversed()).backwards().then(best(links))

    answers = [answered(count, tries) for count, tries in tries_by_parts(goal, parts, starts, STARTED_TRANSFERS)]
    fastest = min(answers, key=lambda made: made.makespan_s)
    made = fastest.compact(staged=problem.topology.stage_overhead_s == 0.0, reason="")
    assert isinstance(made, TransferSchedule)
    return replace(made, exclusive=bool((links.path.counts == 1).all()))


def unwound(arcs: ArcSet) -> ArcSet:
    """Every arc a link of its own: where several leave a rank through one port, each has an equal share of it."""
    first = arcs.resources.values[arcs.resources.offsets[:-1]]
    last = arcs.resources.values[arcs.resources.offsets[1:] - 1]
    sharing = np.maximum(np.bincount(first)[first], np.bincount(last)[last])
    return replace(
        arcs,
        seconds_per_byte=arcs.seconds_per_byte * sharing,
        resources=Ragged.single(np.arange(len(arcs), dtype=np.int32)),
        share=np.ones(len(arcs)),
        num_resources=len(arcs),
    )


def refuses(problem: Problem) -> str | None:
    """None where all chunks are wanted by the same ranks, and those reach each other without others' help."""
    goal = goal_of(problem)
    if isinstance(goal, str):
        return goal
    if len(goal.size_bytes) == 0:
        return None
    if goal.ends.shared is None or len(goal.ends.shared) == 1:
        return "it hands chunks only to ranks that want them, so nobody relays what has one destination"
    if not reach_each_other(goal, arcs_of(problem.topology)):
        return "the ranks that want the chunks do not reach each other without the help of others, or not at all"
    return None


ALGORITHM = Algorithm("tacos", "random matching, best of many (TACOS)", refuses, tacos, cuts_items=True)
