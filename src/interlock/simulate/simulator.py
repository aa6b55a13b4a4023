"""Runs a schedule on a network: a flow-level, event-driven simulation in the native core."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.ragged import Ragged, matches, ranges
from interlock.schedule import CompactSchedule, Schedule, SlotSchedule, make_pieces, resolved_paths
from interlock.simulate.network import flow_arrays
from interlock.simulate.result import Result
from interlock.topology import Cluster, Topology

__all__ = ["Forwarding", "Hops", "one_message_per_link", "simulate", "slot_makespan_s"]


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


def slot_makespan_s(schedule: SlotSchedule, problem: Problem) -> float:
    """When the last chunk arrives if every link sends as soon as it can.

    Slots are as long as the longest chunk takes, latency and the start of a stage included: exact where chunks are
    equal and neither costs time, and at most a little too long elsewhere.
    """
    topology = problem.topology
    for column in (topology.bandwidth_bytes_per_s, topology.latency_s, topology.message_overhead_s):
        if np.ptp(column):
            raise InvalidInput(f"{topology.name} has unequal links; a slot table takes equal ones")
    longest_bytes = int(schedule.chunks.length.max(initial=0))
    slot_s = float(topology.message_overhead_s[0] + longest_bytes / topology.bandwidth_bytes_per_s[0])
    slots = _core.replay_slots(
        schedule.table, schedule.link_src, schedule.link_dst, problem.num_ranks, len(schedule.chunks)
    )
    return int(slots) * (slot_s + float(topology.latency_s[0]) + topology.stage_overhead_s)


@dataclass(frozen=True, slots=True, eq=False)
class Hops:
    """A schedule whose messages cross one link each, and the message each of them came from."""

    schedule: Schedule
    message: NDArray[np.int64]  # [num_hops]
    first: NDArray[np.int64]  # [num_messages], first hop of each message


def one_message_per_link(schedule: Schedule, path: Ragged, topology: Topology) -> Hops:
    """Cut every message at the nodes of its path; a message without links stays one message."""
    counts = np.maximum(path.counts, 1)
    message = np.repeat(np.arange(len(path)), counts)
    first = np.cumsum(counts) - counts
    links = Ragged.from_counts((path.counts[message] > 0).astype(np.int64), path.values)
    columns = ("kind", "phase", "stage", "slice", "size_bytes", "exclusive", "order")
    cut = replace(
        schedule,
        src=schedule.src.take(message),
        dst=schedule.dst.take(message),
        path=links,
        deps=_dependencies(schedule, path, topology, message, first, counts),
        pieces=make_pieces(np.zeros(len(message) + 1), []),
        **{name: getattr(schedule, name)[message] for name in columns},
    )
    return Hops(cut, message, first)


def _dependencies(
    schedule: Schedule,
    path: Ragged,
    topology: Topology,
    message: NDArray[np.int64],
    first: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> Ragged:
    """A hop waits for the hops into the node it leaves, a first hop for all hops of what its message waited for."""
    hop_of_value = np.flatnonzero(path.counts[message] > 0)
    row = path.row_of_value
    leaves = row * topology.num_nodes + topology.link_src[path.values]
    enters = row * topology.num_nodes + topology.link_dst[path.values]
    inner_dep, inner_hop = (hop_of_value[place] for place in matches(enters, leaves))
    starts = np.ones(len(message), np.bool_)
    starts[inner_hop] = False
    begin = np.flatnonzero(starts)
    deps = schedule.deps.take(message[begin])
    outer_hop = np.repeat(np.repeat(begin, deps.counts), counts[deps.values])
    outer_dep = ranges(first[deps.values], counts[deps.values])
    hop, dep = np.concatenate([inner_hop, outer_hop]), np.concatenate([inner_dep, outer_dep])
    return Ragged.from_pairs(hop, dep, len(message))
