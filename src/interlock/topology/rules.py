"""What a cluster must be before anything is computed from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from interlock.errors import InvalidInput, nearest
from interlock.topology.fabric import Fabric
from interlock.topology.faults import Fault, MissingGpu, NicFault
from interlock.units import MAX_RATE, MIN_RATE

if TYPE_CHECKING:
    from interlock.topology.cluster import Cluster

__all__ = ["ASSUMED", "MAX_NAME", "MAX_RANKS", "MEASURED", "GpuCosts", "ScaleOut", "ScaleUp", "check_cluster"]

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
    words = (("scale_up", ScaleUp), ("scale_out", ScaleOut), ("gpu_costs", GpuCosts))
    for name, kinds in ((name, get_args(known)) for name, known in words):
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
