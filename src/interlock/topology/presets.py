"""Clusters by name; the source of every figure is in docs/reference/presets.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from interlock.errors import InvalidInput, named
from interlock.topology.cluster import MEASURED, Cluster
from interlock.topology.fabric import FABRICS, Fabric, fabric
from interlock.topology.faults import Fault
from interlock.units import parse_bandwidth, parse_seconds, whole_or_none

__all__ = ["CLUSTER_KEYS", "cluster", "cluster_with", "preset_names"]

GBIT = 1e9 / 8

_HGX: dict[str, object] = {
    "scale_up_latency_s": 1e-6,
    "scale_out_latency_s": 3e-6,
    "message_overhead_s": 0.2e-6,
    "stage_overhead_s": 10e-6,
    "fabric": FABRICS["infiniband"],
}
_NVSWITCH_SHARP: dict[str, object] = _HGX | {"multicasts": True, "reduces": True}
# Measured on one H200 by benchmarks/bench_gpu.py; see benchmarks/results/gpu.json.
_H200: dict[str, object] = {
    "gpu_launch_s": 30e-6,
    "gpu_hop_s": 1.46e-6,
    "gpu_message_s": 0.92e-9,
    "gpu_copy_bandwidth_bytes_per_s": 1.88e12,
    "gpu_costs": MEASURED,
}
_MI300X: dict[str, object] = _HGX | {"scale_up": "mesh", "scale_up_bandwidth_bytes_per_s": 448e9}


def _rates(scale_up_gb_per_s: float, nic_gbit_per_s: float) -> dict[str, object]:
    return {
        "scale_up_bandwidth_bytes_per_s": scale_up_gb_per_s * 1e9,
        "scale_out_bandwidth_bytes_per_s": nic_gbit_per_s * GBIT,
    }


_PRESETS: dict[str, dict[str, object]] = {
    "a100": _HGX | _rates(300, 200),
    "h800": _NVSWITCH_SHARP | _rates(200, 400),
    "h100": _NVSWITCH_SHARP | _rates(450, 400),
    "h200": _NVSWITCH_SHARP | _H200 | _rates(450, 400),
    "h200-800g": _NVSWITCH_SHARP | _H200 | _rates(450, 800),
    "b200": _NVSWITCH_SHARP | _rates(900, 400),
    "b300": _NVSWITCH_SHARP | _rates(900, 800),
    "gh200-nvl32": _NVSWITCH_SHARP | _rates(450, 400) | {"gpus_per_server": 32, "scale_up_latency_s": 0.5e-6},
    "gb200-nvl72": _NVSWITCH_SHARP | _rates(900, 400) | {"gpus_per_server": 72},
    "gb300-nvl72": _NVSWITCH_SHARP | _rates(900, 800) | {"gpus_per_server": 72},
    "mi300x": _MI300X | {"scale_out_bandwidth_bytes_per_s": 400 * GBIT},
    "mi300x-100g": _MI300X
    | {"scale_out_bandwidth_bytes_per_s": 100 * GBIT, "stage_overhead_s": 50e-6, "fabric": FABRICS["roce-dcqcn"]},
}


def preset_names() -> list[str]:
    """Names that `cluster` accepts."""
    return sorted(_PRESETS)


def cluster(preset: str, servers: int = 4, **overrides: object) -> Cluster:
    """A cluster by name, any field changed by keyword.

    Keywords: gpus_per_server, scale_up ("switch", "mesh"), scale_up_bandwidth, scale_up_rates (one per server, instead
    of the one before), scale_up_latency, scale_out ("flat", "rail", "rail-spine"), scale_out_bandwidth (of one NIC),
    nics_per_gpu, nic_rates (a list of rates per GPU of a server, instead of the two before), scale_out_latency,
    oversubscription, message_overhead, stage_overhead, fan_in (None: no limit), fabric (a Fabric or a name),
    multicasts, reduces, faults, and what programs on a GPU cost: gpu_launch, gpu_hop, gpu_message, gpu_copy_bandwidth,
    gpu_costs ("assumed", "measured").

    Examples
    --------
    >>> cluster("h200", servers=2, scale_out_bandwidth="800 Gb/s").num_ranks
    16
    """
    fields = named(_PRESETS, preset, "cluster preset")
    base = Cluster(name=preset, servers=_whole(servers, "servers"), **fields)  # type: ignore[arg-type]
    return cluster_with(base, **overrides)


def cluster_with(base: Cluster, **overrides: object) -> Cluster:
    """A copy of `base` with the public keywords of `cluster` applied; values may carry units."""
    changes: dict[str, object] = {}
    for key, value in overrides.items():
        field, parse = named(_FIELDS, key, "cluster field")
        changes[field] = parse(value, key)
    if "fan_in" in overrides:
        chosen, fan_in = changes.get("fabric", base.fabric), changes.pop("fan_in")
        changes["fabric"] = chosen.with_fan_in(fan_in) if isinstance(chosen, Fabric) else chosen  # type: ignore[arg-type]
    return base.with_(**_settle_scale_up(base, _settle_nics(base, changes)))


def _settle_nics(base: Cluster, changes: dict[str, object]) -> dict[str, object]:
    """Keep the rate and number of NICs in step with a list of them; a new rate or number replaces an old list."""
    rates = changes.get("nic_rates_bytes_per_s")
    nic_changes = {"scale_out_bandwidth_bytes_per_s", "nics_per_gpu"} & set(changes)
    if rates:
        if nic_changes:
            raise InvalidInput("nic_rates replaces scale_out_bandwidth and nics_per_gpu; give one or the others")
        assert isinstance(rates, tuple)
        fastest = max((rate for nics in rates for rate in nics), default=base.scale_out_bandwidth_bytes_per_s)
        changes |= {"scale_out_bandwidth_bytes_per_s": fastest, "nics_per_gpu": max([1, *map(len, rates)])}
    elif nic_changes and base.nic_rates_bytes_per_s:
        changes["nic_rates_bytes_per_s"] = ()
    return changes


def _settle_scale_up(base: Cluster, changes: dict[str, object]) -> dict[str, object]:
    """Keep the scale-up rate in step with a list by server; a new rate replaces an old list."""
    rates, one = changes.get("scale_up_rates_bytes_per_s"), "scale_up_bandwidth_bytes_per_s"
    if rates:
        if one in changes:
            raise InvalidInput("scale_up_rates replaces scale_up_bandwidth; give one or the other")
        assert isinstance(rates, tuple)
        changes[one] = max(rates)
    elif one in changes and base.scale_up_rates_bytes_per_s:
        changes["scale_up_rates_bytes_per_s"] = ()
    return changes


# Values as files and command lines write them. What is no such text goes on as it is: `Cluster` says what is wrong.


def _as_is(value: object, name: str) -> object:
    return value


def _whole(value: object, name: str) -> object:
    number = whole_or_none(value) if isinstance(value, str) else None
    return value if number is None else number


def _optional_whole(value: object, name: str) -> object:
    return None if isinstance(value, str) and value.lower() == "none" else _whole(value, name)


def _number(value: object, name: str) -> object:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return value


def _flag(value: object, name: str) -> object:
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def _fault_list(value: object, name: str) -> tuple[Fault, ...]:
    if not isinstance(value, Iterable) or not all(isinstance(entry, Fault) for entry in value):
        raise InvalidInput(f"{name} must be a list of slow_nic, dead_nic or missing_gpu")
    return tuple(value)


def _rate_lists(value: object, name: str) -> tuple[tuple[float, ...], ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(nics, list | tuple) for nics in value):
        raise InvalidInput(f"{name} must be a list of lists: the rate of every NIC of each GPU of a server")
    return tuple(
        tuple(parse_bandwidth(rate, f"{name}[{gpu}][{nic}]") for nic, rate in enumerate(nics))
        for gpu, nics in enumerate(value)
    )


def _rate_list(value: object, name: str) -> tuple[float, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{name} must be a list: the rate of every server")
    return tuple(parse_bandwidth(rate, f"{name}[{server}]") for server, rate in enumerate(value))


def _fabric(value: object, name: str) -> object:
    return fabric(value) if isinstance(value, str) else value


_FIELDS: dict[str, tuple[str, Callable[[Any, str], object]]] = {  # in the order of files
    "name": ("name", _as_is),
    "servers": ("servers", _whole),
    "gpus_per_server": ("gpus_per_server", _whole),
    "scale_up": ("scale_up", _as_is),
    "scale_up_bandwidth": ("scale_up_bandwidth_bytes_per_s", parse_bandwidth),
    "scale_up_rates": ("scale_up_rates_bytes_per_s", _rate_list),
    "scale_up_latency": ("scale_up_latency_s", parse_seconds),
    "scale_out": ("scale_out", _as_is),
    "nic_rates": ("nic_rates_bytes_per_s", _rate_lists),
    "scale_out_bandwidth": ("scale_out_bandwidth_bytes_per_s", parse_bandwidth),
    "nics_per_gpu": ("nics_per_gpu", _whole),
    "scale_out_latency": ("scale_out_latency_s", parse_seconds),
    "oversubscription": ("oversubscription", _number),
    "message_overhead": ("message_overhead_s", parse_seconds),
    "stage_overhead": ("stage_overhead_s", parse_seconds),
    "fan_in": ("fan_in", _optional_whole),
    "fabric": ("fabric", _fabric),
    "gpu_launch": ("gpu_launch_s", parse_seconds),
    "gpu_hop": ("gpu_hop_s", parse_seconds),
    "gpu_message": ("gpu_message_s", parse_seconds),
    "gpu_copy_bandwidth": ("gpu_copy_bandwidth_bytes_per_s", parse_bandwidth),
    "gpu_costs": ("gpu_costs", _as_is),
    "multicasts": ("multicasts", _flag),
    "reduces": ("reduces", _flag),
    "faults": ("faults", _fault_list),
}
CLUSTER_KEYS = {key: field for key, (field, _) in _FIELDS.items()}  # and the fields that they set
