"""Transfers that wait for each other get their times: whatever link is free sends what has most waiting for it.

A message carries one chunk, or several that share its overhead: how many is tried out (`Merging`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.budget import Budget
from interlock.ragged import Ragged
from interlock.schedule import Chunks, Kind, TransferSchedule

__all__ = [
    "LONG_MESSAGES",
    "OVERHEAD_MATTERS",
    "SINGLE",
    "ListScheduler",
    "Merging",
    "Tasks",
    "TimedTransfers",
    "concatenated",
    "fastest",
    "fastest_merged",
    "merged_evenly",
    "merged_for_pipelines",
    "more_parts_are_no_use",
    "never_merged",
    "overhead_share",
    "to_schedule",
]


@dataclass(frozen=True, slots=True, eq=False)
class TimedTransfers:
    """Chunks over arcs; those of one message start together."""

    arc: NDArray[np.int32]  # [num_transfers]
    chunk: NDArray[np.int32]
    start_ticks: NDArray[np.int64]
    sent_ticks: NDArray[np.int64]  # of the whole message: from then on its links are free
    message: NDArray[np.int32]
    reduces: NDArray[np.bool_]
    makespan_ticks: int

    def rescaled(self, factor: float) -> TimedTransfers:
        """The same in ticks of another length."""
        if factor == 1.0:
            return self
        start, sent = (np.rint(ticks * factor).astype(np.int64) for ticks in (self.start_ticks, self.sent_ticks))
        return replace(self, start_ticks=start, sent_ticks=sent, makespan_ticks=round(self.makespan_ticks * factor))

    def backwards(self, ticks: Ticks) -> TimedTransfers:
        """The same read from the end, summing where it copied."""
        end = self.makespan_ticks - ticks.latency[self.arc]
        start = end - self.sent_ticks
        return replace(
            self,
            start_ticks=start,
            sent_ticks=end - self.start_ticks,
            message=_by_start(start, self.message),
            reduces=~self.reduces,
        )


def _by_start(start_ticks: NDArray[np.int64], message: NDArray[np.int32]) -> NDArray[np.int32]:
    """Messages numbered anew, by start."""
    count = int(message.max(initial=-1)) + 1
    start = np.zeros(count, np.int64)
    start[message] = start_ticks
    number = np.empty(count, np.int32)
    number[np.argsort(start, kind="stable")] = np.arange(count, dtype=np.int32)
    return number[message]


def concatenated(first: TimedTransfers, then: TimedTransfers) -> TimedTransfers:
    """One after the other."""
    return TimedTransfers(
        np.concatenate([first.arc, then.arc]),
        np.concatenate([first.chunk, then.chunk]),
        np.concatenate([first.start_ticks, then.start_ticks + first.makespan_ticks]),
        np.concatenate([first.sent_ticks, then.sent_ticks + first.makespan_ticks]),
        np.concatenate([first.message, then.message + (int(first.message.max(initial=-1)) + 1)]),
        np.concatenate([first.reduces, then.reduces]),
        first.makespan_ticks + then.makespan_ticks,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Tasks:
    """Transfers to be made: ``after`` lists, for each, those that need it to have arrived."""

    arc: NDArray[np.int32]  # [num_tasks]
    chunk: NDArray[np.int32]
    reduces: NDArray[np.bool_]
    after: Ragged
    lateness: NDArray[np.int64]  # how much later than the first its chunk is meant to be, in ticks

    def __len__(self) -> int:
        return len(self.arc)


@dataclass(frozen=True, slots=True)
class Merging:
    """How many chunks may share a message, how long to wait for one more, and how long a message of several may get.

    Times are in parts of the usual overhead (`patience`), of the arc's own (`most_overheads`), or of what is known to
    be best for the arc (`most_of_best`).
    """

    most_chunks: int
    patience: float = 0.0
    most_overheads: float = np.inf
    most_of_best: float = np.inf


SINGLE = Merging(1)
# Of its rate, so much must be free for a message to go. If all had to be, slow messages that follow each other over a
# fast link would keep a fast one waiting; with half of it, a link half as fast again as its messages would carry one at
# a time. With a tenth instead of a quarter, 96 drawn problems were 0.1 % slower.
LEAST_RATE = 0.25
ANY_NUMBER = 4096  # more than ever wait for one arc
OVERHEAD_MATTERS = 0.004  # of a chunk's time: merging could not gain more, and searches end at 0.003
# Where overhead is a small part of a chunk's time, short messages keep the pipeline full; where it is large, chunks
# must travel together, and are worth a short wait.
SHORT_MESSAGES = tuple(Merging(most) for most in (2, 3, 4, 8))
ALL_THAT_WAIT = tuple(Merging(ANY_NUMBER, patience) for patience in (0.0, 0.1, 0.3, 0.5, 0.8))
# Messages that take about as long on links of any speed.
LONG_MESSAGES = tuple(Merging(ANY_NUMBER, most_overheads=most) for most in (20.0, 30.0, 12.0, 45.0))
LEAST_REFINEMENTS, MOST_REFINEMENTS = 2, 8  # there and back, until REFINED_TRANSFERS are spent
REFINED_TRANSFERS = 60_000  # in all refinements together: within a fair effort


def overhead_share(arcs: ArcSet, chunks: Chunks) -> float:
    """The part that overhead takes of a chunk's time, on average over the arcs."""
    body_s = float(chunks.length.mean()) * arcs.seconds_per_byte
    return float(np.mean(arcs.overhead_s / (arcs.overhead_s + body_s)))


def more_parts_are_no_use(arcs: ArcSet, chunks: Chunks, parts: int, best_parts: int) -> bool:
    """Whether more chunks than the best number so far have been tried in vain long enough."""
    return parts >= 16 * best_parts or (parts >= 4 * best_parts and overhead_share(arcs, chunks) > 0.05)


def never_merged(share: float) -> tuple[Merging, ...]:
    """Every chunk by itself."""
    return ()


def merged_for_pipelines(share: float) -> tuple[Merging, ...]:
    """What to try where chunks follow each other, by the part that overhead takes of their time."""
    return () if share < OVERHEAD_MATTERS else SHORT_MESSAGES if share < 0.1 else SHORT_MESSAGES + ALL_THAT_WAIT


def merged_evenly(share: float) -> tuple[Merging, ...]:
    """The same where many chunks are on their way at once, so that no link need wait for a message to fill up."""
    return () if share < OVERHEAD_MATTERS else LONG_MESSAGES if share < 0.5 else SHORT_MESSAGES + ALL_THAT_WAIT


@dataclass(frozen=True, slots=True)
class ListScheduler:
    """The arcs, their times and the chunks that tasks speak of."""

    arcs: ArcSet
    ticks: Ticks
    chunks: Chunks
    best_ticks: NDArray[np.float64] | None = None  # how long a message on each arc is best, where that is known

    def run(self, tasks: Tasks, merging: Merging, refinements: int) -> TimedTransfers:
        """List-schedule the tasks; then refine, backwards and forwards in turn, by when each was done."""
        arcs, ticks = self.arcs, self.ticks
        orbit_arc, orbit = arcs.orbit_arc, arcs.orbit[tasks.arc]
        if merging.most_chunks > 1 and tasks.reduces.any():
            # A message sums or copies, not both: twin orbits for the two.
            orbit = orbit + np.int32(len(orbit_arc)) * tasks.reduces
            orbit_arc = np.concatenate([orbit_arc, orbit_arc])
        resources, share, counts_senders = arcs.held_by(orbit_arc)
        most_ticks = self._most_ticks(merging)
        start, sent, message, makespan = _core.list_schedule(
            arcs.num_resources,
            resources.offsets,
            resources.values,
            share,
            np.where(counts_senders, 1.0, LEAST_RATE),
            ticks.overhead[orbit_arc],
            ticks.latency[orbit_arc],
            orbit.astype(np.int32),
            ticks.of_bytes(tasks.arc, self.chunks.length[tasks.chunk]),
            tasks.after.offsets,
            tasks.after.values,
            tasks.lateness,
            merging.most_chunks,
            int(merging.patience * float(np.median(ticks.overhead))),
            np.zeros(0, np.int64) if most_ticks is None else most_ticks[tasks.arc].astype(np.int64),
            arcs.src[orbit_arc],
            ticks.opening,
            refinements,
        )
        times = np.asarray(start), np.asarray(sent)
        return TimedTransfers(tasks.arc, tasks.chunk, *times, np.asarray(message), tasks.reduces, makespan)

    def _most_ticks(self, merging: Merging) -> NDArray[np.float64] | None:
        """How long a message of several chunks may get on each arc; an arc without overhead counts the usual one."""
        if self.best_ticks is not None and not np.isinf(merging.most_of_best):
            return merging.most_of_best * self.best_ticks
        if np.isinf(merging.most_overheads):
            return None
        return merging.most_overheads * np.maximum(self.ticks.overhead, np.median(self.ticks.overhead))

    def seconds(self, transfers: TimedTransfers) -> float:
        """From the first start to the last arrival."""
        return transfers.makespan_ticks * self.ticks.tick_s


def _refinements(tasks: Tasks) -> int:
    """More often where it costs little."""
    return int(np.clip(REFINED_TRANSFERS // max(1, len(tasks)), LEAST_REFINEMENTS, MOST_REFINEMENTS))


def fastest(
    tasks: Tasks,
    scheduler: ListScheduler,
    peak_ticks: int,
    budget: Budget,
    mergings_for: Callable[[float], tuple[Merging, ...]] = merged_for_pipelines,
) -> TimedTransfers:
    """Single chunks first, refined where the busiest link (`peak_ticks`) still rests; then merged, where that may pay.

    Ends as soon as the search can.
    """
    best = scheduler.run(tasks, SINGLE, 0)
    budget.spend(len(tasks))
    if budget.is_over(scheduler.seconds(best)):
        return best
    effort = 2 * _refinements(tasks) * len(tasks)
    last = best
    if best.makespan_ticks > 1.01 * peak_ticks and budget.affords(effort):
        last = scheduler.run(tasks, SINGLE, _refinements(tasks))
        budget.spend(effort)
        best = min(best, last, key=lambda transfers: transfers.makespan_ticks)
        if budget.is_over(scheduler.seconds(best)):
            return best
    merged = fastest_merged(
        tasks, scheduler, mergings_for(overhead_share(scheduler.arcs, scheduler.chunks)), budget, last.makespan_ticks
    )
    return best if merged is None or merged.makespan_ticks >= best.makespan_ticks else merged


def fastest_merged(
    tasks: Tasks, scheduler: ListScheduler, mergings: tuple[Merging, ...], budget: Budget, best_ticks: float = np.inf
) -> TimedTransfers | None:
    """The best of some mergings, as long as they beat the best so far and there is budget; None without budget."""
    best: TimedTransfers | None = None
    refinements = _refinements(tasks)
    effort = (1 + 2 * refinements) * len(tasks)
    while mergings and budget.affords(effort):
        # Two at a time, whatever the threads: what is tried must not depend on their number.
        now, mergings = mergings[:2], mergings[2:]
        made = list(budget.each([partial(scheduler.run, tasks, merging, refinements) for merging in now], len(tasks)))
        budget.spend(effort * len(now))
        for transfers in made:
            if best is None or transfers.makespan_ticks < best.makespan_ticks:
                best = transfers
            if budget.is_over(scheduler.seconds(transfers)):
                return best
        least = min(transfers.makespan_ticks for transfers in made)
        if least >= best_ticks and not set(now) <= set(ALL_THAT_WAIT):
            # Longer messages still are worse, unless they are worth a wait.
            mergings = tuple(merging for merging in mergings if merging in ALL_THAT_WAIT)
        best_ticks = min(best_ticks, least)
    return best


def _stages(start_ticks: NDArray[np.int64], shortest_ticks: int) -> NDArray[np.int64]:
    """Number starts (ascending) by stage: one begins with the first start that is not within the one before."""
    stage = np.zeros(len(start_ticks), np.int64)
    first, number = 0, 0
    while first < len(start_ticks):
        last = int(np.searchsorted(start_ticks, start_ticks[first] + max(1, shortest_ticks)))
        stage[first:last] = number
        first, number = last, number + 1
    return stage


def to_schedule(
    transfers: TimedTransfers, arcs: ArcSet, ticks: Ticks, chunks: Chunks, *, staged: bool = True
) -> TransferSchedule:
    """Rows ordered by message. Stages are as short as the shortest message, so that none waits within its own; all is
    one stage where to start one costs time (not `staged`)."""
    order = np.argsort(transfers.message, kind="stable")
    message = transfers.message[order]
    first = np.searchsorted(message, np.arange(int(message.max(initial=-1)) + 1))
    start = transfers.start_ticks[order][first]
    arc = transfers.arc[order][first]
    sent = transfers.sent_ticks[order][first]
    stage = _stages(start, shortest_ticks(ticks, chunks)) if staged else np.zeros(len(first))
    kind = np.where(transfers.reduces[order][first], Kind.REDUCE, Kind.COPY)
    shares_links = _share_links(arcs, arc, start, sent)
    return TransferSchedule(
        chunks,
        arcs.routes,
        transfers.arc[order],
        transfers.chunk[order],
        message,
        kind.astype(np.uint8),
        stage.astype(np.int32),
        exclusive=~shares_links,
        paced=_paced(arcs, arc, start, sent, ticks.latency[arc], shares_links),
    )


def shortest_ticks(ticks: Ticks, chunks: Chunks) -> int:
    """No message takes less."""
    return int((ticks.overhead + np.floor(int(chunks.length.min()) * ticks.per_byte).astype(np.int64)).min())


def _share_links(
    arcs: ArcSet, arc: NDArray[np.int32], start: NDArray[np.int64], sent: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which messages hold no link alone: those that meet others on a link, and those that meet these on another."""
    shares_links = np.zeros(len(arc), np.bool_)
    if not arcs.can_share:
        return shares_links
    held = arcs.resources.take(arc)
    message = held.row_of_value
    order = np.lexsort((start[message], held.values))
    resource, message = held.values[order], message[order]
    meets = (resource[1:] == resource[:-1]) & (start[message[1:]] < sent[message[:-1]])
    is_shared = np.zeros(arcs.num_resources, np.bool_)
    is_shared[resource[1:][meets]] = True
    count = 0
    while (known := int(is_shared.sum())) > count:
        count = known
        shares_links[message[is_shared[resource]]] = True
        is_shared[resource[shares_links[message]]] = True
    return shares_links


def _paced(
    arcs: ArcSet,
    arc: NDArray[np.int32],
    start: NDArray[np.int64],
    sent: NDArray[np.int64],
    latency: NDArray[np.int64],
    shares_links: NDArray[np.bool_],
) -> Ragged:
    """What keeps messages that share links to their times: each waits on every link for the last one that has arrived
    by then. A port that tolerates few senders is left first."""
    row = np.flatnonzero(shares_links)
    held = arcs.resources.take(arc[row])
    message, resource = row[held.row_of_value], held.values.astype(np.int64)
    over = (sent + latency)[message]
    if arcs.fan_in is not None:
        ports = held.offsets[1:] - 1
        over[ports] = sent[row]
    times = np.sort(over)
    width = len(times) + 1
    ended = resource * width + np.searchsorted(times, over, side="left")
    order = np.argsort(ended, kind="stable")
    asked = resource * width + np.searchsorted(times, start[message], side="right") - 1
    place = np.searchsorted(ended[order], asked, side="right") - 1
    before = message[order][np.maximum(place, 0)]
    is_known = (place >= 0) & (resource[order][np.maximum(place, 0)] == resource) & (before < message)
    return Ragged.from_pairs(message[is_known], before[is_known], len(arc))
