"""Topologies by name or file, as the command line writes them: ``torus:4x4x4``, ``ring:4*switch:8``, ``links.csv``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from interlock.errors import InvalidInput, at, nearest
from interlock.files import FilePath, lines_of, read_text
from interlock.topology import named, shapes
from interlock.topology.cluster_files import cluster_from_table
from interlock.topology.edge_files import MAX_FILE_BYTES, has_column, read_edges
from interlock.topology.graph import Topology
from interlock.topology.graph_files import read_topology_table, topology_from_table
from interlock.topology.presets import cluster, preset_names
from interlock.topology.shapes import Dimension, PerDimension
from interlock.topology.toml_text import check_keys
from interlock.units import Quantity

__all__ = ["DEFAULTS", "parse_topology", "read_topology", "shape_names"]

DEFAULTS: Mapping[str, Quantity] = MappingProxyType({"bandwidth": "50 GB/s", "latency": 0, "message_overhead": 0})
_MANY = 0
# Shape -> how many dimensions it takes, and what makes it.
_SHAPES: dict[str, tuple[int, Callable[..., Topology]]] = {
    "ring": (1, shapes.ring),
    "fully-connected": (_MANY, shapes.fully_connected),
    "mesh": (_MANY, shapes.mesh),
    "torus": (_MANY, shapes.torus),
    "hypercube": (1, shapes.hypercube),
    "switch": (_MANY, shapes.switch),
    "rfs": (3, shapes.rfs),
    "dragonfly": (2, named.dragonfly),
    "clos": (3, named.clos),
    "rail": (2, named.rail),
}


def shape_names() -> list[str]:
    """Names that `parse_topology` accepts before the colon."""
    return sorted([*_SHAPES, "dgx1", *preset_names()])


def parse_topology(
    text: str,
    bandwidth: PerDimension | None = None,
    latency: PerDimension | None = None,
    message_overhead: PerDimension | None = None,
    *,
    unsaid: Mapping[str, Quantity] = DEFAULTS,
) -> Topology:
    """A topology from ``SHAPE:DIMS``, ``PRESET:SERVERS[xGPUS]`` or the path of a TOML or CSV file.

    Quantities are those of each link of a shape, or one per dimension separated by commas, or what a file leaves open;
    they are refused where a preset or a file says them itself. `unsaid` holds what is taken where nobody says it.

    >>> parse_topology("torus:4x4x4", bandwidth="50 GB/s")
    Topology('torus:4x4x4', 64 ranks, 64 nodes, 384 links)
    >>> parse_topology("ring:4*switch:8", bandwidth="200 GB/s,50 GB/s").num_ranks
    32
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("the topology is empty; write SHAPE:DIMS like torus:4x4x4, or a file")
    text = text.strip()
    all_given = {"bandwidth": bandwidth, "latency": latency, "message_overhead": message_overhead}
    given = {name: _split(value) for name, value in all_given.items() if value is not None}
    if _is_file(text):
        return _read(text, given, unsaid)
    if text.partition(":")[0] in preset_names():
        _refuse_said(given, f"topology {text[:64]!r}")
    quantities = {**unsaid, **given}
    with at(f"topology {text[:64]!r}"):
        return _product(text, quantities) if "*" in text else _shape(text, quantities)


def read_topology(path: FilePath) -> Topology:
    """A topology from a TOML file (a graph, a shape or a cluster) or an edge-list CSV file."""
    return _read(path, {}, DEFAULTS)


def _read(path: FilePath, given: Mapping[str, PerDimension], unsaid: Mapping[str, Quantity]) -> Topology:
    """A file, with what is given for what it does not say."""
    suffix = Path(path).suffix.lower()
    # A file must say how fast its links are, or its user.
    per_link = {name: value for name, value in unsaid.items() if name != "bandwidth"}
    for name, value in given.items():
        if not isinstance(value, str | int | float):
            raise InvalidInput(f"{str(path)[:200]}: {name} must be one quantity for all links of a file")
        per_link[name] = value
    if suffix == ".csv" or (not suffix and not _is_toml(path)):
        _refuse_said({name: value for name, value in given.items() if has_column(path, name)}, str(path))
        return read_edges(path, per_link)
    if suffix not in (".toml", ""):
        raise InvalidInput(f"{str(path)[:200]} must end in .toml or .csv to be read as a topology")
    values = read_topology_table(path)
    if "servers" in values:
        _refuse_said(given, str(path))
        return cluster_from_table(values, str(path), default_name=Path(path).stem).topology
    if "shape" not in values:
        links = values.get("links")
        _refuse_said({k: v for k, v in given.items() if isinstance(links, dict) and k in links}, str(path))
        return topology_from_table(values, str(path), per_link)
    check_keys(values, {"shape", "bandwidth", "latency", "message_overhead"}, str(path))
    shape = values.pop("shape")
    if not isinstance(shape, str) or _is_file(shape):
        raise InvalidInput(f"{path}: shape={str(shape)[:64]!r} must be SHAPE:DIMS like torus:4x4x4")
    for key, said in values.items():
        if not isinstance(said, str | int | float | list):
            raise InvalidInput(f"{path}: {key}={said!r} must be a quantity or a list of them")
    _refuse_said({name: value for name, value in given.items() if name in values}, str(path))
    with at(path):
        return parse_topology(shape, **values, **given, unsaid=unsaid)  # type: ignore[arg-type]


def _refuse_said(given: Mapping[str, object], where: str) -> None:
    for name, value in given.items():
        raise InvalidInput(f"{name}={value!r} has no effect: {where} says its own")


def _is_toml(path: FilePath) -> bool:
    """Whether a file without a suffix reads as TOML; an edge list begins with a header of names."""
    lines = [line for line in lines_of(read_text(path, MAX_FILE_BYTES), path) if line.strip()[:1] not in ("", "#")]
    return bool(lines) and ("=" in lines[0] or lines[0].lstrip().startswith("["))


def _is_file(text: str) -> bool:
    return "/" in text or text.lower().endswith((".toml", ".csv")) or Path(text[:200]).is_file()


def _split(quantity: PerDimension) -> PerDimension:
    if isinstance(quantity, str) and "," in quantity:
        return [part.strip() for part in quantity.split(",")]
    return quantity


def _shape(text: str, quantities: Mapping[str, PerDimension]) -> Topology:
    name, dims = _name_and_dims(text)
    if name == "dgx1":
        if dims:
            raise InvalidInput("dgx1 takes no dimensions; it has 8 GPUs")
        return named.dgx1(**quantities)  # type: ignore[arg-type]
    if name in preset_names():
        if not 1 <= len(dims) <= 2:
            raise InvalidInput(f"{name} takes servers, or servers x GPUs, like {name}:4x8")
        return cluster(name, dims[0], **({"gpus_per_server": dims[1]} if len(dims) == 2 else {})).topology
    if name not in _SHAPES:
        raise InvalidInput(f"unknown shape {name[:64]!r}; {nearest(name[:64], shape_names())}")
    count, make = _SHAPES[name]
    if not dims or count not in (_MANY, len(dims)):
        raise InvalidInput(
            f"{name} takes {count or 'one or more'} dimensions like {name}:{'x'.join(['4'] * (count or 2))}"
        )
    return make(*dims, **quantities)


def _product(text: str, quantities: Mapping[str, PerDimension]) -> Topology:
    dimensions = []
    for part in text.split("*"):
        name, dims = _name_and_dims(part)
        if len(dims) != 1:
            raise InvalidInput(f"{part[:64]!r} must be a dimension like ring:4")
        dimensions.append((name if name in list(Dimension) else {"fully-connected": "full"}.get(name, name), dims[0]))
    return shapes.product(*dimensions, **quantities, name=text)


def _name_and_dims(text: str) -> tuple[str, tuple[int, ...]]:
    name, colon, dims = text.partition(":")
    if not colon:
        return name, ()
    if not re.fullmatch(r"[0-9]{1,9}(x[0-9]{1,9})*", dims, re.ASCII):
        raise InvalidInput(f"{dims[:64]!r} must be whole numbers joined by x, like 4x4x4")
    return name, tuple(int(size) for size in dims.split("x"))
