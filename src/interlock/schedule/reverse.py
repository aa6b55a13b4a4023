"""A schedule played backwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule.link_orders import reversed_order
from interlock.schedule.model import Kind, Phase, Schedule
from interlock.topology import Topology

__all__ = ["backwards", "reverse_copies"]

# Balance before the wire becomes redistribution after it, and the other way round.
_PHASES = np.arange(max(Phase) + 1, dtype=np.uint8)
_PHASES[[Phase.BALANCE, Phase.REDISTRIBUTE]] = [Phase.REDISTRIBUTE, Phase.BALANCE]


def reverse_copies(schedule: Schedule, problem: Problem, transposed: Problem) -> Schedule:
    """Every message from its receiver to its sender, in the opposite order, for the transposed All-to-Allv.

    Bytes keep their place within their pair: what went from i to j goes back from j to i. Paths that name links take
    the opposite ones.
    """
    if not (schedule.src.is_single and schedule.dst.is_single) or (schedule.kind != Kind.COPY).any():
        raise InvalidInput("only schedules of one-to-one copies can be reversed")
    row, dep = schedule.deps.row_of_value, schedule.deps.values.astype(np.int64)
    made = backwards(schedule, row, dep, _paths_back(schedule.path, problem.topology))
    items = _transposed_items(problem, transposed)[made.pieces.item]
    return replace(made, phase=_PHASES[made.phase], pieces=replace(made.pieces, item=items))


def backwards(schedule: Schedule, row: NDArray[np.int64], dep: NDArray[np.int64], path: Ragged) -> Schedule:
    """The same messages last to first, from receivers to senders; message `row[k]` waits for `dep[k]` on the way there.

    `path` lists their links in the new order.
    """
    count = schedule.num_messages
    flip = np.arange(count)[::-1]
    last_stage = int(schedule.stage.max(initial=0))
    return Schedule(
        src=schedule.dst.take(flip),
        dst=schedule.src.take(flip),
        kind=schedule.kind[flip],
        phase=schedule.phase[flip],
        stage=(last_stage - schedule.stage[flip]).astype(np.int32),
        slice=schedule.slice[flip],
        size_bytes=schedule.size_bytes[flip],
        path=path,
        exclusive=schedule.exclusive[flip],
        order=reversed_order(schedule)[flip],
        deps=Ragged.from_pairs(count - 1 - dep, count - 1 - row, count),
        pieces=schedule.pieces.take(flip),
        barriers=(last_stage + 1 - schedule.barriers[::-1]).astype(np.int32),
    )


def _paths_back(path: Ragged, topology: Topology) -> Ragged:
    """Last message first, and of each message the opposite of its last link first."""
    if not len(path.values):
        return Ragged.empty(len(path))
    src, dst, nodes = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64), topology.num_nodes
    there, back = src * nodes + dst, dst * nodes + src
    # Between two nodes the k-th link one way is the opposite of the k-th the other way.
    by_there, by_back = np.argsort(there, kind="stable"), np.argsort(back, kind="stable")
    if not np.array_equal(there[by_there], back[by_back]):
        raise InvalidInput(f"{topology.name}: a link has no opposite, so a schedule that names links has no reverse")
    opposite = np.empty(len(there), np.int32)
    opposite[by_back] = by_there
    return Ragged.from_counts(np.diff(path.offsets)[::-1], opposite[path.values[::-1]])


def _transposed_items(problem: Problem, transposed: Problem) -> np.ndarray:
    """Item of the transposed problem for each item of the problem."""
    ranks = problem.num_ranks
    there = transposed.items.origin.astype(np.int64) * ranks + transposed.items.destinations.to_ragged().values
    here = problem.items.destinations.to_ragged().values.astype(np.int64) * ranks + problem.items.origin
    order = np.argsort(there, kind="stable")
    return order[np.searchsorted(there[order], here)].astype(np.int32)
