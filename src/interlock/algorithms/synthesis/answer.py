"""What a way of synthesis found, in the form it found it; answers of one form can follow each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.symmetry import Quotient
from interlock.algorithms.synthesis.timed import Timed, concatenated, to_schedule
from interlock.schedule import Chunks, CompactSchedule, SlotSchedule, SlotTable, TranslatedSchedule, resting

__all__ = ["Answer", "SlotAnswer", "TimedAnswer", "TranslatedAnswer"]


@dataclass(frozen=True, slots=True, eq=False)
class SlotAnswer:
    """A slot table on equal links."""

    chunks: Chunks
    arcs: ArcSet
    table: SlotTable
    slot_s: float
    least_slots: int  # no table of these chunks has fewer
    num_reducing: int = 0

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
        return replace(self, table=cast(SlotTable, np.concatenate([self.table, other.table])))

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
        return TimedAnswer(self.chunks, self.arcs, ticks, timed)

    def compact(self, *, staged: bool) -> CompactSchedule:
        """As a schedule."""
        links = self.arcs.path.values
        assert np.array_equal(links, np.arange(len(links)))
        return SlotSchedule(self.chunks, self.arcs.src, self.arcs.dst, self.table, self.num_reducing)


@dataclass(frozen=True, slots=True, eq=False)
class TimedAnswer:
    """Transfers with times."""

    chunks: Chunks
    arcs: ArcSet
    ticks: Ticks
    timed: Timed

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
        return replace(
            self, timed=concatenated(self.timed, other.timed.rescaled(other.ticks.tick_s / self.ticks.tick_s))
        )

    def compact(self, *, staged: bool) -> CompactSchedule:
        """As a schedule."""
        shortest = shortest_ticks(self.ticks, self.chunks)
        return to_schedule(self.timed, self.arcs, self.chunks, shortest, staged=staged)


@dataclass(frozen=True, slots=True, eq=False)
class TranslatedAnswer:
    """Rank 0's transfers, for all."""

    chunks: Chunks  # of all ranks
    quotient: Quotient
    ticks: Ticks
    chunk_image: NDArray[np.int32]
    timed: Timed

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
        return replace(
            self, timed=concatenated(self.timed, other.timed.rescaled(other.ticks.tick_s / self.ticks.tick_s))
        )

    def compact(self, *, staged: bool) -> CompactSchedule:
        """As a schedule."""
        shortest = shortest_ticks(self.ticks, self.chunks)
        base = to_schedule(self.timed, self.quotient.arcs, self.chunks, shortest, staged=staged)
        return TranslatedSchedule(base, self.quotient.image, self.chunk_image, self.quotient.num_lanes)


Answer = SlotAnswer | TimedAnswer | TranslatedAnswer


def shortest_ticks(ticks: Ticks, chunks: Chunks) -> int:
    """No message takes less."""
    return int((ticks.overhead + np.floor(int(chunks.length.min()) * ticks.per_byte).astype(np.int64)).min())


def held_ticks(timed: Timed, arcs: ArcSet, ticks: Ticks, chunks: Chunks) -> NDArray[np.int64]:
    """From start to arrival of each transfer: that of its whole message."""
    own = ticks.of_bytes(timed.arc, chunks.length[timed.chunk])
    together = np.zeros(int(timed.message.max(initial=-1)) + 1, np.int64)
    np.add.at(together, timed.message, own)
    return together[timed.message] + ticks.overhead[timed.arc] + ticks.latency[timed.arc]
