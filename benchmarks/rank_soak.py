"""Many collectives in a row with random demands: every byte right, memory flat, no descriptor leaked."""

from __future__ import annotations

import gc
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from interlock.execution import open_session
from interlock.lab.jobs import bytes_of
from interlock.lab.ranks import RankContext
from interlock.runtime import GroupPlacement
from interlock.topology import Cluster

if TYPE_CHECKING:
    import torch

    from interlock.lab.collectives import Trial
    from interlock.torch_collectives import Pending

    _Call = tuple[torch.Tensor, torch.Tensor, torch.Tensor, Pending | None]

__all__ = ["Wear", "random_demand", "soak", "soak_collectives", "soak_under_way"]


SOAKED_SIZES = 6  # of collectives; with each kind planned once


@dataclass(frozen=True, slots=True)
class Wear:
    """What a rank's process looks like early on and at the end."""

    num_wrong: int  # collectives with a wrong byte
    memory_bytes: tuple[int, int]  # resident
    descriptors: tuple[int, int]
    threads: tuple[int, int]


def random_demand(rng: np.random.Generator, num_ranks: int) -> NDArray[np.int64]:
    """A matrix of any kind: dense or sparse, tiny or not, with empty ranks."""
    scale = int(rng.choice([10, 1000, 20_000]))
    matrix = rng.integers(0, scale, (num_ranks, num_ranks))
    matrix[rng.random((num_ranks, num_ranks)) < rng.choice([0.0, 0.5, 0.9])] = 0
    matrix[rng.integers(num_ranks)] *= int(rng.choice([0, 1, 5]))
    return matrix.astype(np.int64)


def soak(context: RankContext, cluster: Cluster, algorithm: str, count: int, seed: int) -> Wear:
    """Move `count` random demands; the first tenth is warm-up for what is compared."""
    import torch

    placement = GroupPlacement.in_order(context.num_ranks, cluster.gpus_per_server)
    session = open_session(context.group, cluster, placement, algorithm=algorithm, fallback=False)
    rng = np.random.default_rng(seed)
    num_wrong, early = 0, _looks()
    for turn in range(count):
        if turn == count // 10:
            early = _looks()
        matrix = random_demand(rng, context.num_ranks)
        row, column = matrix[context.rank], matrix[:, context.rank]
        target = torch.full((int(column.sum()),), 255, dtype=torch.uint8)
        prepared = session.prepare(session.share(row.tolist(), column.tolist()))
        session.move(prepared, bytes_of(matrix, context.rank, turn, sends=True), target)
        num_wrong += not torch.equal(target, bytes_of(matrix, context.rank, turn, sends=False))
    late = _looks()
    session.close()
    memory, descriptors, threads = zip(early, late, strict=True)
    return Wear(num_wrong, memory, descriptors, threads)


def soak_collectives(context: RankContext, cluster: Cluster, algorithm: str, count: int, seed: int) -> Wear:
    """Run `count` random collectives of a few kinds and sizes, some of them under way together."""
    from interlock.lab.collectives import KINDS, Trial, collective_of
    from interlock.torch_collectives import Collectives

    hosts = [f"server{rank // cluster.gpus_per_server}" for rank in range(context.num_ranks)]
    rng = np.random.default_rng(seed)
    sizes = (4 * context.num_ranks * rng.integers(1, 5_000, SOAKED_SIZES)).tolist()
    num_wrong, early = 0, _looks()
    with Collectives(cluster, context.group, hosts=hosts, algorithm=algorithm) as calls:
        under_way: list[tuple[Trial, Pending | None]] = []
        for turn in range(count):
            if turn == count // 10:
                early = _looks()
            wanted = collective_of(str(rng.choice(KINDS)), int(rng.choice(sizes)), context.num_ranks)
            trial = Trial.of(calls, wanted, context.rank, context.num_ranks, turn)
            under_way.append((trial, trial.call(bool(rng.integers(2)))))
            if len(under_way) > rng.integers(4):
                num_wrong += _num_wrong(under_way)
                under_way = []
        num_wrong += _num_wrong(under_way)
        late = _looks()
    memory, descriptors, threads = zip(early, late, strict=True)
    return Wear(num_wrong, memory, descriptors, threads)


def soak_under_way(
    context: RankContext,
    opened: Callable[..., Any],
    cluster: Cluster,
    count: int,
    most_under_way: int,
    num_threads: int,
    seed: int,
) -> Wear:
    """`count` calls of one handle from several threads, issued in one order, some waited for later.

    `opened` is `interlock.torch.AllToAll`. Torch's own collectives run on the same group meanwhile.
    """
    import torch
    import torch.distributed as dist

    ranks, rank, rng = context.num_ranks, context.rank, np.random.default_rng(seed)
    matrices = [rng.integers(0, 40, (ranks, ranks)) * rng.integers(0, 2, (ranks, ranks)) for _ in range(6)]
    matrices.append(np.full((ranks, ranks), 20_000))
    hosts = [f"server{peer // cluster.gpus_per_server}" for peer in range(ranks)]
    turn, issued, num_wrong = threading.Condition(), 0, 0

    def issue(call: int) -> _Call:
        matrix = matrices[call % len(matrices)]
        source, want = (bytes_of(matrix, rank, call, sends=sends) for sends in (True, False))
        target = torch.full_like(want, 255)
        is_async = most_under_way > 0 and call % 5 != 4
        # `source` is kept: whoever does not wait must leave its memory alone.
        return target, want, source, handle(target, source, matrix[:, rank].tolist(), matrix[rank].tolist(), is_async)

    def finish(call: _Call) -> int:
        target, want, _, pending = call
        if pending is not None:
            pending.wait()
        return int(not torch.equal(target, want))

    def work(thread: int) -> None:
        nonlocal issued, num_wrong
        wrong = 0
        under_way: deque[_Call] = deque()
        for call in range(thread, count, num_threads):
            with turn:
                turn.wait_for(lambda: issued == call)  # noqa: B023
                under_way.append(issue(call))
                if call % 50 == 0:  # between our calls, and while some are under way
                    total = torch.ones(1)
                    dist.all_reduce(total, group=context.group)
                    wrong += int(total.item() != ranks)
                issued += 1
                turn.notify_all()
            wrong += sum(finish(under_way.popleft()) for _ in range(len(under_way) - most_under_way // num_threads))
        wrong += sum(map(finish, under_way))
        with turn:
            num_wrong += wrong

    with opened(cluster, context.group, hosts=hosts) as handle:
        for call in range(max(len(matrices), count // 10)):  # warm-up for what is compared
            finish(issue(count + call))
        early = _looks()
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(num_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        late = _looks()
    memory, descriptors, held = zip(early, late, strict=True)
    return Wear(num_wrong + (issued != count), memory, descriptors, held)


def _num_wrong(under_way: list[tuple[Trial, Pending | None]]) -> int:
    for _, pending in under_way:
        if pending is not None:
            pending.wait()
    return sum(not trial.is_right for trial, _ in under_way)


def _looks() -> tuple[int, int, int]:
    """Resident bytes, open descriptors and threads of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return pages * os.sysconf("SC_PAGE_SIZE"), descriptors, len(list(Path("/proc/self/task").iterdir()))
