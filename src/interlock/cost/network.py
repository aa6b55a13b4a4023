"""The graph a bound is proven on: links that can carry something, and nodes that can copy or add.

A rank relays, copies and adds; a switch forwards, and copies or adds only where the topology says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.topology import Topology
from interlock.topology.graph import DEAD_BANDWIDTH
from interlock.topology.lowering import receiving_ports

__all__ = ["Network", "usable_network"]

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Live links in columns; node numbers are the topology's."""

    num_nodes: int
    num_ranks: int
    src: NDArray[np.int32]  # [num_links]
    dst: NDArray[np.int32]
    bandwidth_bytes_per_s: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    message_overhead_s: NDArray[np.float64]
    channel: NDArray[np.int32]  # [num_links], links that share one capacity name the same one
    copies: NDArray[np.bool_]  # [num_nodes]
    adds: NDArray[np.bool_]

    @property
    def num_links(self) -> int:
        """Links that can carry something."""
        return len(self.src)

    @property
    def shares_channels(self) -> bool:
        """Whether any two links share one capacity."""
        return len(np.unique(self.channel)) < self.num_links

    @property
    def has_switch_abilities(self) -> bool:
        """Whether a node that is not a rank copies or adds."""
        return bool(self.copies[self.num_ranks :].any() or self.adds[self.num_ranks :].any())

    def reversed(self) -> Network:
        """Every link turned round; copying and adding change places."""
        return Network(
            self.num_nodes,
            self.num_ranks,
            self.dst,
            self.src,
            self.bandwidth_bytes_per_s,
            self.latency_s,
            self.message_overhead_s,
            self.channel,
            self.adds,
            self.copies,
        )


def usable_network(problem: Problem) -> Network:
    """The problem's graph without dead links, which those of missing GPUs are too."""
    topology = problem.topology
    src, dst = topology.link_src, topology.link_dst
    alive = topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH
    is_rank = np.arange(topology.num_nodes) < topology.num_ranks
    keep = None if alive.all() else np.flatnonzero(alive)
    return Network(
        topology.num_nodes,
        topology.num_ranks,
        _rows(src, keep),
        _rows(dst, keep),
        _rows(_rate(topology), keep),
        _rows(topology.latency_s, keep),
        _rows(topology.message_overhead_s, keep),
        _rows(topology.channel, keep),
        is_rank | topology.multicasts,
        is_rank | topology.reduces,
    )


def _rate(topology: Topology) -> NDArray[np.float64]:
    """What each link carries; a receiving port only as much as its fabric passes."""
    if topology.fabric.efficiency == 1.0:
        return topology.bandwidth_bytes_per_s
    part = np.where(receiving_ports(topology), topology.fabric.efficiency, 1.0)
    return topology.bandwidth_bytes_per_s * part


def _rows(column: NDArray[Scalar], keep: NDArray[np.int64] | None) -> NDArray[Scalar]:
    return column if keep is None else column[keep]
