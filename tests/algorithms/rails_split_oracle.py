"""rails-split written with NumPy, column by column: slow, plain, and apart from the native one that it judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.no_stage import balance
from interlock.algorithms.rails_split import server_bytes, server_shares
from interlock.algorithms.relay import relay
from interlock.algorithms.two_tier import Bytes, dependencies, local_batch
from interlock.problem import Problem
from interlock.schedule import Phase, Schedule
from interlock.topology import Cluster

SLICES_IN_ALL = 24  # of one NIC's traffic, over all destination servers
FEWEST_SLICES, MOST_SLICES = 4, 12  # of one rail and destination server
SMALLEST_SLICE_BYTES = 1 << 17  # below, fixed costs outweigh what a slice hides


def rails_split(problem: Problem, slices: int | None = None) -> Schedule:
    """Split each pair of servers over the rails; `slices` per rail and destination server, None chooses."""
    cluster = problem.cluster
    assert cluster is not None and problem.demand is not None
    local, far = local_batch(problem)
    owed = server_bytes(problem.demand.bytes_matrix, cluster)
    shares = np.stack([server_shares(owed[own], cluster, own) for own in range(cluster.servers)])
    far, carrier = balance(far, cluster.gpus_per_server, shares)
    counts = [slices or choose_slices(owed[own], cluster, own) for own in range(cluster.servers)]
    far, carrier, place = cut_slices(far, carrier, cluster, np.array(counts))
    return one_at_a_time(relay(problem, local, far, carrier, flows=place))


def one_at_a_time(rows: Schedule) -> Schedule:
    """The same rows, of which each hop and each wire waits for the one before it on its connection to arrive."""
    src, dst, phase = rows.src.values, rows.dst.values, rows.phase
    same = (src[1:] == src[:-1]) & (dst[1:] == dst[:-1]) & (phase[1:] == phase[:-1])
    waiting = 1 + np.flatnonzero(same & np.isin(phase[1:], (Phase.BALANCE, Phase.SCALE_OUT)))
    of, on = np.append(rows.deps.row_of_value, waiting), np.append(rows.deps.values, waiting - 1)
    return replace(rows, deps=dependencies(of, on, rows.num_messages))


def choose_slices(owed_bytes: NDArray[np.int64], cluster: Cluster, own: int) -> int:
    """Enough slices to hide the hops at both ends, none of them too small to pay its fixed costs.

    A server chooses for itself: `owed_bytes` is what it owes each server.
    """
    others = max(1, cluster.servers - 1)
    count = min(max(-(-SLICES_IN_ALL // others), FEWEST_SLICES), MOST_SLICES)
    mean_bytes = int(owed_bytes.sum() - owed_bytes[own]) // (cluster.gpus_per_server * others)
    return max(1, min(count, mean_bytes // SMALLEST_SLICE_BYTES))


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
