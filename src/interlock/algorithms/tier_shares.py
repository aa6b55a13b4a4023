"""Who carries what: a line of bytes from 0 to 1, cut by the rates of NICs, an interval for one carrier per server.

Bytes keep to a rail, the NICs of one GPU number, as far as that serves: a rail whose slowest NIC is slow gets a small
share. Where that wastes too much, the servers with a slow or dead NIC have others of theirs stand in for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALIGNMENT_BYTES", "Carriers", "Cells", "carriers_of", "cut_lines"]

ALIGNMENT_BYTES = 64  # cuts of an item lie at multiples of it, so that no element of a vector is torn
NEGLIGIBLE = 1e-6  # of the line: shares that differ by less are the same
WASTE = 0.03  # of the NICs' time, for bytes that all keep to their rails: what stand-ins cost in small messages
SETTLING = 30  # rounds of shares and stand-ins, each halving what is left

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Carriers:
    """Interval j of the line, from ``cuts[j]`` to ``cuts[j + 1]``, is carried by rank ``rank[j, t]`` of server t, which
    is responsible for a part ``weight[j, t]`` of it where servers divide that up."""

    cuts: Floats  # [num_intervals + 1]
    rank: Ids  # [num_intervals, num_servers]
    weight: Floats  # [num_intervals, num_servers], each row adds up to 1
    stand_ins: dict[tuple[int, int], Floats]  # (interval, server) to the part that each GPU of the server takes on

    def by_slice(self, weights: Sequence[float]) -> Ids:
        """The carrier of each interval's slices ``[num_intervals, num_slices, num_servers]``: stand-ins take turns,
        each time the one that lags most behind its part."""
        rank = np.repeat(self.rank[:, None, :], len(weights), axis=1)
        for (interval, server), wanted in self.stand_ins.items():
            width = len(wanted)
            first, given, total = rank[interval, 0, server] // width * width, np.zeros(width), 0.0
            for number, weight in enumerate(weights):
                total += weight
                lag = np.where(wanted > 0, wanted * total - given, -np.inf)
                lag = np.roll(lag, -interval - server)  # intervals begin with different ones
                gpu = (int(lag.argmax()) + interval + server) % width
                given[gpu] += weight
                rank[interval, number, server] = first + gpu
        return rank


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Ranges of items, in columns, with the cell of the line and the line that each lies in."""

    item: Ids
    offset: Ids
    length: Ids
    cell: Ids
    line: Ids


@dataclass(frozen=True, slots=True, eq=False)
class _Rails:
    """How much of the line each rail takes, who is responsible for how much of it, and whose NIC is left out."""

    share: Floats  # [rails]
    weight: Floats  # [servers, rails]
    is_left_out: NDArray[np.bool_]  # [servers, rails]


def carriers_of(rate: Floats, servers: Ids, *, has_owners: bool) -> Carriers:
    """Carriers by the NIC rates of each server's GPUs. `has_owners`: every byte goes through a server of our choice, as
    in an All-Reduce, which need not be one with a slow NIC."""
    width = rate.shape[1]
    rate = rate / rate.max()
    rails = _owned(rate) if has_owners else _passed_on(rate)
    used = np.flatnonzero(rails.share > NEGLIGIBLE)
    cuts = np.concatenate([[0.0], np.cumsum(rails.share[used]) / rails.share[used].sum()])
    stand_ins = {
        (rail, place): _stand_ins(rate[place], int(gpu))
        for rail, gpu in enumerate(used)
        for place in np.flatnonzero(rails.is_left_out[:, gpu]).tolist()
    }
    return Carriers(cuts, servers * width + used[:, None], rails.weight[:, used].T, stand_ins)


def _owned(rate: Floats) -> _Rails:
    """In time 1 the NIC of server t carries the whole share x of its rail once, and what t owns of it N - 2 times more.
    So x is at most the least rate, and all rates together are at least (2 N - 2) x. A server that is left out owns
    nothing; its others carry x once more, and all rails lose a part 1 / (2 N - 2) of that.
    """
    count, width = rate.shape
    share, taken = np.zeros(width), np.zeros(rate.shape)
    is_left_out = np.zeros(rate.shape, np.bool_)
    for _ in range(SETTLING):
        room = np.maximum(rate - taken, 0.0)
        for rail in range(width):
            order = np.argsort(room[:, rail], kind="stable")
            fits = [
                min(float(kept[0]), float(kept.sum()) / max(1, len(kept) + count - 2))
                for kept in (room[order[left:], rail] for left in range(count))
            ]
            gain = np.array(fits) * (1.0 - np.arange(count) / max(1, 2 * count - 2))
            left = int(np.argmax(gain > gain.max() * (1 - WASTE)))  # the fewest that will do
            share[rail] = fits[left]
            is_left_out[:, rail] = False
            is_left_out[order[:left], rail] = True
        if not is_left_out.any():
            break
        taken = (taken + _load_of_stand_ins(rate, share, is_left_out)) / 2
    weight = np.where(is_left_out, 0.0, np.maximum(rate - taken - share, 0.0))
    weight = np.where(weight.sum(axis=0) > NEGLIGIBLE, weight, ~is_left_out)
    return _Rails(share, weight / weight.sum(axis=0), is_left_out)


def _passed_on(rate: Floats) -> _Rails:
    """Where every server receives all of the line, the least server sets the pace. Rails alone do, if their least NICs
    are together nearly as fast; else every NIC slower than most of its rail is left out."""
    even = np.full(rate.shape, 1.0 / len(rate))
    least = rate.min(axis=0)
    if least.sum() >= (1 - WASTE) * rate.sum(axis=1).min():
        return _Rails(least, even, np.zeros(rate.shape, np.bool_))
    share = np.median(rate, axis=0)
    is_left_out = rate < share * (1 - NEGLIGIBLE)
    taken = np.zeros(rate.shape)
    for _ in range(SETTLING):
        share = np.where(is_left_out, np.inf, np.maximum(rate - taken, 0.0)).min(axis=0)
        taken = (taken + _load_of_stand_ins(rate, share, is_left_out)) / 2
    return _Rails(share, even, is_left_out)


def _load_of_stand_ins(rate: Floats, share: Floats, is_left_out: NDArray[np.bool_]) -> Floats:
    """What each NIC carries for others of its server."""
    load = np.zeros(rate.shape)
    for place, gpu in np.argwhere(is_left_out).tolist():
        load[place] += share[gpu] * _stand_ins(rate[place], gpu)
    return load


def _stand_ins(rate: Floats, gpu: int) -> Floats:
    """NICs of one server, by rate, for the one of `gpu`."""
    others = np.where(np.arange(len(rate)) == gpu, 0.0, rate)
    return np.asarray(others / others.sum() if others.any() else rate / rate.sum())


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
    return Cells(order[item], begin - starts[item], stops - begin, number % cell_end.shape[1], lines[item])
