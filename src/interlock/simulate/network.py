"""A schedule and a topology as the arrays the native simulator takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.ragged import Ragged
from interlock.schedule import Kind, Schedule, ordered_links
from interlock.topology import Cluster, Fabric, Topology, receiving_ports
from interlock.topology.uplinks import hashed_uplinks

__all__ = ["FlowArrays", "flow_arrays"]

Arguments = tuple[
    NDArray[np.float64],
    NDArray[np.uint8],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int32],
    NDArray[np.uint8],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int32],
    float,
    int,
    bool,
    NDArray[np.float64],
]


@dataclass(frozen=True, slots=True, eq=False)
class FlowArrays:
    """What the simulator knows: channels have capacity, links are named by paths, messages have sizes and waits."""

    channel_by_link: NDArray[np.int32]  # [num_links], numbered from 0 without gaps
    is_port: NDArray[np.bool_]  # [num_links], where fan-in is counted
    arguments: Arguments  # of `_core.simulate_flows`, all but the tolerance

    @property
    def num_channels(self) -> int:
        """Capacities that flows share."""
        return len(self.arguments[0])


def flow_arrays(schedule: Schedule, path: Ragged, topology: Topology, device: Cluster | None = None) -> FlowArrays:
    """Write a schedule, whose messages take the links `path`, as flat arrays, with the costs of a `device` if given."""
    channel_by_link, capacity = _channels(topology)
    is_port = receiving_ports(topology)
    fabric = topology.fabric
    capacity[channel_by_link[is_port]] *= fabric.efficiency
    latency_s, overhead_s = path_latency_s(path, schedule, topology), _overhead_s(path, topology)
    if device is not None:
        latency_s, overhead_s = latency_s + _device_s(schedule, device), overhead_s + device.gpu_message_s
    own_channels = channel_by_link
    if fabric.ecmp_radix is not None:
        uplinks = hashed_uplinks(path, topology)
        path, added = uplinks.path, len(uplinks.capacity_bytes_per_s)
        channel_by_link = np.append(channel_by_link, len(capacity) + np.arange(added)).astype(np.int32)
        capacity = np.append(capacity, uplinks.capacity_bytes_per_s)
    port_channels = np.zeros(len(capacity), np.uint8)
    port_channels[own_channels[is_port]] = 1
    links = ordered_links(schedule, path, topology.num_links)
    hashed = channel_by_link[topology.num_links :]
    channel_by_link = np.append(channel_by_link[links.link], hashed).astype(np.int32)
    senders = schedule.src
    if schedule.tasks is not None:
        latency_s = latency_s + schedule.tasks.seconds
        is_wait = schedule.kind == Kind.WAIT
        senders = Ragged.from_counts(
            np.where(is_wait, 0, senders.counts), senders.values[~is_wait[senders.row_of_value]]
        )
    arguments = (
        capacity,
        port_channels,
        channel_by_link,
        np.ascontiguousarray(schedule.size_bytes, np.int64),
        latency_s,
        overhead_s,
        np.ascontiguousarray(schedule.stage, np.int32),
        np.ascontiguousarray(links.has_place).view(np.uint8),
        np.ascontiguousarray(schedule.order, np.int64),
        links.path.offsets,
        links.path.values,
        schedule.deps.offsets,
        schedule.deps.values,
        senders.offsets,
        senders.values,
        np.ascontiguousarray(schedule.barriers, np.int32),
        float(topology.stage_overhead_s),
        len(links.link),
        fabric.fan_in is not None,
        _loss_curve(fabric),
    )
    return FlowArrays(own_channels, is_port, arguments)


def _channels(topology: Topology) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Channel of each link, numbered without gaps, and the capacity of each channel (its slowest link's)."""
    _, first, channel = np.unique(topology.channel, return_index=True, return_inverse=True)
    capacity = topology.bandwidth_bytes_per_s[first].astype(np.float64)
    if len(first) < topology.num_links:
        np.minimum.at(capacity, channel, topology.bandwidth_bytes_per_s)
    return channel.astype(np.int32), capacity


def _loss_curve(fabric: Fabric) -> NDArray[np.float64]:
    """The fabric's two terms of loss, the size they refer to and the most that is lost."""
    mild = (fabric.fan_in or 0, fabric.loss_per_sender, fabric.sender_exponent, fabric.size_exponent)
    never = 2**31
    limit = never if fabric.collapse_fan_in is None else fabric.collapse_fan_in
    collapse = (limit, fabric.collapse_loss, fabric.collapse_sender_exponent, fabric.collapse_size_exponent)
    return np.array([*mild, *collapse, fabric.reference_bytes, fabric.max_loss], np.float64)


def _device_s(schedule: Schedule, device: Cluster) -> NDArray[np.float64]:
    """How much later each message is known to have arrived: a hop, and copies at both ends where it has many pieces."""
    is_packed = np.diff(schedule.pieces.offsets) > 1
    packed_bytes = np.where(is_packed, 2 * schedule.size_bytes, 0)
    seconds: NDArray[np.float64] = device.gpu_hop_s + packed_bytes / device.gpu_copy_bandwidth_bytes_per_s
    return seconds


def _overhead_s(path: Ragged, topology: Topology) -> NDArray[np.float64]:
    """How long each message holds its first link before its bytes; nothing where it has no links."""
    overhead_s = np.zeros(len(path))
    some = path.counts > 0
    overhead_s[some] = topology.message_overhead_s[path.values[path.offsets[:-1][some]]]
    return overhead_s


def path_latency_s(path: Ragged, schedule: Schedule, topology: Topology) -> NDArray[np.float64]:
    """Propagation of each message: the sum over its links, or the longest branch where its path is a tree."""
    running = np.concatenate([[0.0], np.cumsum(topology.latency_s[path.values])])
    total_s: NDArray[np.float64] = running[path.offsets[1:]] - running[path.offsets[:-1]]
    is_tree = (schedule.src.counts > 1) | (schedule.dst.counts > 1)
    trees = np.flatnonzero(is_tree & (path.counts > 1))
    if len(trees):
        total_s[trees] = _deepest_branch_s(path.take(trees), topology)
    return total_s


def _deepest_branch_s(path: Ragged, topology: Topology) -> NDArray[np.float64]:
    """Longest chain of latencies in each tree, towards the leaves or the root alike."""
    links, row = path.values, path.row_of_value
    enters = row * topology.num_nodes + topology.link_dst[links]
    leaves = row * topology.num_nodes + topology.link_src[links]
    nodes, place = np.unique(np.concatenate([enters, leaves]), return_inverse=True)
    enters, leaves = place[: len(links)], place[len(links) :]
    reached_s = np.zeros(len(nodes))
    for _ in range(int(path.counts.max())):
        before = reached_s.copy()
        np.maximum.at(reached_s, enters, before[leaves] + topology.latency_s[links])
        if np.array_equal(before, reached_s):
            break
    deepest_s = np.zeros(len(path))
    np.maximum.at(deepest_s, row, reached_s[enters])
    return deepest_s
