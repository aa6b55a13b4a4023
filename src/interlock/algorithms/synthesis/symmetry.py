"""Symmetry: where translations of the graph move rank 0 to every rank, rank 0's part can stand for all."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.arcs import ArcSet
from interlock.ragged import Ragged
from interlock.topology import Topology, map_links

__all__ = ["Quotient", "quotient_of"]

MAX_RANKS = 4096  # a table of ranks by ranks is kept


@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """Arcs numbered ``rank * num_orbits + orbit``: what symmetry makes of one arc out of rank 0 is an orbit."""

    arcs: ArcSet
    image: NDArray[np.int32]  # [num_ranks, num_ranks], row r moves rank 0 to rank r
    num_orbits: int

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
    if (arcs.resources.counts > arcs.path.counts).any():  # hashed uplinks, which no translation keeps
        return None
    number = _numbered(arcs, image)
    if number is None:
        return None
    num_orbits = len(arcs) // ranks
    ordered = _taken(arcs, number)
    classes = _resource_classes(topology, ordered, num_orbits)
    if classes is None:
        return None
    orbit = np.tile(np.arange(num_orbits, dtype=np.int32), ranks)
    resources, num_classes = classes
    alone = np.ones(len(resources.values))  # what one rank stands for holds its links alone
    held = replace(
        ordered,
        resources=resources,
        share=alone,
        counts_senders=alone < 1.0,
        num_resources=num_classes,
        orbit=orbit,
        opening_s=0.0,  # all ranks open when rank 0 sends its first message, before anything is on its way
    )
    return Quotient(held, image, num_orbits)


def _numbered(arcs: ArcSet, image: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """Arcs by rank and orbit, an orbit being what symmetry makes of one arc out of rank 0; None where they disagree."""
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
    resources, share, counts_senders = arcs.held_by(rows)
    return replace(
        arcs,
        src=arcs.src[rows],
        dst=arcs.dst[rows],
        path=arcs.path.take(rows),
        resources=resources,
        share=share,
        counts_senders=counts_senders,
        overhead_s=arcs.overhead_s[rows],
        seconds_per_byte=arcs.seconds_per_byte[rows],
        latency_s=arcs.latency_s[rows],
    )


def _resource_classes(topology: Topology, arcs: ArcSet, num_orbits: int) -> tuple[Ragged, int] | None:
    """What one use of an arc takes from every rank: classes of links, each with one link per rank."""
    ranks = topology.num_ranks
    if (arcs.path.counts == 1).all() and arcs.num_resources == len(arcs):
        return Ragged.single(np.tile(np.arange(num_orbits, dtype=np.int32), ranks)), num_orbits
    if len(np.unique(topology.channel)) != topology.num_links or topology.symmetries is None:
        return None
    link_class = np.arange(topology.num_links)
    images = [map_links(topology, generator) for generator in topology.symmetries]
    while True:
        before = link_class.copy()
        for image in images:
            np.minimum.at(link_class, image, link_class.copy())
            link_class = np.minimum(link_class, link_class[image])
        if np.array_equal(before, link_class):
            break
    classes, of_link, sizes = np.unique(link_class, return_inverse=True, return_counts=True)
    used = of_link[arcs.path.values]
    if (sizes[np.unique(used)] != ranks).any():
        return None
    held = Ragged(arcs.path.offsets, used.astype(np.int32))
    # All arcs of an orbit are used at once: they must share no link, and none may use two of a class.
    orbit = (held.row_of_value % num_orbits).astype(np.int64)
    if _has_doubles(orbit * topology.num_links + arcs.path.values):
        return None
    if _has_doubles(held.row_of_value * np.int64(len(classes)) + used):
        return None
    return held, len(classes)


def _has_doubles(values: NDArray[np.int64]) -> bool:
    return len(np.unique(values)) != len(values)
