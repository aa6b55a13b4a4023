"""Plans with a process per rank: peers' memory by CUDA IPC, and NCCL where it takes several ranks on one GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import interlock as il
from gpu.plans import make_inputs, odd_demand, wanted
from interlock.gpu.device import missing
from interlock.planning import Plan

pytestmark = [pytest.mark.torch, pytest.mark.skipif(missing() is not None, reason=missing() or "")]


def _plans(num_ranks: int) -> list[tuple[Plan, torch.dtype]]:
    one = il.cluster("h200", servers=1, gpus_per_server=num_ranks)
    made = [(il.plan(one, odd_demand(one, 3, 300_007), algorithm="direct"), torch.float32)]
    if num_ranks % 2 == 0:
        two = il.cluster("h200", servers=2, gpus_per_server=num_ranks // 2)
        names = ("adaptive", "fast", "pxn")
        made += [(il.plan(two, odd_demand(two, 4, 100_003), algorithm=name), torch.float32) for name in names]
    ring = il.topology.ring(num_ranks, bandwidth="50 GB/s")
    made.append((il.synthesize(ring, il.all_reduce(num_ranks * 40_000), algorithm="ring"), torch.bfloat16))
    return made


def _join(rank: int, num_ranks: int, file: str, backend: str) -> None:
    torch.cuda.set_device(0)
    dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=num_ranks)


def _run_ipc(rank: int, num_ranks: int, file: str) -> None:
    _join(rank, num_ranks, file, "gloo")
    from interlock.gpu.processes import Neighbours

    neighbours = Neighbours()
    for plan, dtype in _plans(num_ranks):
        executor = il.gpu.RankExecutor(plan, neighbours, dtype=dtype, timeout_s=60.0)
        for seed in range(3):
            inputs = make_inputs(plan.problem, dtype, seed)
            right = wanted(plan.problem, inputs)[rank]
            output = torch.empty_like(right)
            executor(inputs[rank], output)
            executor.wait()
            assert torch.equal(output, right), (plan.algorithm, seed)
    neighbours.close()
    dist.destroy_process_group()


def _run_broken(rank: int, num_ranks: int, file: str) -> None:
    _join(rank, num_ranks, file, "gloo")
    from interlock.gpu.processes import Neighbours

    neighbours = Neighbours()
    cluster = il.cluster("h200", servers=1, gpus_per_server=num_ranks)
    plan = il.plan(cluster, il.traffic.uniform(cluster, "64 kB"), algorithm="direct")
    executor = il.gpu.RankExecutor(plan, neighbours, timeout_s=3.0)
    if rank == 1:
        return  # never begins
    executor(make_inputs(plan.problem, torch.float32)[rank])
    with pytest.raises(il.gpu.Stuck, match=r"waited for .*rank 1"):
        executor.wait()
    assert torch.ones(4, device="cuda").sum().item() == 4


def _run_layer(rank: int, num_ranks: int, file: str, servers: int, num_chunks: int) -> None:
    _join(rank, num_ranks, file, "gloo")
    from interlock.gpu.moe import experts
    from interlock.gpu.moe.processes import RankPipeline

    cluster = il.cluster("h200", servers=servers, gpus_per_server=num_ranks // servers)
    sizes, held, (hidden, inner, top_k) = (900, 0, 333, 700)[-num_ranks:], 4, (512, 256, 3)
    torch.manual_seed(num_ranks)
    options = {"device": "cuda", "dtype": torch.bfloat16}
    gate_up = torch.randn(held * num_ranks, 2 * inner, hidden, **options) * hidden**-0.5
    down = torch.randn(held * num_ranks, hidden, inner, **options) * inner**-0.5
    idx = torch.rand(sum(sizes), held * num_ranks, device="cuda").topk(top_k, 1).indices
    idx[torch.rand(idx.shape, device="cuda") < 0.2] = -1
    weights = torch.rand(idx.shape, device="cuda")
    parts = [slice(first, first + held) for first in range(0, held * num_ranks, held)]
    mine, here = slice(sum(sizes[:rank]), sum(sizes[: rank + 1])), parts[rank]
    layer = RankPipeline(
        cluster, gate_up[here], down[here], idx[mine], weights[mine], num_chunks=num_chunks, timeout_s=60.0
    )
    for _ in range(3):
        x = torch.randn(sum(sizes), hidden, **options)
        right = torch.zeros_like(x, dtype=torch.float32)
        for other, part in enumerate(parts):  # each rank's weighted sums, added in the order of ranks
            chosen = torch.where((idx >= part.start) & (idx < part.stop), idx - other * held, -1)
            made = experts(x, gate_up[part], down[part], chosen, weights)
            right += torch.where((chosen >= 0).any(1, keepdim=True), made, 0).float()
        y = layer(x[mine])
        layer.check()
        assert torch.equal(y, right.to(x.dtype)[mine]), (rank, num_chunks)
    layer.close()
    dist.destroy_process_group()


@pytest.mark.parametrize(("num_ranks", "servers", "num_chunks"), [(2, 1, 1), (2, 2, 4), (4, 2, 3)])
def test_an_moe_layer_between_processes_is_bit_exact(
    num_ranks: int, servers: int, num_chunks: int, tmp_path: object
) -> None:
    arguments = (num_ranks, f"{tmp_path}/store", servers, num_chunks)
    mp.start_processes(_run_layer, args=arguments, nprocs=num_ranks, start_method="spawn")


@pytest.mark.parametrize("num_ranks", [2, 4, 8])
def test_processes_are_byte_exact(num_ranks: int, tmp_path: object) -> None:
    mp.start_processes(_run_ipc, args=(num_ranks, f"{tmp_path}/store"), nprocs=num_ranks, start_method="spawn")


def test_a_peer_that_never_begins_is_named(tmp_path: object) -> None:
    mp.start_processes(_run_broken, args=(2, f"{tmp_path}/store"), nprocs=2, start_method="spawn")
