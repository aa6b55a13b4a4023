"""What ranks do in a lab: move one demand many times by each algorithm, checking every byte, and calibrate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from interlock.execution import open_session
from interlock.lab.ranks import RankContext
from interlock.runtime import GroupPlacement, Session
from interlock.runtime.runner import timeout_of
from interlock.topology import Cluster

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["Timings", "bytes_of", "calibrated", "in_turns", "measure", "own_groups", "start_together", "timed"]

T = TypeVar("T")

START_S = 0.03  # how far ahead ranks agree to start


@dataclass(slots=True)
class Timings:
    """Seconds of every repetition by algorithm, each that of the slowest rank, and whether all bytes were right."""

    valid: bool = True
    measured_s: list[float] = field(default_factory=list)  # moving bytes of a known demand
    exchange_s: list[float] = field(default_factory=list)  # sharing the demand
    plan_s: float = 0.0  # planning, lowering and comparing plans
    scratch_bytes: int = 0


def measure(
    context: RankContext,
    cluster: Cluster,
    matrix: NDArray[np.int64],
    algorithms: list[str],
    repeat: int,
    warm_up: int,
) -> dict[str, Timings]:
    """Move a demand by each algorithm in turn, `repeat` times after `warm_up`.

    Every algorithm has connections of its own: what TCP learns from one must not help or hurt the next.
    """
    placement = GroupPlacement.in_order(context.num_ranks, cluster.gpus_per_server)
    with own_groups(context, algorithms) as groups, ExitStack() as opened:
        sessions = {
            name: open_session(group, cluster, placement, algorithm=name, fallback=False)
            for name, group in groups.items()
        }
        for session in sessions.values():
            opened.callback(session.close)
        moves = {name: partial(_move_once, context, session, matrix) for name, session in sessions.items()}
        timings = in_turns(moves, repeat, warm_up)
    for timing in timings.values():
        del timing.exchange_s[:warm_up]
    return timings


def in_turns(runs: Mapping[str, Callable[[int, Timings], float]], repeat: int, warm_up: int) -> dict[str, Timings]:
    """Call each with the number of the turn, one after the other, `repeat` times after `warm_up`; they give seconds."""
    timings = {name: Timings() for name in runs}
    for turn in range(warm_up + repeat):
        for name, run in runs.items():
            took_s = run(turn, timings[name])
            if turn >= warm_up:
                timings[name].measured_s.append(took_s)
    return timings


@contextmanager
def own_groups(context: RankContext, algorithms: Sequence[str]) -> Iterator[dict[str, dist.ProcessGroup]]:
    """A group for each algorithm, with connections of its own."""
    import torch.distributed as dist

    limit = timedelta(seconds=timeout_of(context.group))
    groups = {name: dist.new_group(timeout=limit) for name in algorithms}
    try:
        yield groups
    finally:
        for group in groups.values():
            dist.destroy_process_group(group)


def _move_once(context: RankContext, session: Session, matrix: NDArray[np.int64], turn: int, timings: Timings) -> float:
    import torch

    rank = context.rank
    source = bytes_of(matrix, rank, turn, sends=True)
    target = torch.full((int(matrix[:, rank].sum()),), 255, dtype=torch.uint8)
    exchange_s, shared = timed(context, lambda: session.share(matrix[rank].tolist(), matrix[:, rank].tolist()))
    prepare_s, prepared = timed(context, lambda: session.prepare(shared))
    took_s, _ = timed(context, lambda: session.move(prepared, source, target))
    timings.valid &= torch.equal(target, bytes_of(matrix, rank, turn, sends=False))
    timings.scratch_bytes = 0 if prepared.lowered is None else prepared.lowered.program.scratch_bytes
    timings.plan_s = max(timings.plan_s, prepare_s)
    timings.exchange_s.append(exchange_s)
    return took_s


def timed(context: RankContext, call: Callable[[], T]) -> tuple[float, T]:
    """Seconds that a call takes on the slowest rank, all starting together, and what it gives."""
    start_together(context)
    begin_s = time.perf_counter()
    made = call()
    return slowest(context, time.perf_counter() - begin_s), made


def start_together(context: RankContext) -> None:
    """Return at one instant on all ranks, which share this machine's clock."""
    import torch
    import torch.distributed as dist

    start_s = torch.tensor([time.perf_counter() + START_S], dtype=torch.float64)
    dist.all_reduce(start_s, dist.ReduceOp.MAX, group=context.control)
    time.sleep(max(0.0, start_s.item() - time.perf_counter()))


def slowest(context: RankContext, took_s: float) -> float:
    """The largest of all ranks' numbers."""
    import torch
    import torch.distributed as dist

    most = torch.tensor([took_s], dtype=torch.float64)
    dist.all_reduce(most, dist.ReduceOp.MAX, group=context.control)
    return float(most.item())


def bytes_of(matrix: NDArray[np.int64], rank: int, turn: int, *, sends: bool) -> torch.Tensor:
    """What a rank sends or must receive in one turn: bytes that tell their sender, receiver, place and turn."""
    import torch

    pairs = [(rank, peer) if sends else (peer, rank) for peer in range(len(matrix))]
    parts = [
        (np.arange(matrix[src, dst], dtype=np.uint32) * 7 + src * 31 + dst * 17 + turn * 13).astype(np.uint8)
        for src, dst in pairs
    ]
    return torch.from_numpy(np.concatenate(parts))


def calibrated(context: RankContext, gpus_per_server: int, seconds: float) -> Cluster:
    """The lab as its ranks measure it."""
    from interlock.runtime.calibrate import calibrate

    hosts = [f"server{rank // gpus_per_server}" for rank in range(context.num_ranks)]
    return calibrate(context.group, hosts=hosts, seconds=seconds)
