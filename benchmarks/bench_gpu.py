"""How fast does a GPU run our plans, beside what the hardware and CUDA graphs do?

Needs an NVIDIA GPU and the extra `gpu`. All times are medians of CUDA events in one process; rivals run in turns with
ours, because a GPU's clocks move by tens of percent between runs. Ratios are what counts.

    python benchmarks/bench_gpu.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

import interlock as il
from common import arguments, report
from interlock.gpu.costs import measure_costs
from interlock.gpu.rows import ChunkAction
from interlock.schedule.link_orders import levels

REPEATS = 20
ROW_BYTES = 8192  # of 4,096 numbers in bfloat16
HOST_CYCLES = 2_000_000  # about a millisecond


def microseconds(actions: Sequence[Callable[[], object]], repeats: int = REPEATS) -> list[list[float]]:
    """Times of each action, taken in turns."""
    events: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in actions]
    for action in actions:
        action()
    torch.cuda.synchronize()
    for _ in range(repeats):
        for made, action in zip(events, actions, strict=True):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(HOST_CYCLES)  # the device is busy until the host has queued the action
            begin.record()
            action()
            end.record()
            made.append((begin, end))
        torch.cuda.synchronize()
    return [[1e3 * begin.elapsed_time(end) for begin, end in made] for made in events]


def random_inputs(executor: il.gpu.Executor) -> list[torch.Tensor]:
    """Bytes for every rank."""
    return [torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda") for size in executor.input_bytes]


def host_microseconds(action: Callable[[], object]) -> float:
    """What the host needs to queue an action."""
    taken = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start_s = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start_s)
    return 1e6 * statistics.median(taken)


def runner(plan: il.Plan) -> tuple[Callable[[], object], il.gpu.Executor, list[torch.Tensor], list[torch.Tensor]]:
    """The plan on the device with buffers of its own."""
    executor = il.gpu.Executor(plan)
    inputs = random_inputs(executor)
    outputs = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in executor.output_bytes]
    return executor.bind(inputs, outputs), executor, inputs, outputs


def moved_bytes(executor: il.gpu.Executor) -> int:
    """Bytes that the device reads and writes for a launch, each copy once."""
    chunks = executor.launcher.work.chunks
    return int(chunks["bytes"][chunks["kind"] != ChunkAction.NOTHING].sum())


def copying(size_bytes: int) -> Callable[[], object]:
    """torch's copy of as many bytes."""
    source = torch.empty(size_bytes, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def graph_of(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], object]:
    """A CUDA graph with a node for every copy, none waiting for another."""
    from cuda.bindings import runtime

    def checked(result: tuple[object, ...]) -> object:
        if result[0] != runtime.cudaError_t.cudaSuccess:
            raise RuntimeError(str(result[0]))
        return result[1] if len(result) > 1 else None

    graph = checked(runtime.cudaGraphCreate(0))
    kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    for target, source in pairs:
        checked(
            runtime.cudaGraphAddMemcpyNode1D(graph, None, 0, target.data_ptr(), source.data_ptr(), source.numel(), kind)
        )
    made = checked(runtime.cudaGraphInstantiate(graph, 0))
    stream = torch.cuda.current_stream().cuda_stream
    return lambda: checked(runtime.cudaGraphLaunch(made, stream))


def large_direct() -> dict[str, object]:
    """Eight ranks, 2 GB: direct sending beside torch's copy of the same bytes."""
    cluster = il.cluster("h200", servers=1)
    plan = il.plan(cluster, il.traffic.matrix(np.full((8, 8), 32 << 20)), algorithm="direct")
    run, executor, _, _ = runner(plan)
    moved = moved_bytes(executor)
    ours, copy = microseconds([run, copying(moved)])
    return row("direct, 8 ranks, 2 GB", "torch copy_ of the same bytes", ours, copy, plan.compact.num_messages)


def skewed_adaptive(row_bytes: int) -> dict[str, object]:
    """32 ranks, 2 GB, Zipf 0.8: an adaptive plan beside torch's copy of as many bytes as it moves.

    With rows of one byte sizes are odd and cuts fall anywhere; otherwise ranks exchange whole rows, cut between rows.
    """
    cluster = il.cluster("h200", servers=4)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="64 MB", seed=0).bytes_matrix // row_bytes * row_bytes
    plan = il.plan(cluster, il.traffic.matrix(demand), algorithm="adaptive", align=row_bytes)
    run, executor, _, _ = runner(plan)
    ours, copy = microseconds([run, copying(moved_bytes(executor))])
    rows = "odd sizes" if row_bytes == 1 else f"rows of {row_bytes} bytes"
    name = f"adaptive, 32 ranks, Zipf 0.8, 2 GB, {rows}"
    made = row(name, "torch copy_ of the bytes it moves", ours, copy, plan.compact.num_messages)
    chunks = executor.launcher.work.chunks
    ends = chunks[chunks["kind"] == ChunkAction.COPY]
    made["unaligned"] = float(np.mean((ends["source"] | ends["target"]) % 16 != 0))
    return made


def small_messages() -> dict[str, object]:
    """A thousand messages of 32 kB: one launch beside a CUDA graph of memcpys."""
    cluster = il.cluster("h200", servers=4)
    plan = il.plan(cluster, il.traffic.uniform(cluster, f"{31 * 32768} B"), algorithm="direct")
    run, _, inputs, outputs = runner(plan)
    pairs = []
    for number in range(plan.compact.num_messages):
        rank = number % 32
        begin = number // 32 * 32768
        pairs.append((outputs[(rank + 1) % 32][begin : begin + 32768], inputs[rank][begin : begin + 32768]))
    ours, graph = microseconds([run, graph_of(pairs)])
    return row("direct, 32 ranks, messages of 32 kB", "CUDA graph of memcpys", ours, graph, len(pairs))


def dependent_hops() -> dict[str, object]:
    """Rings of 128 ranks pass 16 bytes on; an empty launch is taken off, the rest shared out to the hops of a chain."""
    ring = il.topology.ring(128, bandwidth="50 GB/s")
    chain = il.synthesize(ring, il.all_gather(128 * 16), algorithm="ring")
    hops = int(levels(chain.schedule, ring).max()) + 1
    cluster = il.cluster("h200", servers=1, gpus_per_server=2)
    nothing = il.plan(cluster, il.traffic.uniform(cluster, 16), algorithm="direct")
    run, _, _, _ = runner(chain)
    empty, _, _, _ = runner(nothing)
    ours, base = microseconds([run, empty])
    made = row(f"ring of 128 ranks, {hops} hops", "an empty launch", ours, base, chain.schedule.num_messages)
    made["host_us"] = host_microseconds(empty)
    made["hop_us"] = (statistics.median(ours) - statistics.median(base)) / (hops - 1)
    return made


def row(name: str, rival: str, ours: list[float], theirs: list[float], messages: int) -> dict[str, object]:
    """Medians, spread and their ratio."""
    mine, other = statistics.median(ours), statistics.median(theirs)
    spread = [float(np.quantile(ours, q)) for q in (0.1, 0.9)]
    return {
        "case": name,
        "rival": rival,
        "ours_us": mine,
        "ours_p10_us": spread[0],
        "ours_p90_us": spread[1],
        "rival_us": other,
        "rival_over_ours": other / mine,
        "messages": messages,
    }


def main() -> None:
    """Measure, print, store."""
    options = arguments(__doc__ or "")
    rows = [large_direct(), skewed_adaptive(ROW_BYTES), skewed_adaptive(1), small_messages(), dependent_hops()]
    device = torch.cuda.get_device_properties(0).name
    report("gpu", rows, options, device=device, torch=torch.__version__, costs=measure_costs())


if __name__ == "__main__":
    main()
