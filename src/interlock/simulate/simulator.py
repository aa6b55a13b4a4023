"""Runs a schedule on a network: a flow-level, event-driven simulation in the native core."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import CompactSchedule, Schedule, resolved_paths
from interlock.simulate.hops import Hops, one_message_per_link
from interlock.simulate.network import flow_arrays
from interlock.simulate.result import Result
from interlock.topology import Cluster, Topology

__all__ = ["Forwarding", "simulate"]

Forwarding = Literal["cut-through", "store-and-forward"]
MAX_TOLERANCE = 0.1


def simulate(
    schedule: CompactSchedule,
    on: Problem | Topology | Cluster,
    *,
    tolerance: float | None = None,
    forwarding: Forwarding = "cut-through",
    gpu: bool = False,
) -> Result:
    """How long a schedule takes, and why.

    Messages start when their dependencies have arrived, in link order where they hold links alone, and share
    links max-min fairly; docs/reference/simulator.md says what is modelled and what is not.

    Parameters
    ----------
    schedule
        Any schedule, in rows or compact.
    on
        The network: a problem, a topology or a cluster.
    tolerance
        None is exact. 1e-3 handles departures close together as one; times are then those of links slower by at most
        that part.
    forwarding
        "cut-through": a message crosses all links of its path at once. "store-and-forward": each node receives all of
        it before passing it on, and every link's own overhead is paid.
    gpu
        Count what a program on the cluster's devices costs: its launch, each hop, each message and what is packed.

    Examples
    --------
    >>> import interlock as il
    >>> free = {"scale_out_latency": "0 us", "message_overhead": "0 us", "stage_overhead": "0 us"}
    >>> cluster = il.cluster("h200", servers=2, gpus_per_server=1, **free)
    >>> plan = il.plan(cluster, il.traffic.matrix([[0, 50_000_000], [0, 0]]), algorithm="direct")
    >>> simulate(plan.schedule, cluster).makespan_s
    0.001
    """
    _check(tolerance, forwarding)
    topology = on if isinstance(on, Topology) else on.topology
    device = _device_of(on, forwarding) if gpu else None
    rows = schedule.expand()
    path = resolved_paths(rows, topology)
    hops = _hops_of(rows, path, topology) if forwarding == "store-and-forward" else None
    arrays = (
        flow_arrays(rows, path, topology, device)
        if hops is None
        else flow_arrays(hops.schedule, hops.schedule.path, topology)
    )
    start_s, sent_s, finish_s, wait, waited_for, bottleneck, peak_fan_in, totals = _core.simulate_flows(
        *arrays.arguments, tolerance or 0.0
    )
    if hops is not None:
        start_s, sent_s, finish_s = _per_message(hops, start_s, sent_s, finish_s)
        wait, waited_for = wait[hops.first], _message_of(hops, waited_for[hops.first])
        bottleneck = bottleneck[np.append(hops.first[1:], len(bottleneck)) - 1] if len(hops.first) else bottleneck
    makespan_s, idle_share, num_events = totals
    if device is not None and rows.num_messages:
        makespan_s += device.gpu_launch_s
        start_s, sent_s, finish_s = (times + device.gpu_launch_s for times in (start_s, sent_s, finish_s))
    return Result(
        makespan_s=makespan_s,
        start_s=start_s,
        sent_s=sent_s,
        finish_s=finish_s,
        peak_fan_in=np.where(arrays.is_port, np.asarray(peak_fan_in)[arrays.channel_by_link], np.int32(0)),
        tolerance=tolerance,
        idle_share=idle_share if tolerance else 0.0,
        num_events=num_events,
        schedule=rows,
        topology=topology,
        path=path,
        arrays=arrays,
        wait=wait,
        waited_for=waited_for,
        bottleneck=bottleneck,
        step=on.step if isinstance(on, Problem) else None,
    )


def _check(tolerance: float | None, forwarding: Forwarding) -> None:
    if tolerance is not None and not isinstance(tolerance, float | int):
        raise InvalidInput(f"tolerance={str(tolerance)[:64]!r} must be a number, or None for exact times")
    if tolerance is not None and not 0.0 <= tolerance <= MAX_TOLERANCE:
        raise InvalidInput(f"tolerance={tolerance!r} must be between 0 and {MAX_TOLERANCE}, or None for exact times")
    if forwarding not in get_args(Forwarding):
        raise InvalidInput(f"forwarding={forwarding!r} must be one of {', '.join(get_args(Forwarding))}")


def _hops_of(rows: Schedule, path: Ragged, topology: Topology) -> Hops:
    """A message for each link that one crosses, where nodes receive all of it before they pass it on."""
    if topology.fabric.ecmp_radix is not None:
        raise InvalidInput("store-and-forward over hashed uplinks (fabric.ecmp_radix) is not modelled")
    if rows.tasks is not None:
        raise InvalidInput("store-and-forward of a step is not modelled")
    return one_message_per_link(rows, path, topology)


def _device_of(on: Problem | Topology | Cluster, forwarding: Forwarding) -> Cluster:
    """The cluster whose devices run the program."""
    cluster = on.cluster if isinstance(on, Problem) else on
    if not isinstance(cluster, Cluster):
        raise InvalidInput("gpu=True needs a cluster: a graph says nothing of its devices")
    if forwarding != "cut-through":
        raise InvalidInput(f"gpu=True with forwarding={forwarding!r} is not modelled: devices send straight")
    return cluster


def _per_message(
    hops: Hops, start_s: NDArray[np.float64], sent_s: NDArray[np.float64], finish_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Times of whole messages from those of their hops."""
    if not len(hops.first):
        return start_s, sent_s, finish_s
    return (
        np.minimum.reduceat(start_s, hops.first),
        np.maximum.reduceat(sent_s, hops.first),
        np.maximum.reduceat(finish_s, hops.first),
    )


def _message_of(hops: Hops, hop: NDArray[np.int32]) -> NDArray[np.int32]:
    """The message each hop belongs to; -1 stays."""
    if not len(hop):
        return hop
    return np.where(hop >= 0, hops.message[hop], -1).astype(np.int32)
