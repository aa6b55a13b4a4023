"""AlgoBW of FAST and its rivals on 4x8 MI300X with 100 Gb/s RoCE and DCQCN, from the FAST authors' published raw logs.

GB/s, mean of 10 runs; AlgoBW = total bytes / (GPUs x time). "no-stage" balances, sends all rail peers at once and
restores.
"""

SIZES_MB = (8, 32, 128, 512, 1024)  # per GPU
ALGORITHMS = {"FAST": "fast", "RCCL": "direct", "no-stage": "no-stage", "SpreadOut": "spreadout"}
ALGBW_GB_PER_S = {
    "random": {
        "FAST": (6.34, 10.44, 12.08, 12.67, 12.78),
        "RCCL": (9.91, 6.98, 6.34, 0.32, 0.50),
        "no-stage": (9.17, 11.34, 11.69, 11.56, 11.47),
        "SpreadOut": (3.71, 4.67, 5.57, 6.24, 6.71),
    },
    "skew 0.8": {
        "FAST": (6.46, 9.60, 11.15, 11.12, 11.66),
        "RCCL": (8.27, 6.66, 7.04, 6.10, 4.32),
        "no-stage": (8.48, 9.89, 10.15, 9.66, 9.80),
        "SpreadOut": (3.01, 3.75, 3.96, 4.07, 4.17),
    },
    "balanced": {
        "FAST": (9.06, 12.34, 13.22, 13.80, 13.92),
        "RCCL": (12.84, 8.84, 1.71, 0.25, 0.48),
        "no-stage": (10.39, 12.43, 13.02, 13.27, 13.30),
        "SpreadOut": (4.13, 4.91, 6.32, 9.48, 10.43),
    },
}
