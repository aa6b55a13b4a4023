"""Joins planning and runtime: what to run for a demand, and plans of any kind run over a process group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms import registry
from interlock.algorithms.auto import Chosen
from interlock.algorithms.two_tier_plan import TwoTierPlan, Way
from interlock.collectives import Collective, CollectiveKind
from interlock.errors import InvalidInput
from interlock.planning import Plan, plan, planner, synthesize
from interlock.problem import Problem, Step, demand_problem
from interlock.runtime import Choice, CollectiveSession, Placement, Runner, Session
from interlock.runtime.buffers import combining
from interlock.schedule import Kind, Schedule
from interlock.topology import Cluster, Fault, MissingGpu
from interlock.topology import cluster as cluster_preset
from interlock.traffic import Demand

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = [
    "check_whole_elements",
    "choose_faster",
    "execute",
    "least_seconds",
    "native_seconds",
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
PORT_BYTES = 128 * 1024  # a burst that a shallow switch port holds, however many send it


def open_session(
    group: dist.ProcessGroup,
    cluster: Cluster,
    placement: Placement,
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
    small: list[tuple[Cluster, float]] = []  # of the cluster of the last demand
    makers: dict[tuple[int, int], Callable[[Demand], Plan]] = {}

    def choose(where: Cluster, demand: Demand) -> Choice:
        if fallback:
            if not small or small[0][0] is not where:
                small[:] = [(where, surely_native_bytes(where))]
            if _most_bytes(demand.bytes_matrix) <= small[0][1]:
                words = f"a plan gains nothing: no rank has more than {small[0][1]:.0f} bytes to send or receive"
                return Choice(None, words, is_sure=True)
            if (cheap := native_at_once(where, demand)) is not None:
                return cheap
        if where.faults and (reason := chosen.supports(demand_problem(where, demand))) is not None:
            if not fallback:
                raise InvalidInput(f"algorithm {algorithm!r} does not support this cluster: {reason}")
            return Choice(None, f"{algorithm} cannot plan this: {reason}")
        key = id(where), align(demand)
        if key not in makers:
            for old in [old for old in makers if old[0] != key[0]]:
                makers.pop(old)
            makers[key] = planner(where, algorithm, align=key[1])
        made = makers[key](demand)
        return choose_faster(where, demand, made) if fallback else Choice(made, f"planned by {algorithm}")

    return Session(group, cluster, placement, choose, f"{algorithm} {fallback}", timeout_s)


def native_at_once(cluster: Cluster, demand: Demand) -> Choice | None:
    """The backend's own call, without planning and without comparing, where no imaginable plan could beat it.

    Only where that is so by more than arithmetic on different machines could differ.
    """
    least_s, native_s = least_seconds(cluster, demand.bytes_matrix), native_seconds(cluster, demand.bytes_matrix)
    if native_s > least_s * MARGIN * (1 - SURELY):
        return None
    words = f"a plan gains nothing: {least_s:.3g} s at the very least, the backend's own call {native_s:.3g} s"
    return Choice(None, words, is_sure=True)


def surely_native_bytes(cluster: Cluster) -> float:
    """Bytes that a rank may send and receive so that the hops of any plan take longer than the backend's own call.

    So small demands, whose decision would take as long as they do, are decided by one comparison.
    """
    nothing = np.zeros((cluster.num_ranks,) * 2, np.int64)
    most_s = native_seconds(cluster, nothing) + (cluster.num_ranks - 1) * cluster.message_overhead_s
    slowest = max(1e-9, min(float(cluster.nic_bandwidth_bytes_per_s.min()), cluster.slowest_scale_up_bytes_per_s))
    fan_in, senders = cluster.fabric.fan_in, cluster.num_ranks - cluster.gpus_per_server
    loss = 0.0 if fan_in is None else cluster.fabric.loss_per_sender * max(senders - fan_in, 0)
    left_s = least_seconds(cluster, nothing) * MARGIN * (1 - SURELY) - most_s
    return left_s * slowest / (1 + loss)


def _most_bytes(bytes_matrix: NDArray[np.int64]) -> int:
    return int(max(bytes_matrix.sum(axis=0).max(initial=0), bytes_matrix.sum(axis=1).max(initial=0)))


def choose_faster(cluster: Cluster, demand: Demand, made: Plan) -> Choice:
    """A plan, or the backend's own call where the plan is not predicted to gain.

    A plan whose algorithm predicts nothing counts as the best imaginable one.
    """
    planned_s, native_s = made.predicted_s, native_seconds(cluster, demand.bytes_matrix)
    compact = made.compact.compact if isinstance(made.compact, Chosen) else made.compact
    if isinstance(compact, TwoTierPlan):  # which knows what sending everything at once takes, by the same model
        native_s = min(native_s, compact.decision.predicted_s[Way.DIRECT])
    if planned_s is None:
        planned_s = least_seconds(cluster, demand.bytes_matrix)
    if native_s > planned_s * MARGIN:
        return Choice(made, f"planned by {made.algorithm}")
    return Choice(None, f"a plan gains nothing: {planned_s:.3g} s predicted, the backend's own call {native_s:.3g} s")


def open_collectives(
    group: dist.ProcessGroup,
    cluster: Cluster,
    placement: Placement,
    *,
    algorithm: str = "auto",
    timeout_s: float | None = None,
) -> CollectiveSession:
    """A session for collectives of a group, planned by a named algorithm."""
    registry.get(algorithm)

    def choose(where: Cluster, wanted: Collective, element_bytes: int) -> Plan:
        return plan_collective(where, wanted, element_bytes, algorithm)

    return CollectiveSession(group, cluster, placement, choose, algorithm, timeout_s)


def plan_collective(cluster: Cluster, wanted: Collective, element_bytes: int, algorithm: str = "auto") -> Plan:
    """A plan that cuts no element in two and, where all ranks receive a sum, forms it at one of them.

    Sums are planned in elements, on a cluster whose rates count elements, and then written out in bytes.
    """
    if not wanted.reduces:
        return synthesize(cluster, wanted, algorithm)
    coarse = cluster.with_(**{name: _scaled(getattr(cluster, name), 1 / element_bytes) for name in _rate_fields()})
    counted = replace(wanted, size_bytes=wanted.size_bytes // element_bytes)
    names = [algorithm, *(name for name in SUMS_ONCE if name != algorithm)]
    for name in names:
        try:
            made = synthesize(coarse, counted, name)
        except InvalidInput:
            if name == algorithm:
                raise
            continue
        if wanted.kind is not CollectiveKind.ALL_REDUCE or _sums_once(made):
            return _in_bytes(made, cluster, wanted, element_bytes)
    raise InvalidInput(f"algorithm {algorithm!r} forms sums at several ranks, and {', '.join(SUMS_ONCE)} cannot do it")


def _rate_fields() -> list[str]:
    return [field.name for field in fields(Cluster) if field.name.endswith("bytes_per_s")] + ["faults"]


def _scaled(value: object, factor: float) -> object:
    """Rates, lists of them, and faults that name one."""
    if isinstance(value, tuple):
        return tuple(_scaled(each, factor) for each in value)
    if isinstance(value, Fault):
        names = [field.name for field in fields(value) if field.name.endswith("bytes_per_s")]
        return replace(value, **{name: _scaled(getattr(value, name), factor) for name in names})  # type: ignore[arg-type]
    assert isinstance(value, int | float)
    return value * factor


def _in_bytes(made: Plan, cluster: Cluster, wanted: Collective, element_bytes: int) -> Plan:
    """The same plan with every element written out."""
    items = replace(made.problem.items, size_bytes=made.problem.items.size_bytes * element_bytes)
    rows = made.schedule
    pieces = replace(rows.pieces, offset=rows.pieces.offset * element_bytes, length=rows.pieces.length * element_bytes)
    schedule = replace(rows, size_bytes=rows.size_bytes * element_bytes, pieces=pieces)
    problem = Problem(cluster.topology, items, cluster=cluster, collective=wanted)
    return Plan(problem, schedule, made.algorithm, seed=made.seed, decide_s=made.decide_s)


def _sums_once(made: Plan) -> bool:
    """Whether all ranks but one end with a copy of every byte."""
    rows, problem = made.schedule, made.problem
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


def with_gaps(cluster: Cluster | None, placement: Placement) -> Cluster:
    """The cluster, with places that no rank plays marked as missing GPUs."""
    servers, width = max(placement.server_of) + 1, placement.ranks_per_server
    where = cluster_preset("h200", servers=servers, gpus_per_server=width) if cluster is None else cluster
    placement.check_cluster(where)
    gaps = tuple(MissingGpu(rank // width, rank % width) for rank in placement.empty)
    return where.with_(faults=(*where.faults, *gaps)) if gaps else where


def _always_native(where: Cluster, demand: Demand) -> Choice:
    return Choice(None, "the backend's own call was asked for", is_sure=True)


def least_seconds(cluster: Cluster, bytes_matrix: NDArray[np.int64]) -> float:
    """What a plan cannot do without: the busiest server's bytes over all its NICs, a few hops, and its messages.

    A rank sends and receives at least one for each server and for each GPU beside it, on the way out and on the way in.
    """
    between, rates = _between_servers(cluster, bytes_matrix)
    port_s = np.maximum(between.sum(axis=0), between.sum(axis=1)) / np.maximum(rates.sum(axis=1), 1e-9)
    inside = _inside(cluster, bytes_matrix) / cluster.slowest_scale_up_bytes_per_s
    messages = 4 * (cluster.servers + cluster.gpus_per_server)
    hops_s = cluster.stage_overhead_s * max(1, cluster.servers - 1) + messages * cluster.message_overhead_s
    hops_s += cluster.scale_out_latency_s + 2 * cluster.scale_up_latency_s
    return float(max(port_s.max(initial=0.0), inside) + hops_s)


def native_seconds(cluster: Cluster, bytes_matrix: NDArray[np.int64]) -> float:
    """What sending everything at once takes: the busiest NIC, slowed down by as many senders as it has."""
    width = cluster.gpus_per_server
    server = np.arange(cluster.num_ranks) // width
    far = np.where(server[:, None] != server[None, :], bytes_matrix, 0)
    rates = np.maximum(cluster.nic_bandwidth_bytes_per_s, 1e-9)
    senders = (far > 0).sum(axis=0)
    fan_in = cluster.fabric.fan_in
    loss = np.zeros(len(far)) if fan_in is None else cluster.fabric.loss_per_sender * np.maximum(senders - fan_in, 0)
    loss[far.sum(axis=0) <= PORT_BYTES] = 0.0
    port_s = np.maximum(far.sum(axis=1) / rates, far.sum(axis=0) / rates * (1 + loss))
    inside = _inside(cluster, bytes_matrix) / cluster.slowest_scale_up_bytes_per_s
    messages = int((bytes_matrix > 0).sum(axis=1).max(initial=0))
    fixed_s = cluster.stage_overhead_s + messages * cluster.message_overhead_s + cluster.scale_out_latency_s
    return float(max(port_s.max(initial=0.0), inside) + fixed_s)


def _between_servers(
    cluster: Cluster, bytes_matrix: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    shape = (cluster.servers, cluster.gpus_per_server)
    between = bytes_matrix.reshape(*shape, *shape).sum(axis=(1, 3))
    np.fill_diagonal(between, 0)
    return between, cluster.nic_bandwidth_bytes_per_s.reshape(shape)


def _inside(cluster: Cluster, bytes_matrix: NDArray[np.int64]) -> int:
    """Bytes of the rank that exchanges most inside its server."""
    server = np.arange(cluster.num_ranks) // cluster.gpus_per_server
    near = np.where(server[:, None] == server[None, :], bytes_matrix, 0)
    np.fill_diagonal(near, 0)
    return int(np.maximum(near.sum(axis=0), near.sum(axis=1)).max(initial=0))


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
    rates = {name: _scaled(getattr(step.cluster, name), 1 / element_bytes) for name in _rate_fields()}
    coarse = Step(step.cluster.with_(**rates), step.name)
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
    items = replace(made.problem.items, size_bytes=made.problem.items.size_bytes * element_bytes)
    rows = made.schedule
    pieces = replace(rows.pieces, offset=rows.pieces.offset * element_bytes, length=rows.pieces.length * element_bytes)
    schedule = replace(rows, size_bytes=rows.size_bytes * element_bytes, pieces=pieces)
    tasks = replace(made.problem.step, tasks=step.tasks) if made.problem.step is not None else None
    problem = Problem(step.cluster.topology, items, cluster=step.cluster, step=tasks)
    return Plan(problem, schedule, made.algorithm, decide_s=made.decide_s)
