"""Regular graphs: ring, mesh, torus, fully connected."""

from __future__ import annotations

import itertools
import math

import numpy as np

from interlock.errors import InvalidInput
from interlock.topology.graph import MAX_NODES, Topology, from_edges
from interlock.units import Quantity

__all__ = ["fully_connected", "mesh", "ring", "torus"]

Bandwidths = Quantity | tuple[Quantity, ...] | list[Quantity]


def mesh(*dims: int, bandwidth: Bandwidths, latency: Quantity = 0, message_overhead: Quantity = 0) -> Topology:
    """A grid whose neighbours are joined both ways; `bandwidth` may be one per dimension.

    >>> mesh(2, 3, bandwidth="50 GB/s").num_links
    14
    """
    return _grid(dims, bandwidth, latency, message_overhead, wraps=False)


def torus(*dims: int, bandwidth: Bandwidths, latency: Quantity = 0, message_overhead: Quantity = 0) -> Topology:
    """A grid whose edges wrap around; a dimension of 2 has one link each way, not two.

    >>> torus(4, 4, bandwidth="50 GB/s").num_links
    64
    """
    return _grid(dims, bandwidth, latency, message_overhead, wraps=True)


def ring(num_ranks: int, *, bandwidth: Quantity, latency: Quantity = 0, message_overhead: Quantity = 0) -> Topology:
    """A ring in both directions."""
    return _grid((num_ranks,), bandwidth, latency, message_overhead, wraps=True)


def fully_connected(
    num_ranks: int, *, bandwidth: Quantity, latency: Quantity = 0, message_overhead: Quantity = 0
) -> Topology:
    """A link of `bandwidth` between every two ranks, both ways."""
    _check_dims((num_ranks,))
    src, dst = np.nonzero(~np.eye(num_ranks, dtype=np.bool_))
    return from_edges(src, dst, bandwidth, latency, message_overhead, name=f"fully-connected:{num_ranks}")


def _grid(
    dims: tuple[int, ...], bandwidth: Bandwidths, latency: Quantity, message_overhead: Quantity, *, wraps: bool
) -> Topology:
    _check_dims(dims)
    per_dim = list(bandwidth) if isinstance(bandwidth, tuple | list) else [bandwidth] * len(dims)
    if len(per_dim) != len(dims):
        raise InvalidInput(f"bandwidth has {len(per_dim)} entries for {len(dims)} dimensions; give one or one each")
    ids = np.arange(math.prod(dims), dtype=np.int64).reshape(dims)
    src: list[np.ndarray] = []
    dst: list[np.ndarray] = []
    rates: list[Quantity] = []
    for axis, size in enumerate(dims):
        for step in (1, -1):
            if size == 1 or (size == 2 and wraps and step == -1):
                continue
            ahead = np.roll(ids, -step, axis=axis)
            keep = np.ones(dims, np.bool_)
            if not wraps:
                edge = [slice(None)] * len(dims)
                edge[axis] = slice(-1, None) if step == 1 else slice(0, 1)
                keep[tuple(edge)] = False
            src.append(ids[keep])
            dst.append(ahead[keep])
            rates.extend(itertools.repeat(per_dim[axis], len(src[-1])))
    if not src:
        raise InvalidInput(f"dims={'x'.join(map(str, dims))} has a single rank; a topology needs at least two")
    name = f"{'torus' if wraps else 'mesh'}:{'x'.join(map(str, dims))}"
    return from_edges(np.concatenate(src), np.concatenate(dst), rates, latency, message_overhead, name=name)


def _check_dims(dims: tuple[int, ...]) -> None:
    if not 1 <= len(dims) <= 8:
        raise InvalidInput(f"dims={dims} must have between 1 and 8 entries")
    for size in dims:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidInput(f"dims={dims}: every dimension must be a whole number of at least 1")
    if math.prod(dims) > MAX_NODES:
        raise InvalidInput(f"dims={dims} is above the limit of {MAX_NODES} ranks")
