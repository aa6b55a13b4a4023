"""Runs a schedule on a network: a flow-level, event-driven simulation in the native core."""

from __future__ import annotations

import numpy as np

from interlock._native import _core
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.schedule import CompactSchedule
from interlock.simulate.network import flow_arrays
from interlock.simulate.result import Result
from interlock.topology import Cluster, Topology

__all__ = ["simulate"]


def simulate(schedule: CompactSchedule, on: Problem | Topology | Cluster, *, tolerance: float | None = None) -> Result:
    """How long a schedule takes, and why.

    Messages start when their dependencies have arrived, in link order where they hold links alone, and share
    links max-min fairly; see docs/reference/simulator.md for the model.

    Parameters
    ----------
    schedule
        Any schedule, in rows or compact.
    on
        The network: a problem, a topology or a cluster.
    tolerance
        None is exact. 1e-3 handles departures close together as one, as if each message were larger by at most that
        part of its size.

    Examples
    --------
    >>> import interlock as il
    >>> cluster = il.cluster("h200", servers=2, gpus_per_server=1, scale_out_latency="0 us", message_overhead="0 us",
    ...     stage_overhead="0 us")
    >>> plan = il.plan(cluster, il.traffic.matrix([[0, 50_000_000], [0, 0]]), algorithm="direct")
    >>> simulate(plan.schedule, cluster).makespan_s
    0.001
    """
    if tolerance is not None and not 0.0 <= tolerance <= 0.1:
        raise InvalidInput(f"tolerance={tolerance!r} must be between 0 and 0.1, or None for exact times")
    topology = on if isinstance(on, Topology) else on.topology
    rows = schedule.expand()
    arrays = flow_arrays(rows, topology)
    start_s, sent_s, finish_s, wait, waited_for, bottleneck, peak_fan_in, totals = _core.simulate_flows(
        *arrays.arguments, tolerance or 0.0
    )
    makespan_s, size_error, num_events = totals
    return Result(
        makespan_s=makespan_s,
        start_s=start_s,
        sent_s=sent_s,
        finish_s=finish_s,
        peak_fan_in=np.where(arrays.is_port, np.asarray(peak_fan_in)[arrays.channel_by_link], np.int32(0)),
        tolerance=tolerance,
        size_error=min(size_error, tolerance) if tolerance else 0.0,
        num_events=num_events,
        schedule=rows,
        topology=topology,
        arrays=arrays,
        wait=wait,
        waited_for=waited_for,
        bottleneck=bottleneck,
    )
