"""Times of All-to-Allv baselines on two tiers from port loads alone, without making a schedule.

Each algorithm is a sequence of phases. A phase takes as long as its busiest port: bytes over rate, a message overhead
per message it sends, and where more senders meet at a NIC than the fabric tolerates, its loss. Phases that the
schedule overlaps only byte by byte are added up. Contention that moves from port to port is not seen: expect a few
per cent, and more under extreme skew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["two_tier_estimates_s"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes by server and GPU of sender and receiver, nothing on the diagonal, and what crosses between servers."""

    cluster: Cluster
    near: Floats  # [servers, gpus, gpus]
    far: Floats  # [servers, gpus, servers, gpus], zero inside a server

    @classmethod
    def of(cls, cluster: Cluster, demand: Demand) -> _Traffic:
        servers, gpus = cluster.servers, cluster.gpus_per_server
        tiles = demand.bytes_matrix.astype(np.float64).reshape(servers, gpus, servers, gpus)
        own = np.arange(servers)
        near = tiles[own, :, own, :].copy()
        near[:, np.arange(gpus), np.arange(gpus)] = 0.0
        tiles[own, :, own, :] = 0.0
        return cls(cluster, near, tiles)


def two_tier_estimates_s(cluster: Cluster, demand: Demand) -> dict[str, float]:
    """Estimated seconds by algorithm name; infinite where traffic would need a NIC that is dead.

    Examples
    --------
    >>> from interlock.topology import cluster
    >>> from interlock.traffic import uniform
    >>> hosts = cluster("h200", servers=4)
    >>> times = two_tier_estimates_s(hosts, uniform(hosts))
    >>> min(times, key=times.get)
    'direct'
    """
    traffic = _Traffic.of(cluster, demand)
    ways: dict[str, Callable[[_Traffic], float]] = {
        "direct": _direct_s,
        "pxn": _pxn_s,
        "forward": _forward_s,
        "no-stage": _no_stage_s,
        "spreadout": _spreadout_s,
        "padded": _padded_s,
    }
    if not (traffic.near.any() or traffic.far.any()):
        return dict.fromkeys(ways, 0.0)
    return {name: way(traffic) for name, way in ways.items()}


def _direct_s(traffic: _Traffic) -> float:
    cluster = traffic.cluster
    inside_s = _inside_s(cluster, traffic.near)
    wire_s = _wire_s(cluster, traffic.far)
    return cluster.stage_overhead_s + max(inside_s, wire_s)


def _pxn_s(traffic: _Traffic) -> float:
    """A hop to the destination's index, then its rail: the hops of the first bytes are exposed."""
    cluster, servers = traffic.cluster, traffic.cluster.servers
    hop = traffic.far.sum(axis=2)  # [servers, from GPU, to GPU]
    hop[:, np.arange(hop.shape[1]), np.arange(hop.shape[1])] = 0.0
    rails = traffic.far.sum(axis=1)  # [servers, servers, gpus]
    wire = np.zeros_like(traffic.far)
    gpu = np.arange(cluster.gpus_per_server)
    wire[:, gpu, :, gpu] = rails.transpose(2, 0, 1)
    inside_s = _inside_s(cluster, traffic.near + hop)
    exposed_s = _inside_s(cluster, hop) / max(1, servers - 1) if hop.any() else 0.0
    return cluster.stage_overhead_s + max(inside_s, exposed_s + _wire_s(cluster, wire, senders=cluster.gpus_per_server))


def _forward_s(traffic: _Traffic) -> float:
    """Own rail to the other server, then a fan-out that waits for whole messages."""
    cluster = traffic.cluster
    wire = np.zeros_like(traffic.far)
    gpu = np.arange(cluster.gpus_per_server)
    wire[:, gpu, :, gpu] = traffic.far.sum(axis=3).transpose(1, 0, 2)
    fan = traffic.far.sum(axis=0).transpose(1, 0, 2)  # [to server, landing GPU, final GPU]
    fan[:, gpu, gpu] = 0.0
    inside_s = _inside_s(cluster, traffic.near)
    return cluster.stage_overhead_s + max(inside_s, _wire_s(cluster, wire) + _inside_s(cluster, fan))


def _no_stage_s(traffic: _Traffic) -> float:
    """Balance, equal shares on all rails, redistribute, one after the other."""
    cluster, gpus = traffic.cluster, traffic.cluster.gpus_per_server
    owed = traffic.far.sum(axis=3)  # [servers, gpus, servers]
    mean = owed.mean(axis=1, keepdims=True)
    surplus, lack = np.maximum(owed - mean, 0.0).sum(axis=2), np.maximum(mean - owed, 0.0).sum(axis=2)
    total = np.maximum(surplus.sum(axis=1), 1.0)[:, None, None]
    hop = surplus[:, :, None] * lack[:, None, :] / total
    wire = np.zeros_like(traffic.far)
    gpu = np.arange(gpus)
    wire[:, gpu, :, gpu] = np.broadcast_to(mean[:, 0, :], (gpus, *mean[:, 0, :].shape))
    arrives = traffic.far.sum(axis=(0, 1)) / gpus  # [to server, final GPU], from each landing GPU
    fan = np.broadcast_to(arrives[:, None, :], (cluster.servers, gpus, gpus)).copy()
    fan[:, gpu, gpu] = 0.0
    balance_s = _inside_s(cluster, traffic.near + hop) if hop.any() else 0.0
    wire_s = _wire_s(cluster, wire)
    return cluster.stage_overhead_s + max(
        _inside_s(cluster, traffic.near), balance_s + wire_s + (_inside_s(cluster, fan) if wire_s else 0.0)
    )


def _spreadout_s(traffic: _Traffic) -> float:
    """The slowest message of every shift, one shift after the other."""
    cluster, ranks = traffic.cluster, traffic.cluster.num_ranks
    gpus = cluster.gpus_per_server
    bytes_ = traffic.far.reshape(ranks, ranks).copy()
    for server, tile in enumerate(traffic.near):
        bytes_[server * gpus : (server + 1) * gpus, server * gpus : (server + 1) * gpus] = tile
    nic = cluster.nic_bandwidth_bytes_per_s
    rank = np.arange(ranks)[:, None]
    peer = (rank + np.arange(1, ranks)) % ranks  # [ranks, shifts]
    size, near = bytes_[rank, peer], rank // gpus == peer // gpus
    share = gpus - 1 if cluster.scale_up == "mesh" else 1
    far_rate = np.minimum(nic[rank], nic[peer] * cluster.fabric.efficiency)
    rate = np.where(near, cluster.slowest_scale_up_bytes_per_s / max(1, share), far_rate)
    latency = np.where(near, cluster.scale_up_latency_s, cluster.scale_out_latency_s)
    longest = np.where(size > 0, _divide(size, rate) + latency, 0.0).max(axis=0)
    start_s = cluster.stage_overhead_s + cluster.message_overhead_s
    return float(longest.sum() + start_s * np.count_nonzero(longest))


def _padded_s(traffic: _Traffic) -> float:
    """Messages of the largest size, one behind the other at every GPU, inside and outside of its server apart."""
    cluster = traffic.cluster
    largest = max(float(traffic.near.max()), float(traffic.far.max()))
    here = cluster.present.reshape(cluster.servers, -1).sum(axis=1)  # GPUs of each server
    nic = cluster.nic_bandwidth_bytes_per_s[cluster.present].min() * cluster.fabric.efficiency
    share = cluster.gpus_per_server - 1 if cluster.scale_up == "mesh" else 1
    inside = cluster.slowest_scale_up_bytes_per_s / max(1, share)
    far_s = float(_divide(np.array([largest]), nic)[0]) + cluster.scale_out_latency_s + cluster.message_overhead_s
    near_s = largest / inside + cluster.scale_up_latency_s + cluster.message_overhead_s
    shifts = int(here.sum() - here[here > 0].min())
    return cluster.stage_overhead_s + max(shifts * far_s if shifts else 0.0, (int(here.max()) - 1) * near_s)


def _inside_s(cluster: Cluster, bytes_: Floats) -> float:
    """Busiest scale-up port (or mesh link) of bytes ``[servers, gpus, gpus]``."""
    if not bytes_.any():
        return 0.0
    overhead_s, rate = cluster.message_overhead_s, cluster.slowest_scale_up_bytes_per_s
    if cluster.scale_up == "mesh":
        busy_s = bytes_.max() / (rate / max(1, cluster.gpus_per_server - 1)) + overhead_s
    else:
        sending_s = bytes_.sum(axis=2) / rate + overhead_s * (bytes_ > 0).sum(axis=2)
        busy_s = max(sending_s.max(), bytes_.sum(axis=1).max() / rate)
    return float(busy_s) + cluster.scale_up_latency_s


def _wire_s(cluster: Cluster, bytes_: Floats, senders: int = 1) -> float:
    """Busiest NIC or leaf of bytes ``[servers, gpus, servers, gpus]``; each entry is that many messages."""
    if not bytes_.any():
        return 0.0
    nic = cluster.nic_bandwidth_bytes_per_s.reshape(cluster.servers, -1)
    messages = senders * (bytes_ > 0)
    sending_s = _divide(bytes_.sum(axis=(2, 3)), nic) + cluster.message_overhead_s * messages.sum(axis=(2, 3))
    receiving_s = _receiving_s(cluster, bytes_)
    busy_s = max(float(sending_s.max()), float(receiving_s.max()))
    if cluster.oversubscription > 1 and cluster.scale_out != "rail":
        busy_s = max(busy_s, _leaf_s(cluster, bytes_))
    return busy_s + cluster.message_overhead_s + cluster.scale_out_latency_s


def _leaf_s(cluster: Cluster, bytes_: Floats) -> float:
    nominal = cluster.nominal_nic_bandwidth_bytes_per_s.reshape(cluster.servers, -1)
    if cluster.scale_out == "flat":
        uplink, between = nominal.sum(axis=1), bytes_.sum(axis=(1, 3))
    else:
        uplink, between = nominal.sum(axis=0), bytes_.sum(axis=(0, 2))
        np.fill_diagonal(between, 0.0)
    crossing = np.maximum(between.sum(axis=0), between.sum(axis=1))
    return float(_divide(crossing, uplink / cluster.oversubscription).max())


def _receiving_s(cluster: Cluster, bytes_: Floats) -> Floats:
    """Time each NIC takes to receive; it is shared equally, so small senders leave first and the loss shrinks."""
    fabric, ranks = cluster.fabric, cluster.num_ranks
    nic = cluster.nic_bandwidth_bytes_per_s * fabric.efficiency
    if fabric.fan_in is None:
        return _divide(bytes_.sum(axis=(0, 1)).reshape(ranks), nic)
    ascending = np.sort(bytes_.reshape(ranks, ranks), axis=0)
    rest: Floats = ranks - np.arange(ranks, dtype=np.float64)[:, None]  # senders that have at least this much
    step: Floats = np.diff(ascending, axis=0, prepend=0.0)
    in_flight = np.cumsum(ascending[::-1], axis=0)[::-1] / rest  # bytes per sender still there
    return _divide((step * rest * fabric.slowdown(rest, in_flight)).sum(axis=0), nic)


def _divide(bytes_: Floats, rate: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bytes_ > 0, bytes_ / rate, 0.0)
