"""Ours, still local: each server spreads what it owes each other server over its rails, knowing only its own traffic.

A server looks at what it owes the others and at the rates of the rails. Every destination server gets a quotient per
rail plus a remainder that starts on another rail for each pair (`cpp/src/rail_shares.cpp`), so it needs at most one
piece per rail. Slices follow each other, bytes that are in place first, so that the hops at both ends hide behind the
wire.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.no_stage import balance
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.relay import relay
from interlock.algorithms.two_tier import Bytes, local_batch, refuses_non_demand
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.topology import Cluster

__all__ = ["ALGORITHM", "rails_split", "server_shares"]

SLICES_IN_ALL = 24  # of one NIC's traffic, over all destination servers
FEWEST_SLICES, MOST_SLICES = 4, 12  # of one rail and destination server
SMALLEST_SLICE_BYTES = 1 << 17  # below, fixed costs outweigh what a slice hides


def rails_split(problem: Problem, *, seed: int = 0, slices: int | None = None) -> Schedule:
    """Split each pair of servers over the rails; `slices` per rail and destination server, None chooses."""
    cluster = problem.cluster
    assert cluster is not None and problem.demand is not None
    if slices is not None and not 1 <= slices <= 1000:
        raise InvalidInput(f"slices={slices} must be between 1 and 1000")
    local, far = local_batch(problem)
    owed = server_bytes(problem.demand.bytes_matrix, cluster)
    shares = np.stack([server_shares(owed[own], cluster, own) for own in range(cluster.servers)])
    far, carrier = balance(far, cluster.gpus_per_server, shares)
    counts = [slices or choose_slices(owed[own], cluster, own) for own in range(cluster.servers)]
    far, carrier, place = cut_slices(far, carrier, cluster, np.array(counts))
    return relay(problem, local, far, carrier, flows=place, window=1)


def choose_slices(owed_bytes: NDArray[np.int64], cluster: Cluster, own: int) -> int:
    """Enough slices to hide the hops at both ends, none of them too small to pay its fixed costs.

    A server chooses for itself: `owed_bytes` is what it owes each server.
    """
    others = max(1, cluster.servers - 1)
    count = min(max(-(-SLICES_IN_ALL // others), FEWEST_SLICES), MOST_SLICES)
    mean_bytes = int(owed_bytes.sum() - owed_bytes[own]) // (cluster.gpus_per_server * others)
    return max(1, min(count, mean_bytes // SMALLEST_SLICE_BYTES))


def server_bytes(demand: NDArray[np.int64], cluster: Cluster) -> NDArray[np.int64]:
    """What each server owes each server, ``[servers, servers]``."""
    width = cluster.gpus_per_server
    owed: NDArray[np.int64] = demand.reshape(cluster.servers, width, cluster.servers, width).sum(axis=(1, 3))
    return owed


def server_shares(owed_bytes: NDArray[np.int64], cluster: Cluster, own: int) -> NDArray[np.int64]:
    """One server's whole plan: bytes on each rail for each server, ``[servers, rails]``."""
    rates = cluster.nic_bandwidth_bytes_per_s.reshape(cluster.servers, cluster.gpus_per_server)
    return _core.rail_shares(np.ascontiguousarray(owed_bytes), rates, own)


def cut_slices(
    far: Bytes, carrier: NDArray[np.int32], cluster: Cluster, counts: NDArray[np.int64]
) -> tuple[Bytes, NDArray[np.int32], NDArray[np.int64]]:
    """Cut what each carrier takes to each server into the slices its server has chosen, ``counts[servers]``.

    Bytes already in place go first. Final GPUs come in rotation from the carrier's own index, so that the slices which
    land together do not all go on to one GPU; those for the GPU where they land, which go nowhere, come last.
    """
    if len(far) == 0 or counts.max() == 1:
        return far, carrier, np.zeros(len(far), np.int64)
    lane = carrier.astype(np.int64) * cluster.servers + far.dst // cluster.gpus_per_server
    turn = (far.dst - carrier - 1) % cluster.gpus_per_server
    order = np.lexsort((far.src, turn, carrier != far.src, lane))
    lane, length = lane[order], far.length[order]
    starts = np.concatenate([[True], lane[1:] != lane[:-1]])
    first = np.flatnonzero(starts)
    number = np.cumsum(starts) - 1
    ends = np.cumsum(length)
    base = (ends - length)[first]
    total = np.add.reduceat(length, first)
    count = counts[lane[first] // (cluster.servers * cluster.gpus_per_server)]
    first_cut = np.cumsum(count) - count
    edges = {int(number): slice_edges(int(number))[1:] for number in np.unique(count)}
    shares = np.concatenate([edges[int(number)] for number in count])
    cuts = np.repeat(base, count) + (np.repeat(total, count) * shares).astype(np.int64)
    merged = np.union1d(ends, cuts)
    begins = np.concatenate([[0], merged[:-1]]).astype(np.int64)
    kept = merged > begins
    merged, begins = merged[kept], begins[kept]
    row = np.searchsorted(ends, begins, side="right")
    place = np.searchsorted(cuts, begins, side="right") - first_cut[number[row]]
    source = order[row]
    offset = far.offset[source] + begins - (ends - length)[row]
    cut = Bytes(far.item[source], offset, merged - begins, far.src[source], far.dst[source])
    return cut, carrier[source], place


def slice_edges(count: int) -> NDArray[np.float64]:
    """Where slices begin and end, as shares: the first and last few are smaller, since nothing hides behind them."""
    ramp = np.minimum(np.arange(1, count + 1), 3)
    weights = np.minimum(ramp, ramp[::-1]).astype(np.float64)
    edges = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    edges[-1] = 1.0
    return edges


def supports(problem: Problem) -> str | None:
    """Wherever every two servers that talk have a rail in common."""
    reason = refuses_non_demand(problem)
    if reason is not None:
        return reason
    assert problem.cluster is not None and problem.demand is not None
    owed = server_bytes(problem.demand.bytes_matrix, problem.cluster)
    for own in range(problem.cluster.servers):
        try:
            server_shares(owed[own], problem.cluster, own)
        except InvalidInput:
            return f"server {own} has no working rail in common with a server it owes bytes"
    return None


ALGORITHM = Algorithm(
    "rails-split", "each server alone, every pair over all rails by their rates (ours)", supports, rails_split
)
