"""A step with gradients: dispatch and combine of one MoE layer, forward and backward, from two plans.

python examples/step_with_gradients.py
"""

from __future__ import annotations

import interlock as il
from interlock.moe import iteration_times, model
from interlock.units import format_seconds


def main() -> None:
    """Combine is dispatch backwards, and gradients take the same two ways again: two plans make four moves."""
    cluster = il.cluster("h200", servers=2)
    there = il.traffic.moe(cluster, skew=0.8, seed=0)
    dispatch = il.plan(cluster, there, "adaptive")
    combine = dispatch.reversed()
    forward_s = dispatch.simulate().makespan_s + combine.simulate().makespan_s
    print("valid:", dispatch.certificate().valid, combine.certificate().valid)
    print(f"one layer, simulated: forward {format_seconds(forward_s)}, backward as much again")
    for row in iteration_times(model("mixtral-8x7b"), cluster, ["direct", "adaptive"], skew=0.8, overlap=False, seed=0):
        print(f"{row.algorithm}: a step of mixtral-8x7b {format_seconds(row.iteration_s)}, modelled")


if __name__ == "__main__":
    main()
