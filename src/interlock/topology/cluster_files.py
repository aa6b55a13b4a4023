"""Clusters in TOML files.

Keys are the keywords of `interlock.cluster`; `preset` names a base to change. A table `[fabric]` holds the fields of
`Fabric`; each `[[faults]]` has a `kind` (slow-nic, dead-nic, missing-gpu) and the arguments of that function.
Instead of a number, `[[servers]]` may list groups with a `count`, and in all or none of them the `scale_out_bandwidth`
of their NICs and their `scale_up_bandwidth`; NICs below the fastest rate are kept as slow ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

from interlock.errors import InvalidInput, at, nearest
from interlock.files import FilePath, write_text
from interlock.topology.cluster import Cluster
from interlock.topology.fabric import Fabric
from interlock.topology.faults import Fault, MissingGpu, dead_nic, missing_gpu, slow_nic
from interlock.topology.presets import CLUSTER_KEYS, cluster, cluster_with
from interlock.topology.toml_text import check_keys, read_toml, table, to_toml
from interlock.units import parse_bandwidth, write_bandwidth, write_seconds

__all__ = [
    "cluster_from_table",
    "cluster_to_toml",
    "fabric_from_table",
    "fabric_to_table",
    "read_cluster",
    "write_cluster",
]

MAX_FILE_BYTES = 1 << 22
MAX_FAULTS = 10_000
MAX_NICS = 65_536  # of a cluster in groups

_GROUP_RATES = {"scale_out_bandwidth": "nic_rates", "scale_up_bandwidth": "scale_up_rates"}  # and what lists them

_FAULT_KEYS: dict[str, tuple[Callable[..., Fault], set[str], set[str]]] = {
    "slow-nic": (slow_nic, {"server", "gpu", "bandwidth"}, {"nic"}),
    "dead-nic": (dead_nic, {"server", "gpu"}, {"nic"}),
    "missing-gpu": (missing_gpu, {"server", "gpu"}, set()),
}


def read_cluster(path: FilePath) -> Cluster:
    """A cluster from a TOML file."""
    return cluster_from_table(read_toml(path, MAX_FILE_BYTES), str(path), default_name=Path(path).stem)


def write_cluster(cluster: Cluster, path: FilePath) -> None:
    """Write a cluster to a TOML file that reads back as an equal one."""
    write_text(path, cluster_to_toml(cluster))


def cluster_from_table(values: dict[str, object], where: str, default_name: str = "cluster") -> Cluster:
    """A cluster from the values of a TOML file; `where` begins every error."""
    with at(where):
        check_keys(values, {*CLUSTER_KEYS, "preset"})
        changes = dict(values)
        preset, servers = changes.pop("preset", None), changes.pop("servers", None)
        if "fabric" in changes:
            changes["fabric"] = fabric_from_table(changes["fabric"])
        if "faults" in changes:
            changes["faults"] = _faults(changes["faults"])
        if isinstance(servers, list):
            counts, rates = _groups(servers, changes)
            slower = _slower_nics(counts, rates["scale_out_bandwidth"], preset, changes)
            changes["faults"] = [*slower, *changes.get("faults", [])]  # type: ignore[misc]
            if rates["scale_up_bandwidth"]:
                inside = zip(counts, rates["scale_up_bandwidth"], strict=True)
                changes["scale_up_rates"] = [rate for count, rate in inside for _ in range(count)]
            servers = sum(counts)
        if servers is None:
            raise InvalidInput("servers is missing; it must be a whole number")
        if preset is None:
            return cluster_with(Cluster(default_name[:100] or "cluster", servers), **changes)  # type: ignore[arg-type]
        if not isinstance(preset, str):
            raise InvalidInput(f"preset={preset!r} must be a word")
        return cluster(preset, servers, **changes)  # type: ignore[arg-type]


def _groups(groups: list[object], changes: dict[str, object]) -> tuple[list[int], dict[str, list[float]]]:
    """Servers that differ, group after group: how many, and their rates by key, nothing where no group says them."""
    counts, rates = [], {key: list[float]() for key in _GROUP_RATES}
    for place, entry in enumerate(groups):
        held = table(entry, f"servers[{place}]")
        check_keys(held, {"count", *_GROUP_RATES}, f"servers[{place}]")
        count = held.get("count", 1)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_FAULTS:
            raise InvalidInput(f"servers[{place}]: count={count!r} must be a whole number of at least 1")
        counts.append(count)
        for key, found in rates.items():
            if key in held:
                found.append(parse_bandwidth(held[key], f"servers[{place}]: {key}"))  # type: ignore[arg-type]
    if not groups:
        raise InvalidInput("servers must be a number, or groups with a count each")
    for key, found in rates.items():
        if found and len(found) < len(groups):
            raise InvalidInput(f"servers: {key} is missing in some groups; all must say it, or none")
        if found and (key in changes or _GROUP_RATES[key] in changes):
            raise InvalidInput(f"servers: each group says its own {key}; the cluster must not")
    if not any(rates.values()):
        raise InvalidInput("servers: scale_out_bandwidth is missing; groups say it, or scale_up_bandwidth, or both")
    return counts, rates


def _slower_nics(counts: list[int], rates: list[float], preset: object, changes: dict[str, object]) -> list[Fault]:
    """NICs below the fastest rate of all groups, which becomes the cluster's."""
    if not rates:
        return []
    fastest = max(rates)
    changes["scale_out_bandwidth"] = fastest
    base = cluster(preset, 1) if isinstance(preset, str) else Cluster("base", 1)
    gpus, nics = (changes.get(name, getattr(base, name)) for name in ("gpus_per_server", "nics_per_gpu"))
    if not isinstance(gpus, int) or not isinstance(nics, int) or sum(counts) * gpus * nics > MAX_NICS:
        raise InvalidInput(f"servers: gpus_per_server and nics_per_gpu must be whole numbers, {MAX_NICS} NICs at most")
    slower: list[Fault] = []
    first = 0
    for count, rate in zip(counts, rates, strict=True):
        if rate < fastest:
            places = ((s, g, n) for s in range(first, first + count) for g in range(gpus) for n in range(nics))
            slower += [slow_nic(server, gpu, rate, nic) for server, gpu, nic in places]
        first += count
    return slower


def cluster_to_toml(cluster: Cluster) -> str:
    """The text of a TOML file."""
    left_out = {"fan_in"}  # the fabric says it
    left_out |= {"scale_up_bandwidth"} if cluster.scale_up_rates_bytes_per_s else {"scale_up_rates"}
    left_out |= {"scale_out_bandwidth", "nics_per_gpu"} if cluster.nic_rates_bytes_per_s else {"nic_rates"}
    written = {key: field for key, field in CLUSTER_KEYS.items() if key not in left_out}
    return to_toml({key: _to_toml(field, getattr(cluster, field)) for key, field in written.items()})


def _to_toml(field: str, value: object) -> object:
    """A field's value as files have it: rates and times with their units, faults and the fabric as tables."""
    if isinstance(value, tuple):
        return [_to_toml(field, each) for each in value]
    if isinstance(value, Fault):
        return _fault_to_table(value)
    if isinstance(value, Fabric):
        return fabric_to_table(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    if field.endswith("_s"):
        return write_bandwidth(value) if field.endswith("bytes_per_s") else write_seconds(value)
    return float(value) if field == "oversubscription" else value


def fabric_to_table(fabric: Fabric) -> dict[str, object]:
    """The fields of a fabric; None is left out."""
    return {key: value for key, value in asdict(fabric).items() if value is not None}


def fabric_from_table(value: object) -> Fabric:
    """A fabric from the values of a TOML table `fabric`."""
    held = table(value, "fabric")
    defaults = asdict(Fabric())
    check_keys(held, {field.name for field in fields(Fabric)}, "fabric")
    for key, given in held.items():
        is_word = isinstance(defaults[key], str)
        if isinstance(given, bool) or not isinstance(given, str if is_word else int | float):
            raise InvalidInput(f"fabric.{key}={given!r} must be a {'word' if is_word else 'number'}")
    with at("fabric"):
        return Fabric(**held)  # type: ignore[arg-type]


def _faults(value: object) -> list[Fault]:
    if not isinstance(value, list) or len(value) > MAX_FAULTS:
        raise InvalidInput(f"faults must be a list of at most {MAX_FAULTS} tables")
    made = []
    for place, entry in enumerate(value):
        held = dict(table(entry, f"faults[{place}]"))
        with at(f"faults[{place}]"):
            made.append(_fault(held))
    return made


def _fault(held: dict[str, object]) -> Fault:
    kind = held.pop("kind", None)
    if not isinstance(kind, str) or kind not in _FAULT_KEYS:
        raise InvalidInput(f"kind={str(kind)[:64]!r} is not a fault; {nearest(str(kind)[:64], _FAULT_KEYS)}")
    make, needed, optional = _FAULT_KEYS[kind]
    check_keys(held, needed | optional)
    missing = sorted(needed - set(held))
    if missing:
        raise InvalidInput(f"{missing[0]} is missing; {kind} needs {', '.join(sorted(needed))}")
    return make(**held)


def _fault_to_table(fault: Fault) -> dict[str, object]:
    place: dict[str, object] = {"server": fault.server, "gpu": fault.gpu}
    if isinstance(fault, MissingGpu):
        return {"kind": "missing-gpu"} | place
    place["nic"] = fault.nic
    if fault.bandwidth_bytes_per_s == 0:
        return {"kind": "dead-nic"} | place
    return {"kind": "slow-nic"} | place | {"bandwidth": write_bandwidth(fault.bandwidth_bytes_per_s)}
