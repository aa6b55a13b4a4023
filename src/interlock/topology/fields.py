"""A cluster as plain values and back, for files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TypeVar

from interlock.errors import InvalidInput, nearest
from interlock.topology.cluster import Cluster
from interlock.topology.fabric import Fabric
from interlock.topology.faults import Fault, MissingGpu, NicFault

__all__ = ["cluster_from_dict", "cluster_to_dict", "fabric_from_dict"]

Made = TypeVar("Made")

_FAULTS: dict[str, type[NicFault] | type[MissingGpu]] = {"nic": NicFault, "missing-gpu": MissingGpu}


def cluster_to_dict(cluster: Cluster) -> dict[str, object]:
    """Every field by name, SI values; nested tables for the fabric and the faults."""
    values = asdict(cluster)
    values["faults"] = [_fault_to_dict(fault) for fault in cluster.faults]
    return values


def cluster_from_dict(values: Mapping[str, object]) -> Cluster:
    """The inverse; refuses unknown names and wrong types."""
    known = {field.name for field in fields(Cluster)}
    for key in values:
        if key not in known:
            raise InvalidInput(f"unknown cluster field {key!r}; {nearest(key, known)}")
    made = dict(values)
    if "fabric" in made:
        made["fabric"] = fabric_from_dict(made["fabric"])
    if "faults" in made:
        made["faults"] = _faults(made["faults"])
    if "nic_rates_bytes_per_s" in made:
        made["nic_rates_bytes_per_s"] = _rate_lists(made["nic_rates_bytes_per_s"])
    if isinstance(made.get("scale_up_rates_bytes_per_s"), list):
        made["scale_up_rates_bytes_per_s"] = tuple(made["scale_up_rates_bytes_per_s"])  # type: ignore[arg-type]
    return _record(Cluster, made, "cluster")


def fabric_from_dict(values: object) -> Fabric:
    """A fabric from its fields by name; refuses unknown names and wrong types."""
    return _record(Fabric, values, "fabric")


def _fault_to_dict(fault: Fault) -> dict[str, object]:
    kind = next(name for name, made in _FAULTS.items() if isinstance(fault, made))
    return {"kind": kind} | asdict(fault)


def _rate_lists(values: object) -> tuple[tuple[float, ...], ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(nics, list | tuple) for nics in values):
        raise InvalidInput("nic_rates_bytes_per_s must be a list of lists: the rate of every NIC of each GPU")
    return tuple(tuple(nics) for nics in values)


def _faults(values: object) -> tuple[Fault, ...]:
    if not isinstance(values, list | tuple) or len(values) > 65_536:
        raise InvalidInput("faults must be a list of tables")
    made: list[Fault] = []
    for value in values:
        kind = value.get("kind") if isinstance(value, Mapping) else None
        if kind not in _FAULTS:
            raise InvalidInput(f"fault kind={kind!r} is not one of {', '.join(_FAULTS)}")
        made.append(_record(_FAULTS[kind], {k: v for k, v in value.items() if k != "kind"}, "fault"))
    return tuple(made)


def _record(kind: type[Made], values: object, name: str) -> Made:
    """Build a frozen dataclass from a table, words and numbers only."""
    if not isinstance(values, Mapping):
        raise InvalidInput(f"{name} must be a table of values")
    for key, value in values.items():
        if not isinstance(value, str | int | float | bool | None | tuple | Fabric):
            raise InvalidInput(f"{name}.{key}={value!r} must be a number, a word or true/false")
    try:
        return kind(**values)
    except TypeError as error:
        raise InvalidInput(f"{name}: {error}") from None
