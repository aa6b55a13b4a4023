"""Work scheduled in several manners: message by message, refined, merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from interlock.algorithms.synthesis.answer import Answer
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.timed import Timed, Work, run
from interlock.schedule import Chunks

__all__ = ["Manner", "Scene", "no_more_parts", "overhead_share", "scheduled"]

REFINEMENTS = 2


@dataclass(frozen=True, slots=True)
class Manner:
    """How many chunks may share a message, and how long to wait for one more, in parts of the overhead."""

    max_merge: int
    patience: float = 0.0


# Where overhead is a small part of a chunk's time, short messages keep the pipeline full; where it is large, chunks
# must travel together, and are worth a short wait.
LIGHT = tuple(Manner(merge) for merge in (2, 3, 4, 8))
HEAVY = tuple(Manner(4096, patience) for patience in (0.0, 0.1, 0.3, 0.5, 0.8))


@dataclass(frozen=True, slots=True)
class Scene:
    """Where some work is done, and what makes an answer of its times."""

    arcs: ArcSet
    ticks: Ticks
    chunks: Chunks  # those that the work speaks of
    made: Callable[[Timed], Answer]

    def run(self, work: Work, manner: Manner, rounds: int) -> Timed:
        """The times of the work."""
        patience_ticks = int(manner.patience * float(np.median(self.ticks.overhead)))
        return run(
            work,
            self.arcs,
            self.ticks,
            self.chunks.length,
            max_merge=manner.max_merge,
            patience_ticks=patience_ticks,
            rounds=rounds,
        )


def overhead_share(arcs: ArcSet, chunks: Chunks) -> float:
    """The largest part that overhead takes of a chunk's time on any arc."""
    body_s = float(chunks.length.mean()) * arcs.seconds_per_byte
    return float(np.max(arcs.overhead_s / (arcs.overhead_s + body_s)))


def no_more_parts(arcs: ArcSet, chunks: Chunks, parts: int, best_parts: int) -> bool:
    """Whether more chunks than the best number so far have been tried in vain long enough."""
    return parts >= 16 * best_parts or (parts >= 4 * best_parts and overhead_share(arcs, chunks) > 0.05)


def scheduled(work: Work, scene: Scene, peak_ticks: int, budget: Budget) -> Iterator[Answer]:
    """Single messages first, refined where the busiest link still rests; then merged, where overhead is felt."""
    timed = scene.run(work, Manner(1), 0)
    budget.spend(len(work))
    yield scene.made(timed)
    if timed.makespan_ticks > 1.01 * peak_ticks and budget.affords(4 * len(work)):
        timed = scene.run(work, Manner(1), REFINEMENTS)
        budget.spend(2 * REFINEMENTS * len(work))
        yield scene.made(timed)
    best = timed.makespan_ticks
    share = overhead_share(scene.arcs, scene.chunks)
    manners = () if share < 0.004 else LIGHT if share < 0.1 else LIGHT + HEAVY
    cost = (1 + 2 * REFINEMENTS) * len(work)
    while manners and budget.affords(cost):
        # Two at a time, whatever the threads: what is tried must not depend on their number.
        now, manners = manners[:2], manners[2:]
        attempts = [partial(scene.run, work, manner, REFINEMENTS) for manner in now]
        merged = list(budget.together(attempts, len(work)))
        budget.spend(cost * len(now))
        yield from (scene.made(timed) for timed in merged)
        least = min(timed.makespan_ticks for timed in merged)
        if least >= best and set(now) <= set(LIGHT):
            # Longer messages still are worse, unless they are worth a wait.
            manners = tuple(manner for manner in manners if manner in HEAVY)
        best = min(best, least)
