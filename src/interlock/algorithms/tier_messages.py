"""Messages from moves: what travels together, in which order NICs take it, and what waits for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.rounds import Ids
from interlock.problem import Problem
from interlock.ragged import Ragged, ranges
from interlock.schedule import Chunks, Kind, Phase, Pieces, Schedule, check_rows, empty_schedule
from interlock.topology.lowering import TwoTierRoutes

__all__ = ["TierMoves", "Pass", "by_single", "schedule_parts"]

ROUNDS_UNDER_WAY = 3  # of messages to or from all other servers at a NIC: sums, copies, and what is next


@dataclass(frozen=True, slots=True, eq=False)
class TierMoves:
    """Part `part[i]` between rank `near[i]` and rank `far[i]`, in turn `turn[i]` of its phase: outward from near to
    far, or inward. A fan serves all members of near's server but itself and `far`, in the switch."""

    part: Ids
    near: Ids
    far: Ids
    turn: Ids
    slice: Ids
    is_fan: bool = False

    def __len__(self) -> int:
        return len(self.part)


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A phase: all its moves go the same way and do the same."""

    kind: Kind
    is_inward: bool
    moves: Sequence[TierMoves]


def by_single(moves: TierMoves, members: NDArray[np.bool_], width: int) -> TierMoves:
    """A fan written out as messages to one member each; `members` of all ranks."""
    peers = (moves.near // width * width)[:, None] + np.arange(width)
    wanted = members[peers] & (peers != moves.near[:, None]) & (peers != moves.far[:, None])
    row, gpu = np.nonzero(wanted)
    turn = (gpu - moves.near[row]) % width  # each GPU begins with its neighbour: one-to-one at every turn
    return TierMoves(moves.part[row], moves.near[row], peers[row, gpu], turn, moves.slice[row])


def schedule_parts(
    problem: Problem,
    parts: Chunks,
    phases: Sequence[Pass],
    members: NDArray[np.bool_],
    *,
    one_to_one: bool,
    by_turn: bool,
    under_way: int,
    radix: int,
) -> Schedule:
    """A schedule of one stage. Slice k enters phase p beside slice k - 1 in phase p + 1, one phase after the other, or
    `by_turn` where their turns are common; NICs serve messages in that order, alone where all exchanges are
    `one_to_one`, else with a few rounds of `radix` servers under way, in which no later slice overtakes; the scale-up
    network is shared, with `under_way` slices of a sender that has nothing to wait for."""
    rows = _Rows.of(parts, phases, problem.num_ranks, by_turn=by_turn)
    if len(rows.part) == 0:
        return empty_schedule()
    check_rows(len(rows.part))
    assert problem.cluster is not None
    router = problem.topology.router
    assert isinstance(router, TwoTierRoutes)
    first = np.flatnonzero(rows.starts)
    head = rows.take(first)
    src, dst, path = _ends_and_paths(problem, router, head, members)
    on_nic = path.values[path.offsets[:-1]] >= router.nic_out
    exclusive = on_nic & one_to_one
    length = parts.length[rows.part]
    return Schedule(
        src=src,
        dst=dst,
        kind=np.where(head.reduces, Kind.REDUCE, Kind.COPY).astype(np.uint8),
        phase=np.where(head.reduces, Phase.REDUCE, Phase.SPREAD).astype(np.uint8),
        stage=np.zeros(len(first), np.int32),
        slice=head.slice.astype(np.int32),
        size_bytes=np.add.reduceat(length, first),
        path=path,
        exclusive=exclusive,
        order=np.where(exclusive, np.arange(len(first)), 0),
        deps=_dependencies(rows, head, problem.num_ranks, on_nic & ~exclusive, exclusive, under_way, radix),
        pieces=_pieces(rows, parts, first),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """One row per part and message, sorted by message."""

    part: Ids
    near: Ids
    far: Ids
    slice: Ids
    phase: Ids
    reduces: NDArray[np.bool_]
    inward: NDArray[np.bool_]
    is_fan: NDArray[np.bool_]
    starts: NDArray[np.bool_]  # where a message begins

    @classmethod
    def of(cls, parts: Chunks, phases: Sequence[Pass], num_ranks: int, *, by_turn: bool) -> _Rows:
        tables = [(phase, moves) for phase, each in enumerate(phases) for moves in each.moves]
        part, near, far, turn, number = (
            np.concatenate([np.zeros(0, np.int64), *(getattr(moves, name) for _, moves in tables)])
            for name in ("part", "near", "far", "turn", "slice")
        )
        counts = [len(moves) for _, moves in tables]
        phase = np.repeat([phase for phase, _ in tables], counts).astype(np.int64)
        reduces = np.array([each.kind is Kind.REDUCE for each in phases])[phase]
        inward = np.array([each.is_inward for each in phases])[phase]
        is_fan = np.repeat([moves.is_fan for _, moves in tables], counts).astype(np.bool_)
        key = number + phase
        most = int(turn.max(initial=0)) + 1
        first = [(phase, len(phases)), (turn, most)]
        for column, limit in (*(first[::-1] if by_turn else first), (near, num_ranks), (far + 1, num_ranks + 1)):
            key = key * limit + column
        key = key * 2 + is_fan
        return cls(part, near, far, number, phase, reduces, inward, is_fan, np.zeros(0, np.bool_)).sorted(key)

    def sorted(self, key: Ids) -> _Rows:
        """In the order of a key that tells messages apart."""
        order = np.argsort(key, kind="stable")
        starts = np.diff(key[order], prepend=-1) != 0
        return replace(replace(self, starts=np.zeros_like(starts)).take(order), starts=starts)

    def take(self, rows: Ids) -> _Rows:
        return _Rows(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def sender(self) -> Ids:
        return np.where(self.inward, self.far, self.near)

    @property
    def receiver(self) -> Ids:
        return np.where(self.inward, self.near, self.far)


def _ends_and_paths(
    problem: Problem, router: TwoTierRoutes, head: _Rows, members: NDArray[np.bool_]
) -> tuple[Ragged, Ragged, Ragged]:
    ranks, width = problem.num_ranks, router.ranks_per_server
    inward, sender, receiver = head.inward, head.sender, head.receiver
    count = len(head.part)
    fans = np.flatnonzero(head.is_fan)
    peers = (head.near[fans] // width * width)[:, None] + np.arange(width)
    wanted = members[peers] & (peers != head.near[fans][:, None]) & (peers != head.far[fans][:, None])
    ends = np.ones(count, np.int64)
    ends[fans] = wanted.sum(axis=1)
    far = np.repeat(head.far, ends)
    far[np.repeat(head.is_fan, ends)] = peers[wanted]
    ends_and_hubs = Ragged.from_counts(ends, far.astype(np.int32)), Ragged.single(head.near.astype(np.int32))
    src, dst = Ragged.either(inward, *ends_and_hubs), Ragged.either(~inward, *ends_and_hubs)
    single = np.flatnonzero(~head.is_fan)
    routes = problem.topology.routes(sender[single].astype(np.int32), receiver[single].astype(np.int32))
    lengths = np.full(count, 2)
    lengths[single] = routes.counts
    lengths[fans] = ends[fans] + 1
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = np.zeros(int(offsets[-1]), np.int32)
    values[ranges(offsets[single], lengths[single])] = routes.values
    # A fan: the hub's own port, then those of the others; up is link r of rank r, down is num_ranks + r.
    values[offsets[fans]] = head.near[fans] + np.where(inward[fans], ranks, 0)
    others = ranges(offsets[fans] + 1, ends[fans])
    values[others] = peers[wanted] + np.repeat(np.where(inward[fans], 0, ranks), ends[fans])
    return src, dst, Ragged(offsets, values)


def _pieces(rows: _Rows, parts: Chunks, first: Ids) -> Pieces:
    """Parts of a message that follow each other in an item are one piece."""
    item, offset, length = parts.item[rows.part], parts.offset[rows.part], parts.length[rows.part]
    begins = rows.starts.copy()
    begins[1:] |= (item[1:] != item[:-1]) | (offset[1:] != offset[:-1] + length[:-1])
    heads = np.flatnonzero(begins)
    offsets = np.append(np.searchsorted(heads, first), len(heads)).astype(np.int64)
    return Pieces(offsets, item[heads], offset[heads], np.add.reduceat(length, heads))


def _dependencies(
    rows: _Rows,
    head: _Rows,
    ranks: int,
    shares_nic: NDArray[np.bool_],
    exclusive: NDArray[np.bool_],
    under_way: int,
    radix: int,
) -> Ragged:
    """After what brought a message's parts to its sender, and after messages that it must not overtake."""
    of, on = _bringing(rows, ranks)
    waits = np.zeros(len(head.part), np.bool_)
    waits[of] = True
    ends = ((head.near * (ranks + 1) + head.far + 1) * 2 + head.is_fan) * 2 + head.inward
    pairs = [(of, on), _paced(ends, ~waits & ~exclusive, under_way)]
    window = ROUNDS_UNDER_WAY * max(1, radix - 1)
    pairs += [_paced(end, shares_nic, window) for end in (head.sender, head.receiver)]
    of, on = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    return Ragged.from_pairs(of, on, len(head.part))


def _bringing(rows: _Rows, ranks: int) -> tuple[Ids, Ids]:
    """Messages, each with one that brought a part to its sender: the copy if there was one (there is no second), else
    every sum into it. Fans need no cause where they add (their members begin with what they have) and are none where
    they copy (they end it)."""
    message = np.cumsum(rows.starts) - 1
    place = rows.part * ranks  # a part at a rank, once that is added
    needs = np.flatnonzero(~(rows.is_fan & rows.inward))
    needed = place[needs] + rows.sender[needs]
    copies, sums = np.flatnonzero(~rows.reduces & ~rows.is_fan), np.flatnonzero(rows.reduces)
    places = int(place.max()) + ranks
    copy_at = np.full(places, -1, np.int32)
    copy_at[place[copies] + rows.receiver[copies]] = copies
    copy = copy_at[needed]
    has_copy = (copy >= 0) & (rows.phase[copy] < rows.phase[needs])
    summed = place[sums] + rows.receiver[sums]
    sums = sums[np.argsort(summed, kind="stable")]
    first = np.concatenate([[0], np.cumsum(np.bincount(summed, minlength=places))])
    low, high = (first[needed[~has_copy] + more] for more in (0, 1))
    need = np.repeat(needs[~has_copy], high - low)
    cause = sums[ranges(low, high - low)]
    is_before = rows.phase[cause] < rows.phase[need]
    of = np.concatenate([needs[has_copy], need[is_before]])
    on = np.concatenate([copy[has_copy], cause[is_before]])
    return message[of], message[on]


def _paced(ends: Ids, chosen: NDArray[np.bool_], ahead: int) -> tuple[Ids, Ids]:
    """Chosen messages after the one `ahead` before with the same ends."""
    free = np.flatnonzero(chosen)
    free = free[np.argsort(ends[free], kind="stable")]
    same = ends[free[ahead:]] == ends[free[:-ahead]]
    return free[ahead:][same], free[:-ahead][same]
