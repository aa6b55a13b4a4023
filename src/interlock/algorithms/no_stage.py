"""Balance, then all rail-peer sends at once, then restore: FAST without its stages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.detours import baseline
from interlock.algorithms.relay import relay
from interlock.algorithms.two_tier import Bytes, local_batch
from interlock.problem import Problem
from interlock.ragged import run_starts
from interlock.schedule import Schedule

__all__ = ["ALGORITHM", "no_stage"]


def no_stage(problem: Problem, *, seed: int = 0) -> Schedule:
    """Every GPU of a server ends up owing each other server the same, and sends it on its own rail."""
    assert problem.cluster is not None
    local, far = local_batch(problem)
    far, carrier = balance(far, problem.cluster.gpus_per_server)
    return relay(problem, local, far, carrier)


def balance(far: Bytes, width: int, carried_bytes: NDArray[np.int64] | None = None) -> tuple[Bytes, NDArray[np.int32]]:
    """Cut the bytes so that each GPU of a server carries its share of every tile; give the carrier of each row.

    A tile is what one server owes another. A GPU above the mean keeps its first bytes and hands the rest to GPUs
    below it, in order. All tiles are cut at once: bytes are laid end to end, and the boundaries of what exists and
    of what each carrier takes are merged. `carried_bytes` is ``[servers, servers, width]``; None: all alike.
    """
    if len(far) == 0:
        return far, far.src
    order = np.lexsort((far.dst, far.src, far.dst // width, far.src // width))
    far = Bytes(far.item[order], far.offset[order], far.length[order], far.src[order], far.dst[order])
    starts_tile = run_starts(far.src // width, far.dst // width)
    first_of_tile, tile = np.flatnonzero(starts_tile), np.cumsum(starts_tile) - 1
    owed = np.zeros((len(first_of_tile), width), np.int64)
    np.add.at(owed, (tile, far.src % width), far.length)
    if carried_bytes is None:
        total = owed.sum(axis=1, keepdims=True)
        share = total // width + (np.arange(width) < total % width)
    else:
        share = carried_bytes[far.src[first_of_tile] // width, far.dst[first_of_tile] // width]
    kept = np.minimum(owed, share)
    # Rows are in (tile, sender) order: a row is kept up to where its sender's kept bytes end, the rest is surplus.
    sender = tile * width + far.src % width
    ends = np.cumsum(far.length)
    sender_start = (np.cumsum(owed.reshape(-1)) - owed.reshape(-1))[sender]
    kept_end = sender_start + kept.reshape(-1)[sender]
    cut = np.clip(kept_end - (ends - far.length), 0, far.length)
    stay = _part(far, np.zeros_like(cut), cut)
    surplus = _part(far, cut, far.length - cut)
    taker_length = (share - kept).reshape(-1)
    taker_rank = ((far.src[first_of_tile] // width)[:, None] * width + np.arange(width)).reshape(-1)
    # Surplus rows and takers cover the same line of bytes, tile after tile: merge their boundaries.
    row_ends, taker_ends = np.cumsum(surplus.length), np.cumsum(taker_length)
    cuts = np.union1d(row_ends, taker_ends)
    starts = np.concatenate([[0], cuts[:-1]]).astype(np.int64)
    cuts, starts = cuts[cuts > starts], starts[cuts > starts]
    row = np.searchsorted(row_ends, starts, side="right")
    taker = np.searchsorted(taker_ends, starts, side="right")
    moved = Bytes(
        surplus.item[row],
        surplus.offset[row] + starts - (row_ends - surplus.length)[row],
        cuts - starts,
        surplus.src[row],
        surplus.dst[row],
    )
    columns = ("item", "offset", "length", "src", "dst")
    placed = Bytes(*(np.concatenate([getattr(stay, name), getattr(moved, name)]) for name in columns))
    return placed, np.concatenate([stay.src, taker_rank[taker]]).astype(np.int32)


def _part(rows: Bytes, first: NDArray[np.int64], length: NDArray[np.int64]) -> Bytes:
    some = length > 0
    return Bytes(rows.item[some], (rows.offset + first)[some], length[some], rows.src[some], rows.dst[some])


ALGORITHM = baseline("no-stage", "balance, all rail sends at once, restore", no_stage)
