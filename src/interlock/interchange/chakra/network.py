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
    shape = _shape(problem.topology)
    if shape is not None:
        return [shape], None
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


def _shape(topology: Topology) -> Dimension | None:
    """A ring or a fully connected graph of equal links, if it is one."""
    ranks, rates = topology.num_ranks, topology.bandwidth_bytes_per_s
    if topology.num_nodes != ranks or ranks < 2 or rates.max() > rates.min() * (1 + ALIKE):
        return None
    pairs = set(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))
    if len(pairs) != topology.num_links:
        return None
    rate, latency_s = float(rates.mean()), float(topology.latency_s.mean())
    if pairs == {(a, (a + step) % ranks) for a in range(ranks) for step in (1, -1)} and ranks > 2:
        return "Ring", ranks, rate, latency_s
    if pairs == {(a, b) for a in range(ranks) for b in range(ranks) if a != b}:
        return "FullyConnected", ranks, rate, latency_s
    return None
