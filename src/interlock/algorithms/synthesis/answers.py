"""What a way of synthesis found, in the form it found it; answers of one form can follow each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.goal import Direction
from interlock.algorithms.synthesis.list_schedule import TimedTransfers, concatenated, to_schedule
from interlock.algorithms.synthesis.symmetry import Quotient
from interlock.schedule import (
    Chunks,
    CompactSchedule,
    Kind,
    Routes,
    SlotSchedule,
    SlotTable,
    TransferSchedule,
    TranslatedSchedule,
    resting,
)

__all__ = ["Answer", "InSwitchAnswer", "SlotAnswer", "TimedAnswer", "TranslatedAnswer"]


@dataclass(frozen=True, slots=True, eq=False)
class SlotAnswer:
    """A slot table on equal links."""

    chunks: Chunks
    arcs: ArcSet
    table: SlotTable
    slot_s: float
    least_slots: int  # no table of these chunks has fewer
    num_reducing: int = 0
    details: str = ""  # what `plan.reason` tells beside the name of the way

    @property
    def num_transfers(self) -> int:
        """At most: links rest in some slots."""
        return int(self.table.size)

    @property
    def makespan_s(self) -> float:
        """Slots, one after the other."""
        return len(self.table) * self.slot_s

    def measured(self, seconds: float) -> SlotAnswer:
        """The same with the time that it took by a clock."""
        return replace(self, slot_s=seconds / len(self.table))

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
            return self.to_timed().then(other)
        table = cast(SlotTable, np.concatenate([self.table, other.table]))
        return replace(self, table=table)

    def to_timed(self) -> TimedAnswer:
        """The same with times of their own."""
        slot, link = np.nonzero(self.table != resting(self.table))
        ticks = self.arcs.ticks(len(slot), float(self.chunks.length.max()) * len(slot))
        slot_ticks = round(self.slot_s / ticks.tick_s)
        transfers = TimedTransfers(
            link.astype(np.int32),
            self.table[slot, link].astype(np.int32),
            slot * slot_ticks,
            (slot + 1) * slot_ticks,
            np.arange(len(slot), dtype=np.int32),
            slot < self.num_reducing,
            len(self.table) * slot_ticks,
        )
        return TimedAnswer(self.chunks, self.arcs, ticks, transfers)

    def compact(self, *, staged: bool, reason: str) -> CompactSchedule:
        links = self.arcs.path.values
        assert np.array_equal(links, np.arange(len(links)))
        return SlotSchedule(self.chunks, self.arcs.src, self.arcs.dst, self.table, self.num_reducing, reason)


@dataclass(frozen=True, slots=True, eq=False)
class TimedAnswer:
    """Transfers with times."""

    chunks: Chunks
    arcs: ArcSet
    ticks: Ticks
    transfers: TimedTransfers
    details: str = ""  # what `plan.reason` tells beside the name of the way
    measured_ticks: int | None = None  # by a clock, where its times are estimates

    @property
    def num_transfers(self) -> int:
        """Messages before any are merged."""
        return len(self.transfers.arc)

    @property
    def makespan_s(self) -> float:
        """From the first start to the last arrival."""
        ticks = self.transfers.makespan_ticks if self.measured_ticks is None else self.measured_ticks
        return ticks * self.ticks.tick_s

    def measured(self, seconds: float) -> TimedAnswer:
        """The same with the time that it took by a clock."""
        return replace(self, measured_ticks=round(seconds / self.ticks.tick_s))

    def backwards(self) -> TimedAnswer:
        """Sums instead of copies, on arcs with their ends swapped."""
        return replace(self, arcs=self.arcs.reversed(), transfers=self.transfers.backwards(self.ticks))

    def then(self, other: Answer) -> Answer:
        """This, and after it the other, which cuts items into the same chunks."""
        if isinstance(other, SlotAnswer):
            other = other.to_timed()
        assert isinstance(other, TimedAnswer), "one rank's part cannot follow all ranks'"
        after = other.transfers.rescaled(other.ticks.tick_s / self.ticks.tick_s)
        return replace(self, transfers=concatenated(self.transfers, after))

    def compact(self, *, staged: bool, reason: str) -> CompactSchedule:
        return replace(to_schedule(self.transfers, self.arcs, self.ticks, self.chunks, staged=staged), reason=reason)


@dataclass(frozen=True, slots=True, eq=False)
class TranslatedAnswer:
    """Rank 0's transfers, for all."""

    chunks: Chunks  # of all ranks
    quotient: Quotient
    ticks: Ticks
    chunk_image: NDArray[np.int32]
    transfers: TimedTransfers
    details: str = ""  # what `plan.reason` tells beside the name of the way
    measured_ticks: int | None = None  # as of a `TimedAnswer`

    @property
    def num_transfers(self) -> int:
        """Of all ranks."""
        return len(self.transfers.arc) * len(self.quotient.image)

    @property
    def makespan_s(self) -> float:
        """From the first start to the last arrival."""
        ticks = self.transfers.makespan_ticks if self.measured_ticks is None else self.measured_ticks
        return ticks * self.ticks.tick_s

    def measured(self, seconds: float) -> TranslatedAnswer:
        """The same with the time that it took by a clock."""
        return replace(self, measured_ticks=round(seconds / self.ticks.tick_s))

    def backwards(self) -> TranslatedAnswer:
        """Sums instead of copies, on arcs with their ends swapped."""
        return replace(self, quotient=self.quotient.reversed(), transfers=self.transfers.backwards(self.ticks))

    def then(self, other: Answer) -> Answer:
        """This, and after it the other, which cuts items into the same chunks."""
        assert isinstance(other, TranslatedAnswer), "all ranks' cannot follow one rank's part"
        after = other.transfers.rescaled(other.ticks.tick_s / self.ticks.tick_s)
        return replace(self, transfers=concatenated(self.transfers, after))

    def compact(self, *, staged: bool, reason: str) -> CompactSchedule:
        base = to_schedule(self.transfers, self.quotient.arcs, self.ticks, self.chunks, staged=staged)
        return TranslatedSchedule(base, self.quotient.image, self.chunk_image, self.quotient.num_orbits, reason)


@dataclass(frozen=True, slots=True, eq=False)
class InSwitchAnswer:
    """Slots of one chunk each; a sum in slot k is copied in slot k + 1."""

    chunks: Chunks
    direction: Direction
    routes: Routes  # towards the root, away from it
    slot_s: float
    latency_s: float
    details: str = ""  # what `plan.reason` tells beside the name of the way

    @property
    def num_transfers(self) -> int:
        """One of each rank for each chunk, or two."""
        return self._num_slots * len(self.routes.src)

    @property
    def _num_slots(self) -> int:
        return len(self.chunks) + (self.direction is Direction.IN_AND_OUT)

    @property
    def makespan_s(self) -> float:
        """Slots, one after the other."""
        return self._num_slots * (self.slot_s + self.latency_s)

    def measured(self, seconds: float) -> InSwitchAnswer:
        """The same with the time that it took by a clock."""
        return replace(self, slot_s=seconds / self._num_slots - self.latency_s)

    def backwards(self) -> InSwitchAnswer:
        """It flows the right way already."""
        return self

    def then(self, other: Answer) -> Answer:
        """A switch copies what it adds: nothing follows."""
        raise AssertionError("what is summed in a switch is copied by it")

    def compact(self, *, staged: bool, reason: str) -> CompactSchedule:
        """As a schedule: in each slot the copy of one chunk beside the sum of the next."""
        count = len(self.chunks)
        number = np.arange(count, dtype=np.int32)
        sums, copies = self.direction is not Direction.OUT, self.direction is not Direction.IN
        slot = np.concatenate([number] * sums + [number + sums] * copies)
        route = np.concatenate([np.zeros(count, np.int32)] * sums + [np.ones(count, np.int32)] * copies)
        chunk = np.concatenate([number] * (sums + copies))
        order = np.lexsort((route, slot))
        return TransferSchedule(
            chunks=self.chunks,
            routes=self.routes,
            route=route[order],
            chunk=chunk[order],
            message=np.arange(len(order), dtype=np.int32),
            kind=np.where(route[order] == 0, Kind.REDUCE, Kind.COPY).astype(np.uint8),
            stage=slot[order].astype(np.int32) if staged else np.zeros(len(order), np.int32),
            reason=reason,
        )


Answer = SlotAnswer | TimedAnswer | TranslatedAnswer | InSwitchAnswer
