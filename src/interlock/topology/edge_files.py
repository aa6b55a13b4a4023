"""Topologies in edge-list CSV files.

A header names the columns src, dst, one for the bandwidth and perhaps one each for latency, message_overhead and
channel; a quantity column says its unit (bandwidth_bytes_per_s, gb_per_s, gib_per_s, gbit_per_s, latency_us, ...) or
carries units in its cells. Lines ``# num_ranks = 8`` and ``# num_nodes = 12`` say which nodes are GPUs and how many
nodes there are.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Container, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from interlock.errors import InvalidInput, at, nearest
from interlock.files import FilePath, lines_of, read_text, write_text
from interlock.topology.graph import Topology, from_edges
from interlock.units import Quantity, parse_bandwidth, parse_seconds, whole_or_none

__all__ = ["MAX_FILE_BYTES", "has_column", "read_edges", "write_edges"]

MAX_FILE_BYTES = 1 << 26
MAX_COMMAS = 16  # in a line

# Column of an edge list -> what it holds, and its unit (None: written in the cell, or SI).
_TIMES = {"": None, "_s": "s", "_ms": "ms", "_us": "us", "_ns": "ns"}
_RATES = {"bandwidth": None, "bandwidth_bytes_per_s": "B/s", "gb_per_s": "GB/s", "gib_per_s": "GiB/s"}
_RATES |= {"gbit_per_s": "Gb/s", "bandwidth_gb_per_s": "GB/s", "bandwidth_gib_per_s": "GiB/s"}
_COLUMNS: dict[str, tuple[str, str | None]] = {name: (name, None) for name in ("src", "dst", "channel")}
_COLUMNS |= {name: ("bandwidth", unit) for name, unit in _RATES.items()}
_COLUMNS |= {what + end: (what, unit) for what in ("latency", "message_overhead") for end, unit in _TIMES.items()}


def read_edges(path: FilePath, unsaid: Mapping[str, Quantity] = MappingProxyType({})) -> Topology:
    """A topology from an edge-list CSV file; `unsaid` holds what columns that it lacks would say."""
    lines = lines_of(read_text(path, MAX_FILE_BYTES), path)
    with at(path):
        return _from_csv(lines, Path(path).stem, unsaid)


def has_column(path: FilePath, what: str) -> bool:
    """Whether an edge list says the bandwidth, latency or message overhead of its links."""
    text = read_text(path, MAX_FILE_BYTES)
    lines = [line for line in lines_of(text, path) if line.strip()[:1] not in ("", "#")]
    cells = [cell.strip().lower() for cell in lines[0].split(",", MAX_COMMAS)] if lines else []
    return any(_COLUMNS.get(cell, ("",))[0] == what for cell in cells)


def _from_csv(lines: list[str], name: str, unsaid: Mapping[str, Quantity]) -> Topology:
    is_comment = [line.lstrip().startswith("#") for line in lines]
    said = _said([line for line, comment in zip(lines, is_comment, strict=True) if comment])
    kept = enumerate(zip(lines, is_comment, strict=True), 1)
    body = [(number, line) for number, (line, comment) in kept if line.strip() and not comment]
    if not body:
        raise InvalidInput("the file is empty; an edge list needs a header with src, dst and bandwidth")
    crowded = next((number for number, line in body if line.count(",") > MAX_COMMAS), None)
    if crowded is not None:
        raise InvalidInput(f"line {crowded} has more than {MAX_COMMAS} commas; a link needs fewer")
    try:
        rows = list(csv.reader((line for _, line in body), strict=True, skipinitialspace=True))
    except csv.Error as error:
        raise InvalidInput(f"this is not CSV: {error}") from None
    if len(rows) != len(body):
        raise InvalidInput("a quoted cell runs over several lines; every link takes one line")
    columns = _header([cell.strip().lower() for cell in rows[0]], unsaid)
    values: dict[str, list[int | float]] = {what: [] for what, _ in columns}
    known: dict[tuple[str, str], int | float] = {}  # few speeds occur many times
    for (number, _), row in zip(body[1:], rows[1:], strict=True):
        if len(row) != len(columns):
            raise InvalidInput(f"line {number} has {len(row)} cells; the header has {len(columns)}")
        for (what, unit), cell in zip(columns, row, strict=True):
            if (what, cell) not in known:
                known[what, cell] = _cell(what, unit, cell.strip(), number)
            values[what].append(known[what, cell])
    return from_edges(
        values["src"],
        values["dst"],
        values["bandwidth"] if "bandwidth" in values else unsaid["bandwidth"],
        values.get("latency", unsaid.get("latency")),
        values.get("message_overhead", unsaid.get("message_overhead")),
        channel=values.get("channel"),
        num_ranks=_count(said, "num_ranks"),
        num_nodes=_count(said, "num_nodes"),
        name=said.get("name", name),
    )


def _said(comments: list[str]) -> dict[str, str]:
    """What comments like ``# num_ranks = 8`` say; the others are skipped."""
    matches = [re.fullmatch(r"\s*#\s*(\w+)\s*=\s*(.{1,200}?)\s*", line) for line in comments]
    return {match[1]: match[2] for match in matches if match}


def _count(said: dict[str, str], key: str) -> int | None:
    number = whole_or_none(said.get(key, ""))
    if key in said and number is None:
        raise InvalidInput(f"{key} = {said[key][:40]} must be a whole number")
    return number


def _header(cells: list[str], unsaid: Container[str]) -> list[tuple[str, str | None]]:
    for cell in cells:
        if cell not in _COLUMNS:
            raise InvalidInput(f"unknown column {cell[:64]!r} in the header; {nearest(cell[:64], _COLUMNS)}")
    columns = [_COLUMNS[cell] for cell in cells]
    held = [what for what, _ in columns]
    for what in dict.fromkeys(held):
        if held.count(what) > 1:
            raise InvalidInput(f"the header names {what} twice")
    for what in ("src", "dst", "bandwidth"):
        if what not in held and what not in unsaid:
            raise InvalidInput(f"the header has no column for {what}; it must name src, dst and bandwidth")
    return columns


def _cell(what: str, unit: str | None, cell: str, line: int) -> int | float:
    if what in ("src", "dst", "channel"):
        number = whole_or_none(cell)
        if number is None or abs(number) >= 10**9:
            raise InvalidInput(f"line {line}: {what}={cell[:40]!r} must be a whole number")
        return number
    parse = parse_bandwidth if what == "bandwidth" else parse_seconds
    # A bare number in a column that names no unit is in SI units.
    unit = unit or (("B/s" if what == "bandwidth" else "s") if cell[-1:].isdigit() else None)
    return parse(f"{cell} {unit}" if unit else cell, f"line {line}: {what}")


def write_edges(topology: Topology, path: FilePath) -> None:
    """Write the links of a topology to an edge-list CSV file; abilities, fabric and symmetries are not kept."""
    columns = ["link_src", "link_dst", "bandwidth_bytes_per_s", "latency_s", "message_overhead_s", "channel"]
    names = ["src", "dst", *columns[2:]]
    if (topology.channel == np.arange(topology.num_links)).all():
        columns, names = columns[:-1], names[:-1]
    said = {"name": topology.name, "num_ranks": topology.num_ranks, "num_nodes": topology.num_nodes}
    lines = [*(f"# {key} = {value}" for key, value in said.items()), ",".join(names)]
    rows = zip(*(getattr(topology, column).tolist() for column in columns), strict=True)
    lines += [",".join(map(repr, row)) for row in rows]
    write_text(path, "\n".join(lines) + "\n")
