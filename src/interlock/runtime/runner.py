"""Runs lowered programs on a process group: threads, memory and heartbeat are kept; errors name the rank to blame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.errors import InterlockError
from interlock.problem import Problem
from interlock.runtime.batches import Batches
from interlock.runtime.buffers import Arena, Combine
from interlock.runtime.connections import Connections, connect, open_connections, told_width
from interlock.runtime.exchange import Exchange
from interlock.runtime.flow import Flow
from interlock.runtime.heartbeat import Heartbeat
from interlock.runtime.pacing import may_pace
from interlock.runtime.peers import FIRST_TAG, MoveFailed, poison
from interlock.runtime.posting import Posting
from interlock.runtime.slot_exchange import SlotExchange, fits_slots
from interlock.runtime.watch import Watch, abort
from interlock.schedule import Layout, PortLoads, Program
from interlock.topology import Cluster

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

    from interlock.runtime.staging import Staging

__all__ = [
    "Corrupted",
    "Disagreement",
    "LoweredRank",
    "PeerFailed",
    "Planned",
    "Runner",
    "digest_of_bytes",
    "digest_of_text",
    "timeout_of",
]

T = TypeVar("T")

TAGS_PER_RUNNER = 32  # the last of them is left for `poison`
MAX_RUNNERS = 1 << 20  # over one group, before tags come round again


class PeerFailed(InterlockError):
    """A rank died, stalled or was cut off; `ranks` names it, as far as anyone could tell."""

    def __init__(self, message: str, ranks: Sequence[int]) -> None:
        super().__init__(message)
        self.ranks = tuple(ranks)


class Disagreement(InterlockError):
    """Ranks called with arguments, plans or versions that do not fit together; nothing was moved."""


class Corrupted(InterlockError):
    """Bytes arrived that nobody sent; `pairs` are (sender, receiver)."""

    def __init__(self, message: str, pairs: Sequence[tuple[int, int]]) -> None:
        super().__init__(message)
        self.pairs = tuple(pairs)


class Planned(Protocol):
    """What the runtime needs of a plan."""

    algorithm: str

    @property
    def problem(self) -> Problem:
        """What is moved, and on what."""
        ...

    @property
    def cluster(self) -> Cluster | None:
        """Where it runs; None where that is no cluster."""
        ...

    @property
    def digest(self) -> int:
        """A number that is equal where plans are."""
        ...

    @property
    def port_loads(self) -> PortLoads:
        """What every NIC of the cluster sends and receives."""
        ...

    def program(self, rank: int, layout: Layout | None = None, *, rounds: bool = False) -> Program:
        """What one rank runs."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LoweredRank:
    """What one rank runs of a plan."""

    program: Program
    posting: Posting | None  # None where the backend works in batches


class Runner:
    """Executes plans over one process group.

    Parameters
    ----------
    peers
        The group's rank of each rank of the plan; None where they are the same.
    server_of, leaders
        Server of each rank of the group and who speaks for it; None where there is one server.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        timeout_s: float | None = None,
        *,
        peers: Sequence[int] | None = None,
        server_of: Sequence[int] | None = None,
        leaders: Sequence[int] = (0,),
    ) -> None:
        import torch

        self.group, self.rank, self.num_ranks = group, group.rank(), group.size()
        self.timeout_s = timeout_of(group) if timeout_s is None else timeout_s
        self.uses_batches = group.name() != "gloo"
        self.device = torch.device("cuda", torch.cuda.current_device()) if self.uses_batches else torch.device("cpu")
        self.server_of, self.leaders = list(server_of or [0] * self.num_ranks), list(leaders)
        self._peers = list(range(self.num_ranks)) if peers is None else list(peers)
        self.flow, self._rounds = Flow(group, self._peers), Batches(group, self._peers)
        # Runners over one group are made in the same order on every rank; their messages must not meet.
        self._number = group.get_group_store().add(f"interlock/runners{self.rank}", 1)
        self._num_exchanges = 0
        self._heartbeat = Heartbeat(group, str(self._number))
        self._watch = Watch(self._heartbeat, self.timeout_s, lambda: abort(group)) if self.uses_batches else None
        self._digests = self.exchange(1)
        self._connections: Connections | None = None
        self._has_tried_connections = False
        self.collectives = group  # for the backend's own calls
        self._arena = Arena()
        self._ran: torch.cuda.Event | None = None  # the last program on a device, whose scratch the next one takes

    def exchange(self, width: int) -> Exchange:
        """A way to share rows of numbers with every rank; every rank must make the same ones in the same order."""
        device, settle = (self.device, self._settle) if self.uses_batches else (None, None)
        first_tag = FIRST_TAG - TAGS_PER_RUNNER * (self._number % MAX_RUNNERS + 1) + 4 * self._num_exchanges
        self._num_exchanges += 1
        return Exchange(self.group, self.server_of, self.leaders, width, first_tag, device, settle)

    def slot_exchange(self, width: int) -> SlotExchange | None:
        """A way to share rows of numbers along with a few bytes; None where that would not pay."""
        if self.uses_batches or not fits_slots(width):
            return None
        return SlotExchange(self.group, width)

    def open_connections(self) -> None:
        """Make connections whose rates can be set, once; every rank must call it. Without them windows pace."""
        if self.uses_batches or self._has_tried_connections:
            return
        self._has_tried_connections = True
        names, name = self.exchange(told_width(self.num_ranks)), f"connections{self._number}"
        share = partial(names.share, timeout_s=self.timeout_s)
        self._connections = self.guard(lambda: open_connections(self.group, name, share), "opening connections")
        if self._connections is not None:
            self.flow.use(self._connections)

    def stand_apart(self) -> None:
        """Make connections of our own for the backend's own calls, once; every rank must call it.

        A call that is under way would otherwise get between what the program itself asks of the group meanwhile.
        """
        if not self.uses_batches and self.collectives is self.group:
            name = f"apart{self._number}"
            self.collectives = self.guard(lambda: connect(self.group, name), "opening connections")

    def lower(self, plan: Planned, rank: int, layout: Layout | None = None) -> LoweredRank:
        """The program of a rank of the plan; without a layout its bytes lie end to end in item order."""
        program = plan.program(rank, layout, rounds=self.uses_batches)
        if self.uses_batches:
            return LoweredRank(program, None)
        cluster = plan.cluster
        is_paced = self._connections is not None and may_pace(cluster)
        return LoweredRank(program, Posting.of(program, cluster, lambda: plan.port_loads, is_paced=is_paced))

    def compare(self, plan: Planned | None) -> None:
        """Raise on every rank unless all have the same plan (or all none)."""
        mine = 0 if plan is None else _signed(plan.digest)
        digests = self.guard(lambda: self._digests.share([mine], self.timeout_s), "comparing plans")[:, 0]
        if (digests != digests[0]).any():
            other = int(np.argmax(digests != digests[0]))
            raise Disagreement(f"rank {other} made another plan than rank 0 for the same problem; nothing was moved")

    def run(
        self,
        lowered: LoweredRank,
        source: torch.Tensor,
        target: torch.Tensor,
        combine: Combine | None = None,
        staging: Staging | None = None,
        await_own: Callable[[], object] | None = None,
    ) -> None:
        """Move bytes between flat uint8 tensors on `device`; `combine` is how values join where the plan sums.

        `staging` is told where tensors on another device are behind them. `await_own` waits for bytes that stay, where
        somebody else copies them.
        """
        scratch = self._arena.take("scratch", lowered.program.scratch_bytes, source.device)
        buffers, posting = (source, target, scratch), lowered.posting
        if posting is not None:
            run = partial(self.flow.run, posting, buffers, self.timeout_s, combine, staging, await_own)
        else:
            run = partial(self._run_rounds, lowered.program, buffers, combine, await_own)
        self.guard(run, "moving bytes")

    def _run_rounds(
        self,
        program: Program,
        buffers: Sequence[torch.Tensor],
        combine: Combine | None,
        await_own: Callable[[], object] | None,
    ) -> None:
        """In order with the last program, on whatever stream that was."""
        import torch

        here = torch.cuda.current_stream(self.device)
        if self._ran is not None:
            here.wait_event(self._ran)
        self._rounds.run(program, buffers, combine, await_own=await_own)
        self._ran = here.record_event()

    def host_memory(self, name: str, size_bytes: int) -> torch.Tensor:
        """Host memory kept between calls, pinned where there is a device to copy from."""
        import torch

        held = self._arena.take(name, size_bytes, torch.device("cpu"), pinned=torch.cuda.is_available())
        return held.narrow(0, 0, size_bytes)

    def guard(self, action: Callable[[], T], what: str) -> T:
        """Run something that waits for peers; if it fails, find out who is to blame."""
        self._heartbeat.enter()
        try:
            made = action() if self._watch is None else self._watched(self._watch, action)
        except MoveFailed as error:
            for group in (self.group, self.collectives):
                poison(group)
            verdict = self._heartbeat.find_guilty(error.waiting_on)
            names = ", ".join(f"rank {rank}" for rank in verdict.ranks) or "a rank that could not be told"
            cause = str(error).strip().splitlines()[0][:300]
            told = f"{names} {verdict.words}; noticed while {what} ({cause}); make a new group"
            raise PeerFailed(told, verdict.ranks) from error
        self._heartbeat.done += 1
        return made

    def settle(self) -> None:
        """Return when the device is through with what it was given; if a peer is why it is not, say who."""
        if self._watch is not None:
            self.guard(self._settle, "moving bytes")

    def _settle(self) -> None:
        import torch

        if self._watch is not None:
            self._watch.settle(torch.cuda.current_stream(self.device).record_event())

    def _watched(self, watch: Watch, action: Callable[[], T]) -> T:
        """Run something that leaves work on the device; raises once a peer is known to have died."""
        import torch

        if watch.verdict is not None:
            raise MoveFailed("the communicator was aborted")
        watch.enter()
        try:
            made = action()
        finally:
            watch.leave(torch.cuda.current_stream(self.device).record_event())
        if watch.verdict is not None:
            raise MoveFailed("the communicator was aborted")
        return made

    def close(self) -> None:
        """Stop threads and heartbeat; the group stays the caller's."""
        if self._watch is not None:
            self._watch.close()
        self._heartbeat.close()
        self.flow.close()
        self._connections = None
        self.collectives = self.group


def timeout_of(group: dist.ProcessGroup) -> float:
    """Seconds after which the group's own operations give up."""
    import torch

    device = torch.device("cpu" if group.name() == "gloo" else "cuda")
    return float(group._get_backend(device).options._timeout.total_seconds())


def digest_of_text(text: str) -> int:
    """A signed 64-bit number that differs, all but certainly, when the texts do."""
    return digest_of_bytes(np.frombuffer(text.encode(), np.uint8))


def digest_of_bytes(values: NDArray[np.uint8]) -> int:
    """The same of any bytes."""
    return _signed(_core.digest64(values, 0))


def _signed(digest: int) -> int:
    """As a 64-bit integer with a sign, which is what tensors hold."""
    return digest - (1 << 64) if digest >= 1 << 63 else digest
