"""Topologies in TOML files.

Either ``shape = "torus:4x4x4"`` with bandwidth, latency and message_overhead; or num_ranks, perhaps num_nodes, and a
table `[links]` with src, dst, bandwidth (one quantity, or one per link), latency, message_overhead and channel. Lists
of nodes `nics`, `multicasts` and `reduces`, a `stage_overhead`, a table `[fabric]` and a list of `symmetries` may
follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, LimitExceeded, at
from interlock.files import FilePath, write_text
from interlock.topology.cluster_files import fabric_from_table, fabric_to_table
from interlock.topology.graph import NodeKind, Topology, from_edges
from interlock.topology.symmetry import is_symmetry
from interlock.topology.toml_text import check_keys, check_marks, read_toml, table, to_toml
from interlock.units import Quantity, parse_seconds, write_bandwidth, write_seconds

__all__ = ["read_topology_table", "topology_from_table", "topology_to_toml", "write_topology"]

MAX_FILE_BYTES = 1 << 23
_KEYS = {
    "name",
    "num_ranks",
    "num_nodes",
    "nics",
    "multicasts",
    "reduces",
    "stage_overhead",
    "fabric",
    "symmetries",
    "links",
}
_LINK_KEYS = {"src", "dst", "bandwidth", "latency", "message_overhead", "channel"}


def read_topology_table(path: FilePath) -> dict[str, object]:
    """The tables of a TOML file, within the limits of a topology."""
    return read_toml(path, MAX_FILE_BYTES)


def topology_from_table(
    values: dict[str, object], where: str, unsaid: Mapping[str, Quantity] = MappingProxyType({})
) -> Topology:
    """A topology from the values of a TOML file that lists its links; `where` begins every error.

    `unsaid` holds what keys of `[links]` that are missing would say.
    """
    with at(where):
        check_keys(values, _KEYS)
        links = {**unsaid, **table(values.get("links", {}), "links")}
        check_keys(links, _LINK_KEYS, "links")
        for key in ("src", "dst", "bandwidth"):
            if key not in links:
                raise InvalidInput(f"links.{key} is missing; a topology needs src, dst and bandwidth")
        name = values.get("name", Path(where).stem)
        if not isinstance(name, str) or not 1 <= len(name) <= 200:
            raise InvalidInput(f"name={str(name)[:40]!r} must be a word of at most 200 characters")
        counts = {key: values.get(key) for key in ("num_ranks", "num_nodes")}
        return _with_extras(from_edges(**links, **counts, name=name), values)  # type: ignore[arg-type]


def _with_extras(graph: Topology, values: dict[str, object]) -> Topology:
    """The graph with kinds, abilities, stage overhead, fabric and symmetries of the file."""
    kinds = graph.node_kinds.copy()
    kinds[_nodes(values, "nics", graph)] = NodeKind.NIC
    able = {name: np.zeros(graph.num_nodes, np.bool_) for name in ("multicasts", "reduces")}
    for name, flags in able.items():
        flags[_nodes(values, name, graph)] = True
    overhead = values.get("stage_overhead", 0)
    if not isinstance(overhead, str | int | float):
        raise InvalidInput(f"stage_overhead={overhead!r} must be a time")
    made = replace(
        graph,
        node_kinds=kinds,
        multicasts=able["multicasts"],
        reduces=able["reduces"],
        stage_overhead_s=parse_seconds(overhead, "stage_overhead"),
        fabric=fabric_from_table(values.get("fabric", {})),
        symmetries=_symmetries(values.get("symmetries", []), graph.num_nodes),
    )
    for row, permutation in enumerate(made.symmetries if made.symmetries is not None else ()):
        if not is_symmetry(made, permutation):
            raise InvalidInput(f"symmetries[{row}] does not map the graph onto itself")
    return made


def _nodes(values: dict[str, object], key: str, graph: Topology) -> NDArray[np.int64]:
    listed = values.get(key, [])
    if not isinstance(listed, list):
        raise InvalidInput(f"{key} must be a list of nodes")
    first, last = graph.num_ranks, graph.num_nodes - 1
    for node in listed:
        if isinstance(node, bool) or not isinstance(node, int) or not first <= node <= last:
            raise InvalidInput(f"{key} names node {node!r}; it must be a node from {first} to {last} that is not a GPU")
    return np.array(listed, np.int64)


def _symmetries(value: object, num_nodes: int) -> NDArray[np.int32] | None:
    rows = value if isinstance(value, list) else None
    if rows is None or not all(isinstance(row, list) and len(row) == num_nodes for row in rows):
        raise InvalidInput(f"symmetries must be lists of {num_nodes} nodes")
    if not all(isinstance(node, int) and 0 <= node < num_nodes for row in rows for node in row):
        raise InvalidInput(f"symmetries must name nodes between 0 and {num_nodes - 1}")
    return np.array(rows, np.int32).reshape(len(rows), num_nodes) if rows else None


def topology_to_toml(topology: Topology) -> str:
    """The text of a TOML file; routes other than the shortest are not kept."""
    values: dict[str, object] = {
        "name": topology.name,
        "num_ranks": topology.num_ranks,
        "num_nodes": topology.num_nodes,
    }
    for key, flags in (
        ("nics", topology.node_kinds == NodeKind.NIC),
        ("multicasts", topology.multicasts),
        ("reduces", topology.reduces),
    ):
        if flags.any():
            values[key] = np.flatnonzero(flags).tolist()
    values["stage_overhead"] = write_seconds(topology.stage_overhead_s)
    if topology.symmetries is not None and len(topology.symmetries):
        values["symmetries"] = topology.symmetries.tolist()
    values["fabric"] = fabric_to_table(topology.fabric)
    links: dict[str, object] = {"src": topology.link_src.tolist(), "dst": topology.link_dst.tolist()}
    links["bandwidth"] = _written(topology.bandwidth_bytes_per_s, write_bandwidth)
    links["latency"] = _written(topology.latency_s, write_seconds)
    links["message_overhead"] = _written(topology.message_overhead_s, write_seconds)
    if (topology.channel != np.arange(topology.num_links)).any():
        links["channel"] = topology.channel.tolist()
    return to_toml(values | {"links": links})


def _written(column: NDArray[np.float64], write: Callable[[float], str]) -> object:
    return write(float(column[0])) if (column == column[0]).all() else column.tolist()


def write_topology(topology: Topology, path: FilePath) -> None:
    """Write a topology to a TOML file, if it is one that can be read again; `write_edges` takes larger ones."""
    text = topology_to_toml(topology)
    check_marks(text, path)
    if len(text.encode()) > MAX_FILE_BYTES:
        raise LimitExceeded(f"{path} would have {len(text.encode())} bytes; at most {MAX_FILE_BYTES} are read of TOML")
    write_text(path, text)
