"""Why is my All-to-All slow? Find the link that holds it back, and what another schedule does about it.

python examples/why_is_it_slow.py
"""

from __future__ import annotations

import interlock as il
from interlock.simulate.explain import busiest, explain_against
from interlock.units import format_bytes, format_seconds


def main() -> None:
    """Skewed traffic on 4x8 GPUs: all sends at once, then ours."""
    cluster = il.cluster("h200", servers=4)
    traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="512 MB", seed=0)
    direct, ours = (il.plan(cluster, traffic, name) for name in ("direct", "adaptive"))
    for plan in (direct, ours):
        result, load = plan.simulate(), busiest(plan.simulate())
        print(f"{plan.algorithm}: {format_seconds(result.makespan_s)}, simulated. {result.explanation()}")
        at_work = f"at work {100 * load.busy_share:.0f} % of the time"
        print(f"  busiest: {load.name}, {format_bytes(load.bytes_moved)}, {at_work}")
    print(explain_against(ours.simulate(), direct.simulate(), "adaptive", "direct"))
    print(f"No schedule can take less than {format_seconds(ours.bound.seconds)}: {ours.bound.binds}.")


if __name__ == "__main__":
    main()
