"""Cluster: servers of GPUs joined by a fast scale-up network inside and NICs between them.

A GPU's NICs form one port whose rate is the sum of its live NICs (messages are striped over them).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, nearest
from interlock.html_text import facts_html
from interlock.topology.fabric import Fabric
from interlock.topology.faults import Fault, MissingGpu, NicFault, describe_faults
from interlock.topology.graph import Topology
from interlock.topology.lowering import lower
from interlock.units import MAX_RATE, MIN_RATE, format_bandwidth, format_seconds

__all__ = [
    "ASSUMED",
    "Cluster",
    "GpuCosts",
    "MAX_NAME",
    "MAX_RANKS",
    "MEASURED",
    "ScaleOut",
    "ScaleUp",
    "check_cluster",
]


MAX_RANKS = 65_536
MAX_NAME = 200
MAX_NICS_PER_GPU = 64

ScaleUp = Literal["switch", "mesh"]
ScaleOut = Literal["flat", "rail", "rail-spine"]
GpuCosts = Literal["assumed", "measured"]
ASSUMED: GpuCosts = "assumed"
MEASURED: GpuCosts = "measured"


def check_cluster(cluster: Cluster) -> None:
    """Raise, naming the field, its value and the rule, unless the cluster makes sense."""
    if not isinstance(cluster.name, str) or not 1 <= len(cluster.name) <= MAX_NAME or not cluster.name.isprintable():
        raise InvalidInput(f"name={str(cluster.name)[:40]!r} must be 1 to {MAX_NAME} printable characters")
    for name, most in (("servers", MAX_RANKS), ("gpus_per_server", MAX_RANKS), ("nics_per_gpu", MAX_NICS_PER_GPU)):
        value = getattr(cluster, name)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise InvalidInput(f"{name}={value!r} must be a whole number between 1 and {most}")
    if cluster.num_ranks > MAX_RANKS:
        raise InvalidInput(
            f"servers={cluster.servers} x gpus_per_server={cluster.gpus_per_server} is above {MAX_RANKS} ranks"
        )
    choices = (("scale_up", ScaleUp), ("scale_out", ScaleOut), ("gpu_costs", GpuCosts))
    for name, kinds in ((name, get_args(known)) for name, known in choices):
        value = getattr(cluster, name)
        if value not in kinds:
            raise InvalidInput(f"{name}={str(value)[:64]!r} is unknown; {nearest(str(value)[:64], kinds)}")
    rates = ("scale_up_bandwidth_bytes_per_s", "scale_out_bandwidth_bytes_per_s", "gpu_copy_bandwidth_bytes_per_s")
    for name in rates:
        _check_number(name, getattr(cluster, name), least=MIN_RATE, most=MAX_RATE)
    latencies = ("scale_up_latency_s", "scale_out_latency_s", "message_overhead_s", "stage_overhead_s")
    for name in (*latencies, "gpu_launch_s", "gpu_hop_s", "gpu_message_s"):
        _check_number(name, getattr(cluster, name), least=0.0, most=1e9)
    _check_number("oversubscription", cluster.oversubscription, least=1.0, most=1000.0)
    for name in ("multicasts", "reduces"):
        if not isinstance(getattr(cluster, name), bool):
            raise InvalidInput(f"{name}={getattr(cluster, name)!r} must be true or false")
    if not isinstance(cluster.fabric, Fabric):
        raise InvalidInput(f"fabric={cluster.fabric!r} must be a Fabric")
    _check_nic_rates(cluster)
    _check_scale_up_rates(cluster)
    _check_faults(cluster)


def _check_number(name: str, value: object, *, least: float, most: float) -> None:
    is_number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not (is_number and least <= value <= most):  # type: ignore[operator]
        raise InvalidInput(f"{name}={value!r} must be between {least:g} and {most:g}")


def _check_nic_rates(cluster: Cluster) -> None:
    rates = cluster.nic_rates_bytes_per_s
    if not rates:
        return
    if len(rates) != cluster.gpus_per_server:
        raise InvalidInput(
            f"nic_rates lists {len(rates)} GPUs but gpus_per_server={cluster.gpus_per_server}; they must be equal"
        )
    for gpu, nics in enumerate(rates):
        for nic, rate in enumerate(nics):
            _check_number(f"nic_rates[{gpu}][{nic}]", rate, least=MIN_RATE, most=MAX_RATE)
    longest, fastest = max(map(len, rates)), max((rate for nics in rates for rate in nics), default=None)
    if fastest is None:
        raise InvalidInput("nic_rates lists no NIC at all; at least one GPU needs one")
    if (cluster.nics_per_gpu, cluster.scale_out_bandwidth_bytes_per_s) != (longest, fastest):
        raise InvalidInput(
            f"nics_per_gpu={cluster.nics_per_gpu} and scale_out_bandwidth={cluster.scale_out_bandwidth_bytes_per_s:g} "
            f"contradict nic_rates, whose most and fastest are {longest} and {fastest:g}; give nic_rates alone"
        )


def _check_scale_up_rates(cluster: Cluster) -> None:
    rates = cluster.scale_up_rates_bytes_per_s
    if not rates:
        return
    if len(rates) != cluster.servers:
        raise InvalidInput(f"scale_up_rates lists {len(rates)} servers but servers={cluster.servers}; must be equal")
    for server, rate in enumerate(rates):
        _check_number(f"scale_up_rates[{server}]", rate, least=MIN_RATE, most=MAX_RATE)
    if cluster.scale_up_bandwidth_bytes_per_s != max(rates):
        raise InvalidInput(
            f"scale_up_bandwidth={cluster.scale_up_bandwidth_bytes_per_s:g} contradicts scale_up_rates, whose fastest "
            f"is {max(rates):g}; give scale_up_rates alone"
        )


def _check_faults(cluster: Cluster) -> None:
    for fault in cluster.faults:
        if not isinstance(fault, Fault):
            raise InvalidInput(f"faults holds {fault!r}; use slow_nic, dead_nic or missing_gpu")
        for name, limit in (("server", cluster.servers), ("gpu", cluster.gpus_per_server)):
            value = getattr(fault, name)
            if not 0 <= value < limit:
                raise InvalidInput(f"{fault!r}: {name}={value} must be below {limit}")
        if isinstance(fault, NicFault):
            rates = cluster.nic_rates_bytes_per_s
            nics = len(rates[fault.gpu]) if rates else cluster.nics_per_gpu
            if not 0 <= fault.nic < nics:
                raise InvalidInput(f"{fault!r}: nic={fault.nic} must be below {nics}, the NICs of that GPU")
            if fault.bandwidth_bytes_per_s != 0:
                _check_number(f"{fault!r}: bandwidth", fault.bandwidth_bytes_per_s, least=MIN_RATE, most=MAX_RATE)
    places = [(fault.server, fault.gpu, fault.nic if isinstance(fault, NicFault) else None) for fault in cluster.faults]
    for place, fault in zip(places, cluster.faults, strict=True):
        if places.count(place) > 1:
            raise InvalidInput(f"faults name {fault!r} and another fault of the same part; one each")
    missing = {(fault.server, fault.gpu) for fault in cluster.faults if isinstance(fault, MissingGpu)}
    if len(missing) == cluster.num_ranks:
        raise InvalidInput(f"faults remove all {cluster.num_ranks} GPUs; at least one must be there")


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
