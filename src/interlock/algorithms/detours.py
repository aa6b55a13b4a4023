"""Ways around dead NICs, as libraries take them: through a neighbour in the same server that has a NIC.

Baselines assign traffic to NICs without looking whether they work. Where one is dead, its bytes hop over scale-up to
the next GPU of the server whose NIC is alive, and at the other end land on the next one in the same way. On a rail-only
fabric both ends must take the same rail, so the next rail is one that is alive at both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.registry import Algorithm, DemandPlanner
from interlock.algorithms.two_tier import dependencies
from interlock.problem import Problem
from interlock.schedule import Batch, CompactSchedule, Phase, Pieces, Schedule, assemble
from interlock.topology import Cluster

Ranks = NDArray[np.int32]

__all__ = [
    "baseline",
    "has_dead_nics",
    "pairs_with_detours",
    "refuses_apart",
    "refuses_detours",
    "through_live_nics",
]


def has_dead_nics(cluster: Cluster) -> bool:
    """Whether traffic between servers may meet a NIC that carries nothing."""
    return cluster.servers > 1 and bool((cluster.nic_bandwidth_bytes_per_s <= 0).any())


def refuses_detours(cluster: Cluster) -> str | None:
    """A reason where some servers cannot reach others through any neighbour."""
    alive = _alive(cluster)
    if not alive.any(axis=1).all():
        return f"server {int(np.argmin(alive.any(axis=1)))} has no NIC that is alive"
    if cluster.scale_out == "rail":
        apart = np.argwhere(~(alive.astype(np.int64) @ alive.T.astype(np.int64) > 0))
        if len(apart):
            return f"servers {apart[0][0]} and {apart[0][1]} have no rail in common whose NICs are alive"
    return None


def baseline(
    name: str,
    summary: str,
    build: Callable[..., CompactSchedule],
    prepare: Callable[[Cluster], DemandPlanner] | None = None,
    *,
    uses_rails_only: bool = True,
) -> Algorithm:
    """An algorithm for All-to-Allv on clusters that assigns NICs and is led around dead ones; it refuses where there is
    no way around, and across rails where there is none."""

    def refuses(problem: Problem) -> str | None:
        cluster = problem.cluster
        assert cluster is not None
        if not uses_rails_only and cluster.scale_out == "rail":
            return "it sends across rails, which a rail-only fabric cannot carry"
        return refuses_detours(cluster) if has_dead_nics(cluster) else None

    return Algorithm(name, summary, refuses, build, prepare, plans_demands=True, detours=True)


def refuses_apart(problem: Problem) -> str | None:
    """A reason where two servers must talk and no GPU index has a NIC that works at both."""
    assert problem.cluster is not None and problem.demand is not None
    cluster, servers = problem.cluster, problem.cluster.servers
    alive = _alive(cluster)
    if alive.all() or servers == 1:
        return None
    tiles = problem.demand.bytes_matrix.reshape(servers, -1, servers, alive.shape[1]).sum(axis=(1, 3))
    np.fill_diagonal(tiles, 0)
    apart = np.argwhere((tiles > 0) & ~(alive[:, None] & alive[None, :]).any(axis=2))
    if not len(apart):
        return None
    return f"servers {apart[0, 0]} and {apart[0, 1]} must talk but no GPU index has a working NIC at both"


def through_live_nics(cluster: Cluster, carrier: Ranks, landing: Ranks) -> tuple[Ranks, Ranks]:
    """The ranks that send and receive instead of those chosen, where the NICs of these are dead."""
    if not has_dead_nics(cluster):
        return carrier, landing
    width = cluster.gpus_per_server
    alive = _alive(cluster)
    turn = (np.arange(width)[:, None] + np.arange(width)) % width  # [index, neighbours in order]
    if cluster.scale_out == "rail":
        pairs, pair = np.unique(np.stack([carrier // width, landing // width]), axis=1, return_inverse=True)
        is_usable = alive[pairs[0]] & alive[pairs[1]]
        index = _first(is_usable, turn)[pair.reshape(-1), carrier % width]
        return _ranks(carrier, index, width), _ranks(landing, index, width)
    nearest = _first(alive, turn)
    first, last = (_ranks(rank, nearest[rank // width, rank % width], width) for rank in (carrier, landing))
    return first, last


def pairs_with_detours(
    problem: Problem,
    src: Ranks,
    dst: Ranks,
    pieces: Pieces,
    stage: NDArray[np.int32],
    size_bytes: NDArray[np.int64],
    barriers: list[int],
    follows: tuple[NDArray[np.integer], NDArray[np.integer]] | None = None,
) -> Schedule:
    """Messages straight from rank to rank, at most one piece each, led around dead NICs hop by hop.

    Row ``follows[0][i]`` waits for row ``follows[1][i]``.
    """
    cluster = problem.cluster
    assert cluster is not None
    inside = cluster.server_of(src) == cluster.server_of(dst)
    carrier, landing = through_live_nics(cluster, src, dst)
    carrier, landing = np.where(inside, src, carrier), np.where(inside, dst, landing)
    hops, lands = np.flatnonzero(carrier != src), np.flatnonzero(landing != dst)
    phase = np.where(inside, Phase.LOCAL, Phase.SCALE_OUT).astype(np.uint8)

    def batch(rows: NDArray[np.intp], a: Ranks, b: Ranks, phases: NDArray[np.uint8] | Phase) -> Batch:
        return Batch(a[rows], b[rows], pieces.take(rows), phases, stage[rows], size_bytes=size_bytes[rows])

    all_rows = np.arange(len(src))
    first, wire = batch(hops, src, carrier, Phase.BALANCE), batch(all_rows, carrier, landing, phase)
    last = batch(lands, landing, dst, Phase.REDISTRIBUTE)
    of, on = (hops, np.arange(len(hops)))
    if follows is not None:
        of, on = np.concatenate([of, follows[0]]), np.concatenate([on, len(hops) + follows[1]])
    wire_deps = dependencies(of, on, len(src))
    last_deps = dependencies(np.arange(len(lands)), len(hops) + lands, len(lands))
    return assemble([first, replace(wire, deps=wire_deps), replace(last, deps=last_deps)], barriers)


def _alive(cluster: Cluster) -> NDArray[np.bool_]:
    """Whether each GPU's NIC works, ``[servers, gpus_per_server]``."""
    return (cluster.nic_bandwidth_bytes_per_s > 0).reshape(cluster.servers, cluster.gpus_per_server)


def _first(usable: NDArray[np.bool_], turn: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first index in turn that is usable, ``[rows, index]``."""
    found = usable[:, turn].argmax(axis=2)
    return np.take_along_axis(np.broadcast_to(turn, (len(usable), *turn.shape)), found[:, :, None], axis=2)[:, :, 0]


def _ranks(rank: Ranks, index: NDArray[np.int64], width: int) -> Ranks:
    return (rank // width * width + index).astype(np.int32)
