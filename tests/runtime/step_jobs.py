"""What tests of steps run on ranks; each is given its RankContext first."""

from __future__ import annotations

import os
import signal
import time

import torch

import interlock as il
import interlock.torch as ilt
from interlock.errors import InterlockError
from interlock.lab.ranks import RankContext
from interlock.lab.steps import _tensors, run_once
from interlock.runtime import PeerFailed


def small_step(ranks: int) -> il.Step:
    """A layer beside gradients, on two servers."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=ranks // 2)
    drawn = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="40 kB", seed=1).bytes_matrix // 4 * 4
    demand = il.traffic.matrix(drawn)
    step = il.step(cluster)
    step.move("gradients", il.reduce_scatter(ranks * 40_000), ready="1 ms")
    dispatch = step.move("dispatch", demand)
    experts = step.compute("experts", "5 ms", after=dispatch)
    step.move("combine", demand.transposed(), after=experts)
    return step


def wrong_tasks(context: RankContext, algorithm: str) -> list[str]:
    """Tasks whose target is not what it must be, over two runs."""
    step, wrong = small_step(context.num_ranks), []
    with ilt.Step(step, context.group, algorithm=algorithm) as run:
        for turn in range(2):
            tensors = {task.name: _tensors(task, context, turn) for task in step.tasks if task.is_move}
            run_once(run, step.tasks, {name: pair[:2] for name, pair in tensors.items()})
            wrong += [name for name, (_, made, expected) in tensors.items() if not torch.equal(made, expected)]
    return wrong


def refusals(context: RankContext) -> list[str]:
    """What bad calls are told."""
    step, told = small_step(context.num_ranks), []
    with ilt.Step(step, context.group, algorithm="serial") as run:
        calls = [
            lambda: run.wait("dispatch"),
            lambda: run.begin({}),
            lambda: run.begin({"nobody": (None, None)}),
            lambda: run.done("dispatch"),
        ]
        for call in calls:
            try:
                call()
                told.append("")
            except InterlockError as error:
                told.append(str(error))
    return told


def until_a_rank_dies(
    context: RankContext, victim: int, dies_at: str, timeout_s: float
) -> tuple[tuple[int, ...], float]:
    """Runs of a step, in the second of which a rank kills itself: whom the error here names, and after how long."""
    step = small_step(context.num_ranks)
    with ilt.Step(step, context.group, timeout_s=timeout_s) as run:
        for turn in range(2):
            tensors = {task.name: _tensors(task, context, turn)[:2] for task in step.tasks if task.is_move}
            dies = turn == 1 and context.rank == victim
            run.begin(tensors)
            begin_s = time.monotonic()
            try:
                if dies and dies_at == "begin":
                    os.kill(os.getpid(), signal.SIGKILL)
                run.wait("dispatch")
                if dies:
                    os.kill(os.getpid(), signal.SIGKILL)
                run.done("experts")
                run.wait("combine")
                run.wait("gradients")
            except PeerFailed as error:
                return error.ranks, time.monotonic() - begin_s
    return (), 0.0
