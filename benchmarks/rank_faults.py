"""Faults on purpose: a rank that kills or stops itself at a chosen message, a link that is pulled; what the others say.

Used by tests of the runtime and `bench_faults.py`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective
from interlock.execution import open_session
from interlock.lab.network import LabNetwork
from interlock.lab.ranks import RankContext, RankProcesses
from interlock.runtime import GroupPlacement, PeerFailed
from interlock.schedule import Phase
from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["Fault", "Verdict", "pull_link", "try_collective_fault", "try_fault"]

MAX_CALLS = 1000


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to `victim`: a signal as it sends its first message of `phase`, in its third call.

    Without a phase nothing happens by itself: somebody else must do it.
    """

    victim: int
    phase: Phase | None = None
    signal: int = signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the survivors made of a fault."""

    num_survivors: int
    num_hanging: int  # survivors that did not report in time
    num_naming: int  # survivors whose error names the victim, and nobody else
    slowest_s: float  # from the fault, or the last call before it, to the last report
    works_again: bool  # whether the survivors' fresh group moves bytes
    words: str  # of one survivor's error


@dataclass(frozen=True, slots=True)
class _Report:
    named: tuple[int, ...]
    words: str
    took_s: float  # of the call that failed


def pull_link(
    ranks: RankProcesses, network: LabNetwork, demand: Demand, algorithm: str, victim: int, timeout_s: float
) -> Verdict:
    """Pull the NIC of a rank in the middle of its calls, plug it in again once everyone has reported."""
    spec = network.spec
    ranks.post(_call_until_error, spec.to_cluster(), demand.bytes_matrix, algorithm, Fault(victim), timeout_s)
    time.sleep(2.0)
    network.set_link(victim, is_up=False)
    everyone = list(range(ranks.num_ranks))
    verdict = _verdict(ranks, everyone, victim, timeout_s, after=lambda: network.set_link(victim, is_up=True))
    network.set_link(victim, is_up=True)
    return verdict


def try_fault(
    ranks: RankProcesses, cluster: Cluster, demand: Demand, algorithm: str, fault: Fault, timeout_s: float
) -> Verdict:
    """Run calls until the fault happens; afterwards the victim is gone and `ranks` must be closed."""
    ranks.post(_call_until_error, cluster, demand.bytes_matrix, algorithm, fault, timeout_s)
    survivors = [rank for rank in range(ranks.num_ranks) if rank != fault.victim]
    return _verdict(ranks, survivors, fault.victim, timeout_s)


def _verdict(
    ranks: RankProcesses, survivors: list[int], victim: int, timeout_s: float, after: Callable[[], None] = lambda: None
) -> Verdict:
    outcomes = ranks.collect(2 * timeout_s + 60, survivors)
    reports = [outcome.value for outcome in outcomes if isinstance(outcome.value, _Report)]
    after()
    works_again = False
    if len(reports) == len(survivors):
        ranks.post(_meet_again, survivors, ranks=survivors)
        works_again = all(outcome.value is True for outcome in ranks.collect(60, survivors))
    return Verdict(
        num_survivors=len(survivors),
        num_hanging=len(survivors) - len(reports),
        num_naming=sum(report.named == (victim,) for report in reports),
        slowest_s=max((report.took_s for report in reports), default=0.0),
        works_again=works_again,
        words=reports[0].words if reports else next((str(o.error) for o in outcomes if o.error), ""),
    )


def _call_until_error(
    context: RankContext, cluster: Cluster, matrix: NDArray[np.int64], algorithm: str, fault: Fault, timeout_s: float
) -> _Report:
    import torch

    placement = GroupPlacement.in_order(context.num_ranks, cluster.gpus_per_server)
    session = open_session(context.group, cluster, placement, algorithm=algorithm, fallback=False, timeout_s=timeout_s)
    row, column = matrix[context.rank], matrix[:, context.rank]
    source, target = (torch.zeros(int(part.sum()), dtype=torch.uint8) for part in (row, column))
    try:
        for call in range(MAX_CALLS):
            start_s = time.monotonic()
            is_last = call == 2 and context.rank == fault.victim and fault.phase is not None
            if is_last:
                session.runner.flow.before_send = _die_at(fault)
            session.move(session.prepare(session.share(row.tolist(), column.tolist())), source, target)
            if is_last:
                os.kill(os.getpid(), fault.signal)  # this rank sends nothing in that phase: go at the end
    except PeerFailed as error:
        return _Report(error.ranks, str(error), time.monotonic() - start_s)
    finally:
        session.close()
    return _Report((), "no error", 0.0)


def try_collective_fault(
    ranks: RankProcesses, cluster: Cluster, wanted: Collective, algorithm: str, fault: Fault, timeout_s: float
) -> Verdict:
    """The same while ranks run a collective."""
    ranks.post(_collective_until_error, cluster, wanted, algorithm, fault, timeout_s)
    survivors = [rank for rank in range(ranks.num_ranks) if rank != fault.victim]
    return _verdict(ranks, survivors, fault.victim, timeout_s)


def _collective_until_error(
    context: RankContext, cluster: Cluster, wanted: Collective, algorithm: str, fault: Fault, timeout_s: float
) -> _Report:
    from interlock.lab.collectives import Trial
    from interlock.torch_collectives import Collectives

    hosts = [f"server{rank // cluster.gpus_per_server}" for rank in range(context.num_ranks)]
    with Collectives(cluster, context.group, hosts=hosts, algorithm=algorithm, timeout_s=timeout_s) as calls:
        try:
            for call in range(MAX_CALLS):
                start_s = time.monotonic()
                if call == 2 and context.rank == fault.victim:
                    calls.session.runner.flow.before_send = _die_at(fault)
                Trial.of(calls, wanted, context.rank, context.num_ranks, call).call(False)
        except PeerFailed as error:
            return _Report(error.ranks, str(error), time.monotonic() - start_s)
    return _Report((), "no error", 0.0)


def _die_at(fault: Fault) -> Callable[[int], None]:
    """A watcher of sends that signals its own process at the first one of the fault's phase."""

    def watch(phase: int) -> None:
        if phase == fault.phase:
            os.kill(os.getpid(), fault.signal)

    return watch


def _meet_again(context: RankContext, survivors: list[int]) -> bool:
    """Make a group of the survivors over the same store, and move bytes with it."""
    import torch
    import torch.distributed as dist

    rank = survivors.index(context.rank)
    dist.destroy_process_group()
    store = dist.PrefixStore("again", context.store)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=len(survivors), timeout=timedelta(seconds=30))
    group = dist.group.WORLD
    assert group is not None
    cluster = Cluster("again", servers=len(survivors), gpus_per_server=1)
    placement = GroupPlacement.in_order(len(survivors), 1)
    session = open_session(group, cluster, placement, algorithm="direct", fallback=False)
    sizes = [100] * len(survivors)
    target = torch.zeros(sum(sizes), dtype=torch.uint8)
    session.move(session.prepare(session.share(sizes, sizes)), torch.full_like(target, rank), target)
    session.close()
    return bool((target.view(-1, 100).float().mean(dim=1) == torch.arange(len(survivors))).all())
