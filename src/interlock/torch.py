"""Collectives for torch programs: the calls of torch.distributed, moved by plans.

`all_to_all_single`, `all_to_all`, `all_reduce`, `all_gather_into_tensor`, `reduce_scatter_tensor` and `broadcast` are
drop-ins. `AllToAll` and `Collectives` are the same with a cluster and an algorithm of one's choice and everything kept:
plans, buffers, and on request the demand of an All-to-All, which saves the exchange before each call. `Experts`
dispatches tokens to experts and combines their results with one copy per server. `calibrate` measures the cluster that
plans are made for.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed.distributed_c10d import _world

from interlock.errors import InvalidInput
from interlock.execution import execute, native_calls, open_session, with_gaps
from interlock.gpu.all_to_all import find_mover
from interlock.gpu.device import missing
from interlock.planning import Plan
from interlock.runtime import Corrupted, Disagreement, GroupPlacement, PeerFailed, Prepared, find_hosts
from interlock.runtime.calibrate import calibrate as measure_network
from interlock.runtime.peers import gather_bytes
from interlock.runtime.pending import Calls, Pending
from interlock.runtime.placement import group_or_default
from interlock.runtime.slot_exchange import all_to_all_natively
from interlock.runtime.staging import Stager
from interlock.runtime.stays import Stays
from interlock.runtime.tensors import Direct, Splits, check_held, flat, row_bytes, split_bytes
from interlock.schedule import VECTOR_BYTES, check_align
from interlock.topology import Cluster, Fabric, read_cluster, write_cluster
from interlock.torch_collectives import Collectives, ReduceOp
from interlock.torch_experts import Experts
from interlock.torch_steps import Step
from interlock.traffic import Demand

__all__ = [
    "AllToAll",
    "Collectives",
    "Corrupted",
    "Disagreement",
    "Experts",
    "PeerFailed",
    "Pending",
    "CallReport",
    "Step",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "calibrate",
    "execute",
    "last_report",
    "reduce_scatter_tensor",
]


@dataclass(frozen=True, slots=True)
class CallReport:
    """What the last call did. Times in seconds; measured ones are this rank's."""

    algorithm: str  # "native" where the backend's own call was taken
    reason: str
    measured_s: float  # moving the bytes
    exchange_s: float  # learning every rank's demand; 0 where it was held
    plan_s: float  # from there until this rank can run; 0 where the plan was kept
    program_s: float  # of that, making this rank's program
    stays_s: float  # copying bytes that stay beside exchange and planning, in none of the others; 0: while moving
    stages: int
    messages: int  # that this rank sends
    plan: Plan | None
    cluster: Cluster
    demand_bytes: NDArray[np.int64]  # by ranks of the cluster

    @property
    def total_s(self) -> float:
        """The whole call: exchange, planning and moving."""
        return self.exchange_s + self.plan_s + self.measured_s

    @property
    def predicted_s(self) -> float:
        """What the simulator says of this plan (an estimate for the backend's own call)."""
        return self.native_s if self.plan is None else self.plan.simulate().makespan_s

    @property
    def native_s(self) -> float:
        """An estimate of what the backend's own call takes."""
        return native_calls(self.cluster)(Demand(self.demand_bytes)).seconds

    @property
    def lower_bound_s(self) -> float | None:
        """No plan is faster than this; None for the backend's own call."""
        return None if self.plan is None else self.plan.bound.seconds


class AllToAll:
    """A reusable All-to-All on one process group.

    Parameters
    ----------
    cluster
        The machines; measure them with `calibrate`. None: an H200 preset of the group's shape.
    group
        The process group; None is the default one.
    hosts
        Name of each rank's server; None asks every rank for its host name and LOCAL_RANK.
    algorithm
        A name from the registry, or "native".
    fallback
        Take the backend's own call where the plan is not predicted to beat it.
    verify
        Compare digests of what was sent and of what arrived after every call; a difference raises `Corrupted` on every
        rank. Every rank must ask for it.
    align
        Bytes of a row, on which plans are cut. None: on 16 bytes where plans run on a device and all parts of a demand
        are multiples of 16, which costs nothing; anywhere else, anywhere.

    Calls are run one at a time in the order in which they were made, whoever made them; every rank must make the same
    calls in the same order, as with torch.distributed. With `async_op`, any number may be under way.

    Examples
    --------
    >>> exchange = AllToAll(cluster)  # doctest: +SKIP
    >>> exchange(output, input, output_splits, input_splits)  # doctest: +SKIP
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        group: dist.ProcessGroup | None = None,
        *,
        hosts: Sequence[str] | None = None,
        algorithm: str = "adaptive",
        fallback: bool = True,
        timeout_s: float | None = None,
        verify: bool = False,
        align: int | None = None,
    ) -> None:
        self._align = None if align is None else check_align(align)
        self.group = group_or_default(group)
        self._calls = Calls(self.group, "interlock-call")
        with self._calls.now():
            placement = GroupPlacement.by_host(find_hosts(self.group) if hosts is None else hosts)
            self.session = open_session(
                self.group,
                with_gaps(cluster, placement),
                placement,
                algorithm=algorithm,
                fallback=fallback,
                timeout_s=timeout_s,
                align=self._align_of,
            )
            self._device_mover = find_mover(self.session)
        self._verifies = verify
        self.rank, self.placement = self.session.rank, placement
        self._held: Prepared | None = None
        self._direct: Direct | None = None  # the held demand, where the backend's own call moves it
        self._last: tuple[Prepared, float, float, float] | None = None
        self._stays, self._stays_s = Stays(), 0.0
        self._stager: Stager | None = None

    def _align_of(self, demand: Demand) -> int:
        """Bytes on whose multiples a plan is cut."""
        if self._align is not None:
            return self._align
        runs_on_device = self.session.runner.uses_batches or self._device_mover is not None
        is_whole = int(np.bitwise_or.reduce(demand.bytes_matrix, axis=None)) % VECTOR_BYTES == 0
        return VECTOR_BYTES if runs_on_device and is_whole else 1

    def __call__(
        self,
        output: torch.Tensor,
        input: torch.Tensor,  # noqa: A002
        output_split_sizes: Splits = None,
        input_split_sizes: Splits = None,
        async_op: bool = False,
    ) -> Pending | None:
        """As `torch.distributed.all_to_all_single`; without splits, the held demand if there is one."""
        needs_gradient = input.requires_grad and torch.is_grad_enabled()
        splits = output_split_sizes, input_split_sizes
        if async_op:
            if needs_gradient:
                raise InvalidInput("async_op=True cannot be combined with an input that requires gradients")
            return self.later([output, input], lambda: self._move(output, input, *splits))
        with self._calls.now():
            if needs_gradient:
                _Differentiable.apply(output, input, self, *splits, None)  # type: ignore[no-untyped-call]
            elif splits == (None, None) and self._direct is not None and self._direct.fits(output, input):
                self._move_directly(self._direct, output, input)
            else:
                self._move(output, input, *splits)
        return None

    def later(self, tensors: Sequence[torch.Tensor], call: Callable[[], None]) -> Pending:
        """Run a call that uses these tensors in its turn, after all that were made before, without waiting for it."""

        def stand_apart_and_call() -> None:
            self.session.stand_apart()
            call()

        return self._calls.later(tensors, stand_apart_and_call)

    def hold(self, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int], like: torch.Tensor) -> None:
        """Share and plan a demand now; calls without splits use it until `release`. Every rank must call it.

        `like` is a tensor with rows like those that will be sent.
        """
        each = row_bytes(like)
        sends = [size * each for size in input_split_sizes]
        with self._calls.now():
            self._held = self.session.prepare(self.session.share(sends, [size * each for size in output_split_sizes]))
            self._direct = None
            if self._held.lowered is None and not self._verifies:
                device = self.session.runner.device
                self._direct = Direct(self._held, list(output_split_sizes), list(input_split_sizes), each, device)

    def release(self) -> None:
        """Forget the held demand."""
        with self._calls.now():
            self._held = self._direct = None

    def share_rows(self, input_split_sizes: Sequence[int]) -> NDArray[np.int64]:
        """Rows that every rank has for every rank, for `move_rows`. Every rank must call it."""
        with self._calls.now():
            return self.session.share(input_split_sizes, None)

    def move_rows(self, output: torch.Tensor, input: torch.Tensor, rows: NDArray[np.int64]) -> None:  # noqa: A002
        """Move rows that were shared before, without another exchange: any number of tensors with the same rows.

        Rows must have the same size on every rank. Gradients flow.
        """
        for tensor, wanted, name in ((input, rows[self.rank], "input"), (output, rows[:, self.rank], "output")):
            if tensor.shape[0] != wanted.sum():
                raise InvalidInput(f"{name} has {tensor.shape[0]} rows but {wanted.sum()} were shared")
        with self._calls.now():
            if input.requires_grad and torch.is_grad_enabled():
                _Differentiable.apply(output, input, self, None, None, rows)  # type: ignore[no-untyped-call]
            else:
                self._move_rows(output, input, rows)

    def native_s(self, bytes_matrix: NDArray[np.int64]) -> float:
        """An estimate of what the backend's own call takes for bytes between all ranks of the group."""
        demand = Demand(self.placement.to_cluster_order(bytes_matrix))
        return native_calls(self.session.cluster)(demand).seconds

    def replan(self, cluster: Cluster) -> None:
        """Plan for another description of the same machines from now on. Every rank must call it."""
        with self._calls.now():
            self.session.replan(with_gaps(cluster, self.session.placement))
            self._held = self._direct = None

    def close(self) -> None:
        """Stop threads and heartbeat; the process group stays."""
        self._calls.close()
        self._stays.close()
        self.session.close()

    def __enter__(self) -> AllToAll:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _move(self, output: torch.Tensor, source: torch.Tensor, output_splits: Splits, input_splits: Splits) -> None:
        start_s = time.perf_counter()
        sent = flat(source.detach())
        held = self._held if output_splits is None and input_splits is None else None
        await_own: Callable[[], object] | None = None
        self._stays_s = 0.0
        if held is not None:
            check_held(held, output, source)
            prepared, has_come = held, False
        else:
            prepared, has_come, await_own = self._agree(output, source, sent, output_splits, input_splits)
        agreed_s = start_s if has_come else time.perf_counter()
        self._carry(prepared, output, sent, has_come, await_own)
        self._note(prepared, held is not None, agreed_s - start_s, time.perf_counter() - agreed_s)

    def _move_rows(self, output: torch.Tensor, source: torch.Tensor, rows: NDArray[np.int64]) -> None:
        start_s = time.perf_counter()
        prepared = self.session.prepare(np.ascontiguousarray(rows * row_bytes(source)))
        prepared_s = time.perf_counter()
        self._carry(prepared, output, flat(source.detach()))
        self._note(prepared, False, prepared_s - start_s, time.perf_counter() - prepared_s)

    def _agree(
        self,
        output: torch.Tensor,
        source: torch.Tensor,
        sent: torch.Tensor,
        output_splits: Splits,
        input_splits: Splits,
    ) -> tuple[Prepared, bool, Callable[[], object] | None]:
        """Share this call's demand and prepare it, and copy the bytes that stay meanwhile.

        A rank with bad splits lets the others know.
        """
        sends, wrong = split_bytes(source, input_splits, self.session.num_ranks, "input")
        expects, also_wrong = split_bytes(output, output_splits, self.session.num_ranks, "output")
        wrong = wrong or also_wrong
        await_own = None if wrong else self._begin_stays(output, sent, sends, expects)
        try:
            prepared, has_come = self.session.agree(sends, expects, wrong, sent)
        except BaseException:
            if await_own is not None:
                await_own()
            raise
        return prepared, has_come, await_own

    def _begin_stays(
        self, output: torch.Tensor, sent: torch.Tensor, sends: Sequence[int], expects: Sequence[int]
    ) -> Callable[[], object] | None:
        """Copy what this rank keeps, where the last call had a plan: the backend's own call copies it by itself."""
        planned = self._last is not None and self._last[0].lowered is not None
        rank, here = self.rank, self.session.runner.device
        if not planned or sent.device != here or not output.is_contiguous() or sends[rank] != expects[rank]:
            return None
        own = sent.narrow(0, sum(sends[:rank]), sends[rank])
        wait = self._stays.begin(own, flat(output.detach()).narrow(0, sum(expects[:rank]), expects[rank]))
        if wait is None:
            return None

        def await_own() -> None:
            self._stays_s = wait()

        return await_own

    def _carry(
        self,
        prepared: Prepared,
        output: torch.Tensor,
        sent: torch.Tensor,
        has_come: bool = False,
        await_own: Callable[[], object] | None = None,
    ) -> None:
        """Move into the output's own memory where possible, else through kept or temporary memory."""
        runner = self.session.runner
        received = flat(output.detach())  # a copy, filled and copied back, where the output is not contiguous
        if has_come:
            if await_own is not None:
                await_own()
            self.session.hand_out(prepared, received)
        elif sent.device == runner.device:
            self.session.move(prepared, sent, received, await_own=await_own)
        elif self._device_mover is not None:
            self._device_mover.move(prepared, sent, received)
        else:
            # gloo's point-to-point cannot read device memory: stage through host memory.
            if self._stager is None:
                self._stager = Stager(runner.host_memory, sent.device)
            staged = self._stager.begin(sent, received)
            self.session.move(prepared, staged.source, staged.target, staged)
            staged.finish()
        if self._verifies:
            self.session.verify(prepared, sent, received)
        if not output.is_contiguous():
            output.detach().copy_(received.view(output.dtype).view(output.shape))

    def _move_directly(self, direct: Direct, output: torch.Tensor, source: torch.Tensor) -> None:
        """The backend's own call with the caller's tensors as they are."""
        start_s, group = time.perf_counter(), self.session.runner.collectives
        self.session.runner.guard(
            lambda: all_to_all_natively(group, output, source, direct.output_rows, direct.input_rows), "moving bytes"
        )
        self._last = direct.held, 0.0, 0.0, time.perf_counter() - start_s

    def _note(self, prepared: Prepared, is_held: bool, agree_s: float, move_s: float) -> None:
        is_new = not is_held and (self._last is None or self._last[0] is not prepared)
        plan_s = prepared.prepare_s if is_new else 0.0
        self._last = prepared, max(0.0, agree_s - plan_s), plan_s, move_s

    @property
    def report(self) -> CallReport | None:
        """What the last call did; None before the first."""
        if self._last is None:
            return None
        prepared, exchange_s, plan_s, measured_s = self._last
        plan = cast(Plan | None, prepared.choice.plan)
        return CallReport(
            algorithm="native" if plan is None else plan.algorithm,
            reason=prepared.choice.reason,
            measured_s=measured_s,
            exchange_s=exchange_s,
            plan_s=plan_s,
            program_s=prepared.program_s if plan_s > 0 else 0.0,
            stays_s=self._stays_s,
            stages=1 if plan is None else plan.num_stages,
            messages=0 if prepared.lowered is None else prepared.lowered.program.num_sends,
            plan=plan,
            cluster=self.session.cluster,
            demand_bytes=prepared.demand_bytes,
        )


class _Differentiable(torch.autograd.Function):
    """Gradients go back the way the values came: the same call with splits swapped."""

    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx,
        output: torch.Tensor,
        source: torch.Tensor,
        handle: AllToAll,
        output_splits: Splits,
        input_splits: Splits,
        rows: NDArray[np.int64] | None,
    ) -> torch.Tensor:
        ctx.handle, ctx.splits, ctx.rows, ctx.shape = handle, (output_splits, input_splits), rows, source.shape
        ctx.held = handle._held if rows is None and output_splits is None and input_splits is None else None
        if rows is None:
            handle._move(output, source, output_splits, input_splits)
        else:
            handle._move_rows(output, source, rows)
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):  # type: ignore[no-untyped-def]
        back = gradient.new_empty(ctx.shape)
        handle: AllToAll = ctx.handle
        with handle._calls.now():
            if ctx.rows is not None:
                handle._move_rows(back, gradient, ctx.rows.T)
            elif ctx.held is None:
                output_splits, input_splits = ctx.splits
                handle._move(back, gradient, input_splits, output_splits)
            else:
                back_again = handle.session.prepare(np.ascontiguousarray(ctx.held.matrix.T))
                handle._carry(back_again, back, flat(gradient.detach()))
        return None, back, None, None, None, None


def calibrate(
    group: dist.ProcessGroup | None = None,
    *,
    hosts: Sequence[str] | None = None,
    path: str | Path | None = None,
    seconds: float = 2.0,
    fabric: Fabric | None = None,
) -> Cluster:
    """The cluster that the group runs on, as measured; every rank must call it and gets the same answer.

    Parameters
    ----------
    hosts
        Name of each rank's server; None asks every rank for its host name and LOCAL_RANK.
    path
        Where rank 0 writes the cluster as TOML, if anywhere.
    seconds
        Roughly how long to measure each tier.
    fabric
        How the fabric bears several senders at one receiver, which is not measured.

    Where rank 0 has a GPU and what it takes to run programs there, what they cost (`gpu_launch_s` and so on) is
    measured on it for all; elsewhere it is assumed.
    """
    where = group_or_default(group)
    made = measure_network(where, hosts=hosts, seconds=seconds, fabric=fabric)
    costs: dict[str, object] = {}
    if where.rank() == 0 and missing() is None:
        from interlock.gpu.costs import measure_costs

        costs = measure_costs()
    told = gather_bytes(where, json.dumps(costs).encode())[0]
    made = made.with_(**json.loads(told))
    if path is not None and where.rank() == 0:
        write_cluster(made, path)
    return made


# Handles of the drop-in calls by group. Those of groups that were destroyed are closed when next one is asked for, or
# at the end: a thread of a group that is still there when the interpreter ends may take the process down.
_handles: dict[int, AllToAll] = {}
_collectives: dict[int, Collectives] = {}
Handle = TypeVar("Handle", AllToAll, Collectives)


def _kept(handles: dict[int, Handle], group: dist.ProcessGroup | None, make: type[Handle]) -> Handle:
    """The handle of a group, made at its first call."""
    _close_gone()
    where = dist.group.WORLD if group is None else group
    if id(where) not in handles:
        file = os.environ.get("INTERLOCK_CLUSTER")
        handles[id(where)] = make(None if file is None else read_cluster(file), where)
    return handles[id(where)]


def _close_gone() -> None:
    """Close the handles of groups that were destroyed."""
    for kept in (_handles, _collectives):
        for key in [key for key, handle in kept.items() if handle.group not in _world.pg_map]:
            kept.pop(key).close()


atexit.register(_close_gone)


def all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp = dist.ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> Pending | None:
    """As `torch.distributed.all_reduce`, for SUM, AVG, MAX and MIN; every rank ends with the same bits."""
    return _kept(_collectives, group, Collectives).all_reduce(tensor, op, async_op)


def all_gather_into_tensor(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> Pending | None:
    """As `torch.distributed.all_gather_into_tensor`."""
    return _kept(_collectives, group, Collectives).all_gather_into_tensor(output_tensor, input_tensor, async_op)


def reduce_scatter_tensor(
    output: torch.Tensor,
    input: torch.Tensor,  # noqa: A002
    op: ReduceOp = dist.ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> Pending | None:
    """As `torch.distributed.reduce_scatter_tensor`, for SUM, AVG, MAX and MIN."""
    return _kept(_collectives, group, Collectives).reduce_scatter_tensor(output, input, op, async_op)


def broadcast(
    tensor: torch.Tensor,
    src: int | None = None,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Pending | None:
    """As `torch.distributed.broadcast`; `src` is a rank of the job, `group_src` one of the group."""
    calls = _kept(_collectives, group, Collectives)
    if src is not None and group_src is None:
        return calls.broadcast(tensor, dist.get_group_rank(calls.group, src), async_op)
    if group_src is None or src is not None:
        raise InvalidInput(f"src={src} and group_src={group_src}: give one of them")
    return calls.broadcast(tensor, group_src, async_op)


def all_to_all_single(
    output: torch.Tensor,
    input: torch.Tensor,  # noqa: A002
    output_split_sizes: Splits = None,
    input_split_sizes: Splits = None,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> Pending | None:
    """As `torch.distributed.all_to_all_single`, with gradients; planned where a plan gains.

    Non-contiguous tensors are fine. Wrong splits raise on every rank before anything is moved.
    """
    return _kept(_handles, group, AllToAll)(output, input, output_split_sizes, input_split_sizes, async_op)


def all_to_all(
    output_tensor_list: Sequence[torch.Tensor],
    input_tensor_list: Sequence[torch.Tensor],
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> Pending | None:
    """As `torch.distributed.all_to_all`: a tensor for and from every rank, of any shapes."""
    handle = _kept(_handles, group, AllToAll)
    if async_op:
        tensors = [*output_tensor_list, *input_tensor_list]
        return handle.later(tensors, lambda: _all_to_all(handle, output_tensor_list, input_tensor_list))
    with handle._calls.now():
        _all_to_all(handle, output_tensor_list, input_tensor_list)
    return None


def _all_to_all(handle: AllToAll, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
    sources = [flat(tensor.detach()) for tensor in inputs]
    sizes = [tensor.numel() * tensor.element_size() for tensor in outputs]
    device = (*inputs, *outputs)[0].device if inputs or outputs else torch.device("cpu")
    source = torch.cat(sources) if sources else torch.empty(0, dtype=torch.uint8, device=device)
    target = torch.empty(sum(sizes), dtype=torch.uint8, device=device)
    handle._move(target, source, sizes, [part.numel() for part in sources])
    for tensor, part in zip(outputs, torch.split(target, sizes), strict=True):
        tensor.detach().copy_(part.view(tensor.dtype).view(tensor.shape))


def last_report(group: dist.ProcessGroup | None = None) -> CallReport | None:
    """What the last drop-in call on the group did; None before the first."""
    handle = _handles.get(id(dist.group.WORLD if group is None else group))
    return None if handle is None else handle.report
