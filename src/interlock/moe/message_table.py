"""Messages from a GPU to sets of a server's GPUs, collected block by block into a schedule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.ragged import Ragged
from interlock.schedule import Kind, Phase, Pieces, Schedule
from interlock.topology import Cluster

__all__ = ["MessageTable", "tree_paths"]

Ints = NDArray[np.int64]


class MessageTable:
    """Collects messages to sets of a server's GPUs, block by block."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.count = 0
        self.blocks: list[dict[str, np.ndarray]] = []
        self.dsts: list[Ragged] = []
        self.deps: list[Ragged] = []
        self.items: list[Ragged] = []

    def add(
        self,
        phase: Phase,
        src: Ints,
        wanted: NDArray[np.uint64],
        server: Ints,
        message: Ints,
        item: Ints,
        deps: Ragged,
        *,
        stage: NDArray[np.integer] | int = 0,
        slices: NDArray[np.integer] | int = 0,
        order: Ints | int = 0,
        exclusive: NDArray[np.bool_] | bool = False,
    ) -> int:
        """Append messages; `message` says which one carries each entry of `item`. Returns the first one's row."""
        first, size = self.count, len(src)
        width = self.cluster.gpus_per_server
        bits = (wanted[:, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
        row, gpu = np.nonzero(bits)
        self.dsts.append(
            Ragged.from_counts(bits.sum(axis=1).astype(np.int64), (server[row] * width + gpu).astype(np.int32))
        )
        by_message = np.lexsort((item, message))
        self.items.append(Ragged.from_counts(np.bincount(message, minlength=size), item[by_message].astype(np.int32)))
        self.deps.append(deps)
        self.blocks.append(
            {
                "src": src.astype(np.int32),
                "phase": np.full(size, phase, np.uint8),
                "stage": np.broadcast_to(stage, size).astype(np.int32),
                "slice": np.broadcast_to(slices, size).astype(np.int32),
                "order": np.broadcast_to(order, size).astype(np.int64),
                "exclusive": np.broadcast_to(exclusive, size).astype(np.bool_),
            }
        )
        self.count += size
        return first

    def to_schedule(self, size_bytes: int, barriers: NDArray[np.int32]) -> Schedule:
        """All blocks in order; multicasts get the path of their tree."""

        def column(name: str) -> np.ndarray:
            return np.concatenate([block[name] for block in self.blocks])

        src, dst, items = Ragged.single(column("src")), Ragged.concatenate(self.dsts), Ragged.concatenate(self.items)
        lengths = np.full(len(items.values), size_bytes, np.int64)
        return Schedule(
            src=src,
            dst=dst,
            kind=np.full(self.count, Kind.COPY, np.uint8),
            phase=column("phase"),
            stage=column("stage"),
            slice=column("slice"),
            size_bytes=items.counts * size_bytes,
            path=tree_paths(src, dst, self.cluster.num_ranks, toward_many=True),
            exclusive=column("exclusive"),
            order=column("order"),
            deps=Ragged.concatenate(self.deps),
            pieces=Pieces(items.offsets, items.values, np.zeros_like(lengths), lengths),
            barriers=barriers,
        )


def tree_paths(one: Ragged, many: Ragged, num_ranks: int, *, toward_many: bool) -> Ragged:
    """Links of each message with several ranks on one side: rank r goes up by link r and down by link num_ranks + r."""
    is_tree = many.counts > 1
    counts = np.where(is_tree, many.counts + 1, 0)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    values = np.zeros(int(offsets[-1]), np.int32)
    values[offsets[:-1][is_tree]] = one.values[is_tree] + (0 if toward_many else num_ranks)
    row = many.row_of_value
    within = np.arange(len(many.values)) - many.offsets[row]
    chosen = is_tree[row]
    place = offsets[row] + 1 + within
    values[place[chosen]] = many.values[chosen] + (num_ranks if toward_many else 0)
    return Ragged(offsets.astype(np.int64), values)
