"""`lab run --collective`: collectives on real sockets against the backend's own, every value checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from interlock.collectives import Collective, CollectiveKind
from interlock.cost import lower_bound
from interlock.errors import InvalidInput
from interlock.execution import NATIVE, plan_collective
from interlock.lab.jobs import Timings, in_turns, own_groups, timed
from interlock.lab.network import LabSpec
from interlock.lab.ranks import RankContext, RankProcesses
from interlock.lab.run import TIMEOUT_S, WARM_UP, LabRow, as_measured, check_native, with_message_cost
from interlock.problem import collective_problem
from interlock.topology import Cluster

if TYPE_CHECKING:
    import torch

    from interlock.torch_collectives import Collectives, Pending

__all__ = ["KINDS", "Trial", "collective_of", "compare_collective_in_lab", "measure_collective"]

KINDS = (
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.BROADCAST,
)
ELEMENT_BYTES = 4  # float32
LARGEST = 251  # values are whole numbers below, so that sums are exact in any order


def collective_of(kind: str, bytes_per_rank: int, num_ranks: int) -> Collective:
    """The collective to which every rank (of a Broadcast, the root) gives so many bytes, in whole elements."""
    if kind not in list(KINDS):
        raise InvalidInput(f"--collective {kind} must be one of {', '.join(KINDS)}")
    known = CollectiveKind(kind)
    elements = bytes_per_rank // ELEMENT_BYTES
    if known is CollectiveKind.REDUCE_SCATTER:
        elements -= elements % num_ranks
    if elements < 1:
        raise InvalidInput(f"--size of {bytes_per_rank} bytes is less than one element of {ELEMENT_BYTES} per share")
    return Collective(known, elements * ELEMENT_BYTES * (num_ranks if known is CollectiveKind.ALL_GATHER else 1))


def compare_collective_in_lab(
    ranks: RankProcesses,
    spec: LabSpec,
    wanted: Collective,
    algorithms: Sequence[str],
    *,
    repeat: int = 10,
    calibrate_s: float = 0.0,
    progress: Callable[[str], None] = lambda words: None,
) -> tuple[LabRow, ...]:
    """Measure algorithms on one collective of float32; "native" is torch's own call.

    The bound is that of the declared network; plans and predictions use what `calibrate_s` seconds per tier and a trial
    measure, where that is not 0.
    """
    declared = spec.to_cluster()
    check_native(declared, algorithms)
    cluster = as_measured(declared, ranks, calibrate_s, progress)
    if calibrate_s > 0:
        cluster = with_message_cost(ranks, cluster)
    progress("planning")
    # For torch's own call the ring that gloo's are, over ranks in order.
    stand_ins = {name: "ring" if name == NATIVE else name for name in algorithms}
    plans = {name: plan_collective(cluster, wanted, ELEMENT_BYTES, plan) for name, plan in stand_ins.items()}
    progress("measuring")
    limit_s = TIMEOUT_S * (repeat + WARM_UP)
    told = ranks.call(measure_collective, cluster, wanted, list(algorithms), repeat, WARM_UP, timeout_s=limit_s)
    bound_s = lower_bound(collective_problem(declared.topology, wanted, cluster=declared)).seconds
    return tuple(
        LabRow.of(name, [each[name] for each in told], plan, plan.simulate().makespan_s, bound_s)
        for name, plan in plans.items()
    )


def measure_collective(
    context: RankContext, cluster: Cluster, wanted: Collective, algorithms: list[str], repeat: int, warm_up: int
) -> dict[str, Timings]:
    """Run a collective by each algorithm in turn, `repeat` times after `warm_up`, each over connections of its own."""
    from interlock.torch_collectives import Collectives

    hosts = [f"server{rank // cluster.gpus_per_server}" for rank in range(context.num_ranks)]

    def run_once(handle: Collectives, turn: int, timings: Timings) -> float:
        trial = Trial.of(handle, wanted, context.rank, context.num_ranks, turn)
        took_s, _ = timed(context, lambda: trial.call(False))
        timings.valid &= trial.is_right
        if turn == 0 and not handle.is_native:
            timings.plan_s = took_s
            prepared = handle.session.prepare(wanted.kind, wanted.size_bytes, ELEMENT_BYTES)
            timings.scratch_bytes = prepared.lowered.program.scratch_bytes
        return took_s

    with own_groups(context, algorithms) as groups, ExitStack() as opened:
        calls = {name: Collectives(cluster, group, hosts=hosts, algorithm=name) for name, group in groups.items()}
        for handle in calls.values():
            opened.callback(handle.close)
        return in_turns({name: partial(run_once, handle) for name, handle in calls.items()}, repeat, warm_up)


@dataclass(slots=True, eq=False)
class Trial:
    """One call with values that tell rank, place and turn: `call` runs it, then `made` must equal `expected`."""

    call: Callable[[bool], Pending | None]  # whether to return while it is under way
    made: torch.Tensor
    expected: torch.Tensor

    @classmethod
    def of(cls, calls: Collectives, wanted: Collective, rank: int, ranks: int, turn: int) -> Trial:
        """A rank's part in a collective."""
        import torch

        elements = wanted.size_bytes // ELEMENT_BYTES
        share = elements // ranks
        if wanted.kind is CollectiveKind.ALL_REDUCE:
            made = values_of(rank, elements, turn)
            return cls(lambda later: calls.all_reduce(made, async_op=later), made, sum_of(ranks, elements, turn))
        if wanted.kind is CollectiveKind.ALL_GATHER:
            made, given = torch.full((elements,), -1.0), values_of(rank, share, turn)
            expected = torch.cat([values_of(each, share, turn) for each in range(ranks)])
            return cls(lambda later: calls.all_gather_into_tensor(made, given, later), made, expected)
        if wanted.kind is CollectiveKind.REDUCE_SCATTER:
            made, given = torch.full((share,), -1.0), values_of(rank, elements, turn)
            expected = sum_of(ranks, elements, turn)[rank * share : (rank + 1) * share]
            return cls(lambda later: calls.reduce_scatter_tensor(made, given, async_op=later), made, expected)
        expected = values_of(wanted.root, elements, turn)
        made = expected.clone() if rank == wanted.root else torch.full((elements,), -1.0)
        return cls(lambda later: calls.broadcast(made, wanted.root, later), made, expected)

    @property
    def is_right(self) -> bool:
        """Whether every value came out as it must."""
        return bool((self.made == self.expected).all())


def values_of(rank: int, count: int, turn: int) -> torch.Tensor:
    """What a rank gives: whole numbers as float32."""
    import torch

    return ((torch.arange(count) * 7 + rank * 31 + turn * 13) % LARGEST).to(torch.float32)


def sum_of(ranks: int, count: int, turn: int) -> torch.Tensor:
    """What all ranks give, added up."""
    total = values_of(0, count, turn)
    for rank in range(1, ranks):
        total += values_of(rank, count, turn)
    return total
