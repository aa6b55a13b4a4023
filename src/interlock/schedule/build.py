"""Puts schedules together from columns; defaults for what an algorithm does not care about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interlock.ragged import Ragged
from interlock.schedule.model import Kind, Phase, Pieces, Schedule

__all__ = ["Batch", "assemble", "empty_schedule", "from_native", "make_pieces"]


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
    blocks = [batch for batch in batches if len(batch)]
    if not blocks:
        return empty_schedule()

    def column(name: str, dtype: type[np.generic]) -> NDArray[np.generic]:
        parts = [np.broadcast_to(np.asarray(getattr(b, name), dtype), len(b)) for b in blocks]
        return np.ascontiguousarray(np.concatenate(parts))

    pieces = [b.pieces for b in blocks]
    starts = np.cumsum([0] + [len(p) for p in pieces])
    offsets = np.concatenate([[0], *[p.offsets[1:] + start for p, start in zip(pieces, starts[:-1], strict=True)]])
    sizes = [b.pieces.message_bytes if b.size_bytes is None else b.size_bytes for b in blocks]
    return Schedule(
        src=Ragged.single(np.concatenate([b.src for b in blocks])),
        dst=Ragged.concatenate([b.dst if isinstance(b.dst, Ragged) else Ragged.single(b.dst) for b in blocks]),
        kind=column("kind", np.uint8),  # type: ignore[arg-type]
        phase=column("phase", np.uint8),  # type: ignore[arg-type]
        stage=column("stage", np.int32),  # type: ignore[arg-type]
        slice=column("slice", np.int32),  # type: ignore[arg-type]
        size_bytes=np.concatenate(sizes).astype(np.int64),
        path=Ragged.concatenate([Ragged.empty(len(b)) if b.path is None else b.path for b in blocks]),
        exclusive=np.concatenate([np.full(len(b), b.order is not None and b.exclusive) for b in blocks]),
        order=np.concatenate([np.zeros(len(b), np.int64) if b.order is None else b.order for b in blocks]),
        deps=Ragged.concatenate([Ragged.empty(len(b)) if b.deps is None else b.deps for b in blocks]),
        pieces=Pieces(
            offsets.astype(np.int64),
            np.concatenate([p.item for p in pieces]),
            np.concatenate([p.offset for p in pieces]),
            np.concatenate([p.length for p in pieces]),
        ),
        barriers=np.array(sorted(barriers), np.int32),
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
    none = np.zeros(0, np.int64)
    return Schedule(
        src=Ragged.empty(0),
        dst=Ragged.empty(0),
        kind=np.zeros(0, np.uint8),
        phase=np.zeros(0, np.uint8),
        stage=np.zeros(0, np.int32),
        slice=np.zeros(0, np.int32),
        size_bytes=none.copy(),
        path=Ragged.empty(0),
        exclusive=np.zeros(0, np.bool_),
        order=none.copy(),
        deps=Ragged.empty(0),
        pieces=Pieces(np.zeros(1, np.int64), np.zeros(0, np.int32), none.copy(), none.copy()),
    )
