"""A real two-tier network on one Linux machine: namespaces, shaped links, ranks over real sockets."""

from interlock.lab.collectives import collective_of, compare_collective_in_lab
from interlock.lab.network import (
    LabNetwork,
    LabSpec,
    LabUnavailable,
    check_available,
    congestion_control,
    reap,
    running,
)
from interlock.lab.ranks import RankContext, RankFailed, RankProcesses, Seat
from interlock.lab.run import LabRow, compare_in_lab, ranks_in
from interlock.lab.steps import StepRow, compare_step_in_lab, dispatched

__all__ = [
    "LabRow",
    "LabSpec",
    "LabUnavailable",
    "LabNetwork",
    "RankContext",
    "RankFailed",
    "RankProcesses",
    "Seat",
    "StepRow",
    "check_available",
    "collective_of",
    "compare_collective_in_lab",
    "compare_in_lab",
    "compare_step_in_lab",
    "congestion_control",
    "dispatched",
    "ranks_in",
    "reap",
    "running",
]
