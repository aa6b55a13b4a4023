"""Our All-to-Allv: balance over the NICs of each server, then burst or one-to-one stages, whichever is faster here.

Three ways, chosen by predicted time:

* direct: every pair on its own, all at once; nothing beats it on balanced or very small traffic;
* burst: each server's bytes spread over its NICs, all at once, in slices that hide balance and redistribution;
* staged: the same bytes, every NIC with one partner at a time, for fabrics that suffer under fan-in.

What goes where is decided natively (`cpp/src/two_tier_plan.cpp`); messages and pieces are written out when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.two_tier import refuses_non_demand
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Message, Phase, Pieces, RankProgram, Schedule
from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["ALGORITHM", "Pace", "TwoTierPlan", "Way", "adaptive"]


class Way(IntEnum):
    """How the bytes between servers travel."""

    DIRECT = 0
    BURST = 1
    STAGED = 2


class Pace(IntEnum):
    """How the wire is shared between the partners of a NIC."""

    BURST = 0  # all at once
    EXCLUSIVE = 1  # one at a time; links keep the order
    WINDOW = 2  # a few at a time, by waiting for an earlier one at either end


_WAYS = {"direct": Way.DIRECT, "burst": Way.BURST, "staged": Way.STAGED}


@dataclass(frozen=True, eq=False)
class TwoTierPlan:
    """A decided plan; its rows are written out when they are read."""

    demand: Demand
    servers: int
    way: Way
    num_stages: int
    predicted_s: NDArray[np.float64]  # [ways], infinite where a way is impossible or was not considered
    segments: NDArray[np.int64]  # [n, 5] src_server, dst_server, stage, first_byte, bytes; empty: all tiles at once
    nic_targets: NDArray[np.int64]  # [2, ranks] bytes out and in, or empty: equal shares
    is_hot: NDArray[np.uint8]  # [ranks] receivers whose lanes carry their own bytes
    slice_bytes: NDArray[np.int64]  # [servers]
    pace: Pace
    window: int  # partners that a NIC serves at a time, with Pace.WINDOW

    @property
    def reason(self) -> str:
        """Why this way, in words."""
        times = ", ".join(
            f"{way.name.lower()} {seconds * 1e6:.0f} us"
            for way, seconds in zip(Way, self.predicted_s.tolist(), strict=True)
            if np.isfinite(seconds)
        )
        return f"{self.way.name.lower()}: predicted {times}"

    @cached_property
    def schedule(self) -> Schedule:
        """All rows."""
        if self.way is Way.DIRECT:
            return _expand_direct(self.demand, self.servers)
        src, dst, phase, stage, slice_, size_bytes, order, dep_offsets, deps, piece_offsets, item, offset, length = (
            _core.expand_two_tier(
                self.demand.bytes_matrix,
                self.servers,
                self.segments,
                self.nic_targets,
                self.is_hot,
                self.slice_bytes,
                int(self.pace),
                self.window,
            )
        )
        return Schedule(
            src=Ragged.single(src),
            dst=Ragged.single(dst),
            kind=np.zeros(len(src), np.uint8),
            phase=phase,
            stage=stage,
            slice=slice_,
            size_bytes=size_bytes,
            path=Ragged.empty(len(src)),
            exclusive=(phase == Phase.SCALE_OUT) & (self.pace is Pace.EXCLUSIVE),
            order=order,
            deps=Ragged(dep_offsets, deps),
            pieces=Pieces(piece_offsets, item, offset, length),
        )

    @property
    def num_messages(self) -> int:
        """Rows of the message table."""
        return self.schedule.num_messages

    @property
    def num_pieces(self) -> int:
        """Rows of the piece table."""
        return self.schedule.num_pieces

    def expand(self) -> Schedule:
        """All rows, written out once."""
        return self.schedule

    def iter_messages(self) -> Iterator[Message]:
        """Row after row."""
        return self.schedule.iter_messages()

    def for_rank(self, rank: int) -> RankProgram:
        """What one rank sends and receives."""
        return self.schedule.for_rank(rank)


def supports(problem: Problem) -> str | None:
    """Wherever each two servers that talk are joined by a rail, or every rank that talks has a NIC of its own."""
    reason = refuses_non_demand(problem)
    if reason is not None:
        return reason
    assert problem.cluster is not None and problem.demand is not None
    cluster, servers = problem.cluster, problem.cluster.servers
    alive = cluster.nic_bandwidth_bytes_per_s.reshape(servers, -1) > 0
    if alive.all() or servers == 1:
        return None
    tiles = problem.demand.bytes_matrix.reshape(servers, -1, servers, alive.shape[1]).sum(axis=(1, 3))
    np.fill_diagonal(tiles, 0)
    apart = np.argwhere((tiles > 0) & ~(alive[:, None] & alive[None, :]).any(axis=2))
    if not len(apart):
        return None
    return f"servers {apart[0, 0]} and {apart[0, 1]} must talk but no GPU index has a working NIC at both"


def adaptive(problem: Problem, *, seed: int = 0, way: str | None = None, slices: int = 0) -> TwoTierPlan:
    """Plan an All-to-Allv.

    Parameters
    ----------
    way
        "direct", "burst" or "staged"; None takes the fastest by prediction.
    slices
        Slices per lane of average size; 0 chooses.
    """
    assert problem.cluster is not None and problem.demand is not None
    if way is not None and way not in _WAYS:
        raise InvalidInput(f"way={way!r} is not one of {', '.join(_WAYS)}")
    return prepare(problem.cluster, way=way, slices=slices)(problem.demand)


def prepare(cluster: Cluster, *, way: str | None = None, slices: int = 0) -> Callable[[Demand], TwoTierPlan]:
    """A planner for one cluster; what depends only on the cluster is done here."""
    fabric = cluster.fabric
    joins_all = cluster.scale_out == "flat" or (cluster.scale_out == "rail-spine" and cluster.oversubscription <= 1.0)
    costs = np.array(
        [
            cluster.scale_up_latency_s,
            cluster.scale_out_latency_s,
            cluster.message_overhead_s,
            cluster.stage_overhead_s,
            fabric.fan_in or 0,
            fabric.loss_per_sender,
            joins_all,
            _uplink_bytes_per_s(cluster),
            cluster.scale_up_bandwidth_bytes_per_s,
        ],
        np.float64,
    )
    nic = np.ascontiguousarray(cluster.nic_bandwidth_bytes_per_s, np.float64)
    servers = cluster.servers
    only = -1 if way is None else int(_WAYS[way])
    window = fabric.fan_in or 1
    # Where the NICs of a server share a link, no message may claim that link for itself.
    staged_pace = Pace.EXCLUSIVE if window == 1 and not _uplink_bytes_per_s(cluster) else Pace.WINDOW

    def plan(demand: Demand) -> TwoTierPlan:
        chosen, stages, predicted_s, segments, targets, is_hot, slice_bytes = _core.plan_two_tier(
            demand.bytes_matrix, servers, nic, costs, only, slices
        )
        pace = staged_pace if chosen == Way.STAGED else Pace.BURST
        decided = (segments, targets, is_hot, slice_bytes)
        return TwoTierPlan(demand, servers, Way(chosen), stages, predicted_s, *decided, pace, window)

    return plan


def _uplink_bytes_per_s(cluster: Cluster) -> float:
    """What the NICs of a server share on their way to other servers; 0 where they share nothing."""
    if cluster.scale_out != "flat" or cluster.oversubscription <= 1.0:
        return 0.0
    nominal = cluster.scale_out_bandwidth_bytes_per_s * cluster.nics_per_gpu
    return cluster.gpus_per_server * nominal / cluster.oversubscription


def _expand_direct(demand: Demand, servers: int) -> Schedule:
    """One message per pair of ranks."""
    matrix = demand.bytes_matrix
    width = len(matrix) // servers
    src, dst = np.nonzero(matrix * ~np.eye(len(matrix), dtype=np.bool_))
    count = len(src)
    size_bytes = matrix[src, dst]
    zeros = np.zeros(count, np.int32)
    return Schedule(
        src=Ragged.single(src.astype(np.int32)),
        dst=Ragged.single(dst.astype(np.int32)),
        kind=zeros.astype(np.uint8),
        phase=np.where(src // width == dst // width, Phase.LOCAL, Phase.SCALE_OUT).astype(np.uint8),
        stage=zeros,
        slice=zeros,
        size_bytes=size_bytes,
        path=Ragged.empty(count),
        exclusive=np.zeros(count, np.bool_),
        order=zeros.astype(np.int64),
        deps=Ragged.empty(count),
        pieces=Pieces(
            np.arange(count + 1, dtype=np.int64),
            np.arange(count, dtype=np.int32),
            np.zeros(count, np.int64),
            size_bytes,
        ),
    )


ALGORITHM = Algorithm(
    "adaptive",
    "balance over NICs, then burst or one-to-one stages as the fabric asks (ours)",
    supports,
    adaptive,
    prepare,
)
