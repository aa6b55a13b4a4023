"""What do a switch port's queue and TCP's congestion control make of torch's own All-to-All, and of a plan? Needs root.

python benchmarks/bench_lab_queues.py --repeats 10
"""

from __future__ import annotations

import subprocess

from common import arguments, report
from interlock.lab import LabNetwork, LabSpec, compare_in_lab, ranks_in
from interlock.traffic import parse

QUEUES_KB = [16, 24, 50, 150, 400]
CONTROLS = ["bbr", "cubic"]


def main() -> None:
    """Print times of both at every queue and congestion control, 4x4, Zipf 0.8."""
    options = arguments(__doc__ or "", size="1.5MB", traffic="zipf:0.8")
    rows = []
    for control in CONTROLS:
        for queue_kb in QUEUES_KB:
            spec = LabSpec(4, 4, 50e6 / 8, 500e6 / 8, port_queue_bytes=1000 * queue_kb)
            demand = parse(options.traffic, spec.to_cluster(), options.size, options.seed)
            with LabNetwork(spec) as network:
                set_congestion_control(network, control)
                with ranks_in(network) as ranks:
                    native, ours = compare_in_lab(ranks, spec, demand, ["native", "adaptive"], repeat=options.repeats)
            rows.append(
                {
                    "congestion control": control,
                    "queue kB": queue_kb,
                    "queue ms": 1e6 * queue_kb / spec.nic_bytes_per_s,
                    "native_ms": native.measured_s * 1e3,
                    "adaptive_ms": ours.measured_s * 1e3,
                    "native_over_bound": 1 + native.gap,
                    "adaptive_over_bound": 1 + ours.gap,
                    "faster": native.measured_s / ours.measured_s,
                    "valid": ours.valid and native.valid,
                }
            )
    report("lab_queues", rows, options)


def set_congestion_control(network: LabNetwork, control: str) -> None:
    """Use it for every connection over shaped links that is made from now on."""
    for rank in range(network.spec.num_ranks):
        inside = ["ip", "-n", network.namespace(rank), "route"]
        shown = subprocess.run([*inside, "show"], capture_output=True, text=True, check=True).stdout
        for route in shown.splitlines():
            if "ctl0" not in route:
                subprocess.run([*inside, "change", *route.split(), "congctl", control], check=True)


if __name__ == "__main__":
    main()
