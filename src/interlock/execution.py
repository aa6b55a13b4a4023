"""Joins planning and runtime: what to run for a demand, and plans of any kind run over a process group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from interlock._native import _core
from interlock.algorithms import registry
from interlock.algorithms.adaptive import network_of
from interlock.collectives import Collective, CollectiveKind
from interlock.errors import InvalidInput
from interlock.planning import Plan, plan, planner, synthesize
from interlock.problem import Problem, Step, StepTasks, demand_problem
from interlock.runtime import CollectiveSession, GroupPlacement, PlanOrNative, Runner, Session
from interlock.runtime.buffers import combining
from interlock.schedule import Kind, Schedule
from interlock.topology import Cluster, Fault, MissingGpu
from interlock.topology import cluster as cluster_preset
from interlock.traffic import Demand

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = [
    "NativeCall",
    "check_whole_elements",
    "execute",
    "native_calls",
    "open_collectives",
    "open_session",
    "plan_collective",
    "plan_step",
    "with_gaps",
]

NATIVE = "native"
SURELY = 1e-6  # by which two estimates differ whoever computes them
MARGIN = 1.05  # a plan must promise to beat the backend's own call by this much
# Taken in turn where a plan would form a sum at several ranks, which then could differ in their last bits.
SUMS_ONCE = ("hierarchical", "ring", "direct")


def open_session(
    group: dist.ProcessGroup,
    cluster: Cluster,
    placement: GroupPlacement,
    *,
    algorithm: str = "adaptive",
    fallback: bool = True,
    timeout_s: float | None = None,
    align: Callable[[Demand], int] = lambda demand: 1,
) -> Session:
    """A session whose plans are made by a named algorithm; "native" always takes the backend's own call.

    With `fallback`, demands whose plan is not predicted to beat the backend's own call take that call; where its
    algorithm predicts nothing, those for which the best imaginable plan would not. `align` says on multiples of
    how many bytes a demand's plan is cut.
    """
    if algorithm == NATIVE:
        return Session(group, cluster, placement, _always_native, NATIVE, timeout_s)
    chosen = registry.get(algorithm)
    on: list[
        tuple[Cluster, Callable[[Demand], NativeCall], dict[int, Callable[[Demand], Plan]]]
    ] = []  # the cluster of the last demand

    def choose(where: Cluster, demand: Demand) -> PlanOrNative:
        if not on or on[0][0] is not where:
            on[:] = [(where, native_calls(where), {})]
        _, price, makers = on[0]
        native = price(demand) if fallback else None
        if native is not None and (cheap := native.at_once()) is not None:
            return cheap
        if where.faults and (reason := chosen.supports(demand_problem(where, demand))) is not None:
            if not fallback:
                raise InvalidInput(f"algorithm {algorithm!r} does not support this cluster: {reason}")
            return PlanOrNative(None, f"{algorithm} cannot plan this: {reason}")
        grain = align(demand)
        if grain not in makers:
            makers[grain] = planner(where, algorithm, align=grain)
        made = makers[grain](demand)
        return PlanOrNative(made, f"planned by {algorithm}") if native is None else native.or_faster(made)

    return Session(group, cluster, placement, choose, f"{algorithm} {fallback}", timeout_s)


@dataclass(frozen=True, slots=True)
class NativeCall:
    """The backend's own call for a demand: every pair on its own, as the ledger of `adaptive` prices that."""

    seconds: float  # infinite where not all ranks that must talk reach each other
    least_s: float  # of any plan
    agree_s: float  # until ranks have compared digests of a plan

    def at_once(self) -> PlanOrNative | None:
        """The call, without planning and without comparing, where no plan could gain what it costs to agree on it.

        Only where that is so by more than arithmetic on different machines could differ.
        """
        if self.seconds > self._worth_s(self.least_s) * (1 - SURELY):
            return None
        return PlanOrNative(None, f"a plan gains nothing: {self.least_s:.3g} s at the very least, {self}", is_sure=True)

    def or_faster(self, plan: Plan) -> PlanOrNative:
        """A plan, or the call where the plan is not predicted to gain.

        A plan whose algorithm predicts nothing counts as the best imaginable one.
        """
        planned_s = self.least_s if plan.predicted_s is None else plan.predicted_s
        if self.seconds > self._worth_s(planned_s):
            return PlanOrNative(plan, f"planned by {plan.algorithm}")
        return PlanOrNative(None, f"a plan gains nothing: {planned_s:.3g} s predicted, {self}")

    def _worth_s(self, planned_s: float) -> float:
        """Seconds of the call from which a plan of so many is taken instead."""
        return planned_s * MARGIN + self.agree_s

    def __str__(self) -> str:
        return f"the backend's own call {self.seconds:.3g} s"


def native_calls(cluster: Cluster) -> Callable[[Demand], NativeCall]:
    """What prices the backend's own call for demands on a cluster."""
    network = network_of(cluster)
    # Ranks compare in three hops, by way of leaders.
    agree_s = 3 * cluster.stage_overhead_s + 2 * cluster.scale_up_latency_s + cluster.scale_out_latency_s
    return lambda demand: NativeCall(*_core.direct_seconds(demand.bytes_matrix, network), agree_s)


def open_collectives(
    group: dist.ProcessGroup,
    cluster: Cluster,
    placement: GroupPlacement,
    *,
    algorithm: str = "auto",
    timeout_s: float | None = None,
) -> CollectiveSession:
    """A session for collectives of a group, planned by a named algorithm."""
    registry.get(algorithm)

    def choose(where: Cluster, collective: Collective, element_bytes: int) -> Plan:
        return plan_collective(where, collective, element_bytes, algorithm)

    return CollectiveSession(group, cluster, placement, choose, algorithm, timeout_s)


def plan_collective(cluster: Cluster, collective: Collective, element_bytes: int, algorithm: str = "auto") -> Plan:
    """A plan that cuts no element in two and, where all ranks receive a sum, forms it at one of them.

    Sums are planned in elements, on a cluster whose rates count elements, and then written out in bytes.
    """
    if not collective.reduces:
        return synthesize(cluster, collective, algorithm)
    coarse = _counting_elements(cluster, element_bytes)
    counted = replace(collective, size_bytes=collective.size_bytes // element_bytes)
    names = [algorithm, *(name for name in SUMS_ONCE if name != algorithm)]
    for name in names:
        try:
            made = synthesize(coarse, counted, name)
        except InvalidInput:
            if name == algorithm:
                raise
            continue
        if collective.kind is not CollectiveKind.ALL_REDUCE or _sums_once(made):
            return _in_bytes(made, cluster, element_bytes, collective)
    raise InvalidInput(f"algorithm {algorithm!r} forms sums at several ranks, and {', '.join(SUMS_ONCE)} cannot do it")


def _counting_elements(cluster: Cluster, element_bytes: int) -> Cluster:
    """A cluster whose rates count elements."""
    names = [field.name for field in fields(Cluster) if field.name.endswith("bytes_per_s")] + ["faults"]
    return cluster.with_(**{name: _scaled(getattr(cluster, name), 1 / element_bytes) for name in names})


def _scaled(value: object, factor: float) -> object:
    """Rates, lists of them, and faults that name one."""
    if isinstance(value, tuple):
        return tuple(_scaled(each, factor) for each in value)
    if isinstance(value, Fault):
        names = [field.name for field in fields(value) if field.name.endswith("bytes_per_s")]
        return replace(value, **{name: _scaled(getattr(value, name), factor) for name in names})  # type: ignore[arg-type]
    assert isinstance(value, int | float)
    return value * factor


def _in_bytes(
    plan: Plan,
    cluster: Cluster,
    element_bytes: int,
    collective: Collective | None = None,
    step: StepTasks | None = None,
) -> Plan:
    """The same plan with every element written out."""
    items = replace(plan.problem.items, size_bytes=plan.problem.items.size_bytes * element_bytes)
    rows = plan.schedule
    pieces = replace(rows.pieces, offset=rows.pieces.offset * element_bytes, length=rows.pieces.length * element_bytes)
    schedule = replace(rows, size_bytes=rows.size_bytes * element_bytes, pieces=pieces)
    problem = Problem(cluster.topology, items, cluster=cluster, collective=collective, step=step)
    return Plan(problem, schedule, plan.algorithm, seed=plan.seed, decide_s=plan.decide_s)


def _sums_once(plan: Plan) -> bool:
    """Whether all ranks but one end with a copy of every byte."""
    rows, problem = plan.schedule, plan.problem
    assert problem.collective is not None
    ranks = problem.num_ranks if problem.collective.group is None else len(problem.collective.group)
    return _copied_bytes(rows) == (ranks - 1) * int(problem.items.size_bytes.sum())


def _copied_bytes(rows: Schedule) -> int:
    """Bytes of items that ranks are sent copies of, each counted once per rank."""
    pieces = rows.pieces
    copies = np.flatnonzero(rows.kind[pieces.message] == Kind.COPY)
    ends = rows.dst.take(pieces.message[copies])
    piece = copies[ends.row_of_value]
    columns = (ends.values, pieces.item[piece], pieces.offset[piece], pieces.length[piece])
    distinct = np.unique(np.stack([np.asarray(column, np.int64) for column in columns], axis=1), axis=0)
    return int(distinct[:, 3].sum())


def with_gaps(cluster: Cluster | None, placement: GroupPlacement) -> Cluster:
    """The cluster, with places that no rank plays marked as missing GPUs."""
    servers, width = max(placement.server_of) + 1, placement.ranks_per_server
    where = cluster_preset("h200", servers=servers, gpus_per_server=width) if cluster is None else cluster
    placement.check_cluster(where)
    gaps = tuple(MissingGpu(rank // width, rank % width) for rank in placement.empty)
    return where.with_(faults=(*where.faults, *gaps)) if gaps else where


def _always_native(where: Cluster, demand: Demand) -> PlanOrNative:
    return PlanOrNative(None, "the backend's own call was asked for", is_sure=True)


def execute(
    plan: Plan, source: torch.Tensor, target: torch.Tensor, group: dist.ProcessGroup, timeout_s: float | None = None
) -> None:
    """Run any plan (synthesized, imported, All-to-All) on this rank's buffers.

    `source` holds what this rank contributes, `target` what it must end with, each end to end in the order of the
    plan's items. Sums are taken in the element type of `source`.

    Examples
    --------
    >>> import interlock as il
    >>> from interlock.execution import execute
    >>> ring = il.synthesize(il.topology.ring(4, bandwidth="50 GB/s"), il.all_reduce("4 kB"))  # doctest: +SKIP
    >>> execute(ring, gradients, total, torch.distributed.group.WORLD)  # doctest: +SKIP
    """
    import torch

    check_whole_elements(plan, source.element_size())
    if not target.is_contiguous():
        raise InvalidInput("target must be contiguous")
    runner = Runner(group, timeout_s)
    try:
        lowered = runner.lower(plan, runner.rank)
        runner.compare(plan)
        flat = [tensor.reshape(-1).view(torch.uint8) for tensor in (source.contiguous(), target)]
        runner.run(lowered, flat[0], flat[1], combining(source.dtype))
    finally:
        runner.close()


def check_whole_elements(plan: Plan, size_bytes: int) -> None:
    """Raise where a plan that sums would cut an element in two."""
    if not plan.problem.items.are_reduced:
        return
    pieces = plan.schedule.pieces
    cut = np.flatnonzero((pieces.offset % size_bytes != 0) | (pieces.length % size_bytes != 0))
    if len(cut):
        first = int(cut[0])
        raise InvalidInput(
            f"message {pieces.message[first]} carries {pieces.length[first]} bytes from byte {pieces.offset[first]} of "
            f"an item, which cuts elements of {size_bytes} bytes; plan fewer chunks or a size that divides evenly"
        )


def plan_step(step: Step, algorithm: str = "joint", element_bytes: int = 1) -> Plan:
    """A plan of a step that cuts no element in two: made in elements, on a cluster whose rates count elements."""
    if element_bytes == 1:
        return plan(step, algorithm=algorithm)
    coarse = Step(_counting_elements(step.cluster, element_bytes), step.name)
    for task in step.tasks:
        if task.what is None:
            coarse.compute(
                task.name, task.seconds, ranks=task.ranks, after=task.after, ready=task.ready_s, alone=task.alone
            )
            continue
        size = task.what.bytes_matrix if isinstance(task.what, Demand) else task.what.size_bytes
        if np.any(np.asarray(size) % element_bytes):
            raise InvalidInput(f"task {task.name!r} moves bytes that are no whole elements of {element_bytes} bytes")
        counted: Demand | Collective = (
            Demand(task.what.bytes_matrix // element_bytes, task.what.name, task.what.seed)
            if isinstance(task.what, Demand)
            else replace(task.what, size_bytes=task.what.size_bytes // element_bytes)
        )
        coarse.move(task.name, counted, after=task.after, ready=task.ready_s)
    made = plan(coarse, algorithm=algorithm)
    assert made.problem.step is not None
    return _in_bytes(made, step.cluster, element_bytes, step=replace(made.problem.step, tasks=step.tasks))
