"""What round-by-round collectives have in common: shares of the ranks, moves by round, and schedules made of them.

An algorithm cuts the items into *parts*, says which part moves from which rank to which in which round, and gets a
schedule: parts with the same sender, receiver, round and kind travel in one message; every message depends directly on
those that brought its parts to its sender; links are exclusive and serve rounds in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.ragged import Ragged, run_starts
from interlock.schedule import Chunks, Kind, Routes, Schedule, TransferSchedule, check_rows, empty_schedule

__all__ = [
    "Moves",
    "cut_each",
    "cut_evenly",
    "group_members",
    "owned_parts",
    "schedule_moves",
    "schedule_rounds",
    "schedule_turns",
    "unroutable",
]

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Part `part[i]` goes from rank `src[i]` to rank `dst[i]` in round `round[i]`, to be added or to be copied."""

    part: Ids
    src: Ids
    dst: Ids
    round: Ids
    reduces: NDArray[np.bool_]

    @classmethod
    def of(cls, part: Ids, src: Ids, dst: Ids, round_: Ids, *, reduces: bool) -> Moves:
        """Columns of any shapes that broadcast together; all of one kind."""
        parts, sources, ends, rounds = (np.ravel(column) for column in np.broadcast_arrays(part, src, dst, round_))
        return cls(parts, sources, ends, rounds, np.full(len(parts), reduces))

    @classmethod
    def join(cls, several: Sequence[Moves]) -> Moves:
        """All moves of several tables."""
        names = ("part", "src", "dst", "round", "reduces")
        return cls(*(np.concatenate([getattr(moves, name) for moves in several]) for name in names))

    @property
    def num_rounds(self) -> int:
        """One more than the last round."""
        return int(self.round.max(initial=-1)) + 1

    def later(self, rounds: int) -> Moves:
        """The same, `rounds` later."""
        return Moves(self.part, self.src, self.dst, self.round + rounds, self.reduces)


def group_members(problem: Problem) -> NDArray[np.int32]:
    """Ranks of the collective, in the order of its group."""
    assert problem.collective is not None
    if problem.collective.group is not None:
        return np.array(problem.collective.group, np.int32)
    return np.arange(problem.num_ranks, dtype=np.int32)


def owned_parts(problem: Problem) -> tuple[Chunks, Ids]:
    """Every item whole, and the place in the group that owns it: its origin, its destination, or for sums that all
    ranks receive the place by turns, in blocks of equal bytes."""
    items, members = problem.items, group_members(problem)
    parts = Chunks(np.arange(len(items), dtype=np.int32), np.zeros(len(items), np.int64), items.size_bytes)
    place = np.zeros(problem.num_ranks, np.int64)
    place[members] = np.arange(len(members))
    if items.contributors.is_single:
        return parts, place[items.contributors.to_ragged().values]
    if items.destinations.is_single:
        return parts, place[items.destinations.to_ragged().values]
    before = np.cumsum(items.size_bytes) - items.size_bytes
    return parts, before * len(members) // max(1, int(items.size_bytes.sum()))


def cut_evenly(problem: Problem, count: int) -> tuple[Chunks, Ids]:
    """All bytes, item after item, cut into `count` blocks of nearly equal size: parts, and the block of each."""
    size = problem.items.size_bytes
    end = np.cumsum(size)
    total = int(end[-1]) if len(end) else 0
    edges = np.array([total * k // count for k in range(1, count)], np.int64)
    stops = np.unique(np.concatenate([end, edges[(edges > 0) & (edges < total)]]))
    starts = np.concatenate([[0], stops[:-1]]).astype(np.int64)
    item = np.searchsorted(end, starts, side="right")
    parts = Chunks(item.astype(np.int32), starts - (end[item] - size[item]), stops - starts)
    return parts, np.searchsorted(edges, starts, side="right")


def cut_each(parts: Chunks, count: int) -> tuple[Chunks, Ids, Ids]:
    """Every part cut into `count` of nearly equal size, without empty ones: the part and the number of each."""
    edges = parts.length[:, None] * np.arange(count + 1) // count
    part, number = np.nonzero(np.diff(edges, axis=1))
    start = edges[part, number]
    return Chunks(parts.item[part], parts.offset[part] + start, edges[part, number + 1] - start), part, number


def unroutable(problem: Problem, src: NDArray[np.integer], dst: NDArray[np.integer]) -> str | None:
    """A reason where some sender cannot reach its receiver without a relay."""
    try:
        problem.topology.routes(np.asarray(src, np.int32), np.asarray(dst, np.int32))
    except InvalidInput as error:
        return str(error)
    return None


def schedule_moves(problem: Problem, parts: Chunks, moves: Moves, turn: Ids | None = None) -> Schedule:
    """Messages by round; stages are rounds. `turn` of each move orders the messages of a round where they share links;
    moves of different turns travel apart."""
    return schedule_turns(problem, parts, moves, np.zeros(len(moves.part), np.int64) if turn is None else turn)[0]


def schedule_turns(problem: Problem, parts: Chunks, moves: Moves, turn: Ids) -> tuple[Schedule, Ids]:
    """The same, and the turn of each message."""
    if len(moves.part) == 0:
        return empty_schedule(), turn
    pairs, route = np.unique(moves.src * problem.num_ranks + moves.dst, return_inverse=True)
    src, dst = (ends.astype(np.int32) for ends in np.divmod(pairs, problem.num_ranks))
    routes = Routes(Ragged.single(src), Ragged.single(dst), problem.topology.routes(src, dst))
    return schedule_rounds(parts, routes, moves.round, turn, route, moves.part, moves.reduces)


def schedule_rounds(
    parts: Chunks, routes: Routes, round_: Ids, turn: Ids, route: Ids, part: Ids, reduces: NDArray[np.generic]
) -> tuple[Schedule, Ids]:
    """Messages of the parts that take the same route in the same turn of a round, in that order; and their turns."""
    check_rows(len(part))
    order = np.lexsort((part, reduces, route, turn, round_))
    is_first = run_starts(round_[order], turn[order], route[order], reduces[order])
    first = order[is_first]
    made = TransferSchedule(
        chunks=parts,
        routes=routes,
        route=route[order].astype(np.int32),
        chunk=part[order].astype(np.int32),
        message=(np.cumsum(is_first) - 1).astype(np.int32),
        kind=np.where(reduces[first], Kind.REDUCE, Kind.COPY).astype(np.uint8),
        stage=round_[first].astype(np.int32),
    )
    return made.expand(), turn[first]
