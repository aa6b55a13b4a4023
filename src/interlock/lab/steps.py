"""`lab step`: a step on real sockets, computation as sleeps, in every way; every value checked."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from interlock.collectives import CollectiveKind, reduce_scatter
from interlock.execution import plan_step
from interlock.lab.collectives import ELEMENT_BYTES, values_of
from interlock.lab.jobs import Timings, in_turns, timed
from interlock.lab.network import LabSpec
from interlock.lab.ranks import RankContext, RankProcesses
from interlock.lab.run import TIMEOUT_S, TRIALS, as_measured
from interlock.planning import Plan
from interlock.problem import Problem, Step, Task
from interlock.schedule import Schedule
from interlock.topology import Cluster
from interlock.traffic import Demand, matrix, zipf

if TYPE_CHECKING:
    import torch

    from interlock.torch_steps import Step as StepRun

__all__ = ["StepRow", "compare_step_in_lab", "dispatched", "layer_of"]

WARM_UP = 1
SIZINGS = 6  # of gradients, to be as long as the dispatch: seconds are not in proportion to bytes
SMALL_MOVES = 4  # at once: a rank then has dozens of messages under way, as in a step


@dataclass(frozen=True, slots=True)
class StepRow:
    """One way, measured: seconds of the slowest rank."""

    algorithm: str
    valid: bool
    measured_s: float
    measured_least_s: float
    measured_most_s: float
    predicted_s: float
    lower_bound_s: float
    repeats: int


def dispatched(cluster: Cluster, bytes_per_rank: int, skew: float, seed: int) -> Demand:
    """What ranks dispatch, in whole elements."""
    drawn = zipf(cluster, skew=skew, bytes_per_gpu=bytes_per_rank, seed=seed).bytes_matrix // ELEMENT_BYTES
    return matrix(drawn * ELEMENT_BYTES, "zipf")


def layer_of(cluster: Cluster, bytes_per_rank: int, skew: float, seed: int) -> Step:
    """Dispatch, computation and combine beside Reduce-Scatters of gradients that are ready first, all about as long.

    Gradients are those of the same GPUs of all servers, as data-parallel groups are.
    """
    demand = dispatched(cluster, bytes_per_rank, skew, seed)
    alone = Step(cluster)
    alone.move("dispatch", demand)
    alone_s = _predicted_s(alone)
    unit = ELEMENT_BYTES * cluster.servers
    size_bytes, tried_s = -(-bytes_per_rank // unit) * unit, dict[int, float]()
    for _ in range(SIZINGS):
        gradients = Step(cluster)
        _move_gradients(gradients, size_bytes)
        tried_s[size_bytes] = _predicted_s(gradients)
        size_bytes = max(1, round(size_bytes * alone_s / tried_s[size_bytes] / unit)) * unit
    step = Step(cluster, f"layer on {cluster.servers}x{cluster.gpus_per_server}")
    _move_gradients(step, min(tried_s, key=lambda size: abs(tried_s[size] - alone_s)))
    dispatch = step.move("dispatch", demand, ready=0.02 * alone_s)
    experts = step.compute("experts", alone_s, after=dispatch)
    step.move("combine", demand.transposed(), after=experts)
    return step


def _predicted_s(step: Step) -> float:
    """Seconds of a step's moves side by side."""
    return plan_step(step, "concurrent", ELEMENT_BYTES).simulate(tolerance=1e-2).makespan_s


def _move_gradients(step: Step, size_bytes: int) -> None:
    """A Reduce-Scatter among the same GPUs of all servers, for each of them."""
    gpus, ranks = step.cluster.gpus_per_server, range(step.cluster.num_ranks)
    for gpu in range(gpus):
        step.move(f"gradients {gpu}", reduce_scatter(size_bytes, group=ranks[gpu::gpus]))


def compare_step_in_lab(
    ranks: RankProcesses,
    spec: LabSpec,
    bytes_per_rank: int,
    algorithms: Sequence[str],
    *,
    repeat: int = 5,
    calibrate_s: float = 0.0,
    skew: float = 0.8,
    seed: int = 0,
    progress: Callable[[str], None] = lambda words: None,
) -> tuple[StepRow, ...]:
    """Measure ways of one step, in turn.

    Plans are made for what `calibrate_s` seconds per tier and a trial measure of the network, where that is not 0.
    """
    cluster = as_measured(spec.to_cluster(), ranks, calibrate_s, progress)
    if calibrate_s > 0:
        cluster = with_message_cost(ranks, cluster)
    progress("planning")
    step = layer_of(cluster, bytes_per_rank, skew, seed)
    plans = {name: plan_step(step, name, ELEMENT_BYTES) for name in algorithms}
    given = {name: (plan.problem, plan.schedule) for name, plan in plans.items()}
    progress("measuring")
    told = ranks.call(measure_step, given, repeat, timeout_s=TIMEOUT_S * (repeat + WARM_UP))
    rows = []
    for name, plan in plans.items():
        seconds = told[0][name].measured_s
        proof = plan.certificate()
        rows.append(
            StepRow(
                name,
                proof.valid and all(each[name].valid for each in told),
                statistics.median(seconds),
                min(seconds),
                max(seconds),
                plan.simulate().makespan_s,
                proof.lower_bound_s,
                len(seconds),
            )
        )
    return tuple(rows)


def with_message_cost(ranks: RankProcesses, cluster: Cluster) -> Cluster:
    """The cluster with what a message costs while all ranks send and receive, which is mostly processors' time.

    Every rank sends a few bytes to every other, several times at once. What it costs to start is in it.
    """
    step = Step(cluster)
    for number in range(SMALL_MOVES):
        step.move(f"small {number}", _equal(cluster, ELEMENT_BYTES))
    plan, took_s = _tried(ranks, step)
    most = int(np.bincount(plan.schedule.src.values, minlength=cluster.num_ranks).max())
    return cluster.with_(message_overhead_s=took_s / most, stage_overhead_s=0.0)


def _equal(cluster: Cluster, pair_bytes: int) -> Demand:
    """The same for every pair, in whole elements."""
    each = max(1, pair_bytes // ELEMENT_BYTES) * ELEMENT_BYTES
    return matrix(each * (1 - np.eye(cluster.num_ranks, dtype=np.int64)), "equal")


def _tried(ranks: RankProcesses, step: Step) -> tuple[Plan, float]:
    """A plan of a step, and the median of the seconds it takes."""
    plan = plan_step(step, "concurrent", ELEMENT_BYTES)
    told = ranks.call(measure_step, {"trial": (plan.problem, plan.schedule)}, TRIALS, timeout_s=TIMEOUT_S * TRIALS)
    return plan, statistics.median(told[0]["trial"].measured_s)


def measure_step(context: RankContext, plans: dict[str, tuple[Problem, Schedule]], repeat: int) -> dict[str, Timings]:
    """Run every plan in turn, over connections of its own."""
    from interlock.torch_steps import Step as StepRun

    def once(run: StepRun, turn: int, timings: Timings) -> float:
        tensors = {task.name: _tensors(task, context, turn) for task in run.tasks if task.is_move}
        given = {name: (source, target) for name, (source, target, _) in tensors.items()}
        took_s, _ = timed(context, lambda: run_once(run, run.tasks, given))
        timings.valid &= all(bool((target == expected).all()) for _, target, expected in tensors.values())
        return took_s

    with ExitStack() as opened:
        runs = {name: StepRun(Plan(problem, rows, name), context.group) for name, (problem, rows) in plans.items()}
        for run in runs.values():
            opened.callback(run.close)
        return in_turns({name: partial(once, run) for name, run in runs.items()}, repeat, WARM_UP)


def run_once(run: StepRun, tasks: Sequence[Task], tensors: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> None:
    """One run of a step in which every computation sleeps, each in a thread of its own."""
    ended = {task.name: threading.Event() for task in tasks if not task.is_move}

    def compute(task: Task) -> None:
        for before in task.after:
            if before in ended:
                ended[before].wait()
            else:
                run.wait(before)
        time.sleep(task.seconds)
        run.done(task.name)
        ended[task.name].set()

    threads = [threading.Thread(target=compute, args=(task,)) for task in tasks if not task.is_move]
    run.begin(tensors)
    for thread in threads:
        thread.start()
    for task in tasks:
        if task.is_move:
            run.wait(task.name)
    for thread in threads:
        thread.join()


def _tensors(task: Task, context: RankContext, turn: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Source, target and what the target must hold in the end."""
    import torch

    rank, ranks = context.rank, context.num_ranks
    if isinstance(task.what, Demand):
        counts = task.what.bytes_matrix // ELEMENT_BYTES

        def between(src: int, dst: int) -> torch.Tensor:
            return values_of(src * ranks + dst, int(counts[src, dst]), turn)

        others = [peer for peer in range(ranks) if peer != rank]
        source = torch.cat([between(rank, peer) for peer in others])
        expected = torch.cat([between(peer, rank) for peer in others])
    else:
        assert task.what is not None and task.what.kind is CollectiveKind.REDUCE_SCATTER
        elements = task.what.size_bytes // ELEMENT_BYTES
        group = list(range(ranks)) if task.what.group is None else list(task.what.group)
        if rank not in group:
            return torch.empty(0), torch.empty(0), torch.empty(0)
        share, place = elements // len(group), group.index(rank)
        source = values_of(rank, elements, turn)
        total = torch.stack([values_of(each, elements, turn) for each in group]).sum(0)
        expected = total[place * share : (place + 1) * share]
    return source, torch.full_like(expected, -1.0), expected
