"""Puts schedules together from columns; defaults for what an algorithm does not care about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interlock.ragged import Ragged
from interlock.schedule.model import Kind, Phase, Pieces, Schedule

__all__ = ["Batch", "assemble", "empty_schedule", "from_native", "joined", "make_pieces"]

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Batch:
    """A block of messages from one rank each; scalars stand for whole columns.

    `deps` name messages by their row in the final schedule; blocks are numbered one after the other.
    """

    src: NDArray[np.int32]
    dst: NDArray[np.int32] | Ragged  # rows where messages have several ends
    pieces: Pieces
    phase: NDArray[np.uint8] | Phase
    stage: NDArray[np.int32] | int = 0
    slice: NDArray[np.int32] | int = 0
    kind: NDArray[np.uint8] | Kind = Kind.COPY
    size_bytes: NDArray[np.int64] | None = None  # None: the sum of the pieces
    path: Ragged | None = None  # None: routed by the topology
    order: NDArray[np.int64] | None = None  # None: none
    exclusive: NDArray[np.bool_] | bool = True  # where there is an order: of links, not of connections
    deps: Ragged | None = None

    def __len__(self) -> int:
        return len(self.src)

    def rows(self) -> Schedule:
        """The block by itself."""

        def column(given: ArrayLike, dtype: type[Scalar]) -> NDArray[Scalar]:
            return np.ascontiguousarray(np.broadcast_to(np.asarray(given, dtype), len(self)))

        return Schedule(
            src=Ragged.single(self.src),
            dst=self.dst if isinstance(self.dst, Ragged) else Ragged.single(self.dst),
            kind=column(self.kind, np.uint8),
            phase=column(self.phase, np.uint8),
            stage=column(self.stage, np.int32),
            slice=column(self.slice, np.int32),
            size_bytes=column(self.pieces.message_bytes if self.size_bytes is None else self.size_bytes, np.int64),
            path=Ragged.empty(len(self)) if self.path is None else self.path,
            exclusive=column(self.order is not None and self.exclusive, np.bool_),
            order=column(0 if self.order is None else self.order, np.int64),
            deps=Ragged.empty(len(self)) if self.deps is None else self.deps,
            pieces=self.pieces,
        )


def make_pieces(
    offsets: ArrayLike, item: ArrayLike, offset: ArrayLike | None = None, length: ArrayLike | None = None
) -> Pieces:
    """Pieces with exact dtypes."""
    items = np.ascontiguousarray(item, np.int32)
    return Pieces(
        np.ascontiguousarray(offsets, np.int64),
        items,
        np.zeros(len(items), np.int64) if offset is None else np.ascontiguousarray(offset, np.int64),
        np.zeros(len(items), np.int64) if length is None else np.ascontiguousarray(length, np.int64),
    )


def assemble(batches: Sequence[Batch], barriers: Sequence[int] = ()) -> Schedule:
    """One schedule of all batches, rows in the order given."""
    blocks = [batch.rows() for batch in batches if len(batch)]
    return replace(joined(blocks), barriers=np.array(sorted(barriers), np.int32)) if blocks else empty_schedule()


def joined(blocks: Sequence[Schedule], deps: Ragged | None = None) -> Schedule:
    """The rows of all blocks, one block after the other. Dependencies, also those given, name rows of the whole."""
    pieces = [block.pieces for block in blocks]
    starts = np.cumsum([0] + [len(each) for each in pieces])
    offsets = np.concatenate([[0], *(each.offsets[1:] + at for each, at in zip(pieces, starts, strict=False))])
    sets: dict[str, Any] = {
        name: Ragged.concatenate([getattr(block, name) for block in blocks]) for name in ("src", "dst", "path")
    }
    names = ("kind", "phase", "stage", "slice", "size_bytes", "exclusive", "order")
    columns: dict[str, Any] = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in names}
    held = {name: np.concatenate([getattr(each, name) for each in pieces]) for name in ("item", "offset", "length")}
    return Schedule(
        **sets,
        **columns,
        deps=Ragged.concatenate([block.deps for block in blocks]) if deps is None else deps,
        pieces=Pieces(offsets.astype(np.int64), **held),
    )


def from_native(
    columns: tuple[NDArray[Any], ...],
    *,
    exclusive: NDArray[np.bool_],
    barriers: NDArray[np.int32],
    path: Ragged | None = None,
) -> Schedule:
    """One-to-one copies from columns as the native core writes them; without a path, routed by the topology."""
    src, dst, phase, stage, slice_, size_bytes, order, dep_offsets, deps, *pieces = columns
    rows = np.arange(len(src) + 1, dtype=np.int64)
    return Schedule(
        src=Ragged(rows, src),
        dst=Ragged(rows, dst),
        kind=np.zeros(len(src), np.uint8),
        phase=phase,
        stage=stage,
        slice=slice_,
        size_bytes=size_bytes,
        path=Ragged.empty(len(src)) if path is None else path,
        exclusive=exclusive,
        order=np.where(exclusive, order, 0),
        deps=Ragged(dep_offsets, deps),
        pieces=Pieces(*pieces),
        barriers=barriers,
    )


def empty_schedule() -> Schedule:
    """Nothing to move."""
    none = np.zeros(0, np.int32)
    return Batch(none, none, make_pieces([0], []), Phase.LOCAL).rows()
