"""What tests run on ranks: importable by name in the rank processes, each given its RankContext first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

import interlock as il
import interlock.torch as ilt
from interlock._native import _core
from interlock.algorithms.adaptive import prepare
from interlock.errors import InterlockError
from interlock.execution import execute, open_session
from interlock.lab.ranks import RankContext
from interlock.planning import Plan, solve
from interlock.problem import Problem
from interlock.runtime import GroupPlacement, Layout
from interlock.runtime.batches import Batches, batches
from runtime.flipping import MARK, ProxiedStore, ask


def pattern(src: int, dst: int, size_bytes: int, salt: int = 0) -> NDArray[np.uint8]:
    """Bytes that tell who sent them, to whom, and when."""
    return ((np.arange(size_bytes) * 7 + src * 31 + dst * 17 + salt * 13) % 251).astype(np.uint8)


def filled(matrix: NDArray[np.int64], rank: int, salt: int = 0) -> torch.Tensor:
    """What a rank sends."""
    parts = [pattern(rank, peer, int(matrix[rank, peer]), salt) for peer in range(len(matrix))]
    return torch.from_numpy(np.concatenate(parts))


def expected(matrix: NDArray[np.int64], rank: int, salt: int = 0) -> torch.Tensor:
    """What a rank must receive."""
    parts = [pattern(peer, rank, int(matrix[peer, rank]), salt) for peer in range(len(matrix))]
    return torch.from_numpy(np.concatenate(parts))


def hosts_of(cluster: il.Cluster) -> list[str]:
    """Server names of a group whose ranks fill servers in order."""
    return [f"server{rank // cluster.gpus_per_server}" for rank in range(cluster.num_ranks)]


def move_all(
    context: RankContext, cluster: il.Cluster, matrices: list[NDArray[np.int64]], algorithms: list[str]
) -> dict[str, list[bool]]:
    """By algorithm, whether each demand arrives byte for byte; nothing falls back."""
    placement = GroupPlacement.in_order(context.num_ranks, cluster.gpus_per_server)
    right: dict[str, list[bool]] = {}
    for algorithm in algorithms:
        session = open_session(context.group, cluster, placement, algorithm=algorithm, fallback=False)
        right[algorithm] = []
        for salt, matrix in enumerate(matrices):
            row, column = matrix[context.rank], matrix[:, context.rank]
            prepared = session.prepare(session.share(row.tolist(), column.tolist()))
            target = torch.full((int(column.sum()),), 255, dtype=torch.uint8)
            session.move(prepared, filled(matrix, context.rank, salt), target)
            right[algorithm].append(torch.equal(target, expected(matrix, context.rank, salt)))
        session.close()
    return right


def keep_much(context: RankContext, cluster: il.Cluster, kept_bytes: list[int]) -> list[tuple[bool, float, float]]:
    """Per call, whether every byte arrived, and what the report says of bytes that stay and of the whole call."""
    told = []
    with ilt.AllToAll(cluster, hosts=hosts_of(cluster), algorithm="no-stage", fallback=False) as exchange:
        for salt, kept in enumerate(kept_bytes):
            matrix = np.full((context.num_ranks,) * 2, 1000 + salt, np.int64)
            np.fill_diagonal(matrix, kept)
            target = torch.full((int(matrix[:, context.rank].sum()),), 255, dtype=torch.uint8)
            splits = matrix[:, context.rank].tolist(), matrix[context.rank].tolist()
            exchange(target, filled(matrix, context.rank, salt), *splits)
            report = exchange.report
            assert report is not None
            told.append((torch.equal(target, expected(matrix, context.rank, salt)), report.stays_s, report.total_s))
    return told


def move_in_rounds(context: RankContext, problem: Problem, algorithm: str, max_batch: int) -> tuple[bool, int]:
    """Whether a plan run in batches delivers every byte, and the largest batch of this rank."""
    plan = solve(problem, algorithm)
    assert problem.demand is not None
    matrix = problem.demand.bytes_matrix
    program = plan.program(context.rank, Layout.all_to_all(matrix, context.rank), rounds=True)
    target = torch.zeros(int(matrix[:, context.rank].sum()), dtype=torch.uint8)
    buffers = (filled(matrix, context.rank), target, torch.zeros(max(1, program.scratch_bytes), dtype=torch.uint8))
    Batches(context.group, range(context.num_ranks)).run(program, buffers, max_batch=max_batch)
    sizes = [len(sends) + len(receives) for sends, receives in batches(program, context.num_ranks, max_batch)]
    return torch.equal(target, expected(matrix, context.rank)), max(sizes, default=0)


def run_collective(context: RankContext, plan: Plan, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's input and what the plan made of it."""
    layout = Layout.packed(plan.problem, context.rank)
    size = torch.empty(0, dtype=dtype).element_size()
    source = torch.randint(0, 100, (layout.input.size_bytes // size,), generator=seeded(context.rank)).to(dtype)
    target = torch.full((layout.output.size_bytes // size,), 7).to(dtype)
    execute(plan, source, target, context.group)
    return source, target


def execute_a_burst(context: RankContext, problem: Problem) -> tuple[bool, bool]:
    """Whether every byte is right, and whether all ranks' rows were written out for it."""
    assert problem.cluster is not None and problem.demand is not None
    burst = prepare(problem.cluster, way="burst")(problem.demand)  # without turns, which are told by all rows
    plan, matrix = Plan(problem, burst, "adaptive"), problem.demand.bytes_matrix
    target = torch.zeros(int(matrix[:, context.rank].sum()), dtype=torch.uint8)
    execute(plan, filled(matrix, context.rank), target, context.group)
    return torch.equal(target, expected(matrix, context.rank)), "schedule" in vars(plan.compact)


def seeded(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


def wrong_results(context: RankContext, cluster: il.Cluster, dtypes: list[torch.dtype], algorithm: str) -> list[str]:
    """What does not arrive as it should, over element types, shapes and layouts of memory."""
    wrong = []
    ranks, rank = context.num_ranks, context.rank
    counts = torch.randint(0, 5, (ranks, ranks), generator=seeded(1))
    counts[2] = 0
    sends, receives = counts[rank].tolist(), counts[:, rank].tolist()

    def source_of(peer: int, row: tuple[int, ...]) -> torch.Tensor:
        return torch.randint(0, 100, (int(counts[peer].sum()), *row), generator=seeded(peer))

    def wanted(row: tuple[int, ...]) -> torch.Tensor:
        parts = [torch.split(source_of(peer, row), counts[peer].tolist())[rank] for peer in range(ranks)]
        return torch.cat(parts)

    with ilt.AllToAll(cluster, context.group, hosts=hosts_of(cluster), algorithm=algorithm, fallback=False) as move:
        for dtype in dtypes:
            for row in ((), (3,), (2, 5), (0,)):
                ours = torch.zeros((sum(receives), *row), dtype=dtype)
                move(ours, source_of(rank, row).to(dtype), receives, sends)
                if not torch.equal(ours, wanted(row).to(dtype)):
                    wrong.append(f"{dtype} {row}")
        spread = torch.zeros((sum(sends), 12))[:, ::3]
        spread.copy_(source_of(rank, (4,)))
        for step in (1, 2):
            ours = torch.zeros((sum(receives), 4 * step))[:, ::step]
            move(ours, spread, receives, sends)
            if not torch.equal(ours, wanted((4,)).float()):
                wrong.append(f"not contiguous, every {step}")
        even = torch.arange(ranks * 2) + 100 * rank
        native, ours = torch.zeros_like(even), torch.zeros_like(even)
        dist.all_to_all_single(native, even, group=context.group)
        move(ours, even)
        if not torch.equal(ours, native):
            wrong.append("equal splits")
    return wrong


def gradients(context: RankContext, cluster: il.Cluster, holds: bool) -> tuple[bool, bool]:
    """Whether values and gradients equal those of torch's own differentiable All-to-All."""
    from torch.distributed.nn.functional import all_to_all_single as reference

    counts = torch.randint(0, 5, (context.num_ranks,) * 2, generator=seeded(2))
    sends, receives = counts[context.rank].tolist(), counts[:, context.rank].tolist()
    start = torch.rand((sum(sends), 3), generator=seeded(context.rank))
    weight = torch.rand((sum(receives), 3), generator=seeded(context.rank + 50))
    theirs, ours = start.clone().requires_grad_(), start.clone().requires_grad_()
    native = reference(torch.zeros(sum(receives), 3), theirs * 2, receives, sends, group=context.group)
    (native * weight).sum().backward()
    with ilt.AllToAll(cluster, context.group, hosts=hosts_of(cluster), algorithm="no-stage", fallback=False) as move:
        output = torch.zeros(sum(receives), 3)
        if holds:
            move.hold(receives, sends, like=output)
            move(output, ours * 2)
        else:
            move(output, ours * 2, receives, sends)
        (output * weight).sum().backward()
    assert ours.grad is not None
    return torch.equal(output, native), torch.equal(ours.grad, theirs.grad)


def drop_ins(context: RankContext) -> dict[str, Any]:
    """The module's functions on the default group, and what they report."""
    ranks, rank = context.num_ranks, context.rank
    inputs = [torch.full((rank + 1, peer + 1), 10.0 * rank + peer) for peer in range(ranks)]
    outputs = [torch.zeros(peer + 1, rank + 1) for peer in range(ranks)]
    ilt.all_to_all(outputs, inputs)
    first = ilt.last_report()
    assert first is not None
    lists = all((outputs[peer] == 10.0 * peer + rank).all() for peer in range(ranks))
    source = torch.arange(ranks * 3, dtype=torch.int32) + 1000 * rank
    target = torch.zeros_like(source)
    pending = ilt.all_to_all_single(target, source, async_op=True)
    assert pending is not None
    waited = pending.wait()
    want = torch.cat([torch.arange(3, dtype=torch.int32) + 3 * rank + 1000 * peer for peer in range(ranks)])
    report = ilt.last_report()
    assert report is not None
    return {
        "lists": bool(lists),
        "async": waited and pending.is_completed() and torch.equal(target, want),
        "algorithm": report.algorithm,
        "reasons": [first.reason, report.reason],
        "predicted_s": report.predicted_s,
        "measured_s": report.measured_s,
    }


def small_calls_in_a_row(
    context: RankContext, cluster: il.Cluster, matrices: list[NDArray[np.int64]]
) -> list[tuple[bool, bool]]:
    """Of each demand, whether it arrived byte for byte, and whether its bytes came along with it."""
    told = []
    with ilt.AllToAll(cluster, context.group, hosts=hosts_of(cluster)) as move:
        for salt, matrix in enumerate(matrices):
            sends, receives = matrix[context.rank].tolist(), matrix[:, context.rank].tolist()
            target = torch.full((sum(receives),), 255, dtype=torch.uint8)
            move(target, filled(matrix, context.rank, salt), receives, sends)
            assert move.report is not None
            is_right = torch.equal(target, expected(matrix, context.rank, salt))
            told.append((is_right, "sent along" in move.report.reason))
    return told


def changed_on_the_way(
    context: RankContext, cluster: il.Cluster, algorithm: str, victim: int
) -> tuple[bool, tuple[tuple[int, int], ...], bool, bool]:
    """With one bit of what the victim receives flipped while `flips` is set, before anybody looks at it.

    Whether bytes are right before, the pairs that verifying names, whether bytes pass changed where nobody verifies,
    and whether the handle works afterwards.
    """
    ranks, rank = context.num_ranks, context.rank
    matrix = np.full((ranks, ranks), 20_000)
    flips = False
    named: tuple[tuple[int, int], ...] = ()

    def calls(handle: ilt.AllToAll) -> bool:
        splits = [20_000] * ranks
        target = torch.zeros(sum(splits), dtype=torch.uint8)
        handle(target, filled(matrix, rank), splits, splits)
        return torch.equal(target, expected(matrix, rank))

    def opened(verify: bool) -> ilt.AllToAll:
        handle = ilt.AllToAll(
            cluster, context.group, hosts=hosts_of(cluster), algorithm=algorithm, fallback=False, verify=verify
        )
        moves = handle.session.move

        def move(prepared: Any, source: torch.Tensor, target: torch.Tensor, **others: Any) -> None:
            moves(prepared, source, target, **others)
            if flips and rank == victim:
                target[len(target) // 2] ^= 4

        handle.session.move = move  # type: ignore[method-assign]
        return handle

    with opened(verify=True) as checked, opened(verify=False) as bare:
        is_right = calls(checked) and calls(bare)
        flips = True
        try:
            calls(checked)
        except ilt.Corrupted as error:
            named = error.pairs
        is_unnoticed = calls(bare)
        flips = False
        return is_right, named, is_unnoticed, calls(checked)


def held_natively(context: RankContext, cluster: il.Cluster) -> list[str]:
    """Calls of a handle that holds a demand for the backend's own call; what went wrong with them."""
    ranks, rank, wrong = context.num_ranks, context.rank, []
    sends = [1 + (rank + peer) % 3 for peer in range(ranks)]
    source = torch.repeat_interleave(torch.arange(ranks) + 10 * rank, torch.tensor(sends)).repeat(2, 1).T
    wanted = torch.repeat_interleave(10 * torch.arange(ranks) + rank, torch.tensor(sends)).repeat(2, 1).T
    with ilt.AllToAll(cluster, context.group, hosts=hosts_of(cluster), algorithm="native") as move:
        move.hold(sends, sends, like=source)
        outputs = {
            "as they are": torch.zeros(wanted.shape, dtype=wanted.dtype),
            "not contiguous": torch.zeros(wanted.T.shape, dtype=wanted.dtype).T,
            "other shape": torch.zeros(wanted.shape, dtype=wanted.dtype).view(-1),
        }
        for name, output in outputs.items():
            move(output, source.contiguous() if name == "as they are" else source)
            if not torch.equal(output.reshape(wanted.shape), wanted) or move.report is None or move.report.plan_s:
                wrong.append(name)
        try:
            move(torch.zeros(1, 2, dtype=wanted.dtype), source)
            wrong.append("wrong size")
        except il.InvalidInput:
            pass
    return wrong


def move_device_memory(
    context: RankContext, cluster: il.Cluster, rows: NDArray[np.int64], algorithm: str
) -> dict[str, bool]:
    """CUDA tensors over gloo: whether they arrive, twice, and whether they are staged through pinned memory."""
    rank, device = context.rank, torch.device("cuda", 0)
    sends, receives = rows[rank].tolist(), rows[:, rank].tolist()
    counts = torch.from_numpy(np.ascontiguousarray(rows, np.int64))
    source = torch.repeat_interleave(torch.arange(len(rows)) + 10.0 * rank, counts[rank]).to(device)
    wanted = torch.repeat_interleave(10.0 * torch.arange(len(rows)) + rank, counts[:, rank]).to(device)
    is_right = True
    with ilt.AllToAll(cluster, context.group, hosts=hosts_of(cluster), algorithm=algorithm, fallback=False) as move:
        for _ in range(2):
            output = torch.zeros(sum(receives), device=device)
            move(output, source, receives, sends)
            is_right &= torch.equal(output, wanted)
        staged = [move.session.runner.host_memory(name, 1) for name in ("input", "output")]
    return {"right": is_right, "pinned": all(memory.is_pinned() for memory in staged)}


def bad_calls(context: RankContext, cluster: il.Cluster, algorithm: str) -> list[str]:
    """What each rank is told when one rank's splits are wrong; the handle works before and afterwards."""
    ranks, rank = context.num_ranks, context.rank
    told = []
    with ilt.AllToAll(cluster, context.group, hosts=hosts_of(cluster), algorithm=algorithm, fallback=False) as move:
        move(torch.zeros(2 * ranks), torch.zeros(2 * ranks))
        cases = [
            ([2] * ranks, [2] * (ranks - 1) + [3 if rank == 1 else 2]),
            ([2] * ranks, [2] * (ranks - 1) if rank == 1 else [2] * ranks),
        ]
        for receives, sends in cases:
            source, target = torch.zeros(sum(sends)), torch.zeros(sum(receives))
            try:
                move(target, source, receives, sends)
                told.append("no error")
            except InterlockError as error:
                told.append(str(error))
        source, target = torch.full((ranks,), float(rank)), torch.zeros(ranks)
        move(target, source)
        told.append(str(target.tolist() == list(range(ranks))))
    return told


def disagree(context: RankContext, cluster: il.Cluster) -> str:
    """What each rank is told when rank 1 plans for another cluster."""
    where = il.cluster("h100", servers=cluster.servers, gpus_per_server=cluster.gpus_per_server)
    mine = where if context.rank == 1 else cluster
    with ilt.AllToAll(mine, context.group, hosts=hosts_of(cluster), algorithm="direct", fallback=False) as move:
        try:
            move(torch.zeros(context.num_ranks), torch.zeros(context.num_ranks))
        except InterlockError as error:
            return str(error)
    return "no error"


def different_plans(context: RankContext, cluster: il.Cluster) -> str:
    """What each rank is told when rank 1's planner gives another plan for the same demand."""
    placement = GroupPlacement.in_order(context.num_ranks, cluster.gpus_per_server)
    algorithm = "forward" if context.rank == 1 else "direct"
    session = open_session(context.group, cluster, placement, algorithm=algorithm, fallback=False)
    session._settings_digest = 0
    matrix = np.full((context.num_ranks,) * 2, 100, np.int64)
    try:
        session.prepare(matrix)
    except InterlockError as error:
        return str(error)
    finally:
        session.close()
    return "no error"


def moe_layer(
    context: RankContext, ranks_per_server: int, device: str = "cpu", nic: str = "50 GB/s"
) -> tuple[bool, bool, bool]:
    """One MoE layer against every expert run on every token: copies on the wire, values, gradients.

    With slow NICs and two tiers a token goes once to each server, otherwise once to each rank.
    """
    ranks, rank, hidden, per_rank, choices, tokens = context.num_ranks, context.rank, 6, 2, 3, 11
    experts = ranks * per_rank
    weight = torch.rand((experts, hidden, hidden), generator=seeded(99)).to(device)
    source = torch.rand((tokens, hidden), generator=seeded(rank)).to(device)
    idx = torch.rand((tokens, experts), generator=seeded(rank + 10)).argsort(dim=1)[:, :choices].to(device)
    idx[0, 1] = -1
    gates = torch.rand((tokens, choices), generator=seeded(rank + 20)).to(device)
    hosts = [f"server{peer // ranks_per_server}" for peer in range(ranks)]
    dense_x, ours_x = source.clone().requires_grad_(), source.clone().requires_grad_()
    dense_gates, ours_gates = gates.clone().requires_grad_(), gates.clone().requires_grad_()
    dense = torch.zeros(tokens, hidden, device=device)
    for choice in range(choices):
        chosen = idx[:, choice].clamp(min=0)
        known = (idx[:, choice] >= 0).float().unsqueeze(1)
        dense = dense + known * dense_gates[:, choice, None] * torch.einsum("th,tho->to", dense_x, weight[chosen])
    dense.square().sum().backward()
    shape = {"servers": ranks // ranks_per_server, "gpus_per_server": ranks_per_server}
    cluster = il.cluster("h200", **shape, scale_out_bandwidth=nic)
    with ilt.AllToAll(cluster, context.group, hosts=hosts, algorithm="no-stage", fallback=False) as move:
        layer = ilt.Experts(move, experts)
        sent = layer.dispatch(ours_x, idx, ours_gates)
        rows = sent.by_expert()
        outputs = []
        for expert, part in enumerate(torch.split(rows.x, sent.tokens_per_expert)):
            outputs.append(part @ weight[rank * per_rank + expert])
        ours = layer.combine(rows.sum(torch.cat(outputs)), sent)
        ours.square().sum().backward()
    is_slow = nic != "50 GB/s" and 1 < ranks_per_server < ranks
    ends = torch.where(idx >= 0, idx // per_rank // (ranks_per_server if is_slow else 1), -1)
    copies = sum(len({end for end in row if end >= 0}) for row in ends.tolist())
    close = torch.allclose(ours, dense, atol=1e-5)
    grads = torch.allclose(ours_x.grad, dense_x.grad, atol=1e-4) and torch.allclose(
        ours_gates.grad, dense_gates.grad, atol=1e-4
    )
    is_once = len(sent.x) == len(torch.unique(sent.x.detach(), dim=0))  # at an expert's rank, a token is there once
    is_once &= len(sent._hops) == (2 if is_slow else 1) and len(sent._hops[0].picked) == copies
    return is_once, close, grads


def moe_call(
    context: RankContext, ranks_per_server: int, has_replicas: bool, native: bool, device: str = "cpu"
) -> dict[str, float]:
    """The whole layer by a call against `interlock.gpu.moe.experts` with every expert here: how far apart they are.

    Also of the same tokens sent again by their handle, and of summed gradients of replicas.
    """
    from interlock.gpu.moe import experts as in_one_place
    from interlock.traffic import contiguous_placement, eplb_placement

    ranks, rank, hidden, inner, per_rank, choices = context.num_ranks, context.rank, 16, 8, 2, 3
    num_experts = ranks * per_rank
    gate_up = torch.randn((num_experts, 2 * inner, hidden), generator=seeded(5)).to(device)
    down = torch.randn((num_experts, hidden, inner), generator=seeded(6)).to(device)
    loads = torch.arange(num_experts, 0, -1).numpy() ** 2
    placed = eplb_placement(loads, ranks, 1) if has_replicas else contiguous_placement(num_experts, ranks)
    assert placed.is_replicated == has_replicas

    def drawn(of: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        many = 9 + 4 * of
        chosen = torch.rand((many, num_experts), generator=seeded(of + 30)).argsort(dim=1)[:, :choices]
        chosen[0, 0] = -1
        x = torch.randn((many, hidden), generator=seeded(of + 40))
        return x.to(device), chosen.to(device), torch.rand((many, choices), generator=seeded(of + 50)).to(device)

    x, idx, gates = drawn(rank)
    hosts = [f"server{peer // ranks_per_server}" for peer in range(ranks)]
    shape = {"servers": ranks // ranks_per_server, "gpus_per_server": ranks_per_server}
    cluster = il.cluster("h200", **shape, scale_out_bandwidth="1 MB/s")
    algorithm = "native" if native else "no-stage"
    apart = {}
    with ilt.AllToAll(cluster, context.group, hosts=hosts, algorithm=algorithm, fallback=False) as move:
        layer = ilt.Experts(move, placed)
        held = torch.tensor(layer.held, device=device)
        ours = [x.clone(), gates.clone(), gate_up[held].clone(), down[held].clone()]
        theirs = [x.clone(), gates.clone(), gate_up.clone(), down.clone()]
        for tensor in (*ours, *theirs):
            tensor.requires_grad_()
        y = layer(ours[0], idx, ours[1], ours[2], ours[3])
        wanted = in_one_place(theirs[0], theirs[2], theirs[3], idx, theirs[1])
        apart["y"] = float((y - wanted).abs().max() / wanted.abs().max())
        y.square().sum().backward()
        wanted.square().sum().backward()
        for name, ours_, theirs_ in zip(("x", "weights"), ours[:2], theirs[:2], strict=True):
            apart[name] = float((ours_.grad - theirs_.grad).abs().max() / theirs_.grad.abs().max())
        for number, name in ((2, "gate_up"), (3, "down")):
            summed = ours[number].grad.clone()
            layer.sum_replicas(summed)
            total = torch.zeros_like(theirs[number])
            for peer in range(ranks):  # what all tokens of the group give
                others_x, others_idx, others_gates = drawn(peer)
                weights = [gate_up.clone().requires_grad_(), down.clone().requires_grad_()]
                in_one_place(others_x, *weights, others_idx, others_gates).square().sum().backward()
                total += weights[number - 2].grad
            apart[name] = float((summed - total[held]).abs().max() / total.abs().max())
        handle = layer.dispatch(x, idx, gates)
        again = layer.dispatch(2 * x, handle=handle)
        apart["again"] = float((again.x - 2 * handle.x).abs().max()) if len(again.x) else 0.0
        pairs = int((handle.topk_idx >= 0).sum())
        apart["counts"] = abs(sum(handle.tokens_per_expert) - pairs)
        layout = layer.layout(idx)
        apart["layout"] = float(int(layout.tokens_per_expert.sum()) - int((idx >= 0).sum()))
        apart["layout"] += float((layout.tokens_per_rank != layout.is_token_in_rank.sum(0)).sum())
        try:
            layer.dispatch(x[1:], handle=handle)
            apart["refused"] = 1.0
        except il.InvalidInput:
            apart["refused"] = 0.0
    return apart


def move_between_hosts(context: RankContext, hosts: list[str]) -> bool:
    """Whether bytes arrive when ranks sit on servers in any order and number."""
    matrix = np.random.default_rng(3).integers(0, 900, (context.num_ranks,) * 2)
    rank = context.rank
    with ilt.AllToAll(None, context.group, hosts=hosts, algorithm="adaptive", fallback=False) as move:
        target = torch.zeros(int(matrix[:, rank].sum()), dtype=torch.uint8)
        algorithm = move.session
        move(target, filled(matrix, rank), matrix[:, rank].tolist(), matrix[rank].tolist())
    return torch.equal(target, expected(matrix, rank)) and algorithm is not None


def calibrate_group(context: RankContext, hosts: list[str], file: str) -> il.Cluster:
    """The group as measured."""
    made = ilt.calibrate(context.group, hosts=hosts, path=file, seconds=0.2)
    dist.barrier(group=context.control)
    return made


def replan(context: RankContext) -> tuple[int, int, bool]:
    """Bytes that leave by rank 1's NIC before and after it is reported dead, and whether all arrive."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    matrix = np.full((8, 8), 50_000, np.int64)
    target = torch.zeros(8 * 50_000, dtype=torch.uint8)
    leaving = []
    with ilt.AllToAll(cluster, context.group, hosts=hosts_of(cluster), algorithm="adaptive", fallback=False) as move:
        for where in (cluster, cluster.with_(faults=(il.dead_nic(server=0, gpu=1),))):
            move.replan(where)
            move(target, filled(matrix, context.rank), matrix[0].tolist(), matrix[0].tolist())
            assert move.report is not None and move.report.plan is not None
            rows = move.report.plan.messages
            by_nic = (rows["src"] == 1) & (rows["dst"] >= 4)
            leaving.append(int(rows["size_bytes"][by_nic].sum()))
    return leaving[0], leaving[1], torch.equal(target, expected(matrix, context.rank))


class LazyStaging:
    """Stands for a device: bytes are in host memory once a flow has asked for them, and back once it says so."""

    def __init__(self, sent: torch.Tensor, received: torch.Tensor) -> None:
        self.source, self.target = torch.full_like(sent, 255), torch.full_like(received, 254)
        self._sent, self._received = sent, received
        self.landed_times = torch.zeros(received.numel(), dtype=torch.int32)

    def ready(self, begin: int, length: int) -> None:
        self.source[begin : begin + length] = self._sent[begin : begin + length]

    def landed(self, begin: int, length: int) -> None:
        self._received[begin : begin + length] = self.target[begin : begin + length]
        self.landed_times[begin : begin + length] += 1

    def keep(self, begin: int, target_begin: int, length: int) -> None:
        self._received[target_begin : target_begin + length] = self._sent[begin : begin + length]
        self.landed_times[target_begin : target_begin + length] += 1


def move_staged(context: RankContext, cluster: il.Cluster, matrix: NDArray[np.int64]) -> dict[str, tuple[bool, bool]]:
    """By algorithm, whether staged bytes arrive, and each of them once."""
    placement, rank = GroupPlacement.in_order(context.num_ranks, cluster.gpus_per_server), context.rank
    right = {}
    for algorithm in ("adaptive", "pxn", "fast", "native"):
        session = open_session(context.group, cluster, placement, algorithm=algorithm, fallback=False)
        prepared = session.prepare(session.share(matrix[rank].tolist(), matrix[:, rank].tolist()))
        received = torch.full((int(matrix[:, rank].sum()),), 253, dtype=torch.uint8)
        staging = LazyStaging(filled(matrix, rank), received)
        session.move(prepared, staging.source, staging.target, staging)
        is_once = bool((staging.landed_times == 1).all())
        right[algorithm] = torch.equal(received, expected(matrix, rank)), is_once
        session.close()
    return right


def over_a_wire_that_flips(context: RankContext, cluster: il.Cluster, algorithm: str, wire_port: int) -> dict[str, Any]:
    """A fresh group whose connections all pass a wire that flips bits of payload while it is told to.

    From whom wrong bytes came before, while and after it does, as this rank sees by itself, pairs that verifying names,
    and what those who do not verify compute and exchange for it.
    """
    rank, ranks = context.rank, context.num_ranks
    dist.barrier(group=context.control)
    dist.destroy_process_group()
    store = ProxiedStore(dist.PrefixStore(f"flips {algorithm}", context.store), wire_port)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    group = dist.group.WORLD
    assert group is not None
    splits = [30_000] * ranks
    source = torch.full((sum(splits),), MARK[0], dtype=torch.uint8)
    named, digests = [], [0]

    def count(values: NDArray[np.uint8], seed: int) -> int:
        digests[0] += 1
        return 0

    def turn(word: str) -> None:
        dist.barrier()
        if rank == 0:
            ask(wire_port, word)
        dist.barrier()

    def called(handle: ilt.AllToAll) -> list[int]:
        target = torch.zeros_like(source)
        try:
            handle(target, source, splits, splits)
        except ilt.Corrupted as error:
            named.append(error.pairs)
        parts = torch.split(target, splits)
        return [peer for peer in range(ranks) if peer != rank and not (parts[peer] == MARK[0]).all()]

    def opened(verify: bool) -> ilt.AllToAll:
        return ilt.AllToAll(cluster, group, hosts=hosts_of(cluster), algorithm=algorithm, fallback=False, verify=verify)

    with opened(verify=True) as checked, opened(verify=False) as bare:
        before = called(checked), called(bare)
        turn("on")
        wrong = called(checked)
        unnoticed, digest64 = len(named), _core.digest64
        _core.digest64 = count  # type: ignore[assignment]
        passed = called(bare)
        _core.digest64 = digest64
        told = {
            "before": before,
            "wrong": wrong,
            "named": named[0] if named else (),
            "passed": passed,
            "raised_unasked": len(named) - unnoticed,
            "digests_unasked": digests[0],
            "exchanges_unasked": bare.session._digests is not None,
        }
        turn("off")
        told["afterwards"] = called(checked)
    return told
