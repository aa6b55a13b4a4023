"""Cluster: servers of GPUs joined by a fast scale-up network inside and NICs between them.

A GPU's NICs form one port whose rate is the sum of its live NICs (messages are striped over them).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, nearest
from interlock.html_text import facts_html
from interlock.topology.fabric import Fabric
from interlock.topology.faults import Fault, MissingGpu, NicFault, describe_faults
from interlock.topology.graph import Topology
from interlock.topology.lowering import lower
from interlock.topology.rules import ASSUMED, GpuCosts, ScaleOut, ScaleUp, check_cluster
from interlock.units import format_bandwidth, format_seconds

__all__ = ["Cluster"]


@dataclass(frozen=True)
class Cluster:
    """A two-tier cluster. Rank ``server * gpus_per_server + gpu`` is GPU `gpu` of server `server`.

    `scale_up` is a switch (each GPU has one port of `scale_up_bandwidth_bytes_per_s`) or a full mesh (each GPU's
    bandwidth is divided over its peers). `scale_out` is flat (any NIC reaches any NIC), rail (NIC k reaches only NIC k
    of other servers) or rail-spine (rails joined by a spine). `oversubscription` divides what leaves a leaf (a server
    on a flat fabric, a rail on rail-spine). Latencies are end to end, from GPU to GPU.

    What begins with `gpu_` is what a program on the devices costs: to launch it, for a message to let go those that
    wait for it, to begin a message, and to copy. Only simulations that ask for it count it; `gpu_costs` says whether
    it was measured.

    Every GPU has `nics_per_gpu` NICs of `scale_out_bandwidth_bytes_per_s`, unless `nic_rates_bytes_per_s` lists the
    NICs of each GPU of a server: then the other two are their largest number and rate. `faults` change single NICs.
    `scale_up_rates_bytes_per_s` lists the scale-up rate of each server where they differ; the other is the largest.
    """

    name: str
    servers: int
    gpus_per_server: int = 8
    scale_up: ScaleUp = "switch"
    scale_up_bandwidth_bytes_per_s: float = 450e9
    scale_up_latency_s: float = 1e-6
    scale_out: ScaleOut = "flat"
    scale_out_bandwidth_bytes_per_s: float = 50e9  # of one NIC
    nics_per_gpu: int = 1
    scale_out_latency_s: float = 3e-6
    oversubscription: float = 1.0
    message_overhead_s: float = 0.0
    stage_overhead_s: float = 0.0
    fabric: Fabric = field(default_factory=Fabric)
    multicasts: bool = False  # the scale-up switch can replicate
    reduces: bool = False  # the scale-up switch can add
    faults: tuple[Fault, ...] = ()
    nic_rates_bytes_per_s: tuple[tuple[float, ...], ...] = ()  # [gpus_per_server][NICs of that GPU], or nothing
    gpu_launch_s: float = 22e-6
    gpu_hop_s: float = 1.5e-6
    gpu_message_s: float = 1e-9
    gpu_copy_bandwidth_bytes_per_s: float = 2e12
    gpu_costs: GpuCosts = ASSUMED
    scale_up_rates_bytes_per_s: tuple[float, ...] = ()  # [servers], or nothing

    def __post_init__(self) -> None:
        check_cluster(self)

    @property
    def num_ranks(self) -> int:
        """GPUs of all servers, missing ones included."""
        return self.servers * self.gpus_per_server

    @property
    def ranks_per_server(self) -> int:
        """The same as `gpus_per_server`; one rank is one GPU."""
        return self.gpus_per_server

    @cached_property
    def nominal_nic_bandwidth_bytes_per_s(self) -> NDArray[np.float64]:
        """Rate of each rank's port with nothing broken, ``[num_ranks]``."""
        port: NDArray[np.float64] = np.tile(self._nominal_rates().sum(axis=1), self.servers)
        port.flags.writeable = False
        return port

    @cached_property
    def nic_bandwidth_bytes_per_s(self) -> NDArray[np.float64]:
        """Rate of each rank's port to the scale-out network, ``[num_ranks]``; 0 where it has none."""
        rates = np.tile(self._nominal_rates(), (self.servers, 1))
        for fault in self.faults:
            rank = fault.server * self.gpus_per_server + fault.gpu
            if isinstance(fault, NicFault):
                rates[rank, fault.nic] = fault.bandwidth_bytes_per_s
            else:
                rates[rank] = 0.0
        port: NDArray[np.float64] = rates.sum(axis=1)
        port.flags.writeable = False
        return port

    def _nominal_rates(self) -> NDArray[np.float64]:
        """Rate of every NIC of one server, ``[gpus_per_server, nics_per_gpu]``; 0 where a GPU has fewer."""
        if not self.nic_rates_bytes_per_s:
            return np.full((self.gpus_per_server, self.nics_per_gpu), self.scale_out_bandwidth_bytes_per_s)
        rates = np.zeros((self.gpus_per_server, self.nics_per_gpu))
        for gpu, nics in enumerate(self.nic_rates_bytes_per_s):
            rates[gpu, : len(nics)] = nics
        return rates

    @cached_property
    def server_scale_up_bytes_per_s(self) -> NDArray[np.float64]:
        """Scale-up rate of a GPU of each server, ``[servers]``."""
        rates = np.full(self.servers, self.scale_up_bandwidth_bytes_per_s)
        if self.scale_up_rates_bytes_per_s:
            rates[:] = self.scale_up_rates_bytes_per_s
        rates.flags.writeable = False
        return rates

    @cached_property
    def slowest_scale_up_bytes_per_s(self) -> float:
        """Scale-up rate of a GPU of the slowest server: what predictions count with, wherever bytes pass."""
        return float(self.server_scale_up_bytes_per_s.min())

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Whether each rank's GPU is there, ``[num_ranks]``."""
        here = np.ones(self.num_ranks, np.bool_)
        for fault in self.faults:
            if isinstance(fault, MissingGpu):
                here[fault.server * self.gpus_per_server + fault.gpu] = False
        here.flags.writeable = False
        return here

    @cached_property
    def topology(self) -> Topology:
        """The cluster as a graph; see `interlock.topology.lowering` for its link numbers."""
        return lower(self)

    def server_of(self, ranks: NDArray[np.int32]) -> NDArray[np.int32]:
        """Server of each rank."""
        return ranks // np.int32(self.gpus_per_server)

    def with_(self, **changes: object) -> Cluster:
        """A copy with some fields changed (field names of this class, SI values)."""
        known = [f.name for f in fields(self)]
        for key in changes:
            if key not in known:
                raise InvalidInput(f"unknown cluster field {key!r}; {nearest(key, known)}")
        return replace(self, **changes)  # type: ignore[arg-type]

    def facts(self) -> dict[str, str]:
        """Every field in words, by name."""
        able = [word for word, can in (("multicasts", self.multicasts), ("adds", self.reduces)) if can]
        nics = f"{self.nics_per_gpu} x {format_bandwidth(self.scale_out_bandwidth_bytes_per_s)} per GPU"
        if self.nic_rates_bytes_per_s:
            nics = f"by GPU: {', '.join(format_bandwidth(sum(rates)) for rates in self.nic_rates_bytes_per_s)}"
        inside = f"{self.scale_up}, {format_bandwidth(self.scale_up_bandwidth_bytes_per_s)} per GPU"
        slowest = self.slowest_scale_up_bytes_per_s
        if slowest < self.scale_up_bandwidth_bytes_per_s:
            inside += f" (in slower servers {format_bandwidth(slowest)} or more)"
        inside += f", latency {format_seconds(self.scale_up_latency_s)}"
        tolerates = "any number of" if self.fabric.fan_in is None else str(self.fabric.fan_in)
        fabric = f"fabric {self.fabric.name}: tolerates {tolerates} senders per receiver, passes"
        fabric += f" {100 * self.fabric.efficiency:.0f} % of a port's rate"
        message, stage = format_seconds(self.message_overhead_s), format_seconds(self.stage_overhead_s)
        return {
            "cluster": f"{self.name}: {self.servers} servers of {self.gpus_per_server} GPUs",
            "inside a server": inside + (f"; the switch {' and '.join(able)}" if able else ""),
            "NICs": f"{nics}, latency {format_seconds(self.scale_out_latency_s)}",
            "between servers": f"{self.scale_out}, oversubscription {self.oversubscription:g}; {fabric}",
            "overheads": f"{message} per message, {stage} per stage",
            "programs on a GPU": (
                f"launch {format_seconds(self.gpu_launch_s)}, hop {format_seconds(self.gpu_hop_s)}, "
                f"message {format_seconds(self.gpu_message_s)}, copies "
                f"{format_bandwidth(self.gpu_copy_bandwidth_bytes_per_s)} ({self.gpu_costs}; counted where asked for)"
            ),
            "broken": describe_faults(self.faults),
        }

    def _repr_html_(self) -> str:
        return facts_html(self.name, self.facts())

    def __repr__(self) -> str:
        return f"Cluster({self.name!r}, {self.servers}x{self.gpus_per_server}, scale_out={self.scale_out!r})"
