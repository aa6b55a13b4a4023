"""Which of a lane's messages takes which token, so that neither dispatch nor combine waits at either end.

A lane is the wire messages from one GPU to one GPU of another server. The plan says how many tokens each carries; any
of the lane's tokens may be among them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.schedule import Schedule
from interlock.topology import Cluster

__all__ = ["ordered_in_lanes"]

# Both of a lane, fitted at 4x8 and 8x8 with 256 to 4096 tokens per GPU.
LATE_FROM = 0.5  # tokens that another GPU brings to the carrier have this long to arrive
HEAT_SHIFT = 0.7  # how much earlier tokens for a GPU go whose port is as busy as the wire

Ints = NDArray[np.int64]


def ordered_in_lanes(
    wire: Schedule, wire_of_copy: Ints, item: Ints, src: Ints, wanted: NDArray[np.uint64], cluster: Cluster
) -> Ints:
    """Exchange copies between the messages of their lane; returns the message of each copy.

    Copies wanted by the same GPUs go together, so that one multicast or sum serves them. Where a set of GPUs stands in
    a lane is scattered, lane by lane, since all lanes would otherwise press on the same ports at once. Copies that
    nobody but the GPU where they land wants go last: nothing follows them in dispatch and combine, which plays this
    backwards, sends them at once. Before them go those for GPUs whose ports have time.

    Parameters
    ----------
    wire_of_copy
        Row of `wire` that takes each copy in the plan.
    wanted
        GPUs of the server it goes to, as bits.
    """
    carrier, landing = (ends.values[wire_of_copy].astype(np.int64) for ends in (wire.src, wire.dst))
    lane = carrier * cluster.num_ranks + landing
    rest = wanted & ~(np.uint64(1) << (landing % cluster.gpus_per_server).astype(np.uint64))
    place = _scattered(rest, lane) * (1 - HEAT_SHIFT * _heat(rest, landing, cluster))
    place[carrier != src] = LATE_FROM
    place[rest == 0] = 1.0
    seats = np.lexsort((wire_of_copy, wire.slice[wire_of_copy], wire.stage[wire_of_copy], lane))
    made = np.empty_like(wire_of_copy)
    made[np.lexsort((item, rest, place, lane))] = wire_of_copy[seats]
    return made


def _scattered(rest: NDArray[np.uint64], lane: Ints) -> NDArray[np.float64]:
    """A number from 0 to 1 for each set of GPUs and lane, by multiplicative hashing."""
    mixed = (rest + np.uint64(0x1F123BB5) * lane.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(40)).astype(np.float64) / 2**24


def _heat(rest: NDArray[np.uint64], landing: Ints, cluster: Cluster) -> NDArray[np.float64]:
    """How busy the busiest scale-up port of each set of GPUs is, 1 if as busy as the busiest NIC or busier."""
    server = landing // cluster.gpus_per_server
    wants = ((rest[:, None] >> np.arange(cluster.gpus_per_server, dtype=np.uint64)) & np.uint64(1)).astype(np.float64)
    copies = np.zeros((cluster.servers, cluster.gpus_per_server))
    np.add.at(copies, server, wants)
    nic_s = np.bincount(landing, minlength=1).max(initial=1) / cluster.nic_bandwidth_bytes_per_s.max()
    busy = np.minimum(copies / cluster.scale_up_bandwidth_bytes_per_s / nic_s, 1.0)
    return np.asarray((wants * busy[server]).max(axis=1, initial=0.0), np.float64)
