"""The compact form of a two-tier All-to-Allv: what was decided, and the rows written out when they are read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.errors import InterlockError
from interlock.ragged import Ragged
from interlock.schedule import (
    CompactSchedule,
    PairStarts,
    Phase,
    Pieces,
    PortLoads,
    Program,
    Schedule,
    align_rows,
    check_rows,
    from_native,
)
from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["Basis", "Pace", "TwoTierPlan", "Way", "check_ends", "check_fit", "check_straight"]


class Way(IntEnum):
    """How the bytes between servers travel."""

    DIRECT = 0
    BURST = 1
    STAGED = 2
    DETOUR = 3


class Pace(IntEnum):
    """How the wire is shared between the partners of a NIC."""

    BURST = 0  # all at once
    EXCLUSIVE = 1  # one at a time; links keep the order
    WINDOW = 2  # a few at a time, by waiting for an earlier one at either end


class Basis(IntEnum):
    """Where a price comes from."""

    SUMMED = 0  # seconds that ports are busy
    RUN = 1  # the messages themselves, in the simulator
    IN_TURNS = 2  # the same in a timetable, which is exact


def check_ends(
    cluster: Cluster,
    out_target: NDArray[np.int64],
    in_target: NDArray[np.int64],
    out_bytes: NDArray[np.int64],
    in_bytes: NDArray[np.int64],
    far: NDArray[np.int64],
    near: NDArray[np.int64],
) -> None:
    """Refuse a decision that takes a GPU that is not there or a NIC that carries nothing; rows follow from it."""
    width, is_wired = cluster.gpus_per_server, cluster.nic_bandwidth_bytes_per_s > 0
    for target in (out_target, in_target):
        check_fit(np.flatnonzero(target), is_wired, "a NIC that is dead")
    for routes in (far, near):
        if len(routes):
            check_fit(routes[:, [0, 1, 4]], cluster.present, "a GPU that is missing")
            check_fit(routes[:, 2:4], is_wired, "a NIC that is dead")
    for shares in (out_bytes, in_bytes):
        if shares.size:
            by_nic = shares.reshape(cluster.servers, width, width).sum(axis=1).reshape(-1)
            check_fit(np.flatnonzero(by_nic), is_wired, "a NIC that is dead")


def check_straight(cluster: Cluster, demand: Demand) -> None:
    """Refuse to send between servers straight to or from a NIC that carries nothing, or between rails."""
    src, dst = np.nonzero(demand.bytes_matrix)
    leaves = src // cluster.gpus_per_server != dst // cluster.gpus_per_server
    for ends in (src[leaves], dst[leaves]):
        check_fit(ends, cluster.nic_bandwidth_bytes_per_s > 0, "a NIC that is dead")
    if cluster.scale_out == "rail":
        crosses = leaves & ((src - dst) % cluster.gpus_per_server != 0)
        check_fit(src[crosses], np.zeros(cluster.num_ranks, np.bool_), "a way between rails")


@dataclass(frozen=True, eq=False)
class TwoTierPlan(CompactSchedule):
    """A decided plan."""

    cluster: Cluster
    demand: Demand
    decision: _core.TwoTierDecision
    align: int = 1  # bytes on whose multiples pairs are cut

    def __post_init__(self) -> None:
        if self.cluster.faults and self.way is Way.DIRECT:
            check_straight(self.cluster, self.demand)
        elif self.cluster.faults:
            columns = self.decision.columns()
            names = ("out_target", "in_target", "out_bytes", "in_bytes", "far", "near")
            check_ends(self.cluster, **{name: columns[name] for name in names})

    @property
    def servers(self) -> int:
        """Servers of the cluster."""
        return self.cluster.servers

    @property
    def way(self) -> Way:
        """How the bytes between servers travel."""
        return Way(self.decision.way)

    @property
    def num_stages(self) -> int:
        return self.decision.num_stages

    @property
    def pace(self) -> Pace:
        """How the wire is shared."""
        return Pace(self.decision.pace)

    @property
    def is_timed(self) -> bool:
        """Whether every message holds its ports alone, in turn, which no rank can tell from its own part."""
        return self.decision.is_timed

    @property
    def num_rounds(self) -> int:
        """Parts of the traffic between which scratch is emptied."""
        return self.decision.num_rounds

    @property
    def predicted_s(self) -> float:
        return self.decision.predicted_s[self.way]

    @property
    def reason(self) -> str:
        """Why this way, in words: the last price of each, and where it comes from, and what was not even made."""
        times = ", ".join(
            f"{way.name.lower()} {seconds * 1e6:.0f} us ({Basis(basis).name.lower().replace('_', ' ')})"
            for way, seconds, basis in zip(Way, self.decision.predicted_s, self.decision.basis, strict=True)
            if np.isfinite(seconds)
        )
        turns = " in turns" if self.is_timed else ""
        left_out = "".join(
            f"; no {way.name.lower()}, at least {seconds * 1e6:.0f} us"
            for way, seconds in zip(Way, self.decision.least_s, strict=True)
            if seconds > 0
        )
        return f"{self.way.name.lower()}{turns}: predicted {times}{left_out}"

    @cached_property
    def schedule(self) -> Schedule:
        """All rows."""
        if self.way is Way.DIRECT:
            return _write_direct(self.demand, self.servers)
        columns = self.decision.rows(self.demand.bytes_matrix)
        src, dst, phase = columns[:3]
        rows = from_native(
            columns,
            path=self._paths(src, dst, phase),
            exclusive=((phase == Phase.SCALE_OUT) & (self.pace is Pace.EXCLUSIVE)) | self.is_timed,
            barriers=np.arange(1, self.num_rounds, dtype=np.int32),
        )
        return align_rows(rows, self.align)

    def _paths(self, src: NDArray[np.int32], dst: NDArray[np.int32], phase: NDArray[np.uint8]) -> Ragged:
        """Routed by the topology, but for bytes between neighbours that take the NICs."""
        if not self.decision.may_loop:
            return Ragged.empty(len(src))
        loops = (phase == Phase.SCALE_OUT) & (self.cluster.server_of(src) == self.cluster.server_of(dst))
        ranks, gpus = self.cluster.num_ranks, self.cluster.gpus_per_server
        first_nic = ranks * (gpus - 1 if self.cluster.scale_up == "mesh" else 2)  # after the scale-up links
        links = np.stack([first_nic + src[loops], first_nic + ranks + dst[loops]], axis=1)
        return Ragged.from_counts(2 * loops, links.reshape(-1).astype(np.int32))

    def expand(self) -> Schedule:
        return self.schedule

    def program(self, rank: int, pairs: PairStarts | None = None, own: tuple[int, int, int] = (0, 0, 0)) -> Program:
        """What one rank runs, from the tiles of its server alone; `pairs` and `own` as a `Layout` has them.

        Not for aligned plans, whose cuts move by all there are.
        """
        assert self.align == 1
        matrix = self.demand.bytes_matrix
        if pairs is None:
            return Program.of(rank, self.decision.program(matrix, rank))
        return Program.of(rank, self.decision.program(matrix, rank, pairs.input, pairs.output, *own))

    @cached_property
    def port_loads(self) -> PortLoads:
        """What every NIC sends and receives; without rows, but for aligned plans."""
        if self.align != 1:
            return PortLoads.of(self.schedule, self.cluster)
        return PortLoads(*self.decision.port_loads(self.demand.bytes_matrix))

    def decided(self) -> tuple[NDArray[np.generic], ...]:
        """The demand, and what was decided about it."""
        return (self.demand.bytes_matrix, *self.decision.columns().values(), np.array([self.align]))


def check_fit(ranks: NDArray[np.integer[Any]], is_fit: NDArray[np.bool_], what: str) -> None:
    """Raise at the first rank of a decision that is not fit for it; negative ones are nobody."""
    used = ranks[ranks >= 0]
    unfit = used[~is_fit[used]]
    if len(unfit):
        raise InterlockError(f"the plan takes {what}, of rank {unfit[0]}: refused; please report cluster and demand")


def _write_direct(demand: Demand, servers: int) -> Schedule:
    """One message per pair of ranks, by their distance: not all begin with the same receiver."""
    matrix = demand.bytes_matrix
    ranks, width = len(matrix), len(matrix) // servers
    check_rows(int(np.count_nonzero(matrix)) - int(np.count_nonzero(np.diagonal(matrix))))
    src, dst = np.nonzero(matrix * ~np.eye(ranks, dtype=np.bool_))
    item = np.lexsort((src, (dst - src) % ranks))
    src, dst = src[item], dst[item]
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
            item.astype(np.int32),
            np.zeros(count, np.int64),
            size_bytes,
        ),
    )
