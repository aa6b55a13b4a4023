"""Collectives for torch programs: the calls of torch.distributed on one process group, moved by plans.

Sums of floating-point numbers are formed at one rank for every element and copied to the others, so all ranks end with
the same bits. Partial sums join in the order in which they arrive, which may change from call to call where several
come to one rank; `algorithm="ring"` always adds in the order of its rings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
import torch.distributed as dist

from interlock.collectives import CollectiveKind
from interlock.errors import InvalidInput
from interlock.execution import NATIVE, open_collectives, with_gaps
from interlock.planning import Plan
from interlock.runtime import GroupPlacement, find_hosts
from interlock.runtime.pending import Calls, Pending
from interlock.runtime.placement import group_or_default
from interlock.runtime.tensors import flat
from interlock.topology import Cluster

__all__ = ["Collectives", "Pending", "ReduceOp"]

ReduceOp = dist.ReduceOp | dist.ReduceOp.RedOpType
OPERATIONS: dict[ReduceOp, str] = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "sum",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.MIN: "min",
}


class Collectives:
    """All-Reduce, All-Gather, Reduce-Scatter and Broadcast on one process group, planned once for every size.

    Parameters
    ----------
    cluster
        The machines; measure them with `calibrate`. None: an H200 preset of the group's shape.
    group
        The process group; None is the default one.
    hosts
        Name of each rank's server; None asks every rank for its host name and LOCAL_RANK.
    algorithm
        A name from the registry, or "native" for the backend's own calls.

    Calls are run one at a time in the order in which they were made, whoever made them; every rank must make the same
    calls in the same order, as with torch.distributed. With `async_op`, any number may be under way.

    Examples
    --------
    >>> calls = Collectives(cluster)  # doctest: +SKIP
    >>> calls.all_reduce(gradients)  # doctest: +SKIP
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        group: dist.ProcessGroup | None = None,
        *,
        hosts: Sequence[str] | None = None,
        algorithm: str = "auto",
        timeout_s: float | None = None,
    ) -> None:
        self.group = group_or_default(group)
        self.is_native = algorithm == NATIVE
        self._calls = Calls(self.group, "interlock-collective")
        self.plan: Plan | None = None  # of the last call
        if self.is_native:
            return
        with self._calls.now():
            placement = GroupPlacement.by_host(find_hosts(self.group) if hosts is None else hosts)
            where = with_gaps(cluster, placement)
            self.session = open_collectives(self.group, where, placement, algorithm=algorithm, timeout_s=timeout_s)

    def all_reduce(
        self, tensor: torch.Tensor, op: ReduceOp = dist.ReduceOp.SUM, async_op: bool = False
    ) -> Pending | None:
        """As `torch.distributed.all_reduce`."""
        operation = self._operation(op, tensor)

        def ours() -> None:
            self._move(CollectiveKind.ALL_REDUCE, tensor, tensor, tensor, operation=operation)
            self._finish(tensor, op)

        return self._call([tensor], async_op, ours, lambda: dist.all_reduce(tensor, op, self.group))

    def all_gather_into_tensor(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, async_op: bool = False
    ) -> Pending | None:
        """As `torch.distributed.all_gather_into_tensor`: inputs one behind the other, or stacked."""
        self._check_pair(output_tensor, input_tensor, "output_tensor", "input_tensor")
        return self._call(
            [output_tensor, input_tensor],
            async_op,
            lambda: self._move(CollectiveKind.ALL_GATHER, output_tensor, output_tensor, input_tensor),
            lambda: _gather_natively(output_tensor, input_tensor, self.group),
        )

    def reduce_scatter_tensor(
        self,
        output: torch.Tensor,
        input: torch.Tensor,  # noqa: A002
        op: ReduceOp = dist.ReduceOp.SUM,
        async_op: bool = False,
    ) -> Pending | None:
        """As `torch.distributed.reduce_scatter_tensor`."""
        self._check_pair(input, output, "input", "output")
        operation = self._operation(op, input)

        def ours() -> None:
            self._move(CollectiveKind.REDUCE_SCATTER, input, output, input, operation=operation)
            self._finish(output, op)

        native = partial(dist.reduce_scatter_tensor, output, input, op, self.group)
        return self._call([output, input], async_op, ours, native)

    def broadcast(self, tensor: torch.Tensor, root: int, async_op: bool = False) -> Pending | None:
        """As `torch.distributed.broadcast`; `root` is a rank of the group."""
        if not 0 <= root < self.group.size():
            raise InvalidInput(f"root={root} must be a rank of the group, between 0 and {self.group.size() - 1}")
        given = tensor if self.group.rank() == root else None
        return self._call(
            [tensor],
            async_op,
            lambda: self._move(CollectiveKind.BROADCAST, tensor, tensor, given, root=root),
            lambda: dist.broadcast(tensor, group=self.group, group_src=root),
        )

    def close(self) -> None:
        """Stop threads and heartbeat; the process group stays."""
        self._calls.close()
        if not self.is_native:
            self.session.close()

    def __enter__(self) -> Collectives:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _call(
        self,
        tensors: Sequence[torch.Tensor | None],
        async_op: bool,
        ours: Callable[[], object],
        native: Callable[[], object],
    ) -> Pending | None:
        call = native if self.is_native else ours
        if async_op:
            return self._calls.later(tensors, call)
        with self._calls.now():
            call()
        return None

    def _finish(self, tensor: torch.Tensor, op: ReduceOp) -> None:
        """Turn sums into averages; of whole numbers they are cut towards zero."""
        if op == dist.ReduceOp.AVG:
            is_whole = not (tensor.is_floating_point() or tensor.is_complex())
            held = tensor.detach()
            held.copy_(torch.div(held, self.group.size(), rounding_mode="trunc" if is_whole else None))

    def _move(
        self,
        kind: CollectiveKind,
        whole: torch.Tensor,
        output: torch.Tensor,
        source: torch.Tensor | None,
        *,
        operation: str = "sum",
        root: int = 0,
    ) -> None:
        """Move into the output's own memory where possible, else through kept or temporary memory; `whole` is the
        tensor whose size counts."""
        size_bytes, element_bytes = whole.numel() * whole.element_size(), whole.element_size()
        if size_bytes == 0:
            return
        runner = self.session.runner
        prepared = self.session.prepare(kind, size_bytes, element_bytes, root)
        self.plan = cast(Plan, prepared.plan)
        received = flat(output.detach())  # a copy, filled and copied back, where the output is not contiguous
        sent = received.new_empty(0) if source is None else received if source is output else flat(source.detach())
        element = whole.dtype
        if received.device == runner.device:
            self.session.move(prepared, sent, received, element, operation)
        else:
            # gloo's point-to-point cannot read device memory: stage through host memory.
            host_sent = runner.host_memory("input", sent.numel()).copy_(sent)
            host_received = runner.host_memory("output", received.numel())
            self.session.move(prepared, host_sent, host_received, element, operation)
            received.copy_(host_received)
        if not output.is_contiguous():
            output.detach().copy_(received.view(output.dtype).view(output.shape))

    def _operation(self, op: ReduceOp, tensor: torch.Tensor) -> str:
        found = next((name for known, name in OPERATIONS.items() if known == op), None)
        if found is None:
            raise InvalidInput(f"op={op} is not one of SUM, AVG, MAX and MIN")
        if found != "sum" and tensor.is_complex():
            raise InvalidInput(f"op={op}: {tensor.dtype} has no order, so no largest or smallest")
        return found

    def _check_pair(self, whole: torch.Tensor, share: torch.Tensor, whole_name: str, share_name: str) -> None:
        ranks = self.group.size()
        if whole.numel() != ranks * share.numel():
            raise InvalidInput(
                f"{whole_name} has {whole.numel()} elements; it must have {ranks} times the {share.numel()} of "
                f"{share_name}, one share per rank"
            )
        if whole.dtype != share.dtype or whole.device != share.device:
            raise InvalidInput(
                f"{whole_name} is {whole.dtype} on {whole.device} and {share_name} {share.dtype} on {share.device}; "
                "both must be the same"
            )


def _gather_natively(output: torch.Tensor, source: torch.Tensor, group: dist.ProcessGroup) -> None:
    """The backend's own call, by the name that this version of torch has for it."""
    newer = getattr(dist, "all_gather_single", None)
    (dist.all_gather_into_tensor if newer is None else newer)(output, source, group=group)
