"""What does one copy per server, planned, gain for MoE across servers?

Simulated dispatch and combine of one layer: 256 experts, top-8, hidden 7168, bf16 both ways for everyone, Zipf
popularity. Ours is planned by `adaptive` on de-duplicated demand with multicast and reduction in the scale-up switch.
Beside it DeepEP-like forwarding (one copy per server to the GPU with the sender's index, unicast inside) and FAST
without de-duplication (a copy per expert and a copy per GPU). "Over bound" is the time between servers over that of the
de-duplicated bytes.
"""

from __future__ import annotations

from dataclasses import replace

import interlock as il
from common import arguments, report
from interlock.moe.across import plan_combine, plan_dispatch, server_bound_s
from interlock.planning import Plan
from interlock.schedule import Phase
from interlock.traffic.moe_router import moe_routing

BYTES_PER_TOKEN = 2 * 7168
TOLERANCE = 1e-3


def between_servers_s(plan: Plan) -> float:
    """Until the last byte has arrived over the NICs, without opening the stage and one latency."""
    result, cluster = plan.simulate(TOLERANCE), plan.problem.cluster
    assert cluster is not None
    wire = plan.schedule.phase == Phase.SCALE_OUT
    opening_s = cluster.stage_overhead_s + cluster.scale_out_latency_s
    return float(result.finish_s[wire].max() - opening_s)


def row(servers: int, skew: float, tokens: int, seed: int) -> dict[str, object]:
    """One cluster and load, both directions."""
    cluster = il.cluster("h200", servers=servers)
    unable = replace(cluster, multicasts=False, reduces=False)
    routing = moe_routing(cluster, tokens=tokens, experts=256, top_k=8, skew=skew, seed=seed)
    bound_s = server_bound_s(cluster, routing, BYTES_PER_TOKEN)
    made: dict[str, object] = {"servers": servers, "skew": skew, "bound_us": bound_s * 1e6}
    for name, planned in (("dispatch", plan_dispatch), ("combine", plan_combine)):
        ours = planned(cluster, routing, BYTES_PER_TOKEN)
        ours_s = ours.simulate(TOLERANCE).makespan_s
        made[f"{name}_us"] = ours_s * 1e6
        made[f"{name} over bound"] = between_servers_s(ours) / bound_s
        forwarded = planned(unable, routing, BYTES_PER_TOKEN, "forward")
        made[f"{name}, over forwarding"] = forwarded.simulate(TOLERANCE).makespan_s / ours_s
        for copies in ("expert", "rank"):
            demand = routing.to_demand(BYTES_PER_TOKEN, copies)
            fast = il.plan(cluster, demand if name == "dispatch" else demand.transposed(), algorithm="fast")
            made[f"{name}, over fast per {copies}"] = fast.simulate(TOLERANCE).makespan_s / ours_s
    return made


def main() -> None:
    """One table."""
    options = arguments(__doc__ or "", tokens=1024)
    rows = [row(servers, skew, options.tokens, options.seed) for servers in (4, 8) for skew in (0.0, 0.4, 0.8)]
    report("across", rows, options, tokens_per_gpu=options.tokens)


if __name__ == "__main__":
    main()
