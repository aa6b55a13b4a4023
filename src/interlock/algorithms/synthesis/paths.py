"""Chunks with one end each: balanced paths, then list-scheduled hop by hop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.timed import Work
from interlock.ragged import Ragged

__all__ = ["in_turn", "path_work", "route"]


def route(
    arcs: ArcSet,
    ticks: Ticks,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    size_bytes: NDArray[np.int64],
    *,
    passes: int,
    batch: int = 1,
    haste: float = 1.0,
    seed: int = 0,
) -> tuple[Ragged, int]:
    """Arcs from each source to its destination, and the ticks of the busiest resource."""
    order = np.argsort(src, kind="stable")
    offsets, values, load = _core.route_paths(
        arcs.columns(ticks),
        np.ascontiguousarray(src[order], np.int32),
        np.ascontiguousarray(dst[order], np.int32),
        np.ascontiguousarray(size_bytes[order], np.int64),
        passes,
        batch,
        haste,
        seed,
    )
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return Ragged(np.asarray(offsets), np.asarray(values)).take(place), int(np.asarray(load).max(initial=0))


def in_turn(
    src: NDArray[np.int32], dst: NDArray[np.int32], item: NDArray[np.int32], num_ranks: int
) -> NDArray[np.int64]:
    """Chunks in an order in which sources serve their destinations in turn, each beginning with the rank after it.

    Otherwise all would begin with the same destination, and what leads to the others would rest.
    """
    part = np.arange(len(item)) - np.searchsorted(item, item)
    return np.lexsort(((dst - src) % num_ranks, part))


def path_work(paths: Ragged, order: NDArray[np.int64] | None = None) -> Work:
    """A transfer per hop, after the hop before it; of equally urgent chunks the first in `order` goes first."""
    chunk = np.arange(len(paths)) if order is None else order
    paths = paths if order is None else paths.take(order)
    task = np.arange(len(paths.values), dtype=np.int32)
    is_last = np.zeros(len(task), np.bool_)
    is_last[paths.offsets[1:][paths.counts > 0] - 1] = True
    return Work(
        paths.values,
        chunk[paths.row_of_value].astype(np.int32),
        np.zeros(len(task), np.bool_),
        Ragged.from_counts(np.where(is_last, 0, 1), task[~is_last] + np.int32(1)),
        np.zeros(len(task), np.int64),
    )
