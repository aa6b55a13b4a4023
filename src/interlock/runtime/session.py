"""All-to-Alls and collectives over a process group: ranks agree on a call, plan alike, once for what comes again, and
bytes or values move.

Plans come from a function the caller gives, so this module knows no algorithm.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective, CollectiveKind
from interlock.errors import InvalidInput
from interlock.runtime.buffers import combining
from interlock.runtime.pacing import may_pace
from interlock.runtime.placement import GroupPlacement
from interlock.runtime.runner import (
    Corrupted,
    Disagreement,
    LoweredRank,
    Planned,
    Runner,
    digest_of_bytes,
    digest_of_text,
)
from interlock.runtime.slot_exchange import all_to_all_natively, room_for
from interlock.schedule.layout import Layout
from interlock.topology import Cluster
from interlock.traffic import Demand

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

    from interlock.runtime.exchange import Exchange
    from interlock.runtime.slot_exchange import SlotExchange
    from interlock.runtime.staging import Staging

__all__ = [
    "Choose",
    "ChooseCollective",
    "CollectiveSession",
    "PlanOrNative",
    "Prepared",
    "PreparedCollective",
    "Session",
]

MAX_PLANS = 64  # kept for demands that come again
MAX_COLLECTIVES = 256  # likewise of collectives
_FINE, _BAD_ARGUMENTS = 0, 1
_UNSAID = -1  # in place of the bytes a rank expects, where it only asks


@dataclass(frozen=True, slots=True)
class PlanOrNative:
    """What to run for a demand: a plan, or None for the backend's own call; `reason` says why."""

    plan: Planned | None
    reason: str
    is_sure: bool = False  # whether every rank comes to the same choice whatever its arithmetic rounds to


Choose = Callable[[Cluster, Demand], PlanOrNative]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A demand that every rank agreed on, planned and lowered for this rank."""

    choice: PlanOrNative
    matrix: NDArray[np.int64]  # by rank of the group
    demand_bytes: NDArray[np.int64]  # the same by rank of the cluster
    sends: list[int]  # bytes for each rank of the group
    receives: list[int]  # bytes from each
    lowered: LoweredRank | None  # None: the backend's own call
    prepare_s: float  # until this rank can run: planning, comparing plans, its program
    program_s: float = 0.0  # of that, making the program


Chooser = TypeVar("Chooser")
Kept = TypeVar("Kept")


class _PlannedGroup(Generic[Chooser, Kept]):
    """One process group on a cluster, and what was prepared for calls that come again.

    Parameters
    ----------
    choose
        Gives the plan for a call on a cluster; must give the same one on every rank.
    settings
        Words that must be equal on every rank: whatever `choose` depends on.
    """

    MOST_KEPT: ClassVar[int]

    def __init__(
        self,
        group: dist.ProcessGroup,
        cluster: Cluster,
        placement: GroupPlacement,
        choose: Chooser,
        settings: str,
        timeout_s: float | None = None,
    ) -> None:
        placement.check_cluster(cluster)
        self.cluster, self.placement = cluster, placement
        leaders = _leaders_of(cluster, placement)
        self.runner = Runner(
            group, timeout_s, peers=placement.group_rank, server_of=placement.server_of, leaders=leaders
        )
        self.rank, self.num_ranks = self.runner.rank, self.runner.num_ranks
        self._choose, self._given_settings = choose, settings
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()

    @property
    def _settings(self) -> str:
        """Words that must be equal on every rank."""
        return f"{self._given_settings} {self.cluster!r} {self.cluster.faults}"

    def _once(self, key: Hashable, prepare: Callable[[], Kept]) -> Kept:
        """What was prepared under a key, or is now."""
        if key not in self._kept:
            self._kept[key] = prepare()
            if len(self._kept) > self.MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _open_connections(self) -> None:
        """Connections that keep to rates, where that is worth it."""
        if may_pace(self.cluster):
            self.runner.open_connections()

    def close(self) -> None:
        """Stop threads and heartbeat; the group stays the caller's."""
        self.runner.close()


class Session(_PlannedGroup[Choose, Prepared]):
    """One process group and what is kept for it between calls of All-to-Alls."""

    MOST_KEPT = MAX_PLANS

    def __init__(
        self,
        group: dist.ProcessGroup,
        cluster: Cluster,
        placement: GroupPlacement,
        choose: Choose,
        settings: str,
        timeout_s: float | None = None,
    ) -> None:
        super().__init__(group, cluster, placement, choose, settings, timeout_s)
        self._settings_digest = digest_of_text(self._settings)
        self._demands = self.runner.exchange(2 * self.num_ranks + 2)
        self._digests: Exchange | None = None
        self._slots = self.runner.slot_exchange(2 * self.num_ranks + 2)
        self._is_native = False  # whether the last demand took the backend's own call; equal on all ranks
        self._room_bytes = 0  # of a slot, where the next demand may travel with its bytes; equal on all ranks
        self._last_small: tuple[NDArray[np.int64], Prepared] | None = None  # what ranks said, and what came of it

    def share(
        self, input_bytes: Sequence[int], output_bytes: Sequence[int] | None, wrong: str = ""
    ) -> NDArray[np.int64]:
        """The bytes every rank sends to every rank, ``[num_ranks, num_ranks]``, checked by all against all.

        `output_bytes` are what this rank expects; None where it only asks. `wrong` says what is the matter with this
        rank's own arguments, so that every rank hears that something is.
        """
        row = self._row(input_bytes, output_bytes, wrong)
        rows = self.runner.guard(lambda: self._share(row), "sharing the demand")
        if wrong:
            raise InvalidInput(wrong)
        return self._check(rows)

    def _share(self, row: Sequence[int]) -> NDArray[np.int64]:
        """Rows of all ranks: by one call of the backend where that is less than three hops through leaders."""
        if self._slots is None or not (self._is_native and _is_one_hop_faster(self.cluster)):
            return self._demands.share(row, self.runner.timeout_s)
        return self._slots.share(row, (), None, 0).copy()

    def agree(
        self, input_bytes: Sequence[int], output_bytes: Sequence[int], wrong: str, source: torch.Tensor
    ) -> tuple[Prepared, bool]:
        """Share a demand and prepare it; also whether its bytes came along, to be had from `hand_out`.

        They do where the demand before was small and not worth a plan, which all ranks know. `source` is flat uint8.
        """
        if self._slots is None or self._room_bytes == 0:
            prepared, has_come = self.prepare(self.share(input_bytes, output_bytes, wrong)), False
        else:
            prepared, has_come = self._agree_in_slots(self._slots, input_bytes, output_bytes, wrong, source)
        if not has_come:
            self._last_small = None
            self._room_bytes = 0 if prepared.lowered is not None else room_for(int(prepared.matrix.max()))
        return prepared, has_come

    def _agree_in_slots(
        self,
        slots: SlotExchange,
        input_bytes: Sequence[int],
        output_bytes: Sequence[int],
        wrong: str,
        source: torch.Tensor,
    ) -> tuple[Prepared, bool]:
        row, sizes = self._row(input_bytes, output_bytes, wrong), () if wrong else input_bytes
        room_bytes = self._room_bytes
        rows = self.runner.guard(lambda: slots.share(row, sizes, source, room_bytes), "moving bytes")
        if wrong:
            raise InvalidInput(wrong)
        if self._last_small is not None and np.array_equal(rows, self._last_small[0]):
            return self._last_small[1], True
        matrix = self._check(rows)
        if matrix.max() > room_bytes:
            return self.prepare(matrix), False
        choice = PlanOrNative(None, f"no part is above {room_bytes} bytes: sent along with the demand")
        sends, receives = matrix[self.rank].tolist(), matrix[:, self.rank].tolist()
        prepared = Prepared(choice, matrix, self.placement.to_cluster_order(matrix), sends, receives, None, 0.0)
        self._last_small = rows.copy(), prepared
        return prepared, True

    def hand_out(self, prepared: Prepared, target: torch.Tensor) -> None:
        """Give out bytes that came along with their demand; `target` is flat uint8, on any device."""
        assert self._slots is not None
        self._slots.hand_out(prepared.receives, target)

    def _row(self, input_bytes: Sequence[int], output_bytes: Sequence[int] | None, wrong: str) -> list[int]:
        """What this rank tells the others about a call."""
        if wrong:
            return [self._settings_digest, _BAD_ARGUMENTS] + [0] * (2 * self.num_ranks)
        expected = [_UNSAID] * self.num_ranks if output_bytes is None else output_bytes
        return [self._settings_digest, _FINE, *input_bytes, *expected]

    def _check(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        bad = np.flatnonzero(rows[:, 1] != _FINE)
        if len(bad):
            raise Disagreement(f"rank {bad[0]} was called with bad arguments; nothing was moved")
        odd = np.flatnonzero(rows[:, 0] != rows[0, 0])
        if len(odd):
            raise Disagreement(f"rank {odd[0]} plans with another cluster, algorithm or version than rank 0")
        sends, expects = rows[:, 2 : 2 + self.num_ranks], rows[:, 2 + self.num_ranks :].T
        wrong = np.argwhere((sends != expects) & (expects != _UNSAID))
        if len(wrong):
            src, dst = wrong[0].tolist()
            raise Disagreement(
                f"rank {src} sends {sends[src, dst]} bytes to rank {dst}, which expects {expects[src, dst]}; "
                "output splits must be the transpose of input splits"
            )
        return np.ascontiguousarray(sends)

    def prepare(self, matrix: NDArray[np.int64]) -> Prepared:
        """Plan and lower a shared demand; equal demands are planned once. Ranks compare what they planned."""
        prepared = self._once(matrix.tobytes(), lambda: self._prepare(matrix))
        self._is_native = prepared.lowered is None
        return prepared

    def _prepare(self, matrix: NDArray[np.int64]) -> Prepared:
        start_s = time.perf_counter()
        demand_bytes = self.placement.to_cluster_order(matrix)
        choice = self._choose(self.cluster, Demand(demand_bytes, "shared"))
        if not choice.is_sure:
            self.runner.compare(choice.plan)
        lowered, program_s = None, 0.0
        if choice.plan is not None:
            self._open_connections()
            planned_s = time.perf_counter()
            layout = Layout.all_to_all(matrix, self.rank, self.placement.rank_of, self.placement.num_places)
            lowered = self.runner.lower(choice.plan, layout.rank, layout)
            program_s = time.perf_counter() - planned_s
        sends, receives = matrix[self.rank].tolist(), matrix[:, self.rank].tolist()
        took_s = time.perf_counter() - start_s
        return Prepared(choice, matrix, demand_bytes, sends, receives, lowered, took_s, program_s)

    def move(
        self,
        prepared: Prepared,
        source: torch.Tensor,
        target: torch.Tensor,
        staging: Staging | None = None,
        await_own: Callable[[], object] | None = None,
    ) -> None:
        """Move the bytes of `source` (flat uint8, on the runner's device) to the others, and theirs into `target`.

        `await_own` waits for bytes that stay, where somebody else copies them.
        """
        if prepared.lowered is not None:
            self.runner.run(prepared.lowered, source, target, staging=staging, await_own=await_own)
            return
        if await_own is not None:
            await_own()
        group, splits = self.runner.collectives, (prepared.receives, prepared.sends)
        if staging is not None:
            staging.ready(0, source.numel())
        self.runner.guard(lambda: all_to_all_natively(group, target, source, *splits), "moving bytes")
        if staging is not None:
            staging.landed(0, target.numel())

    def verify(self, prepared: Prepared, source: torch.Tensor, target: torch.Tensor) -> None:
        """Raise on every rank unless what arrived is what was sent; every rank must call it after a move.

        Each rank tells the others a digest of each part it sent (flat uint8, on any device).
        """
        if self._digests is None:
            self._digests = self.runner.exchange(self.num_ranks)
        share, timeout_s = self._digests.share, self.runner.timeout_s
        self.runner.settle()  # digests are taken in host memory
        own = _digests(source, prepared.sends)
        sent = self.runner.guard(lambda: share(own, timeout_s), "comparing digests")[:, self.rank]
        wrong = (sent != _digests(target, prepared.receives)).astype(int).tolist()
        found = np.argwhere(self.runner.guard(lambda: share(wrong, timeout_s), "comparing digests"))
        if len(found):
            pairs = [(src, dst) for dst, src in found.tolist()]
            named = ", ".join(f"rank {dst} from rank {src}" for src, dst in pairs[:4])
            raise Corrupted(f"bytes changed on the way: {named}{', ...' if len(pairs) > 4 else ''}", pairs)

    def stand_apart(self) -> None:
        """Let calls run while the program uses the group itself; every rank must call it."""
        # Without a NIC not every pair of ranks can connect, and the backend's own call is never taken.
        if (self.cluster.nic_bandwidth_bytes_per_s[self.cluster.present] > 0).all():
            self.runner.stand_apart()
            if self._slots is not None:
                self._slots.use(self.runner.collectives)

    def replan(self, cluster: Cluster) -> None:
        """Use another description of the same machines from now on: a NIC has become slow, or well again."""
        self.placement.check_cluster(cluster)
        self.cluster = cluster
        self._settings_digest = digest_of_text(self._settings)
        self._kept.clear()
        self._is_native, self._room_bytes, self._last_small = False, 0, None


ChooseCollective = Callable[[Cluster, Collective, int], Planned]  # the last is the size of an element in bytes


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCollective:
    """A collective that every rank agreed on, planned and lowered for this rank."""

    plan: Planned
    lowered: LoweredRank
    prepare_s: float


class CollectiveSession(_PlannedGroup[ChooseCollective, PreparedCollective]):
    """One process group and the plans that are kept for its collectives."""

    MOST_KEPT = MAX_COLLECTIVES

    @cached_property
    def _calls(self) -> Exchange:
        """First asked for at the first call, in the same order with others on every rank."""
        return self.runner.exchange(1)

    def prepare(
        self, kind: CollectiveKind, size_bytes: int, element_bytes: int = 1, root: int = 0
    ) -> PreparedCollective:
        """Plan and lower a collective, once. Every rank must ask for the same ones in the same order.

        `size_bytes` is counted as `interlock.collectives` counts it; `root` is a rank of the group.
        """
        key = kind, size_bytes, element_bytes, root
        return self._once(key, lambda: self._prepare(*key))

    def _prepare(self, kind: CollectiveKind, size_bytes: int, element_bytes: int, root: int) -> PreparedCollective:
        start_s = time.perf_counter()
        self._agree(f"{(kind, size_bytes, element_bytes, root)} {self._settings}")
        members = self.placement.rank_of
        group = None if members == tuple(range(self.placement.num_places)) else members
        plan = self._choose(self.cluster, Collective(kind, size_bytes, group, members[root]), element_bytes)
        self.runner.compare(plan)
        self._open_connections()
        lowered = self.runner.lower(plan, members[self.rank])
        return PreparedCollective(plan, lowered, time.perf_counter() - start_s)

    def move(
        self,
        prepared: PreparedCollective,
        source: torch.Tensor,
        target: torch.Tensor,
        element: torch.dtype | None = None,
        operation: str = "sum",
    ) -> None:
        """Bring what `source` holds (flat uint8, on the runner's device) where it must be, and the result to `target`.

        `element` and `operation` ("sum", "max", "min") say how values join where they do.
        """
        combine = None if element is None else combining(element, operation)
        self.runner.run(prepared.lowered, source, target, combine)

    def _agree(self, call: str) -> None:
        mine = digest_of_text(call)
        told = self.runner.guard(lambda: self._calls.share([mine], self.runner.timeout_s), "comparing calls")[:, 0]
        if (told != told[0]).any():
            other = int(np.argmax(told != told[0]))
            raise Disagreement(
                f"rank {other} calls another collective, size, element size or root than rank 0, or plans with another "
                "cluster or algorithm; nothing was moved"
            )


def _is_one_hop_faster(cluster: Cluster) -> bool:
    """Whether a message to every rank takes less than `Exchange`, whose leaders also wait twice for the others."""
    servers, width = cluster.servers, cluster.gpus_per_server
    more = (cluster.num_ranks - 1) - (2 * (width - 1) + servers - 1)
    return more * cluster.message_overhead_s <= 2 * cluster.stage_overhead_s


def _digests(values: torch.Tensor, sizes: Sequence[int]) -> list[int]:
    """A digest of each part of a flat tensor of bytes."""
    parts = np.split(values.cpu().numpy(), np.cumsum(sizes)[:-1])
    return [digest_of_bytes(part) for part in parts]


def _leaders_of(cluster: Cluster, placement: GroupPlacement) -> list[int]:
    """The first rank of each server that has a NIC, or else the first."""
    alive = cluster.nic_bandwidth_bytes_per_s > 0
    leaders = []
    for server in range(max(placement.server_of) + 1):
        members = [member for member, home in enumerate(placement.server_of) if home == server]
        leaders.append(next((m for m in members if alive[placement.rank_of[m]]), members[0]))
    return leaders
