"""Small plans on the device, for sanitizers: copies at odd places, sums of every type, two launches each."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import interlock as il
from gpu.plans import make_inputs, odd_demand, wanted


def main() -> None:
    """Run them; fails where a byte is wrong."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    plans = [
        (il.plan(cluster, odd_demand(cluster, 1, 5003), algorithm=name), torch.float32) for name in ("adaptive", "pxn")
    ]
    ring = il.synthesize(il.topology.ring(3, bandwidth="50 GB/s"), il.all_reduce(3 * 1008), algorithm="ring")
    plans += [(ring, dtype) for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32)]
    for plan, dtype in plans:
        executor = il.gpu.Executor(plan, dtype=dtype, timeout_s=60.0)
        for seed in range(2):
            inputs = make_inputs(plan.problem, dtype, seed)
            outputs = executor(inputs)
            executor.wait()
            assert all(torch.equal(a, b) for a, b in zip(outputs, wanted(plan.problem, inputs), strict=True))
    print(f"{len(plans)} plans right")


if __name__ == "__main__":
    main()
