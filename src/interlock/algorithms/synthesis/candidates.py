"""Work scheduled in several manners: message by message, refined, merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.answer import Answer
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.algorithms.synthesis.timed import Timed, Work, run
from interlock.schedule import Chunks

__all__ = [
    "FELT",
    "LEVEL",
    "MEASURED",
    "Manner",
    "Scene",
    "evenly_merged",
    "merged",
    "no_more_parts",
    "overhead_share",
    "scheduled",
    "tried",
    "unmerged",
]

REFINEMENTS = 2
MOST_REFINEMENTS = 8
REFINED_TRANSFERS = 60_000  # in all rounds together, where they are more than the least
FELT = 0.004  # from here on the part that overhead takes of a chunk's time matters


@dataclass(frozen=True, slots=True)
class Manner:
    """How many chunks may share a message, how long to wait for one more, and how long a message may get by more than
    one (both in parts of the overhead, or of what is best for the arc)."""

    max_merge: int
    patience: float = 0.0
    full: float = np.inf
    full_of_best: float = np.inf


# Where overhead is a small part of a chunk's time, short messages keep the pipeline full; where it is large, chunks
# must travel together, and are worth a short wait.
LIGHT = tuple(Manner(merge) for merge in (2, 3, 4, 8))
HEAVY = tuple(Manner(4096, patience) for patience in (0.0, 0.1, 0.3, 0.5, 0.8))
# Messages that take about as long on links of any speed.
LEVEL = tuple(Manner(4096, full=full) for full in (20.0, 30.0, 12.0, 45.0))
# The same where it is known how long messages should be.
MEASURED = tuple(Manner(4096, full_of_best=part) for part in (1.7, 2.8, 1.1, 4.0))


@dataclass(frozen=True, slots=True)
class Scene:
    """Where some work is done, and what makes an answer of its times."""

    arcs: ArcSet
    ticks: Ticks
    chunks: Chunks  # those that the work speaks of
    made: Callable[[Timed], Answer]
    best_ticks: NDArray[np.float64] | None = None  # how long a message on each arc is best, where that is known

    def run(self, work: Work, manner: Manner, rounds: int) -> Timed:
        """The times of the work."""
        overhead = float(np.median(self.ticks.overhead))
        return run(
            work,
            self.arcs,
            self.ticks,
            self.chunks.length,
            max_merge=manner.max_merge,
            patience_ticks=int(manner.patience * overhead),
            full_ticks=self._full_ticks(manner),
            rounds=rounds,
        )

    def _full_ticks(self, manner: Manner) -> NDArray[np.float64] | None:
        """How long messages may get by merging: by the overhead of the arc, or the usual where that is less."""
        if self.best_ticks is not None and not np.isinf(manner.full_of_best):
            return manner.full_of_best * self.best_ticks
        if np.isinf(manner.full):
            return None
        return manner.full * np.maximum(self.ticks.overhead, np.median(self.ticks.overhead))


def refinements(work: Work) -> int:
    """How often to refine: more often where it costs little."""
    return int(np.clip(REFINED_TRANSFERS // max(1, len(work)), REFINEMENTS, MOST_REFINEMENTS))


def overhead_share(arcs: ArcSet, chunks: Chunks) -> float:
    """The part that overhead takes of a chunk's time, on average over the arcs."""
    body_s = float(chunks.length.mean()) * arcs.seconds_per_byte
    return float(np.mean(arcs.overhead_s / (arcs.overhead_s + body_s)))


def no_more_parts(arcs: ArcSet, chunks: Chunks, parts: int, best_parts: int) -> bool:
    """Whether more chunks than the best number so far have been tried in vain long enough."""
    return parts >= 16 * best_parts or (parts >= 4 * best_parts and overhead_share(arcs, chunks) > 0.05)


def unmerged(share: float) -> tuple[Manner, ...]:
    """Never merge."""
    return ()


def merged(share: float) -> tuple[Manner, ...]:
    """How to merge chunks, by the part that overhead takes of their time."""
    return () if share < FELT else LIGHT if share < 0.1 else LIGHT + HEAVY


def evenly_merged(share: float) -> tuple[Manner, ...]:
    """The same where many chunks are on their way at once, so that no link need wait for a message to fill up."""
    return () if share < FELT else LEVEL if share < 0.5 else LIGHT + HEAVY


def scheduled(
    work: Work,
    scene: Scene,
    peak_ticks: int,
    budget: Budget,
    manners_for: Callable[[float], tuple[Manner, ...]] = merged,
) -> Iterator[Answer]:
    """Single messages first, refined where the busiest link still rests; then merged, where overhead is felt."""
    timed = scene.run(work, Manner(1), 0)
    budget.spend(len(work))
    yield scene.made(timed)
    rounds = refinements(work)
    if timed.makespan_ticks > 1.01 * peak_ticks and budget.affords(2 * rounds * len(work)):
        timed = scene.run(work, Manner(1), rounds)
        budget.spend(2 * rounds * len(work))
        yield scene.made(timed)
    manners = manners_for(overhead_share(scene.arcs, scene.chunks))
    yield from tried(work, scene, manners, budget, timed.makespan_ticks)


def tried(
    work: Work, scene: Scene, manners: tuple[Manner, ...], budget: Budget, best: float = np.inf
) -> Iterator[Answer]:
    """One manner after another, while they are better than the best so far (in ticks) and there is budget."""
    rounds = refinements(work)
    cost = (1 + 2 * rounds) * len(work)
    while manners and budget.affords(cost):
        # Two at a time, whatever the threads: what is tried must not depend on their number.
        now, manners = manners[:2], manners[2:]
        attempts = [partial(scene.run, work, manner, rounds) for manner in now]
        made = list(budget.together(attempts, len(work)))
        budget.spend(cost * len(now))
        yield from (scene.made(timed) for timed in made)
        least = min(timed.makespan_ticks for timed in made)
        if least >= best and not set(now) <= set(HEAVY):
            # Longer messages still are worse, unless they are worth a wait.
            manners = tuple(manner for manner in manners if manner in HEAVY)
        best = min(best, least)
