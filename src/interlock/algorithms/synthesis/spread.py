"""Copies from roots to ends: several ways, from quick to thorough."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from interlock.algorithms.synthesis.answer import Answer, SlotAnswer, TimedAnswer, called
from interlock.algorithms.synthesis.arcs import ArcSet
from interlock.algorithms.synthesis.bounds import least_seconds
from interlock.algorithms.synthesis.budget import Budget, keep_best
from interlock.algorithms.synthesis.candidates import Scene, no_more_parts, overhead_share, scheduled
from interlock.algorithms.synthesis.goal import Goal, cut
from interlock.algorithms.synthesis.matching import matched
from interlock.algorithms.synthesis.paths import in_turn, path_work, route
from interlock.algorithms.synthesis.rounds import gather_in_rounds, least_rounds
from interlock.algorithms.synthesis.shares import are_few, shared
from interlock.algorithms.synthesis.sweeps import are_many, swept_copies
from interlock.algorithms.synthesis.symmetry import Quotient
from interlock.algorithms.synthesis.translated import translated_answers
from interlock.algorithms.synthesis.trees import alike, pack, spreading_work, wanted_by
from interlock.schedule import Chunks

__all__ = ["spread"]

MANY_TRANSFERS = 2_000_000  # trees are laid only below
MANY_PATHS = 20_000  # items are cut further only below
FEW_PATHS = 1_000  # below, a detour is worth many chunks
LEAST_CHUNK_BYTES = 64
MATCHINGS = 2
QUICK_TRANSFERS = 50_000  # below, trees are laid with more care
SLACKS = (0.2, 0.0)  # shallow trees first, then the cheapest
CANDIDATES = (1, 6, 12, 12, 12, 12)  # for greedy rounds, attempt by attempt


def spread(goal: Goal, arcs: ArcSet, quotient: Quotient | None, budget: Budget) -> Answer:
    """The best answer that the budget allows."""
    goal = goal.in_pairs()
    return keep_best(_answers(goal, arcs, quotient, budget), budget, least_seconds(goal, arcs))


def _answers(goal: Goal, arcs: ArcSet, quotient: Quotient | None, budget: Budget) -> Iterator[Answer]:
    if quotient is not None:
        yield from called("one rank's part, moved by symmetry", translated_answers(goal, quotient, budget))
        if budget.spent and (budget.parts is not None or goal.num_moves > budget.limit // 20):
            return
    if goal.is_pairwise:
        yield from called("balanced paths", _path_answers(goal, arcs, budget))
        return
    in_rounds = arcs.is_uniform and goal.spans_all and int(np.ptp(goal.size_bytes)) <= 1
    if in_rounds:
        is_tight = False
        for answer in _round_answers(goal, arcs, budget):
            yield answer
            is_tight |= answer.is_tight
        if is_tight and budget.parts is not None:
            return
    elif goal.spans_all and arcs.is_simple:
        yield from called("random matching", _matched_answers(goal, arcs, budget))
    if are_many(goal, arcs) and (yield from called("a tree per chunk", swept_copies(goal, arcs, budget))):
        return
    if are_few(goal, arcs, budget):
        yield from called("shares of the best trees", shared(goal, arcs, budget))
    if not in_rounds or goal.num_moves <= MANY_TRANSFERS:
        yield from called("packed trees", _tree_answers(goal, arcs, budget))


def _round_answers(goal: Goal, arcs: ArcSet, budget: Budget) -> Iterator[SlotAnswer]:
    """Greedy rounds; with more candidates and other seeds while there are more of them than must be."""
    chunks = cut(goal.size_bytes, budget.parts or 1)
    origin = np.ascontiguousarray(goal.root[chunks.item])
    slot_s = float(arcs.overhead_s[0] + chunks.length.max() * arcs.seconds_per_byte[0] + arcs.latency_s[0])
    least = least_rounds(arcs.dst, origin, goal.num_ranks)
    is_only = goal.num_moves >= MANY_TRANSFERS  # otherwise several tables are compared, in memory
    rounds = budget.rounds if is_only else replace(budget.rounds, threads=1, table_file=None)
    for attempt, candidates in enumerate(CANDIDATES):
        options = replace(rounds, candidates=candidates, seed=budget.seed + attempt)
        table = gather_in_rounds(arcs.src, arcs.dst, origin, goal.num_ranks, options)
        budget.spend(len(chunks) * goal.num_ranks // 4)
        answer = SlotAnswer(chunks, arcs, table, slot_s, least, way="greedy rounds")
        yield answer
        if len(table) == least or is_only:
            return
        if answer.is_tight and budget.spent >= budget.fair_after:
            return


def _matched_answers(goal: Goal, arcs: ArcSet, budget: Budget) -> Generator[Answer]:
    """Random matching: little effort, and near the bound where no link is scarce."""
    for attempt in range(MATCHINGS):
        answer = matched(goal, arcs, budget.parts or 1, budget.seed + attempt)
        budget.spend(goal.num_moves * (budget.parts or 1))
        yield answer


def _tree_answers(goal: Goal, arcs: ArcSet, budget: Budget) -> Generator[Answer]:
    """Packed trees with more and more chunks, until more of them are no longer better."""
    best_s, best_parts = np.inf, 0
    for parts in budget.ladder():
        chunks = cut(goal.size_bytes, parts)
        transfers = goal.num_moves * parts
        is_too_much = not budget.affords(4 * transfers) or int(chunks.length.max()) < LEAST_CHUNK_BYTES
        if best_parts and (is_too_much or no_more_parts(arcs, chunks, parts, best_parts)):
            return
        for answer in _trees_of(goal, arcs, chunks, transfers, budget):
            yield answer
            if answer.makespan_s < best_s:
                best_s, best_parts = answer.makespan_s, parts


def _trees_of(goal: Goal, arcs: ArcSet, chunks: Chunks, transfers: int, budget: Budget) -> Iterator[Answer]:
    ticks = arcs.ticks(transfers, float(goal.size_bytes.sum()) * goal.num_ranks)
    scene = Scene(arcs, ticks, chunks, partial(TimedAnswer, chunks, arcs, ticks))
    root = np.ascontiguousarray(goal.root[chunks.item])
    each = np.arange(len(chunks), dtype=np.int32)
    share = overhead_share(arcs, chunks)
    if goal.spans_all and share > 0.1:
        forest = alike(arcs, ticks, root, int(chunks.length.mean()))
        yield from scheduled(spreading_work(forest, each, arcs), scene, 0, budget)
    if share >= 0.5 and goal.spans_all:
        return
    is_quick = transfers <= QUICK_TRANSFERS
    for slack in SLACKS if is_quick else SLACKS[:1]:
        wanted = wanted_by(goal, chunks.item)
        passes = 6 if is_quick else 2
        forest = pack(arcs, ticks, root, chunks.length, wanted, passes=passes, slack=slack, seed=budget.seed)
        best_s = np.inf
        for answer in scheduled(spreading_work(forest, each, arcs), scene, forest.peak_ticks, budget):
            best_s = min(best_s, answer.makespan_s)
            yield answer
        # Other trees are no better where the busiest link of these hardly rests.
        if best_s <= 1.02 * forest.peak_ticks * ticks.tick_s:
            return


def _path_answers(goal: Goal, arcs: ArcSet, budget: Budget) -> Generator[Answer]:
    """Balanced paths, each item whole at first; cut so that large ones can share links where there are few."""
    best_s, best_parts = np.inf, 0
    for parts in budget.ladder():
        chunks = cut(goal.size_bytes, parts)
        patience = 32 if len(chunks) <= FEW_PATHS else 4
        if best_parts and (len(chunks) > MANY_PATHS or parts >= patience * best_parts):
            return
        ticks = arcs.ticks(8 * len(chunks), float(goal.size_bytes.sum()) * goal.num_ranks)
        src, dst = goal.root[chunks.item], goal.ends.to_ragged().values[chunks.item]
        batch = max(1, len(chunks) // 4096)
        paths, peak = route(arcs, ticks, src, dst, chunks.length, passes=4, batch=batch, seed=budget.seed)
        scene = Scene(arcs, ticks, chunks, partial(TimedAnswer, chunks, arcs, ticks))
        for answer in scheduled(path_work(paths, in_turn(src, dst, chunks.item, goal.num_ranks)), scene, peak, budget):
            yield answer
            if answer.makespan_s < 0.99 * best_s:
                best_s, best_parts = answer.makespan_s, parts
