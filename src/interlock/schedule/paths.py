"""The links every message takes: its own path, or the topology's route."""

from __future__ import annotations

import numpy as np

from interlock.errors import InvalidInput
from interlock.ragged import Ragged
from interlock.schedule.model import Kind, Schedule
from interlock.topology import Topology

__all__ = ["resolved_paths"]


def resolved_paths(schedule: Schedule, topology: Topology) -> Ragged:
    """Link ids of every message; rows the schedule leaves empty are filled with the topology's route."""
    routed = np.flatnonzero((np.diff(schedule.path.offsets) == 0) & (schedule.kind != Kind.WAIT))
    if not len(routed):
        return schedule.path
    is_single = (schedule.src.counts[routed] == 1) & (schedule.dst.counts[routed] == 1)
    if not is_single.all():
        message = int(routed[~is_single][0])
        raise InvalidInput(f"message {message} has several sources or destinations and no path; it must name its links")
    src = schedule.src.values[schedule.src.offsets[routed]]
    dst = schedule.dst.values[schedule.dst.offsets[routed]]
    routes = topology.routes(src, dst)
    if len(routed) == len(schedule.path):
        return routes
    row = np.arange(len(schedule.path))
    row[routed] = len(row) + np.arange(len(routed))
    return Ragged.concatenate([schedule.path, routes]).take(row)
