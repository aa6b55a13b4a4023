"""What a way of synthesis found, in the form it found it; answers of one form can follow each other."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.symmetry import Quotient
from interlock.algorithms.synthesis.timed import Timed, concatenated, to_schedule
from interlock.schedule import Chunks, CompactSchedule, SlotSchedule, SlotTable, TranslatedSchedule, resting

__all__ = ["Answer", "SlotAnswer", "TimedAnswer", "TranslatedAnswer", "called"]


@dataclass(frozen=True, slots=True, eq=False)
class SlotAnswer:
    """A slot table on equal links."""

    chunks: Chunks
    arcs: ArcSet
    table: SlotTable
    slot_s: float
    least_slots: int  # no table of these chunks has fewer
    num_reducing: int = 0
    way: str = ""  # that found it, in words

    @property
    def makespan_s(self) -> float:
        """Slots, one after the other."""
        return len(self.table) * self.slot_s

    @property
    def is_tight(self) -> bool:
        """Whether at most one slot could be saved."""
        return len(self.table) <= self.least_slots + 1

    def backwards(self) -> SlotAnswer:
        """Sums instead of copies, on arcs with their ends swapped."""
        return replace(
            self,
            arcs=self.arcs.reversed(),
            table=self.table[::-1].copy(),
            num_reducing=len(self.table),
        )

    def then(self, other: Answer) -> Answer:
        """This, and after it the other, which cuts items into the same chunks."""
        if not isinstance(other, SlotAnswer):
            return self.timed().then(other)
        table = cast(SlotTable, np.concatenate([self.table, other.table]))
        return replace(self, table=table, way=_both(self, other))

    def timed(self) -> TimedAnswer:
        """The same with times of their own."""
        slot, link = np.nonzero(self.table != resting(self.table))
        ticks = self.arcs.ticks(len(slot), float(self.chunks.length.max()) * len(slot))
        slot_ticks = round(self.slot_s / ticks.tick_s)
        timed = Timed(
            link.astype(np.int32),
            self.table[slot, link].astype(np.int32),
            slot * slot_ticks,
            np.arange(len(slot), dtype=np.int32),
            slot < self.num_reducing,
            len(self.table) * slot_ticks,
        )
        return TimedAnswer(self.chunks, self.arcs, ticks, timed, self.way)

    def compact(self, *, staged: bool) -> CompactSchedule:
        """As a schedule."""
        links = self.arcs.path.values
        assert np.array_equal(links, np.arange(len(links)))
        return SlotSchedule(self.chunks, self.arcs.src, self.arcs.dst, self.table, self.num_reducing, self.way)


@dataclass(frozen=True, slots=True, eq=False)
class TimedAnswer:
    """Transfers with times."""

    chunks: Chunks
    arcs: ArcSet
    ticks: Ticks
    timed: Timed
    way: str = ""  # that found it, in words

    @property
    def makespan_s(self) -> float:
        """From the first start to the last arrival."""
        return self.timed.makespan_ticks * self.ticks.tick_s

    def backwards(self) -> TimedAnswer:
        """Sums instead of copies, on arcs with their ends swapped."""
        held = held_ticks(self.timed, self.arcs, self.ticks, self.chunks)
        return replace(self, arcs=self.arcs.reversed(), timed=self.timed.backwards(held))

    def then(self, other: Answer) -> Answer:
        """This, and after it the other, which cuts items into the same chunks."""
        if isinstance(other, SlotAnswer):
            other = other.timed()
        assert isinstance(other, TimedAnswer), "one rank's part cannot follow all ranks'"
        after = other.timed.rescaled(other.ticks.tick_s / self.ticks.tick_s)
        return replace(self, timed=concatenated(self.timed, after), way=_both(self, other))

    def compact(self, *, staged: bool) -> CompactSchedule:
        """As a schedule."""
        shortest = shortest_ticks(self.ticks, self.chunks)
        return replace(to_schedule(self.timed, self.arcs, self.chunks, shortest, staged=staged), reason=self.way)


@dataclass(frozen=True, slots=True, eq=False)
class TranslatedAnswer:
    """Rank 0's transfers, for all."""

    chunks: Chunks  # of all ranks
    quotient: Quotient
    ticks: Ticks
    chunk_image: NDArray[np.int32]
    timed: Timed
    way: str = ""  # that found it, in words

    @property
    def makespan_s(self) -> float:
        """From the first start to the last arrival."""
        return self.timed.makespan_ticks * self.ticks.tick_s

    def backwards(self) -> TranslatedAnswer:
        """Sums instead of copies, on arcs with their ends swapped."""
        own = Chunks(*(getattr(self.chunks, name)[self.chunk_image[0]] for name in ("item", "offset", "length")))
        held = held_ticks(self.timed, self.quotient.arcs, self.ticks, own)
        return replace(self, quotient=self.quotient.reversed(), timed=self.timed.backwards(held))

    def then(self, other: Answer) -> Answer:
        """This, and after it the other, which cuts items into the same chunks."""
        assert isinstance(other, TranslatedAnswer), "all ranks' cannot follow one rank's part"
        after = other.timed.rescaled(other.ticks.tick_s / self.ticks.tick_s)
        return replace(self, timed=concatenated(self.timed, after), way=_both(self, other))

    def compact(self, *, staged: bool) -> CompactSchedule:
        """As a schedule."""
        shortest = shortest_ticks(self.ticks, self.chunks)
        base = to_schedule(self.timed, self.quotient.arcs, self.chunks, shortest, staged=staged)
        return TranslatedSchedule(base, self.quotient.image, self.chunk_image, self.quotient.num_lanes, self.way)


Answer = SlotAnswer | TimedAnswer | TranslatedAnswer

Returned = TypeVar("Returned")


def called(way: str, answers: Generator[Answer, None, Returned]) -> Generator[Answer, None, Returned]:
    """Answers of a way that tell its name."""
    while True:
        try:
            answer = next(answers)
        except StopIteration as end:
            return cast(Returned, end.value)
        yield replace(answer, way=way)


def _both(first: Answer, then: Answer) -> str:
    return first.way if first.way == then.way else f"{first.way}, then {then.way}"


def shortest_ticks(ticks: Ticks, chunks: Chunks) -> int:
    """No message takes less."""
    return int((ticks.overhead + np.floor(int(chunks.length.min()) * ticks.per_byte).astype(np.int64)).min())


def held_ticks(timed: Timed, arcs: ArcSet, ticks: Ticks, chunks: Chunks) -> NDArray[np.int64]:
    """From start to arrival of each transfer: that of its whole message."""
    own = ticks.of_bytes(timed.arc, chunks.length[timed.chunk])
    together = np.zeros(int(timed.message.max(initial=-1)) + 1, np.int64)
    np.add.at(together, timed.message, own)
    return together[timed.message] + ticks.overhead[timed.arc] + ticks.latency[timed.arc]
