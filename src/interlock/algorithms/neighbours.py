"""Which ranks can send to each other without a relay, and rings through them."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from interlock.topology import Topology

__all__ = ["adjacency", "embedded_ring", "grid_dims", "reached_from_first"]

LEAST_BANDWIDTH = 1e-6  # bytes per second; below it a link is dead
MAX_STEPS = 200_000  # of a search for a ring
MAX_NODES = 8_192  # above it, no table of all pairs

Table = NDArray[np.bool_]  # [num_ranks, num_ranks]


@functools.lru_cache(maxsize=8)
def adjacency(topology: Topology) -> Table:
    """Whether each rank reaches each other rank over links and switches only."""
    ranks = topology.num_ranks
    alive = topology.bandwidth_bytes_per_s > LEAST_BANDWIDTH
    src, dst = topology.link_src[alive], topology.link_dst[alive]
    reaches = np.zeros((topology.num_nodes, topology.num_nodes), np.bool_)
    reaches[src, dst] = True
    between = reaches[ranks:, ranks:]  # switch to switch
    closure = between | np.eye(len(between), dtype=np.bool_)
    while True:
        wider = (closure.astype(np.float32) @ closure.astype(np.float32)) > 0
        if np.array_equal(wider, closure):
            break
        closure = wider
    into, out_of = reaches[:ranks, ranks:].astype(np.float32), reaches[ranks:, :ranks].astype(np.float32)
    table: Table = reaches[:ranks, :ranks] | ((into @ closure.astype(np.float32) @ out_of) > 0)
    np.fill_diagonal(table, False)
    table.flags.writeable = False
    return table


def reached_from_first(table: Table) -> NDArray[np.bool_]:
    """Which ranks the first one reaches, through others too."""
    reached: NDArray[np.bool_] = np.arange(len(table)) == 0
    while True:
        wider = reached | table[reached].any(axis=0)
        if np.array_equal(wider, reached):
            return reached
        reached = wider


def embedded_ring(topology: Topology, members: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """The members in an order where each reaches the next, and the last the first; None where none is found.

    Tried in turn: the order given, cycles of grids, servers in turn on rails, then a search.
    """
    if len(members) == 1:
        return members
    table = adjacency(topology)[np.ix_(members, members)]
    for order in _candidate_orders(len(members), table):
        if table[order, np.roll(order, -1)].all():
            return members[order]
    return None


def grid_dims(table: Table, *, wraps: bool) -> list[tuple[int, ...]]:
    """Ways to read the ranks as a grid (last dimension fastest) of lines, or where it `wraps` of rings; most
    dimensions first."""
    count = len(table)
    found = []
    for dims in _factorizations(count):
        ids = np.arange(count).reshape(dims)
        if all(_lines_join(table, ids, axis, wraps) for axis in range(len(dims))):
            found.append(dims)
    return sorted(found, key=lambda dims: (-len(dims), dims))


def _lines_join(table: Table, ids: NDArray[np.int64], axis: int, wraps: bool) -> bool:
    ahead = np.roll(ids, -1, axis)
    if wraps:
        return bool(table[ids, ahead].all())
    here, there = np.delete(ids, -1, axis), np.delete(ahead, -1, axis)
    return bool(table[here, there].all() and table[there, here].all())


def _factorizations(count: int) -> list[tuple[int, ...]]:
    """Ordered products of factors of at least 2; at most eight of them."""
    if count == 1:
        return [()]
    made: list[tuple[int, ...]] = []
    for first in range(2, count + 1):
        if count % first == 0:
            made.extend((first, *rest) for rest in _factorizations(count // first) if len(rest) < 8)
    return made


def _candidate_orders(count: int, table: Table) -> Iterator[NDArray[np.int64]]:
    yield np.arange(count)
    for dims in grid_dims(table, wraps=False)[:4]:
        yield from _grid_cycles(dims)
    for width in range(2, count // 2 + 1):
        if count % width == 0:
            yield from _server_cycles(count // width, width)
    found = _rotate_into_ring(table) if np.array_equal(table, table.T) else _search_ring(table)
    if found is not None:
        yield found


def _grid_cycles(dims: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
    """Along the rows of an even dimension and back along their first column."""
    ids = np.arange(int(np.prod(dims))).reshape(dims)
    for axis, size in enumerate(dims):
        if size % 2 or len(dims) == 1:
            continue
        rows = [_snake(np.take(ids, k, axis)) for k in range(size)]
        if len(rows[0]) < 2:
            continue
        there = [row[1:] if k % 2 == 0 else row[:0:-1] for k, row in enumerate(rows)]
        back = [row[0] for row in rows[::-1]]
        yield np.concatenate([*there, back])


def _snake(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """A path through a grid: every other layer is walked backwards."""
    if ids.ndim == 1:
        return ids
    layers = [_snake(layer) for layer in ids]
    return np.concatenate([layer if k % 2 == 0 else layer[::-1] for k, layer in enumerate(layers)])


def _server_cycles(servers: int, width: int) -> Iterator[NDArray[np.int64]]:
    """Server after server, entering each on the rail where the one before was left."""
    if servers < 2 or (width == 2 and servers % 2):
        return
    gate = np.arange(servers + 1) % 2
    gate[-1] = 0
    if servers % 2:
        gate[-2] = 2
    order: list[int] = []
    for server in range(servers):
        first, last = int(gate[server]), int(gate[server + 1])
        inner = [gpu for gpu in range(width) if gpu not in (first, last)]
        order.extend(server * width + gpu for gpu in (first, *inner, last))
    yield np.array(order)


def _rotate_into_ring(table: Table) -> NDArray[np.int64] | None:
    """Lengthen a path, and where it is stuck turn its tail round at a neighbour of its end (Posa's rotations)."""
    rng = np.random.default_rng(0)
    count = len(table)
    neighbours = [np.flatnonzero(row) for row in table]
    path, is_on = [0], np.zeros(count, np.bool_)
    is_on[0] = True
    for _ in range(min(MAX_STEPS, 200 * count)):
        end = neighbours[path[-1]]
        fresh = end[~is_on[end]]
        if len(fresh):
            open_ends = [int((~is_on[neighbours[node]]).sum()) for node in fresh]
            path.append(int(fresh[int(np.argmin(open_ends))]))
            is_on[path[-1]] = True
        elif len(path) == count and table[path[-1], path[0]]:
            return np.array(path)
        elif len(end) < 2:
            return None
        else:
            turn = path.index(int(rng.choice(end))) + 1
            path[turn:] = path[turn:][::-1]
    return None


def _search_ring(table: Table) -> NDArray[np.int64] | None:
    """Depth-first search for a ring along one-way links, fewest onward choices first."""
    count = len(table)
    neighbours = [np.flatnonzero(row).tolist() for row in table]
    path, is_on = [0], [True] + [False] * (count - 1)
    choices = [_by_openness(0, neighbours, is_on)]
    for _ in range(MAX_STEPS):
        if len(path) == count and table[path[-1], 0]:
            return np.array(path)
        if choices[-1]:
            node = choices[-1].pop()
            path.append(node)
            is_on[node] = True
            choices.append(_by_openness(node, neighbours, is_on))
            continue
        choices.pop()
        is_on[path.pop()] = False
        if not path:
            return None
    return None


def _by_openness(node: int, neighbours: list[list[int]], is_on: list[bool]) -> list[int]:
    """Unvisited neighbours, the one with the fewest unvisited neighbours of its own last."""
    fresh = [peer for peer in neighbours[node] if not is_on[peer]]
    return sorted(fresh, key=lambda peer: -sum(not is_on[next_] for next_ in neighbours[peer]))
