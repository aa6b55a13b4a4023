"""What tests of collectives run on ranks; each is given its RankContext first."""

from __future__ import annotations

import torch
import torch.distributed as dist

import interlock as il
import interlock.torch as ilt
from interlock.errors import InterlockError
from interlock.lab.collectives import KINDS, Trial, collective_of
from interlock.lab.ranks import RankContext
from runtime.jobs import hosts_of

OPS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
}


def _rows(ranks: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers by rank, exact in any type and any order of summation."""
    return torch.stack([((torch.arange(count) * 7 + rank * 3) % 5).to(dtype) for rank in range(ranks)])


def _joined(rows: torch.Tensor, op: str) -> torch.Tensor:
    """What the operation must give, in the type of the rows."""
    if op in ("max", "min"):
        found = torch.zeros_like(rows[0])
        found.copy_(rows.to(torch.float64).amax(0) if op == "max" else rows.to(torch.float64).amin(0))
        return found
    wide = rows.to(torch.complex128 if rows.is_complex() else torch.float64).sum(0)
    if op == "avg":
        wide = wide / len(rows)
        wide = wide if rows.is_floating_point() or rows.is_complex() else wide.trunc()
    return wide.to(rows.dtype)


def wrong_results(context: RankContext, cluster: il.Cluster, dtypes: list[torch.dtype], algorithm: str) -> list[str]:
    """Calls whose result differs from what torch promises."""
    wrong = []
    ranks, rank = context.num_ranks, context.rank
    with ilt.Collectives(cluster, context.group, hosts=hosts_of(cluster), algorithm=algorithm) as calls:
        for dtype in dtypes:
            for name, op in OPS.items():
                if (dtype.is_complex and name in ("max", "min")) or (dtype == torch.bool and name == "avg"):
                    continue
                for count in (1, 1003):
                    rows = _rows(ranks, ranks * count, dtype)
                    expected, held = _joined(rows, name), rows[rank].clone()
                    calls.all_reduce(held, op)
                    share = torch.empty(count, dtype=dtype)
                    calls.reduce_scatter_tensor(share, rows[rank].clone(), op)
                    if not torch.equal(held, expected):
                        wrong.append(f"all_reduce {dtype} {name} {count}")
                    if not torch.equal(share, expected[rank * count : (rank + 1) * count]):
                        wrong.append(f"reduce_scatter {dtype} {name} {count}")
            rows = _rows(ranks, 12, dtype).reshape(ranks, 3, 4)
            gathered = torch.empty((ranks * 3, 4), dtype=dtype)
            calls.all_gather_into_tensor(gathered, rows[rank])
            if not torch.equal(gathered, rows.reshape(ranks * 3, 4)):
                wrong.append(f"all_gather {dtype}")
            odd = torch.stack([rows[rank], torch.zeros_like(rows[rank])])[0].T  # not contiguous
            calls.broadcast(odd, ranks - 1)
            if not torch.equal(odd, rows[ranks - 1].T):
                wrong.append(f"broadcast {dtype}")
        calls.all_reduce(torch.empty(0))
    return wrong


def bits(context: RankContext, cluster: il.Cluster, algorithm: str) -> list[bytes]:
    """The bytes of sums of numbers whose order of summation shows."""
    torch.manual_seed(context.rank)
    made = []
    with ilt.Collectives(cluster, context.group, hosts=hosts_of(cluster), algorithm=algorithm) as calls:
        for dtype in (torch.float32, torch.bfloat16):
            values = torch.randn(10_001).to(dtype)
            calls.all_reduce(values)
            made.append(values.view(torch.uint8).numpy().tobytes())
    return made


def drop_ins(context: RankContext, hosts: list[str]) -> list[str]:
    """The functions of `interlock.torch` beside torch's own, some of them under way together."""
    rank, ranks, wrong = context.rank, context.num_ranks, []
    ilt._collectives[id(context.group)] = ilt.Collectives(None, context.group, hosts=hosts)
    held, twice = torch.full((1000,), float(rank)), torch.full((7,), rank)
    gathered, share = torch.empty(3 * ranks), torch.empty(5)
    pending = [
        ilt.all_reduce(held, group=context.group, async_op=True),
        ilt.all_gather_into_tensor(gathered, torch.full((3,), float(rank)), context.group, async_op=True),
    ]
    ilt.all_reduce(twice, dist.ReduceOp.MAX, context.group)
    ilt.reduce_scatter_tensor(share, torch.arange(5.0 * ranks), group=context.group)
    for call in pending:
        assert call is not None and call.wait() and call.is_completed()
    total = ranks * (ranks - 1) // 2
    wrong += [] if torch.equal(held, torch.full((1000,), float(total))) else ["all_reduce"]
    wrong += [] if (twice == ranks - 1).all() else ["max"]
    wrong += [] if torch.equal(gathered, torch.arange(ranks).repeat_interleave(3).float()) else ["all_gather"]
    wrong += [] if torch.equal(share, ranks * torch.arange(5.0 * rank, 5.0 * rank + 5)) else ["reduce_scatter"]
    told = torch.full((9,), rank)
    ilt.broadcast(told, group=context.group, group_src=1)
    wrong += [] if (told == 1).all() else ["broadcast"]
    calls = ilt._kept(ilt._collectives, context.group, ilt.Collectives)
    plan = calls.plan
    ilt.broadcast(told, group=context.group, group_src=1)
    wrong += [] if calls.plan is plan else ["planned again"]
    ilt._collectives.pop(id(context.group)).close()
    return wrong


def complaints(context: RankContext, cluster: il.Cluster) -> list[str]:
    """What bad arguments raise: one rank's alone, and everybody's."""
    told = []
    with ilt.Collectives(cluster, context.group, hosts=hosts_of(cluster), algorithm="ring") as calls:
        for call in (
            lambda: calls.all_reduce(torch.ones(4 + context.rank // 3)),
            lambda: calls.all_reduce(torch.ones(4), dist.ReduceOp.PRODUCT),
            lambda: calls.all_reduce(torch.ones(4, dtype=torch.complex64), dist.ReduceOp.MAX),
            lambda: calls.all_gather_into_tensor(torch.ones(5), torch.ones(2)),
            lambda: calls.reduce_scatter_tensor(torch.ones(1), torch.ones(4, dtype=torch.int32)),
            lambda: calls.broadcast(torch.ones(1), 9),
        ):
            try:
                call()
                told.append("nothing")
            except InterlockError as error:
                told.append(f"{type(error).__name__}: {error}")
        held = torch.ones(4)
        calls.all_reduce(held)  # works again
        told.append(str(held.tolist()))
    return told


def all_kinds(context: RankContext, cluster: il.Cluster, hosts: list[str], algorithm: str) -> list[str]:
    """Kinds that come out wrong on servers that are not all full."""
    wrong = []
    with ilt.Collectives(cluster, context.group, hosts=hosts, algorithm=algorithm) as calls:
        for kind in KINDS:
            wanted = collective_of(kind, 40_000, context.num_ranks)
            trial = Trial.of(calls, wanted, context.rank, context.num_ranks, 1)
            trial.call(False)
            wrong += [] if trial.is_right else [str(kind)]
    return wrong
