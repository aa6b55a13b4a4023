"""Compact form of a synthesized schedule: which chunk goes over which route, in which message.

Everything else in the rows follows: a message waits for the messages that brought its chunks to its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.ragged import Ragged, matches
from interlock.schedule.model import CompactSchedule, Kind, Phase, Pieces, Schedule, check_rows

__all__ = ["Chunks", "Routes", "TransferSchedule", "link_routes"]


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """What moves as one: `length` bytes of an item from `offset` on."""

    item: NDArray[np.int32]  # [num_chunks]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]

    @classmethod
    def join(cls, several: Sequence[Chunks]) -> Chunks:
        """All chunks of several tables."""
        names = ("item", "offset", "length")
        return cls(*(np.concatenate([getattr(each, name) for each in several]) for name in names))

    def __len__(self) -> int:
        return len(self.item)

    def take(self, which: NDArray[np.integer]) -> Chunks:
        """The chosen chunks."""
        return Chunks(self.item[which], self.offset[which], self.length[which])


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Ways a message can take: ranks at both ends and the links it holds."""

    src: Ragged
    dst: Ragged
    path: Ragged

    def __len__(self) -> int:
        return len(self.path)


def link_routes(link_src: NDArray[np.int32], link_dst: NDArray[np.int32]) -> Routes:
    """Every link as a route of its own."""
    return Routes(
        Ragged.single(link_src), Ragged.single(link_dst), Ragged.single(np.arange(len(link_src), dtype=np.int32))
    )


@dataclass(frozen=True, slots=True, eq=False)
class TransferSchedule(CompactSchedule):
    """One row per chunk and route, ordered by message; messages are numbered by start.

    A reducing transfer carries what its source has added up so far, a copying one the final value. A chunk is copied
    to a rank at most once.
    """

    chunks: Chunks
    routes: Routes
    route: NDArray[np.int32]  # [num_transfers]
    chunk: NDArray[np.int32]
    message: NDArray[np.int32]  # not descending
    kind: NDArray[np.uint8]  # [num_messages]
    stage: NDArray[np.int32]  # [num_messages]
    exclusive: NDArray[np.bool_] | bool = True  # [num_messages], or of all
    paced: Ragged | None = None  # what messages wait for beside those that brought their chunks
    reason: str = ""  # which way found it, in words

    @property
    def num_messages(self) -> int:
        return len(self.kind)

    @property
    def num_pieces(self) -> int:
        return len(self.chunk)

    @property
    def num_stages(self) -> int:
        return len(np.unique(self.stage))

    def expand(self) -> Schedule:
        check_rows(max(self.num_messages, self.num_pieces))
        offsets = np.zeros(self.num_messages + 1, np.int64)
        np.cumsum(np.bincount(self.message, minlength=self.num_messages), out=offsets[1:])
        route = self.route[offsets[:-1]]
        chunks = self.chunks
        pieces = Pieces(offsets, chunks.item[self.chunk], chunks.offset[self.chunk], chunks.length[self.chunk])
        phase = np.where(self.kind == Kind.REDUCE, Phase.REDUCE, Phase.SPREAD).astype(np.uint8)
        exclusive = np.broadcast_to(self.exclusive, self.num_messages).copy()
        return Schedule(
            src=self.routes.src.take(route),
            dst=self.routes.dst.take(route),
            kind=self.kind.copy(),
            phase=phase,
            stage=self.stage.copy(),
            slice=np.zeros(self.num_messages, np.int32),
            size_bytes=pieces.message_bytes,
            path=self.routes.path.take(route),
            exclusive=exclusive,
            order=np.where(exclusive, np.arange(self.num_messages), 0),
            deps=self._dependencies(),
            pieces=pieces,
        )

    def decided(self) -> tuple[NDArray[np.generic], ...]:
        chunks = (self.chunks.item, self.chunks.offset, self.chunks.length)
        return (self.route, self.chunk, self.message, self.kind, self.stage, *chunks)

    def rows_of(self, rank: int) -> Schedule:
        """One rank's messages as a schedule of their own; dependencies on other ranks' messages are left out."""
        sends, receives = ends_at(self.routes.src, rank), ends_at(self.routes.dst, rank)
        rows = np.flatnonzero((sends | receives)[self.route])
        messages, message = np.unique(self.message[rows], return_inverse=True)
        return TransferSchedule(
            self.chunks,
            self.routes,
            self.route[rows],
            self.chunk[rows],
            message.astype(np.int32),
            self.kind[messages],
            self.stage[messages],
            np.broadcast_to(self.exclusive, self.num_messages)[messages],
        ).expand()

    def _dependencies(self) -> Ragged:
        """Each message after those that brought its chunks: the copy if there was one, else every sum into it."""
        reduces = self.kind[self.message] == Kind.REDUCE
        (sent, sent_key), (come, come_key) = (self._ends(ends) for ends in (self.routes.src, self.routes.dst))
        copied, added = come[~reduces[come]], come[reduces[come]]
        copies = np.flatnonzero(~reduces[sent])
        by_copy, of_copy = matches(come_key[~reduces[come]], sent_key[copies])
        was_copied = np.zeros(len(sent), np.bool_)
        was_copied[copies[of_copy]] = True
        sums = np.flatnonzero(~was_copied)
        by_sum, of_sum = matches(come_key[reduces[come]], sent_key[sums])
        after = self.message[sent[np.concatenate([copies[of_copy], sums[of_sum]])]].astype(np.int64)
        before = self.message[np.concatenate([copied[by_copy], added[by_sum]])].astype(np.int64)
        if self.paced is not None:
            after = np.concatenate([after, self.paced.row_of_value])
            before = np.concatenate([before, self.paced.values])
        return Ragged.from_pairs(after, before, self.num_messages)

    def _ends(self, ends: Ragged) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each rank at one end of each transfer: the transfer, and a number for the rank and the chunk."""
        taken = ends.take(self.route)
        row = taken.row_of_value
        return row, taken.values.astype(np.int64) * len(self.chunks) + self.chunk[row]


def ends_at(ends: Ragged, rank: int) -> NDArray[np.bool_]:
    """Which rows name a rank."""
    named = np.zeros(len(ends), np.bool_)
    named[ends.row_of_value[ends.values == rank]] = True
    return named
