"""Regular graphs as products of dimensions: lines, rings, cliques and switches.

Nodes are numbered row by row, ranks first, then the switches of each switched dimension. Links are numbered dimension
by dimension; within one, all steps of +1, then all of -1 (lines and rings), steps of +1, +2, ... (cliques), or all
links into the switches, then all out of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, check_whole, nearest
from interlock.topology.graph import MAX_NODES, Topology, check_links, from_edges
from interlock.units import Quantity, parse_bandwidth, parse_seconds

__all__ = [
    "Dimension",
    "PerDimension",
    "check_dims",
    "fully_connected",
    "hypercube",
    "mesh",
    "one_each",
    "product",
    "rfs",
    "ring",
    "switch",
    "torus",
]

PerDimension = Quantity | Sequence[Quantity]
Ids = NDArray[np.int32]


class Dimension(StrEnum):
    """How the nodes along one dimension are joined."""

    LINE = "line"
    RING = "ring"
    FULL = "full"
    SWITCH = "switch"


def ring(num_ranks: int, *, bandwidth: Quantity, latency: Quantity = 0, message_overhead: Quantity = 0) -> Topology:
    """A ring in both directions."""
    return _uniform("ring", Dimension.RING, (num_ranks,), bandwidth, latency, message_overhead)


def torus(
    *dims: int, bandwidth: PerDimension, latency: PerDimension = 0, message_overhead: PerDimension = 0
) -> Topology:
    """A grid whose edges wrap around; a dimension of 2 has one link each way, not two.

    >>> torus(4, 4, bandwidth=("50 GB/s", "25 GB/s")).num_links
    64
    """
    return _uniform("torus", Dimension.RING, dims, bandwidth, latency, message_overhead)


def mesh(
    *dims: int, bandwidth: PerDimension, latency: PerDimension = 0, message_overhead: PerDimension = 0
) -> Topology:
    """A grid whose neighbours are joined both ways; `bandwidth` may be one per dimension.

    >>> mesh(2, 3, bandwidth="50 GB/s").num_links
    14
    """
    return _uniform("mesh", Dimension.LINE, dims, bandwidth, latency, message_overhead)


def hypercube(
    num_dims: int, *, bandwidth: PerDimension, latency: PerDimension = 0, message_overhead: PerDimension = 0
) -> Topology:
    """2^num_dims ranks, joined where their numbers differ in one bit.

    >>> hypercube(3, bandwidth="50 GB/s").num_links
    24
    """
    check_whole(num_dims, "num_dims", 1, 16)
    kinds = [(Dimension.RING, 2)] * num_dims
    return product(
        *kinds, bandwidth=bandwidth, latency=latency, message_overhead=message_overhead, name=f"hypercube:{num_dims}"
    )


def fully_connected(
    *dims: int, bandwidth: PerDimension, latency: PerDimension = 0, message_overhead: PerDimension = 0
) -> Topology:
    """A link of `bandwidth` between every two ranks, both ways; with several dimensions, along each of them.

    >>> fully_connected(8, bandwidth="50 GB/s").num_links
    56
    """
    return _uniform("fully-connected", Dimension.FULL, dims, bandwidth, latency, message_overhead)


def switch(
    *dims: int, bandwidth: PerDimension, latency: PerDimension = 0, message_overhead: PerDimension = 0
) -> Topology:
    """One switch with a port of `bandwidth` per rank; with several dimensions, one switch per line of each of them.

    `latency` is that of one link, rank to switch or switch to rank.

    >>> switch(4, 8, bandwidth="50 GB/s")
    Topology('switch:4x8', 32 ranks, 44 nodes, 128 links)
    """
    return _uniform("switch", Dimension.SWITCH, dims, bandwidth, latency, message_overhead)


def rfs(
    ring: int,
    full: int,
    switch: int,
    *,
    bandwidth: PerDimension,
    latency: PerDimension = 0,
    message_overhead: PerDimension = 0,
) -> Topology:
    """TACOS's 3D-RFS: ring x fully connected x switch."""
    return product(
        (Dimension.RING, ring),
        (Dimension.FULL, full),
        (Dimension.SWITCH, switch),
        bandwidth=bandwidth,
        latency=latency,
        message_overhead=message_overhead,
        name=f"rfs:{ring}x{full}x{switch}",
    )


def product(
    *dimensions: tuple[str, int],
    bandwidth: PerDimension,
    latency: PerDimension = 0,
    message_overhead: PerDimension = 0,
    name: str | None = None,
) -> Topology:
    """Any product of ``(kind, size)`` dimensions, kind being line, ring, full or switch.

    Quantities are one for all dimensions or one each. Translations are declared as symmetries (reflections of lines).

    >>> product(("ring", 4), ("switch", 8), bandwidth=("50 GB/s", "400 Gb/s"))
    Topology('ring:4*switch:8', 32 ranks, 36 nodes, 128 links)
    """
    kinds = [_kind(kind) for kind, _ in dimensions]
    dims = tuple(size for _, size in dimensions)
    check_dims(dims, most=16)
    rates = one_each(bandwidth, len(dims), "bandwidth")
    latencies = one_each(latency, len(dims), "latency")
    overheads = one_each(message_overhead, len(dims), "message_overhead")
    ids = np.arange(math.prod(dims), dtype=np.int32).reshape(dims)
    switches = _switch_ids(kinds, dims)
    joined = [_joined(kind, axis, ids, switches[axis]) for axis, kind in enumerate(kinds)]
    counts = [len(src) for src, _ in joined]
    if math.prod(dims) == 1:
        raise InvalidInput(f"dims={'x'.join(map(str, dims))} has a single rank; a topology needs at least two")
    return from_edges(
        np.concatenate([src for src, _ in joined]),
        np.concatenate([dst for _, dst in joined]),
        np.repeat(rates, counts),
        np.repeat(latencies, counts),
        np.repeat(overheads, counts),
        num_ranks=ids.size,
        symmetries=_translations(kinds, ids, switches),
        name=name or "*".join(f"{kind}:{size}" for kind, size in zip(kinds, dims, strict=True)),
    )


def _uniform(
    name: str,
    kind: Dimension,
    dims: tuple[int, ...],
    bandwidth: PerDimension,
    latency: PerDimension,
    message_overhead: PerDimension,
) -> Topology:
    check_dims(dims)
    return product(
        *((kind, size) for size in dims),
        bandwidth=bandwidth,
        latency=latency,
        message_overhead=message_overhead,
        name=f"{name}:{'x'.join(map(str, dims))}",
    )


def check_dims(dims: tuple[int, ...], most: int = 8) -> None:
    """Raise unless every dimension is a whole number and their product is within the limits."""
    if not 1 <= len(dims) <= most:
        raise InvalidInput(f"dims={dims} must have between 1 and {most} entries")
    for size in dims:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidInput(f"dims={dims}: every dimension must be a whole number of at least 1, not {size!r}")
    if math.prod(dims) > MAX_NODES:
        raise InvalidInput(f"dims={dims} is above the limit of {MAX_NODES} ranks")


def one_each(value: PerDimension, num_dims: int, name: str) -> NDArray[np.float64]:
    """A quantity per dimension, in SI units, from one or one each."""
    parse = parse_bandwidth if name == "bandwidth" else parse_seconds
    if isinstance(value, str | int | float):
        return np.full(num_dims, parse(value, name))
    given = list(value)
    if len(given) != num_dims:
        raise InvalidInput(f"{name} has {len(given)} entries for {num_dims} dimensions; give one or one each")
    return np.array([parse(entry, f"{name}[{place}]") for place, entry in enumerate(given)])


def _kind(kind: str) -> Dimension:
    try:
        return Dimension(kind)
    except ValueError:
        raise InvalidInput(f"unknown kind of dimension {kind!r}; {nearest(str(kind), list(Dimension))}") from None


def _switch_ids(kinds: Sequence[Dimension], dims: tuple[int, ...]) -> list[Ids]:
    """For each dimension its switches, one per line along it: shaped like the ranks with that axis of length 1."""
    first = math.prod(dims)
    switches = []
    for axis, kind in enumerate(kinds):
        shape = (*dims[:axis], 1, *dims[axis + 1 :])
        count = math.prod(shape) if kind is Dimension.SWITCH else 0
        switches.append(np.arange(first, first + count, dtype=np.int32).reshape(shape if count else 0))
        first += count
    return switches


def _joined(kind: Dimension, axis: int, ids: Ids, switches: Ids) -> tuple[Ids, Ids]:
    """Both ends of the links along one axis."""
    size = ids.shape[axis]
    if kind is Dimension.SWITCH:
        port = np.broadcast_to(switches, ids.shape).ravel()
        return np.concatenate([ids.ravel(), port]), np.concatenate([port, ids.ravel()])
    if size == 1:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    if kind is Dimension.LINE:
        low = np.take(ids, range(size - 1), axis).ravel()
        high = np.take(ids, range(1, size), axis).ravel()
        return np.concatenate([low, high]), np.concatenate([high, low])
    steps = range(1, size) if kind is Dimension.FULL else sorted({1, size - 1})
    check_links(len(steps) * ids.size, f"a clique of {size} on {ids.size} ranks")
    ahead = [np.roll(ids, -step, axis).ravel() for step in steps]
    return np.tile(ids.ravel(), len(ahead)), np.concatenate(ahead)


def _translations(kinds: Sequence[Dimension], ids: Ids, switches: Sequence[Ids]) -> NDArray[np.int32]:
    """One generator per dimension of at least 2: a step along it, or its reflection where it does not wrap."""
    rows = []
    for axis, kind in enumerate(kinds):
        if ids.shape[axis] == 1:
            continue
        nodes = [ids, *(block for block in switches if block.size)]
        moved = [np.flip(n, axis) if kind is Dimension.LINE else np.roll(n, -1, axis) for n in nodes]
        rows.append(np.concatenate([block.ravel() for block in moved]))
    return np.stack(rows).astype(np.int32) if rows else np.zeros((0, ids.size), np.int32)
