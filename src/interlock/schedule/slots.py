"""Compact forms of regular schedules: a chunk per link and slot, and one rank's part for all by symmetry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.schedule.model import CompactSchedule, Kind, Message, Phase, Schedule, check_rows
from interlock.schedule.transfers import Chunks, TransferSchedule, link_routes

__all__ = ["SlotSchedule", "SlotTable", "TranslatedSchedule", "resting"]

SlotTable = NDArray[np.uint16] | NDArray[np.uint32]


def resting(table: SlotTable) -> int:
    """What a slot table says of a link that carries nothing: the largest number of its dtype."""
    return int(np.iinfo(table.dtype).max)


@dataclass(frozen=True, slots=True, eq=False)
class SlotSchedule(CompactSchedule):
    """``table[slot, link]`` is the chunk that the link carries in that slot; what arrives can be sent in the next.

    Slots before `num_reducing` add up towards a chunk's owner, later ones copy. The table may be a memory map.
    """

    chunks: Chunks
    link_src: NDArray[np.int32]  # [num_links]
    link_dst: NDArray[np.int32]
    table: SlotTable
    num_reducing: int = 0
    reason: str = ""  # which way found it, in words

    @property
    def num_messages(self) -> int:
        """Slots in which some link carries something, counted over links; reads the whole table once."""
        rest = resting(self.table)
        return sum(int(np.count_nonzero(row != rest)) for row in self.table)

    @property
    def num_pieces(self) -> int:
        return self.num_messages

    @property
    def num_stages(self) -> int:
        return len(self.table)

    def expand(self) -> Schedule:
        check_rows(self.num_messages)
        return self._of_links(np.arange(len(self.link_src), dtype=np.int32)).expand()

    def rows_of(self, rank: int) -> Schedule:
        """One rank's messages, from the columns of its own links only."""
        links = np.flatnonzero((self.link_src == rank) | (self.link_dst == rank)).astype(np.int32)
        return self._of_links(links).rows_of(rank)

    def decided(self) -> tuple[NDArray[np.generic], ...]:
        """The table, its chunks and its links."""
        chunks = (self.chunks.item, self.chunks.offset, self.chunks.length)
        return (self.table, self.link_src, self.link_dst, *chunks, np.array([self.num_reducing]))

    def iter_messages(self) -> Iterator[Message]:
        """Row after row, numbered as `expand` would, keeping only which link brought each chunk to each rank."""
        rest = resting(self.table)
        first_of_slot = 0
        brought: dict[tuple[int, int], list[int]] = {}
        for slot, row in enumerate(self.table):
            links = np.flatnonzero(row != rest)
            kind = Kind.REDUCE if slot < self.num_reducing else Kind.COPY
            arrived: list[tuple[tuple[int, int], int]] = []
            for index, link in enumerate(links.tolist(), first_of_slot):
                src, dst, chunk = int(self.link_src[link]), int(self.link_dst[link]), int(row[link])
                arrived.append(((dst, chunk), index))
                yield self._message(index, slot, link, chunk, kind, brought.get((src, chunk), []))
            for key, index in arrived:
                if kind is Kind.COPY:
                    brought[key] = [index]
                else:
                    brought.setdefault(key, []).append(index)
            first_of_slot += len(links)

    def _message(self, index: int, slot: int, link: int, chunk: int, kind: Kind, deps: list[int]) -> Message:
        length = int(self.chunks.length[chunk])
        return Message(
            index=index,
            src=(int(self.link_src[link]),),
            dst=(int(self.link_dst[link]),),
            kind=kind,
            phase=Phase.REDUCE if kind is Kind.REDUCE else Phase.SPREAD,
            stage=slot,
            slice=0,
            size_bytes=length,
            path=(link,),
            deps=tuple(deps),
            pieces=((int(self.chunks.item[chunk]), int(self.chunks.offset[chunk]), length),),
        )

    def _of_links(self, links: NDArray[np.int32]) -> TransferSchedule:
        columns = np.asarray(self.table[:, links])
        slot, column = np.nonzero(columns != resting(self.table))
        count = len(slot)
        return TransferSchedule(
            chunks=self.chunks,
            routes=link_routes(self.link_src, self.link_dst),
            route=links[column],
            chunk=columns[slot, column].astype(np.int32),
            message=np.arange(count, dtype=np.int32),
            kind=np.where(slot < self.num_reducing, Kind.REDUCE, Kind.COPY).astype(np.uint8),
            stage=slot.astype(np.int32),
        )


@dataclass(frozen=True, slots=True, eq=False)
class TranslatedSchedule(CompactSchedule):
    """What the chunks of rank 0 do; every other rank's do the same, moved by a symmetry of the graph.

    Symmetry r takes rank u to ``image[r, u]``, and rank 0 to r. Routes are numbered ``u * num_orbits + orbit``, and
    symmetries keep the orbit.
    """

    base: TransferSchedule  # of rank 0's chunks alone: `chunk` counts within a rank; its table holds all ranks' chunks
    image: NDArray[np.int32]  # [num_ranks, num_ranks]
    chunk_image: NDArray[np.int32]  # [num_ranks, chunks_per_rank]: rank r's j-th chunk
    num_orbits: int
    reason: str = ""  # which way found it, in words

    @property
    def num_messages(self) -> int:
        orbit = self.base.route % self.num_orbits
        return len(self.image) * len(np.unique(self.base.message * np.int64(self.num_orbits) + orbit))

    @property
    def num_pieces(self) -> int:
        return len(self.image) * self.base.num_pieces

    @property
    def num_stages(self) -> int:
        return self.base.num_stages

    def expand(self) -> Schedule:
        check_rows(self.num_pieces)
        return self._written().expand()

    def rows_of(self, rank: int) -> Schedule:
        return self._written().rows_of(rank)

    def decided(self) -> tuple[NDArray[np.generic], ...]:
        """What rank 0's chunks do, and the symmetries."""
        return (*self.base.decided(), self.image, self.chunk_image)

    def _written(self) -> TransferSchedule:
        """Every rank's transfers. Chunks that share a message at rank 0 share one wherever they meet on a route."""
        base = self.base
        rank, orbit = np.divmod(base.route, np.int32(self.num_orbits))
        route = self.image[:, rank] * np.int32(self.num_orbits) + orbit  # [num_ranks, num_transfers]
        message_on_route = base.message.astype(np.int64) * len(base.routes) + route
        order = np.argsort(message_on_route, axis=None, kind="stable")
        messages, message = np.unique(message_on_route.reshape(-1)[order], return_inverse=True)
        of_base = messages // len(base.routes)
        return TransferSchedule(
            chunks=base.chunks,
            routes=base.routes,
            route=route.reshape(-1)[order],
            chunk=self.chunk_image[:, base.chunk].reshape(-1)[order],
            message=message.astype(np.int32),
            kind=base.kind[of_base],
            stage=base.stage[of_base],
        )
