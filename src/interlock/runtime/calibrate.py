"""Measures bandwidth and latency of both tiers on a running process group, and describes them as a cluster.

Every rank takes part. Latency is half a ping-pong of a few bytes between a rank and its neighbour; bandwidth is a
stream from each rank to its neighbour, all at once, so that every NIC is measured and slow ones are told apart. What a
stage costs to start is an All-to-All of a few bytes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from interlock.runtime.peers import FIRST_TAG, gather_bytes
from interlock.runtime.placement import GroupPlacement, find_hosts, group_or_default
from interlock.topology import Cluster, Fabric, NicFault

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["calibrate"]

TAG = FIRST_TAG - (1 << 26)  # far from what runners use
PINGS = 15
SLOW = 0.8  # a NIC below this part of the median is described as slow


def calibrate(
    group: dist.ProcessGroup | None = None,
    *,
    hosts: Sequence[str] | None = None,
    seconds: float = 2.0,
    fabric: Fabric | None = None,
) -> Cluster:
    """The cluster that the group runs on, as measured; every rank must call it and gets the same answer.

    Parameters
    ----------
    hosts
        Name of each rank's server; None asks every rank for its host name and LOCAL_RANK.
    seconds
        Roughly how long to measure each tier.
    fabric
        How the fabric bears several senders at one receiver, which is not measured.
    """
    where = group_or_default(group)
    placement = GroupPlacement.by_host(find_hosts(where) if hosts is None else hosts)
    return _measure(where, placement, seconds, fabric or Fabric(name="tcp", fan_in=4, loss_per_sender=0.15))


def _measure(group: dist.ProcessGroup, placement: GroupPlacement, seconds: float, fabric: Fabric) -> Cluster:
    width, servers = placement.ranks_per_server, max(placement.server_of) + 1
    own = placement.rank_of[group.rank()]
    server, gpu = divmod(own, width)
    members = placement.group_rank

    def neighbour(step: int, *, inside: bool) -> int | None:
        """Rank of the group that is `step` places on, inside the server or on the rail."""
        if inside:
            place = server * width + (gpu + step) % width
        else:
            place = (server + step) % servers * width + gpu
        return None if place == own or place in placement.empty else members[place]

    inside = _Tier(group, lambda step: neighbour(step, inside=True), seconds)
    outside = _Tier(group, lambda step: neighbour(step, inside=False), seconds)
    up_rates, up_latency_s, _ = inside.measure()
    nic_rates, nic_latency_s, overhead_s = outside.measure()
    start_s = outside.start_everyone()
    up_rate = _typical(up_rates) or _typical(nic_rates) or 1e9
    nic_rate = _typical(nic_rates) or up_rate
    faults = [
        NicFault(place // width, place % width, 0, nic_rates[member])
        for member, place in enumerate(placement.rank_of)
        if 0 < nic_rates[member] < SLOW * nic_rate
    ]
    return Cluster(
        name="calibrated",
        servers=servers,
        gpus_per_server=width,
        scale_up_bandwidth_bytes_per_s=up_rate,
        scale_up_latency_s=up_latency_s or nic_latency_s,
        scale_out_bandwidth_bytes_per_s=nic_rate,
        scale_out_latency_s=nic_latency_s or up_latency_s,
        message_overhead_s=overhead_s,
        stage_overhead_s=max(0.0, start_s - (nic_latency_s or up_latency_s)),
        fabric=fabric,
        faults=tuple(faults),
    )


def _typical(rates: Sequence[float]) -> float:
    """Median of what was measured; 0 where nothing was."""
    known = [rate for rate in rates if rate > 0]
    return statistics.median(known) if known else 0.0


class _Tier:
    """Measurements between each rank and its neighbours of one tier."""

    def __init__(self, group: dist.ProcessGroup, neighbour: Callable[[int], int | None], seconds: float) -> None:
        self._group, self._seconds = group, seconds
        self._next, self._last = neighbour(1), neighbour(-1)

    def measure(self) -> tuple[list[float], float, float]:
        """Bytes per second of each rank, typical latency, and typical time per small message."""
        latency_s, overhead_s = self._ping()
        size_bytes, rate = 1 << 14, 0.0
        # Streams grow until one takes a fair part of the time allowed, on the slowest rank.
        while True:
            took_s = max(self._gather(self._stream(size_bytes)))
            if took_s == 0.0 or took_s > self._seconds / 4 or size_bytes >= 1 << 30:
                break
            size_bytes *= 2
        streams_s = [self._stream(size_bytes) for _ in range(3)]
        rate = size_bytes / min(streams_s) if self._last is not None else 0.0  # what a NIC can do: losses are chance
        return self._gather(rate), _typical(self._gather(latency_s)), _typical(self._gather(overhead_s))

    def _ping(self) -> tuple[float, float]:
        """Half the round trip around the ring's edge, and the time each of many small messages adds."""
        if self._next is None or self._last is None:
            self._gather(0.0)
            return 0.0, 0.0
        small = self._bytes(8)
        trips = []
        for _ in range(PINGS):
            start_s = time.perf_counter()
            self._swap(small, 1)
            trips.append(time.perf_counter() - start_s)
        self._gather(0.0)
        start_s = time.perf_counter()
        self._swap(small, 64)
        each_s = (time.perf_counter() - start_s) / 64
        return max(1e-6, statistics.median(trips) / 2), each_s

    def _stream(self, size_bytes: int) -> float:
        """Seconds until this rank has received `size_bytes` while it sends as many; 0 without a neighbour."""
        self._gather(0.0)
        if self._next is None or self._last is None:
            return 0.0
        source, target = self._bytes(size_bytes), self._bytes(size_bytes)
        start_s = time.perf_counter()
        receive = self._group.recv([target], self._last, TAG)
        send = self._group.send([source], self._next, TAG)
        receive.wait()
        took_s = time.perf_counter() - start_s
        send.wait()
        return took_s

    def start_everyone(self) -> float:
        """Seconds until a rank has a few bytes from every rank, typically."""
        others = [rank for rank in range(self._group.size()) if rank != self._group.rank()]
        small, timed = self._bytes(8), []
        for _ in range(5):
            targets = [self._bytes(8) for _ in others]
            self._gather(0.0)
            start_s = time.perf_counter()
            works = [self._group.recv([target], peer, TAG + 2) for target, peer in zip(targets, others, strict=True)]
            works += [self._group.send([small], peer, TAG + 2) for peer in others]
            for work in works:
                work.wait()
            timed.append(time.perf_counter() - start_s)
        return _typical(self._gather(statistics.median(timed)))

    def _swap(self, small: torch.Tensor, count: int) -> None:
        """Send `count` small messages on while as many come in."""
        assert self._next is not None
        assert self._last is not None
        targets = [self._bytes(8) for _ in range(count)]
        works = [self._group.recv([target], self._last, TAG + 1) for target in targets]
        works += [self._group.send([small], self._next, TAG + 1) for _ in range(count)]
        for work in works:
            work.wait()

    def _bytes(self, size_bytes: int) -> torch.Tensor:
        import torch

        device = "cpu" if self._group.name() == "gloo" else "cuda"
        return torch.zeros(size_bytes, dtype=torch.uint8, device=device)

    def _gather(self, value: float) -> list[float]:
        """One number of every rank; also a barrier."""
        return [float.fromhex(told.decode()) for told in gather_bytes(self._group, value.hex().encode())]
