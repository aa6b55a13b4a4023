"""How much faster is a step's `joint` way than the others on real sockets, what do processors take of it? Needs root.

python benchmarks/bench_lab_step.py --repeats 5
"""

from __future__ import annotations

from common import arguments, report
from interlock.lab import LabNetwork, LabSpec, compare_step_in_lab, ranks_in

NETWORKS = [(10, 750_000), (20, 1_000_000), (50, 1_500_000)]  # NICs in Mb/s, bytes each rank dispatches
SEEDS = 2


def main() -> None:
    """Print times of the three ways, 4x4, scale-up ten times the NICs, Zipf 0.8; fast NICs leave processors behind."""
    options = arguments(__doc__ or "")
    rows = []
    for nic_mbit, size_bytes in NETWORKS:
        spec = LabSpec(4, 4, nic_mbit * 1e6 / 8, nic_mbit * 1e7 / 8, port_queue_bytes=1_000_000)
        with LabNetwork(spec) as network, ranks_in(network) as ranks:
            for seed in range(options.seed, options.seed + SEEDS):
                told = compare_step_in_lab(
                    ranks,
                    spec,
                    size_bytes,
                    ["serial", "concurrent", "joint"],
                    repeat=options.repeats,
                    calibrate_s=2.0,
                    seed=seed,
                )
                by_way = {row.algorithm: row for row in told}
                joint_s = by_way["joint"].measured_s
                rows.append(
                    {
                        "nic_mbit": nic_mbit,
                        "size_bytes": size_bytes,
                        "seed": seed,
                        **{f"{way}_s": row.measured_s for way, row in by_way.items()},
                        **{f"{way}_predicted_over_measured": r.predicted_s / r.measured_s for way, r in by_way.items()},
                        "over_serial": by_way["serial"].measured_s / joint_s,
                        "over_concurrent": by_way["concurrent"].measured_s / joint_s,
                        "valid": all(row.valid for row in told),
                    }
                )
    report("lab_step", rows, options)


if __name__ == "__main__":
    main()
