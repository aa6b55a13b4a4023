"""`AllToAll` and `Experts` on CUDA tensors with a process per rank: over gloo on the device itself, and over NCCL."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import interlock as il
import interlock.torch as ilt
from interlock.gpu.device import missing
from interlock.gpu.doctor import nccl_version
from interlock.topology import read_cluster
from runtime import jobs

pytestmark = [pytest.mark.torch, pytest.mark.skipif(missing() is not None, reason=missing() or "")]


@dataclass
class Context:
    """What jobs of the runtime's tests need to know of their rank."""

    rank: int
    num_ranks: int
    group: dist.ProcessGroup


def _join(rank: int, num_ranks: int, file: str, backend: str) -> Context:
    torch.cuda.set_device(0)
    device = torch.device("cuda", 0) if backend == "nccl" else None
    dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=num_ranks, device_id=device)
    group = dist.group.WORLD
    assert group is not None
    return Context(rank, num_ranks, group)


def _leave(backend: str) -> None:
    torch.cuda.synchronize()
    if backend == "nccl":
        os._exit(0)  # several ranks on one GPU: taking the communicator down may wait for ever
    dist.destroy_process_group()


def _calls(rank: int, num_ranks: int, file: str, backend: str, servers: int) -> None:
    context = _join(rank, num_ranks, file, backend)
    cluster = il.cluster("h200", servers=servers, gpus_per_server=num_ranks // servers)
    hosts = [f"server{peer // cluster.gpus_per_server}" for peer in range(num_ranks)]
    rng = np.random.default_rng(1)
    for algorithm in ("adaptive", "pxn", "native"):
        with ilt.AllToAll(cluster, context.group, hosts=hosts, algorithm=algorithm, fallback=False) as move:
            for _ in range(3):
                rows = rng.integers(0, 5000, (num_ranks, num_ranks)) * rng.integers(0, 2, (num_ranks, num_ranks))
                counts = torch.from_numpy(rows)
                sends, receives = rows[rank].tolist(), rows[:, rank].tolist()
                source = torch.repeat_interleave(torch.arange(num_ranks) + 10.0 * rank, counts[rank]).cuda()
                right = torch.repeat_interleave(10.0 * torch.arange(num_ranks) + rank, counts[:, rank]).cuda()
                source.requires_grad_()
                output = torch.zeros(sum(receives), device="cuda")
                move(output, source, receives, sends)
                assert torch.equal(output.detach(), right), (algorithm, backend)
                output.sum().backward()
                assert source.grad is not None and bool((source.grad == 1).all())
    equal = 1000 * torch.arange(num_ranks, device="cuda") + rank
    given = torch.empty_like(equal)
    ilt.all_to_all_single(given, equal)
    assert given.tolist() == [1000 * rank + peer for peer in range(num_ranks)]
    _leave(backend)


def _experts(rank: int, num_ranks: int, file: str, backend: str, servers: int) -> None:
    context = _join(rank, num_ranks, file, backend)
    assert jobs.moe_layer(context, num_ranks // servers, "cuda") == (True, True, True)  # type: ignore[arg-type]
    for has_replicas in (False, True):
        apart = jobs.moe_call(context, num_ranks // servers, has_replicas, True, "cuda")  # type: ignore[arg-type]
        assert max(apart.values()) < 1e-5, apart
    _leave(backend)


def _killed(rank: int, num_ranks: int, file: str, backend: str, servers: int, is_held: bool) -> None:
    """A rank dies between two calls: the next one says who, or where its demand is held, one soon after."""
    context = _join(rank, num_ranks, file, backend)
    cluster = il.cluster("h200", servers=servers, gpus_per_server=num_ranks // servers)
    hosts = [f"server{peer // cluster.gpus_per_server}" for peer in range(num_ranks)]
    move = ilt.AllToAll(cluster, context.group, hosts=hosts, algorithm="pxn", fallback=False, timeout_s=5.0)
    source, output = torch.ones(num_ranks, device="cuda"), torch.zeros(num_ranks, device="cuda")
    if is_held:
        move.hold([1] * num_ranks, [1] * num_ranks, like=source)
    move(output, source)
    torch.cuda.synchronize()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises((ilt.PeerFailed, il.gpu.Stuck), match="rank 1"):
        for _ in range(60):
            move(output, source)
            if move._device_mover is not None:
                move._device_mover.wait()
            time.sleep(0.5)
    os._exit(0)  # what waits for the dead rank may still be on the device


def _calibrate(rank: int, num_ranks: int, file: str, backend: str, servers: int) -> None:
    context = _join(rank, num_ranks, file, backend)
    hosts = [f"server{peer * servers // num_ranks}" for peer in range(num_ranks)]
    made = ilt.calibrate(context.group, hosts=hosts, path=f"{file}.toml", seconds=0.2)
    dist.barrier()
    kept = read_cluster(f"{file}.toml")
    assert kept.gpu_costs == made.gpu_costs and kept.gpu_hop_s == pytest.approx(made.gpu_hop_s, rel=1e-6)
    assert made.gpu_costs == "measured" and made.num_ranks == num_ranks
    copies, hop = made.gpu_copy_bandwidth_bytes_per_s, made.gpu_hop_s
    assert 0 < made.gpu_message_s < hop < made.gpu_launch_s < 0.1 and copies > 1e9, made
    _leave(backend)


def _later(rank: int, num_ranks: int, file: str, backend: str, servers: int) -> None:
    """Calls in the background follow what the stream was given before, and what comes after `wait` follows them."""
    context = _join(rank, num_ranks, file, backend)
    cluster = il.cluster("h200", servers=servers, gpus_per_server=num_ranks // servers)
    hosts = [f"server{peer // cluster.gpus_per_server}" for peer in range(num_ranks)]
    rows = 40_000
    splits = [rows] * num_ranks
    with ilt.AllToAll(cluster, context.group, hosts=hosts, algorithm="pxn", fallback=False) as move:
        source = torch.zeros(rows * num_ranks, dtype=torch.int64, device="cuda")
        move.hold(splits, splits, like=source)
        move(torch.empty_like(source), source)  # what is made once
        torch.cuda.synchronize()
        for turn in range(1, 4):
            outputs = [torch.zeros_like(source) for _ in range(2)]
            torch.cuda._sleep(500_000_000)  # a quarter of a second, in which the input is not there yet
            source.copy_(torch.arange(num_ranks, device="cuda").repeat_interleave(rows) + 100 * rank + 1000 * turn)
            pending = [move(output, source, async_op=True) for output in outputs]
            for each in pending:
                assert each is not None
                each.wait()
            is_host_ahead = not pending[1].is_completed()  # type: ignore[union-attr]
            copies = [output + 0 for output in outputs]  # on the current stream
            right = 100 * torch.arange(num_ranks, device="cuda").repeat_interleave(rows) + rank + 1000 * turn
            assert all(torch.equal(copy, right) for copy in copies), (backend, servers, turn)
            assert is_host_ahead or (servers == 2 and backend == "gloo")  # there the host itself must send
    _leave(backend)


def _start(
    job: object, num_ranks: int, folder: object, backend: str, servers: int, *more: object, most_exits: int = 0
) -> None:
    if backend == "nccl":
        if (nccl_version() or (0,)) < (2, 30):
            pytest.skip("NCCL before 2.30 takes one rank per GPU")
        os.environ["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
    arguments = (num_ranks, f"{folder}/store", backend, servers, *more)
    ranks = mp.start_processes(job, args=arguments, nprocs=num_ranks, start_method="spawn", join=False)
    assert ranks is not None
    if most_exits == 0:
        while not ranks.join(100):
            pass
        return
    codes, end_s = [], time.monotonic() + 75
    for process in ranks.processes:
        process.join(max(0.0, end_s - time.monotonic()))
        codes.append(process.exitcode)
    for process in ranks.processes:
        process.kill()  # nothing that hangs may outlive the test
    assert sum(code != 0 for code in codes) == most_exits, codes


@pytest.mark.parametrize(("backend", "num_ranks"), [("gloo", 2), ("gloo", 4), ("nccl", 2), ("nccl", 4), ("nccl", 8)])
def test_tensors_arrive_with_their_gradients(backend: str, num_ranks: int, tmp_path: object) -> None:
    _start(_calls, num_ranks, tmp_path, backend, 1 if backend == "gloo" else 2)


@pytest.mark.parametrize(
    ("backend", "num_ranks", "servers"),
    [("gloo", 4, 1), ("gloo", 4, 2), ("nccl", 2, 2), ("nccl", 4, 2), ("nccl", 8, 2)],
)
def test_an_moe_layer_is_right_with_gradients(backend: str, num_ranks: int, servers: int, tmp_path: object) -> None:
    _start(_experts, num_ranks, tmp_path, backend, servers)


@pytest.mark.parametrize(("backend", "servers"), [("gloo", 1), ("gloo", 2), ("nccl", 2)])
def test_calls_in_the_background_keep_the_order_of_streams(backend: str, servers: int, tmp_path: object) -> None:
    _start(_later, 4, tmp_path, backend, servers)


@pytest.mark.parametrize(
    ("backend", "servers", "is_held"), [("gloo", 1, False), ("gloo", 2, False), ("nccl", 2, False), ("nccl", 2, True)]
)
def test_a_killed_rank_is_named(backend: str, servers: int, is_held: bool, tmp_path: object) -> None:
    _start(_killed, 4, tmp_path, backend, servers, is_held, most_exits=1)


def test_calibrating_over_gloo_measures_the_device(tmp_path: object) -> None:
    _start(_calibrate, 4, tmp_path, "gloo", 2)
