"""Lower bounds of a step: its critical path, and every port's work between what must come before and after it.

Proofs in docs/reference/bounds.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.cost.bound import Bound, tightest
from interlock.cost.cuts import cut_loads, group_cut_loads, group_partition
from interlock.cost.latency import least_message_s
from interlock.cost.network import Network, usable_network
from interlock.problem import Items, Problem, task_problem
from interlock.ragged import Ragged, topological_order

__all__ = ["heads_s", "least_end_s", "step_bound", "tails_s"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Work:
    """Seconds that each task keeps each resource busy, at least."""

    seconds: Floats  # [num_tasks, num_resources]
    names: list[str]


def step_bound(problem: Problem, lone_bound: Callable[[Problem], Bound]) -> Bound:
    """The best of the critical path and of all ports; `lone_bound` tells the bound of one move by itself."""
    assert problem.step is not None and problem.cluster is not None
    step = problem.step
    alone = [
        lone_bound(task_problem(problem.cluster, task))
        if task.is_move
        else Bound(task.seconds, f"computation {task.name!r}")
        for task in step.tasks
    ]
    least_s = np.array([bound.seconds for bound in alone])
    head_s, tail_s = heads_s(problem, step.after, least_s), tails_s(step.after, least_s)
    path_s = head_s + least_s + tail_s
    best = Bound(float(path_s.max()), _name_of_path(problem, path_s))
    if sum(task.is_move for task in step.tasks) == 1:
        return tightest([(best.seconds, best.binds)])
    found = [(best.seconds, best.binds)]
    network = usable_network(problem)
    # Before its first byte a task opens a stage and pays a message; after its last comes a latency.
    start_s = problem.topology.stage_overhead_s + float(network.message_overhead_s.min(initial=np.inf))
    latency_s = max(0.0, least_message_s(network) - float(network.message_overhead_s.min(initial=np.inf)))
    work = _work(problem, network)
    total_s = work.seconds.sum(axis=0)
    for resource in np.argsort(-total_s, kind="stable").tolist():
        busy_s = work.seconds[:, resource]
        users = np.flatnonzero(busy_s > 0)
        if len(users) < 2:
            continue
        most_s = float(head_s[users].max() + tail_s[users].max() + start_s + latency_s + busy_s.sum())
        if most_s <= max(seconds for seconds, _ in found):
            continue
        end_s = least_end_s(head_s[users] + start_s, busy_s[users], tail_s[users] + latency_s)
        found.append((end_s, f"{work.names[resource]}, {len(users)} tasks"))
    return tightest(found)


def tails_s(after: Ragged, seconds: Floats) -> Floats:
    """The longest chain of tasks after each, by their own seconds."""
    tail_s = np.zeros(len(seconds))
    for number in reversed(topological_order(after)):
        for before in after[number].tolist():
            tail_s[before] = max(tail_s[before], tail_s[number] + seconds[number])
    return tail_s


def heads_s(problem: Problem, after: Ragged, seconds: Floats) -> Floats:
    """When each task could start at the earliest, by the seconds of those before it."""
    assert problem.step is not None
    head_s = np.array([task.ready_s for task in problem.step.tasks])
    for number in topological_order(after):
        for before in after[number].tolist():
            head_s[number] = max(head_s[number], head_s[before] + seconds[before])
    return head_s


def least_end_s(
    head_s: Sequence[float] | Floats, busy_s: Sequence[float] | Floats, tail_s: Sequence[float] | Floats
) -> float:
    """When jobs end on one machine at the earliest.

    A job may start at its head, keeps the machine busy, and ends its tail later. Interrupting is free, and whoever has
    the longest tail goes first (Jackson's rule).

    >>> least_end_s([0.0, 1.0], [2.0, 1.0], [0.0, 5.0])
    7.0
    """
    order = np.argsort(head_s, kind="stable").tolist()
    left = [float(busy) for busy in busy_s]
    waiting: list[tuple[float, int]] = []
    now_s, end_s, place = 0.0, 0.0, 0
    while waiting or place < len(order):
        if not waiting:
            now_s = max(now_s, float(head_s[order[place]]))
        while place < len(order) and head_s[order[place]] <= now_s:
            heapq.heappush(waiting, (-float(tail_s[order[place]]), order[place]))
            place += 1
        job = waiting[0][1]
        until_s = float(head_s[order[place]]) if place < len(order) else np.inf
        if now_s + left[job] <= until_s:
            heapq.heappop(waiting)
            now_s += left[job]
            end_s = max(end_s, now_s + float(tail_s[job]))
        else:
            left[job] -= until_s - now_s
            now_s = until_s
    return end_s


def _work(problem: Problem, network: Network) -> _Work:
    """What every move asks of every rank's links, every server's NICs, and all NICs together."""
    step, cluster = problem.step, problem.cluster
    assert step is not None and cluster is not None
    servers, ranks = cluster.servers, cluster.num_ranks
    server = np.full(network.num_nodes, -1, np.int64)
    server[:ranks] = np.arange(ranks) // cluster.gpus_per_server
    server[ranks : ranks + servers] = np.arange(servers)
    names = [f"links {way} rank {rank}" for way in ("out of", "into") for rank in range(ranks)]
    if servers > 1:
        names += [f"links of server {each}, {verb}" for verb in ("sending", "receiving") for each in range(servers)]
        names += ["NICs of all servers together"]
    rows = []
    for number, task in enumerate(step.tasks):
        first, end = step.first_item[number : number + 2].tolist()
        if not task.is_move:
            rows.append(np.zeros(len(names)))
            continue
        mine = np.arange(first, end)
        items = Items(
            problem.items.size_bytes[mine], problem.items.contributors.take(mine), problem.items.destinations.take(mine)
        )
        seconds = [*cut_loads(network, items)]
        if servers > 1:
            seconds += [*group_cut_loads(network, items, server)]
            seconds += [np.array([group_partition(network, items, server, "")[0]])]
        rows.append(np.concatenate(seconds))
    return _Work(np.array(rows), names)


def _name_of_path(problem: Problem, path_s: Floats) -> str:
    assert problem.step is not None
    longest = float(path_s.max())
    on_path = [number for number in problem.step.in_order if path_s[number] >= longest * (1 - 1e-9)]
    names = [problem.step.tasks[number].name for number in on_path]
    return f"critical path {' - '.join(names[:8])}"
