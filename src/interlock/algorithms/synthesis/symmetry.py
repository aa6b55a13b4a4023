"""One rank for all: where translations of the graph move rank 0 to every rank, only rank 0's part is synthesized."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.arcs import ArcSet, Ticks
from interlock.algorithms.synthesis.timed import Timed
from interlock.ragged import Ragged
from interlock.topology import Topology, map_links

__all__ = ["Quotient", "grown", "quotient_of"]

MAX_RANKS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """Arcs numbered ``rank * num_lanes + lane``; a lane of one rank stands for that lane of all ranks at once."""

    arcs: ArcSet
    image: NDArray[np.int32]  # [num_ranks, num_ranks], row r moves rank 0 to rank r
    num_lanes: int

    def reversed(self) -> Quotient:
        """For what flows towards its root."""
        return replace(self, arcs=self.arcs.reversed())


def quotient_of(topology: Topology, arcs: ArcSet) -> Quotient | None:
    """The symmetry of a topology if its declared ones move rank 0 to every rank in exactly one way, else None."""
    ranks = topology.num_ranks
    if topology.symmetries is None or not 2 <= ranks <= MAX_RANKS or len(arcs) % ranks:
        return None
    image = np.asarray(_core.translations(np.ascontiguousarray(topology.symmetries, np.int32), ranks))
    if not len(image):
        return None
    image = np.ascontiguousarray(image[:, :ranks])
    if image.max() >= ranks:
        return None
    number = _numbered(arcs, image)
    if number is None:
        return None
    num_lanes = len(arcs) // ranks
    ordered = _taken(arcs, number)
    classes = _resource_classes(topology, ordered, num_lanes)
    if classes is None:
        return None
    lane = np.tile(np.arange(num_lanes, dtype=np.int32), ranks)
    resources, num_classes = classes
    return Quotient(replace(ordered, resources=resources, num_resources=num_classes, lane=lane), image, num_lanes)


def _numbered(arcs: ArcSet, image: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """Arcs by rank and lane, a lane being what symmetry makes of one arc out of rank 0; None where they disagree."""
    ranks = len(image)
    back = np.empty_like(image)
    back[np.arange(ranks)[:, None], image] = np.arange(ranks, dtype=np.int32)
    towards = back[arcs.src, arcs.dst]
    order = np.lexsort((np.arange(len(arcs)), arcs.seconds_per_byte, towards, arcs.src))
    if not np.array_equal(arcs.src[order], np.repeat(np.arange(ranks), len(arcs) // ranks)):
        return None
    for column in (towards, arcs.overhead_s, arcs.seconds_per_byte, arcs.latency_s, arcs.path.counts):
        rows = column[order].reshape(ranks, -1)
        if not (rows == rows[0]).all():
            return None
    return order


def _taken(arcs: ArcSet, rows: NDArray[np.int64]) -> ArcSet:
    return replace(
        arcs,
        src=arcs.src[rows],
        dst=arcs.dst[rows],
        path=arcs.path.take(rows),
        resources=arcs.resources.take(rows),
        overhead_s=arcs.overhead_s[rows],
        seconds_per_byte=arcs.seconds_per_byte[rows],
        latency_s=arcs.latency_s[rows],
    )


def _resource_classes(topology: Topology, arcs: ArcSet, num_lanes: int) -> tuple[Ragged, int] | None:
    """What one use of an arc takes from every rank: classes of links, each with one link per rank."""
    ranks = topology.num_ranks
    if (arcs.path.counts == 1).all() and arcs.num_resources == len(arcs):
        return Ragged.single(np.tile(np.arange(num_lanes, dtype=np.int32), ranks)), num_lanes
    if len(np.unique(topology.channel)) != topology.num_links or topology.symmetries is None:
        return None
    orbit = np.arange(topology.num_links)
    images = [map_links(topology, generator) for generator in topology.symmetries]
    while True:
        before = orbit.copy()
        for image in images:
            np.minimum.at(orbit, image, orbit.copy())
            orbit = np.minimum(orbit, orbit[image])
        if np.array_equal(before, orbit):
            break
    classes, of_link, sizes = np.unique(orbit, return_inverse=True, return_counts=True)
    used = of_link[arcs.path.values]
    if (sizes[np.unique(used)] != ranks).any():
        return None
    held = Ragged(arcs.path.offsets, used.astype(np.int32))
    pairs = np.sort(held.row_of_value * np.int64(len(classes)) + used)
    if (pairs[1:] == pairs[:-1]).any():
        return None
    return held, len(classes)


def grown(quotient: Quotient, ticks: Ticks, chunk_bytes: int, num_chunks: int, seed: int) -> Timed:
    """Rank 0's chunks spread lane by lane; always sends where something is lacking."""
    arcs, lanes = quotient.arcs, quotient.num_lanes
    lane_arc = arcs.lane_arc
    number = np.arange(len(arcs), dtype=np.int32).reshape(-1, lanes)
    # Lane l out of rank u is arc number[u, l]; with ends swapped, the one that leads into u.
    leaving = np.empty_like(number)
    leaving[arcs.src.reshape(-1, lanes), np.arange(lanes)] = number
    held = ticks.overhead[lane_arc] + np.rint(chunk_bytes * ticks.per_byte[lane_arc]).astype(np.int64)
    resources = arcs.resources.take(lane_arc)
    route, chunk, start, makespan = _core.grow(
        np.ascontiguousarray(arcs.dst[leaving]),
        arcs.num_resources,
        resources.offsets,
        resources.values,
        np.maximum(held, 1),
        ticks.latency[lane_arc],
        num_chunks,
        seed,
    )
    arc = leaving.reshape(-1)[route]
    count = len(arc)
    message = np.arange(count, dtype=np.int32)
    return Timed(arc, np.asarray(chunk), np.asarray(start), message, np.zeros(count, np.bool_), makespan)
