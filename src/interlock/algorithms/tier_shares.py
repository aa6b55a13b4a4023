"""Who carries what: a line of bytes from 0 to 1, cut by the rates of NICs, an interval for one carrier per server.

Bytes keep to a rail, the NICs of one GPU number, as far as that serves: a rail whose slowest NIC is slow gets a small
share. Where that wastes too much, the servers with a slow or dead NIC have others of theirs stand in for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.schedule import Chunks

__all__ = ["ALIGNMENT_BYTES", "Carriers", "Cells", "Shares", "carriers_of", "cut_lines"]

ALIGNMENT_BYTES = 64  # cuts of an item lie at multiples of it, so that no element of a vector is torn
NEGLIGIBLE = 1e-6  # of the line: shares that differ by less are the same
WASTE = 0.03  # of the NICs' time, for bytes that all keep to their rails: what stand-ins cost in small messages
SETTLING = 30  # rounds of shares and stand-ins, each halving what is left
STAND_INS = 2  # for a NIC in one slice

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Slice k of interval j is a part ``length[j, k]`` of the line. Rank ``rank[j, k, t]`` of server t carries it, and
    is responsible for a part ``weight[j, k, t]`` of it where servers divide it."""

    length: Floats  # [num_intervals, num_slices], adding up to 1
    rank: Ids  # [num_intervals, num_slices, num_servers]
    weight: Floats  # [num_intervals, num_slices, num_servers], adding up to 1 over servers


@dataclass(frozen=True, slots=True, eq=False)
class Carriers:
    """Rails that carry, and the NICs that others of their servers stand in for."""

    rate: Floats  # [servers, rails]
    ranks: Ids  # [servers, rails]
    rails: Ids  # that have a share
    is_left_out: NDArray[np.bool_]  # [servers, rails]
    has_owners: bool

    @property
    def rank(self) -> Ids:
        """Of each rail in each server ``[num_rails, num_servers]``, whether its NIC carries or not."""
        return np.asarray(self.ranks[:, self.rails].T)

    @property
    def has_stand_ins(self) -> bool:
        """Whether some NIC of a rail that carries does not."""
        return bool(self.is_left_out[:, self.rails].any())

    def by_slice(self, weights: Sequence[float]) -> Shares:
        """For a NIC that is left out a few others of its server stand in, slice by slice those that lag most behind
        their part. Their own rails get less of that slice, so that no NIC has more of a slice than the others."""
        splits = np.where(self.is_left_out[:, self.rails].any(axis=0), STAND_INS, 1)
        rails = np.repeat(self.rails, splits)
        gpu = np.repeat(np.repeat(rails[:, None, None], len(weights), axis=1), len(self.rate), axis=2)
        left_out = np.argwhere(self.is_left_out[:, rails].T).tolist()  # interval, server
        given = np.zeros(self.rate.shape)
        found: dict[bytes, tuple[Floats, Floats]] = {}
        made = []
        for number, weight in enumerate(weights):
            helping = np.zeros(self.rate.shape, np.bool_)
            for interval, server in left_out:
                # Rails that have less already have no less for one more server; owners make up for it themselves.
                elsewhere = np.delete(helping, server, axis=0).any(axis=0) & (not self.has_owners)
                behind = given[server] - weight * elsewhere
                chosen = _most_behind(self.rate[server], behind, int(rails[interval]))
                helping[server, chosen] = True
                given[server, chosen] += weight
                gpu[interval, number, server] = chosen
            key = gpu[:, number].tobytes()
            if key not in found:
                found[key] = self._shares(rails, gpu[:, number])
            made.append(found[key])
        share = np.stack([share for share, _ in made], axis=1) / np.repeat(splits, splits)[:, None]
        length = share / share.sum(axis=0) * (np.array(weights) / np.sum(weights))
        return Shares(
            length, self.ranks[np.arange(len(self.rate)), gpu], np.stack([weight for _, weight in made], axis=1)
        )

    def _shares(self, rails: Ids, gpu: Ids) -> tuple[Floats, Floats]:
        """Shares of the rails of intervals that `gpu` carry in each server, and the weights of their owners."""
        stand_ins = np.zeros((*self.rate.shape, self.rate.shape[1]))
        interval, server = np.nonzero(gpu != rails[:, None])
        np.add.at(stand_ins, (server, rails[interval], gpu[interval, server]), 1.0 / STAND_INS)
        share, weight = _settled(self.rate, self.is_left_out, stand_ins, has_owners=self.has_owners)
        return share[rails], weight[:, rails].T


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Chunks, with the cell of the line and the line that each lies in."""

    chunks: Chunks
    cell: Ids
    line: Ids


def carriers_of(rate: Floats, ranks: Ids, *, has_owners: bool) -> Carriers:
    """Carriers by the NIC rates of each server's `ranks`, of which one column is a rail. `has_owners`: every byte goes
    through a server of our choice, as in an All-Reduce, which need not be one with a slow NIC."""
    rate = rate / rate.max()
    is_left_out = _left_out_of_owned(rate) if has_owners else _left_out_of_passed_on(rate)
    share, _ = _settled(rate, is_left_out, _stand_ins(rate), has_owners=has_owners)
    return Carriers(rate, ranks, np.flatnonzero(share > NEGLIGIBLE), is_left_out, has_owners)


def _settled(
    rate: Floats, is_left_out: NDArray[np.bool_], stand_ins: Floats, *, has_owners: bool
) -> tuple[Floats, Floats]:
    """Shares of rails, and who is responsible for how much of each ``[servers, rails]``. `stand_ins` of each server: by
    whom, in parts, the share of a rail is carried if its own NIC is left out ``[servers, rails, GPUs]``.

    In time 1 the NIC of server t carries the whole share x of its rail once and, with owners, what t owns of it N - 2
    times more. So x is at most the least rate, and all rates together are at least (2 N - 2) x. A server that is left
    out owns nothing. Without owners every server receives the whole line, and the least NIC sets the share.
    """
    count = len(rate)
    kept = (~is_left_out).sum(axis=0)
    taken = np.zeros(rate.shape)
    for _ in range(SETTLING):
        room = np.where(is_left_out, np.inf, np.maximum(rate - taken, 0.0))
        share = room.min(axis=0)
        if has_owners:
            rooms = np.where(is_left_out, 0.0, room).sum(axis=0)
            share = np.minimum(share, rooms / np.maximum(1, kept + count - 2))
        if not is_left_out.any():
            break
        taken = (taken + np.einsum("tr,trg->tg", np.where(is_left_out, share, 0.0), stand_ins)) / 2
    if not has_owners:
        return share, np.full(rate.shape, 1.0 / count)
    weight = np.where(is_left_out, 0.0, np.maximum(rate - taken - share, 0.0))
    weight = np.where(weight.sum(axis=0) > NEGLIGIBLE, weight, ~is_left_out)
    return share, weight / weight.sum(axis=0)


def _left_out_of_owned(rate: Floats) -> NDArray[np.bool_]:
    """NICs for which it pays that others carry the share of their rail, at 1 / (2 N - 2) of all there is: the fewest
    that will do."""
    count, width = rate.shape
    is_left_out = np.zeros(rate.shape, np.bool_)
    taken = np.zeros(rate.shape)
    stand_ins = _stand_ins(rate)
    for _ in range(SETTLING):
        room = np.maximum(rate - taken, 0.0)
        share = np.zeros(width)
        is_left_out[:] = False
        for rail in range(width):
            order = np.argsort(room[:, rail], kind="stable")
            fits = [
                min(float(kept[0]), float(kept.sum()) / max(1, len(kept) + count - 2))
                for kept in (room[order[left:], rail] for left in range(count))
            ]
            gain = np.array(fits) * (1.0 - np.arange(count) / max(1, 2 * count - 2))
            left = int(np.argmax(gain > gain.max() * (1 - WASTE)))
            share[rail] = fits[left]
            is_left_out[order[:left], rail] = True
        if not is_left_out.any():
            break
        taken = (taken + np.einsum("tr,trg->tg", np.where(is_left_out, share, 0.0), stand_ins)) / 2
    return is_left_out


def _left_out_of_passed_on(rate: Floats) -> NDArray[np.bool_]:
    """Where every server receives all of the line, the least server sets the pace. Rails alone do, if their least NICs
    are together nearly as fast; else every NIC slower than most of its rail is left out."""
    if rate.min(axis=0).sum() >= (1 - WASTE) * rate.sum(axis=1).min():
        return np.zeros(rate.shape, np.bool_)
    return np.asarray(rate < np.median(rate, axis=0) * (1 - NEGLIGIBLE))


def _stand_ins(rate: Floats) -> Floats:
    """NICs of each server, by rate, for the one of each GPU ``[servers, GPUs, GPUs]``."""
    width = rate.shape[1]
    others = rate[:, None, :] * (1 - np.eye(width))
    others = np.where(others.any(axis=2, keepdims=True), others, rate[:, None, :])
    return np.asarray(others / np.maximum(others.sum(axis=2, keepdims=True), NEGLIGIBLE))


def _most_behind(rate: Floats, given: Floats, gpu: int) -> int:
    """Who of a server has stood in least for its rate; the next after `gpu` of those alike."""
    width = len(rate)
    behind = np.where(rate > 0, given / np.maximum(rate, NEGLIGIBLE), np.inf)
    if (np.delete(rate, gpu) > 0).any():
        behind[gpu] = np.inf
    after = (gpu + 1 + np.arange(width)) % width
    return int(after[np.argmin(behind[after])])


def cut_lines(size_bytes: NDArray[np.int64], line: Ids, edges: Floats) -> Cells:
    """Items, one after the other on their lines (numbered from 0), cut where cells end: cell c of every line lies
    between `edges` c and c + 1 of 0 .. 1."""
    order = np.argsort(line, kind="stable")
    size, lines = size_bytes[order], line[order]
    ends = np.cumsum(size)
    starts = ends - size
    first = np.searchsorted(lines, np.arange(int(lines.max(initial=-1)) + 2))
    bounds = np.concatenate([starts, ends[-1:]])
    low, high = bounds[first[:-1]], bounds[first[1:]]
    wanted = low[:, None] + np.rint((high - low)[:, None] * edges[None, 1:-1]).astype(np.int64)  # [lines, cells - 1]
    place = np.searchsorted(ends, wanted.ravel(), side="right").clip(max=len(ends) - 1)
    into = wanted.ravel() - starts[place]
    aligned = (into + ALIGNMENT_BYTES // 2) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
    snapped = starts[place] + np.minimum(aligned, size[place])
    cell_end = np.concatenate([snapped.reshape(wanted.shape), high[:, None]], axis=1)  # [lines, cells]
    stops = np.unique(np.concatenate([ends, cell_end.ravel()]))
    stops = stops[stops > 0]
    begin = np.concatenate([[0], stops[:-1]])
    item = np.searchsorted(ends, begin, side="right")
    number = np.searchsorted(cell_end.ravel(), begin, side="right")
    chunks = Chunks(order[item].astype(np.int32), begin - starts[item], stops - begin)
    return Cells(chunks, number % cell_end.shape[1], lines[item])
