"""How far above its bound is the time between servers of an MoE layer, for any number of tokens, skew and seed?

Simulated; dispatch and combine as `interlock.moe.across` plans them, 256 experts, top-8, hidden 7168, bf16 both ways.
The bound is the de-duplicated bytes of the busiest server over its NICs; opening the stage and one latency are not
counted. Each row is the worst of its seeds. Beside it, over the bound too: the overhead of the busiest NIC's messages,
and how long the busiest GPU's scale-up port works. Where that is near 1 there are two bottlenecks.
"""

from __future__ import annotations

import numpy as np

import interlock as il
from bench_across import BYTES_PER_TOKEN, TOLERANCE, between_servers_s
from common import arguments, report
from interlock.moe.across import plan_combine, plan_dispatch, server_bound_s
from interlock.planning import Plan
from interlock.schedule import Phase
from interlock.traffic.moe_router import moe_routing

LIMIT = 1.06
SEEDS = {256: 6, 512: 6, 1024: 6, 4096: 2}  # by tokens per GPU


def overheads_s(plan: Plan) -> float:
    """What the messages of the busiest NIC cost apart from their bytes."""
    assert plan.problem.cluster is not None
    wire = plan.schedule.phase == Phase.SCALE_OUT
    messages = np.bincount(plan.schedule.src.values[plan.schedule.src.offsets[:-1][wire]])
    return float(messages.max() * plan.problem.cluster.message_overhead_s)


def port_s(plan: Plan) -> float:
    """How long the busiest scale-up port works."""
    cluster = plan.problem.cluster
    assert cluster is not None
    ports = plan.simulate(TOLERANCE).link_bytes[: 2 * cluster.num_ranks]
    return float(ports.max() / cluster.scale_up_bandwidth_bytes_per_s)


def row(tokens: int, servers: int, skew: float) -> dict[str, object]:
    """The worst seed for each figure."""
    cluster = il.cluster("h200", servers=servers)
    made: dict[str, list[float]] = {}
    for seed in range(SEEDS[tokens]):
        routing = moe_routing(cluster, tokens=tokens, experts=256, top_k=8, skew=skew, seed=seed)
        bound_s = server_bound_s(cluster, routing, BYTES_PER_TOKEN)
        for name, planned in (("dispatch", plan_dispatch), ("combine", plan_combine)):
            plan = planned(cluster, routing, BYTES_PER_TOKEN)
            made.setdefault(f"{name} over bound", []).append(between_servers_s(plan) / bound_s)
            made.setdefault(f"{name}, overheads", []).append(overheads_s(plan) / bound_s)
            made.setdefault("busiest port", []).append(port_s(plan) / bound_s)
    worst: dict[str, object] = {name: max(values) for name, values in made.items()}
    within = max(made["dispatch over bound"] + made["combine over bound"]) <= LIMIT
    facts = {"tokens": tokens, "servers": servers, "skew": skew, "seeds": SEEDS[tokens]}
    return {**facts, **worst, "within 1.06": "yes" if within else "no"}


def main() -> None:
    """One table."""
    options = arguments(__doc__ or "")
    rows = [row(tokens, servers, skew) for tokens in SEEDS for servers in (4, 8) for skew in (0.0, 0.4, 0.8, 1.2)]
    report("across_bound", rows, options)


if __name__ == "__main__":
    main()
