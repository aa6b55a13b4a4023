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
from interlock.ragged import Ragged, matches, run_starts
from interlock.schedule import Kind, Phase, Pieces, Schedule, check_rows, empty_schedule

__all__ = [
    "Moves",
    "Parts",
    "cut_each",
    "cut_evenly",
    "group_members",
    "owned_parts",
    "schedule_moves",
    "schedule_turns",
    "unroutable",
]

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Ranges of items that travel whole, in columns."""

    item: Ids
    offset: Ids
    length: Ids

    def __len__(self) -> int:
        return len(self.item)

    def take(self, which: Ids) -> Parts:
        """The chosen parts."""
        return Parts(self.item[which], self.offset[which], self.length[which])


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


def owned_parts(problem: Problem) -> tuple[Parts, Ids]:
    """Every item whole, and the place in the group that owns it: its origin, its destination, or for sums that all
    ranks receive the place by turns, in blocks of equal bytes."""
    items, members = problem.items, group_members(problem)
    parts = Parts(np.arange(len(items)), np.zeros(len(items), np.int64), items.size_bytes)
    place = np.zeros(problem.num_ranks, np.int64)
    place[members] = np.arange(len(members))
    if items.contributors.is_single:
        return parts, place[items.contributors.to_ragged().values]
    if items.destinations.is_single:
        return parts, place[items.destinations.to_ragged().values]
    before = np.cumsum(items.size_bytes) - items.size_bytes
    return parts, before * len(members) // max(1, int(items.size_bytes.sum()))


def cut_evenly(problem: Problem, count: int) -> tuple[Parts, Ids]:
    """All bytes, item after item, cut into `count` blocks of nearly equal size: parts, and the block of each."""
    size = problem.items.size_bytes
    end = np.cumsum(size)
    total = int(end[-1]) if len(end) else 0
    edges = np.array([total * k // count for k in range(1, count)], np.int64)
    stops = np.unique(np.concatenate([end, edges[(edges > 0) & (edges < total)]]))
    starts = np.concatenate([[0], stops[:-1]]).astype(np.int64)
    item = np.searchsorted(end, starts, side="right")
    parts = Parts(item, starts - (end[item] - size[item]), stops - starts)
    return parts, np.searchsorted(edges, starts, side="right")


def cut_each(parts: Parts, count: int) -> tuple[Parts, Ids, Ids]:
    """Every part cut into `count` of nearly equal size, without empty ones: the part and the number of each."""
    edges = parts.length[:, None] * np.arange(count + 1) // count
    part, number = np.nonzero(np.diff(edges, axis=1))
    start = edges[part, number]
    return Parts(parts.item[part], parts.offset[part] + start, edges[part, number + 1] - start), part, number


def unroutable(problem: Problem, src: Ids, dst: Ids) -> str | None:
    """A reason where some sender cannot reach its receiver without a relay."""
    try:
        problem.topology.routes(np.asarray(src, np.int32), np.asarray(dst, np.int32))
    except InvalidInput as error:
        return str(error)
    return None


def schedule_moves(problem: Problem, parts: Parts, moves: Moves, turn: Ids | None = None) -> Schedule:
    """Messages by round; stages are rounds. `turn` of each move orders the messages of a round where they share links;
    moves of different turns travel apart."""
    return schedule_turns(problem, parts, moves, np.zeros(len(moves.part), np.int64) if turn is None else turn)[0]


def schedule_turns(problem: Problem, parts: Parts, moves: Moves, turn: Ids) -> tuple[Schedule, Ids]:
    """The same, and the turn of each message."""
    if len(moves.part) == 0:
        return empty_schedule(), turn
    check_rows(len(moves.part))
    ranks = problem.num_ranks
    order = np.lexsort((moves.part, moves.reduces, moves.dst, moves.src, turn, moves.round))
    part, src, dst = moves.part[order], moves.src[order], moves.dst[order]
    round_, reduces, turn = moves.round[order], moves.reduces[order], turn[order]
    is_first = run_starts(round_, src, dst, turn, reduces)
    first = np.flatnonzero(is_first)
    message = np.cumsum(is_first) - 1
    kind = np.where(reduces[first], Kind.REDUCE, Kind.COPY).astype(np.uint8)
    phase = np.where(reduces[first], Phase.REDUCE, Phase.SPREAD).astype(np.uint8)
    length = parts.length[part]
    sender, receiver = src[first].astype(np.int32), dst[first].astype(np.int32)
    made = Schedule(
        src=Ragged.single(sender),
        dst=Ragged.single(receiver),
        kind=kind,
        phase=phase,
        stage=round_[first].astype(np.int32),
        slice=np.zeros(len(first), np.int32),
        size_bytes=np.add.reduceat(length, first),
        path=problem.topology.routes(sender, receiver),
        exclusive=np.ones(len(first), np.bool_),
        order=np.arange(len(first), dtype=np.int64),
        deps=_deliveries_before(part * ranks + src, part * ranks + dst, round_, reduces, message),
        pieces=Pieces(
            np.append(first, len(part)).astype(np.int64),
            parts.item[part].astype(np.int32),
            parts.offset[part],
            length,
        ),
    )
    return made, turn[first]


def _deliveries_before(needed: Ids, brought: Ids, round_: Ids, reduces: NDArray[np.bool_], message: Ids) -> Ragged:
    """Each message's direct causes: the copy that brought a part to its sender, or all sums into it so far."""
    cause, row = matches(brought, needed)
    earlier = round_[cause] < round_[row]
    row, cause = row[earlier], cause[earlier]
    has_copy = np.zeros(len(needed), np.bool_)
    has_copy[row[~reduces[cause]]] = True
    kept = ~reduces[cause] | ~has_copy[row]
    return Ragged.from_pairs(message[row[kept]], message[cause[kept]], int(message[-1]) + 1)
