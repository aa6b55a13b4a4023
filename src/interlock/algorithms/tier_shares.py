"""Who carries what: a line of bytes from 0 to 1, cut for every server by the rates of its NICs.

All servers cut the line alike where their NICs are alike. A server with a slower NIC leaves that carrier less of the
common share and gives the rest to its others, so that what is alike elsewhere stays where it is. An interval of the line
has one carrier in every server.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.topology import Cluster

__all__ = ["ALIGNMENT_BYTES", "Carriers", "Cells", "carriers_of", "cut_lines"]

ALIGNMENT_BYTES = 64  # cuts of an item lie at multiples of it, so that no element of a vector is torn
NEGLIGIBLE = 1e-6  # of the line: shares that differ by less are the same

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Carriers:
    """Interval j of the line, from ``cuts[j]`` to ``cuts[j + 1]``, is carried by rank ``rank[j, t]`` of server t."""

    cuts: Floats  # [num_intervals + 1]
    rank: Ids  # [num_intervals, num_servers]

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Ranges of items, in columns, with the cell of the line and the line that each lies in."""

    item: Ids
    offset: Ids
    length: Ids
    cell: Ids
    line: Ids


def carriers_of(cluster: Cluster, servers: Ids, members: Ids) -> Carriers:
    """Carriers by NIC rates; without any NIC to go through (one server), the members themselves."""
    width = cluster.gpus_per_server
    rate = cluster.nic_bandwidth_bytes_per_s.reshape(cluster.servers, width)[servers]
    if len(servers) == 1:
        rate = np.bincount(members % width, minlength=width)[None, :].astype(np.float64)
    elif cluster.scale_out == "rail":  # a share stays on its rail
        rate = np.broadcast_to(rate.min(axis=0), rate.shape)
    share = rate / rate.sum(axis=1, keepdims=True)
    kinds, number = np.unique(np.round(share / NEGLIGIBLE).astype(np.int64), axis=0, return_inverse=True)
    number = number.reshape(-1)
    shares = share[np.unique(number, return_index=True)[1]]
    common = int(np.bincount(number).argmax())
    cuts = [_own_cuts(shares[common], own) for own in shares]
    edges = np.concatenate([edge for edge, _ in cuts])
    edges = np.unique(np.round(edges / NEGLIGIBLE).astype(np.int64)) * NEGLIGIBLE
    edges[-1] = 1.0
    middle = (edges[:-1] + edges[1:]) / 2
    gpu = np.stack([gpus[np.searchsorted(edge, middle, side="right") - 1] for edge, gpus in cuts])  # [kinds, intervals]
    assert len(kinds) == len(gpu)
    return Carriers(edges, (servers[:, None] * width + gpu[number]).T)


def _own_cuts(common: Floats, own: Floats) -> tuple[Floats, Ids]:
    """Starts (and the end) of intervals and their GPUs: each keeps what it can of its common share, others fill in."""
    start = np.concatenate([[0.0], np.cumsum(common)])
    kept = np.minimum(common, own)
    spare = (own - kept).tolist()
    edges: list[float] = []
    gpus: list[int] = []
    taker = 0
    for gpu in range(len(common)):
        if kept[gpu] > NEGLIGIBLE:
            edges.append(float(start[gpu]))
            gpus.append(gpu)
        here, left = float(start[gpu] + kept[gpu]), float(common[gpu] - kept[gpu])
        while left > NEGLIGIBLE:
            while taker < len(spare) - 1 and spare[taker] <= NEGLIGIBLE:
                taker += 1
            moved = min(left, spare[taker]) if taker < len(spare) - 1 else left
            edges.append(here)
            gpus.append(taker)
            here, left, spare[taker] = here + moved, left - moved, spare[taker] - moved
    return np.array([*edges, 1.0]), np.array(gpus)


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
    snapped = starts[place] + np.minimum(
        (into + ALIGNMENT_BYTES // 2) // ALIGNMENT_BYTES * ALIGNMENT_BYTES, size[place]
    )
    cell_end = np.concatenate([snapped.reshape(wanted.shape), high[:, None]], axis=1)  # [lines, cells]
    stops = np.unique(np.concatenate([ends, cell_end.ravel()]))
    stops = stops[stops > 0]
    begin = np.concatenate([[0], stops[:-1]])
    item = np.searchsorted(ends, begin, side="right")
    flat = cell_end.ravel()
    number = np.searchsorted(flat, begin, side="right")
    return Cells(order[item], begin - starts[item], stops - begin, number % cell_end.shape[1], lines[item])
