"""ASTRA-sim's analytical network, as close to a topology as its three shapes come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.topology import Cluster, Topology

__all__ = ["AWARE", "UNAWARE", "Dimension", "network_of", "program_of"]

GIB = 2**30  # ASTRA-sim's "GB/s" are 2^30 bytes per second
AWARE = "AstraSim_Analytical_Congestion_Aware"  # takes one dimension
UNAWARE = "AstraSim_Analytical_Congestion_Unaware"
ALIKE = 0.01  # rates that differ by less are the same

Dimension = tuple[str, int, float, float]  # shape, ranks, bytes per second of a link, seconds of a link


def network_of(problem: Problem) -> tuple[list[Dimension], str | None]:
    """Dimensions, the first varying fastest among ranks, and what of the topology they do not say."""
    if problem.cluster is not None:
        return _tiers(problem.cluster), None
    dimensions = _dimensions(problem.topology)
    if dimensions is not None:
        return dimensions, None
    topology = problem.topology
    rate, latency_s = float(topology.bandwidth_bytes_per_s.mean()), float(topology.latency_s.mean())
    said = "network.yml replaces the topology by one switch: the analytical backend has no general graphs"
    return [("Switch", problem.num_ranks, rate, latency_s / 2)], said


def program_of(dimensions: list[Dimension]) -> str:
    """The build of ASTRA-sim's analytical backend that runs a network."""
    return AWARE if len(dimensions) == 1 else UNAWARE


def _tiers(cluster: Cluster) -> list[Dimension]:
    """Scale-up as a switch or a mesh, scale-out as a switch."""
    alive: NDArray[np.float64] = cluster.nic_bandwidth_bytes_per_s[cluster.nic_bandwidth_bytes_per_s > 0]
    width, up = cluster.gpus_per_server, cluster.scale_up_bandwidth_bytes_per_s
    inside: Dimension = ("Switch", width, up, cluster.scale_up_latency_s / 2)
    if cluster.scale_up == "mesh" and width > 1:
        inside = ("FullyConnected", width, up / (width - 1), cluster.scale_up_latency_s)
    outside = float(alive.mean()) if len(alive) else 1.0
    tiers = [inside, ("Switch", cluster.servers, outside, cluster.scale_out_latency_s / 2)]
    return [tier for tier in tiers if tier[1] > 1] or tiers[:1]


def _dimensions(topology: Topology) -> list[Dimension] | None:
    """A ring, a fully connected graph or a product of such, of equal links along each dimension, if it is one."""
    ranks, src, dst = topology.num_ranks, topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
    if topology.num_nodes != ranks or len(np.unique(src * ranks + dst)) != topology.num_links:
        return None
    for sizes in sorted(_products(ranks, 1, set(dst[src == 0].tolist())), key=len):
        places = [np.unravel_index(ends, sizes[::-1])[::-1] for ends in (src, dst)]
        differs = np.stack([a != b for a, b in zip(*places, strict=True)])
        if not (differs.sum(axis=0) == 1).all():
            continue
        steps = [(b - a)[on] % size for a, b, on, size in zip(*places, differs, sizes, strict=True)]
        made = [_dimension(topology, on, step, size) for on, step, size in zip(differs, steps, sizes, strict=True)]
        if all(made):
            return [dimension for dimension in made if dimension is not None]
    return None


def _dimension(topology: Topology, links: NDArray[np.bool_], step: NDArray[np.int64], size: int) -> Dimension | None:
    """A ring or a fully connected graph, if the links along a dimension make one everywhere."""
    rates, latency_s = topology.bandwidth_bytes_per_s[links], topology.latency_s[links]
    if not len(rates) or rates.max() > rates.min() * (1 + ALIKE):
        return None
    facts = size, float(rates.mean()), float(latency_s.mean())
    if len(step) == 2 * topology.num_ranks and np.isin(step, (1, size - 1)).all():
        return "Ring", *facts
    return ("FullyConnected", *facts) if len(step) == topology.num_ranks * (size - 1) else None


def _products(number: int, stride: int, neighbours: set[int]) -> list[tuple[int, ...]]:
    """Sizes that make a number of ranks; along each, rank 0 has a neighbour at the product of those before it."""
    if stride not in neighbours:
        return []
    found: list[tuple[int, ...]] = [(number,)]
    for first in range(2, number // 2 + 1):
        if number % first == 0:
            found += [(first, *rest) for rest in _products(number // first, stride * first, neighbours)]
    return found
