"""What All-to-Allv baselines on two-tier clusters have in common: who is where, local traffic, grouping bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.ragged import Ragged, run_starts
from interlock.schedule import Batch, Kind, Phase, Pieces

__all__ = [
    "Bytes",
    "Group",
    "demand_bytes",
    "dependencies",
    "group",
    "local_batch",
]


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """Ranges of items, in columns, with where they come from and go to."""

    item: NDArray[np.integer]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    src: NDArray[np.int32]  # rank
    dst: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.item)

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Bytes:
        """Only the chosen rows, by mask or in the order given."""
        return Bytes(self.item[chosen], self.offset[chosen], self.length[chosen], self.src[chosen], self.dst[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Rows gathered into messages: `message` per row, and each message's pieces."""

    keys: NDArray[np.int64]  # [num_messages, number of key columns]
    message: NDArray[np.int64]  # [num_rows]
    pieces: Pieces

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def item(self) -> NDArray[np.int32]:
        """The item of each message's first piece."""
        return self.pieces.item[self.pieces.offsets[:-1]]

    def to_batch(
        self,
        phase: Phase,
        deps: Ragged | None = None,
        kind: Kind = Kind.COPY,
        stage: int = 0,
        *,
        in_turn: bool = False,
        slice_: NDArray[np.int32] | int = 0,
    ) -> Batch:
        """Messages from the first key to the second; `in_turn`: each connection sends its own one after the other."""
        src, dst = self.keys[:, 0].astype(np.int32), self.keys[:, 1].astype(np.int32)
        order = np.arange(1, len(self) + 1) if in_turn else None
        return Batch(src, dst, self.pieces, phase, stage, slice_, kind, order=order, exclusive=False, deps=deps)


def demand_bytes(problem: Problem) -> Bytes:
    """Every item of an All-to-Allv, whole."""
    items = problem.items
    return Bytes(
        item=np.arange(len(items)),
        offset=np.zeros(len(items), np.int64),
        length=items.size_bytes,
        src=items.contributors.to_ragged().values,
        dst=items.destinations.to_ragged().values,
    )


def group(rows: Bytes, *keys: NDArray[np.integer], num_ranks: int | None = None) -> Group:
    """One message per distinct tuple of keys, in ascending order; pieces keep the order of rows.

    With `num_ranks`, the first two keys are sender and receiver, and each sender's receivers come in rotation from the
    one after it: queues that are worked off in order then meet different receivers, and not all the same one.
    """
    columns = [np.asarray(key, np.int64) for key in keys]
    by = columns if num_ranks is None else [columns[0], (columns[1] - columns[0]) % num_ranks, *columns[2:]]
    order = np.lexsort(by[::-1])
    table = np.stack(columns, axis=1)[order]
    starts = run_starts(*table.T)
    message_in_order = np.cumsum(starts) - 1
    message = np.empty(len(table), np.int64)
    message[order] = message_in_order
    offsets = np.append(np.flatnonzero(starts), len(table)).astype(np.int64)
    pieces = Pieces(offsets, rows.item[order].astype(np.int32), rows.offset[order], rows.length[order])
    return Group(table[starts], message, pieces)


def dependencies(of: NDArray[np.integer], on: NDArray[np.integer], num_messages: int) -> Ragged:
    """Message `of[r]` depends on message `on[r]`, for every row; repeated pairs count once."""
    return Ragged.from_pairs(np.asarray(of, np.int64), np.asarray(on, np.int64), num_messages)


def local_batch(problem: Problem, stage: int = 0) -> tuple[Batch, Bytes]:
    """Messages for traffic that stays inside a server, and the bytes that do not."""
    assert problem.cluster is not None
    rows = demand_bytes(problem)
    inside = problem.cluster.server_of(rows.src) == problem.cluster.server_of(rows.dst)
    near = rows.where(inside)
    made = group(near, near.src, near.dst, num_ranks=problem.num_ranks)
    return made.to_batch(Phase.LOCAL, stage=stage), rows.where(~inside)
