"""Decodes Chakra execution traces (`.et`): varint-framed protobuf messages, plain or gzip."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.interchange.shared.files import MAX_FILE_BYTES, read_bytes
from interlock.interchange.shared.protobuf import LENGTH_DELIMITED, VARINT, fields, packed, read_varint, signed

__all__ = ["Node", "find_traces", "parse_trace"]

MAX_NODES = 4_000_000
MAX_RANKS = 65_536
KNOWN_TYPES = range(1, 11)


@dataclass(slots=True)
class Node:
    """One node of a trace; attributes are whole numbers, lists of them, or text."""

    id: int = 0
    name: str = ""
    type: int = 0
    ctrl_deps: list[int] = field(default_factory=list)
    data_deps: list[int] = field(default_factory=list)
    attributes: dict[str, int | list[int] | str] = field(default_factory=dict)
    duration_micros: int = 0

    def number(self, key: str) -> int | None:
        """A whole-number attribute."""
        value = self.attributes.get(key)
        return value if isinstance(value, int) else None


def find_traces(path: Path) -> list[Path]:
    """The files of all ranks: of a folder, a prefix, or any one of them."""
    if path.is_dir():
        prefixes = sorted({m.group(1) for f in path.iterdir() if (m := re.fullmatch(r"(.+)\.[0-9]+\.et", f.name))})
        if "algorithm" in prefixes:
            prefixes = ["algorithm"]  # beside it lies the workload that calls it
        if len(prefixes) != 1:
            found = ", ".join(prefixes) or "none"
            raise InvalidInput(f"{path} must hold the .et files of one trace, named PREFIX.RANK.et; found: {found}")
        folder, prefix = path, prefixes[0]
    else:
        match = re.fullmatch(r"(.+)\.[0-9]+\.et", path.name)
        folder, prefix = path.parent, match.group(1) if match else path.name
    ranks: dict[int, Path] = {}
    if folder.is_dir():
        for file in folder.iterdir():
            match = re.fullmatch(re.escape(prefix) + r"\.([0-9]{1,6})\.et", file.name)
            if match:
                ranks[int(match.group(1))] = file
    if not ranks:
        raise InvalidInput(f"{path}: no files named {prefix}.RANK.et are there")
    if sorted(ranks) != list(range(len(ranks))) or len(ranks) > MAX_RANKS:
        missing = next(rank for rank in range(len(ranks) + 1) if rank not in ranks)
        raise InvalidInput(f"{folder / prefix}: rank {missing} is missing; ranks must be 0 to {len(ranks) - 1}")
    return [ranks[rank] for rank in range(len(ranks))]


def parse_trace(path: Path) -> list[Node]:
    """Nodes of one rank's trace, by position in the file."""
    data = _unzipped(path, read_bytes(path))
    nodes: list[Node] = []
    seen: set[int] = set()
    at, end = 0, len(data)
    is_metadata = True
    while at < end:
        try:
            length, at = read_varint(data, at, end)
            if length > end - at:
                raise InvalidInput(f"a message of {length} bytes is cut off")
            if not is_metadata:
                nodes.append(_node(data, at, at + length))
        except InvalidInput as error:
            raise InvalidInput(f"{path}: message {len(nodes) + (not is_metadata)}, near byte {at}: {error}") from None
        is_metadata = False
        at += length
        if len(nodes) > MAX_NODES:
            raise LimitExceeded(f"{path} has more than {MAX_NODES} nodes")
        if nodes and nodes[-1].id in seen:
            raise InvalidInput(f"{path}: node {nodes[-1].id} is given twice")
        if nodes:
            seen.add(nodes[-1].id)
    if is_metadata:
        raise InvalidInput(f"{path} is empty; a trace starts with its metadata")
    return nodes


def _unzipped(path: Path, data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(data, MAX_FILE_BYTES + 1)
    except zlib.error:
        raise InvalidInput(f"{path} is not a sound gzip file") from None
    if len(plain) > MAX_FILE_BYTES:
        raise LimitExceeded(f"{path} unzips to more than {MAX_FILE_BYTES} bytes")
    return plain


def _node(data: bytes, at: int, end: int) -> Node:
    node = Node()
    for number, kind, value, stop in fields(data, at, end):
        if number == 1 and kind == VARINT:
            node.id = value
        elif number == 2 and kind == LENGTH_DELIMITED:
            node.name = data[value:stop].decode("utf-8", "replace")[:256]
        elif number == 3 and kind == VARINT:
            node.type = value
        elif number in (4, 5):
            deps = node.ctrl_deps if number == 4 else node.data_deps
            deps += packed(data, value, stop) if kind == LENGTH_DELIMITED else [value]
        elif number == 7 and kind == VARINT:
            node.duration_micros = value
        elif number == 10 and kind == LENGTH_DELIMITED:
            name, content = _attribute(data, value, stop)
            if name in node.attributes:
                raise InvalidInput(f"node {node.id}: attribute {name[:64]!r} is given twice")
            if content is not None:
                node.attributes[name] = content
    if node.type not in KNOWN_TYPES:
        raise InvalidInput(f"node {node.id} has type {node.type}, which Chakra does not know")
    return node


def _attribute(data: bytes, at: int, end: int) -> tuple[str, int | list[int] | str | None]:
    name = ""
    content: int | list[int] | str | None = None
    for number, kind, value, stop in fields(data, at, end):
        if number == 1 and kind == LENGTH_DELIMITED:
            name = data[value:stop].decode("utf-8", "replace")[:256]
        elif kind == VARINT and number in (7, 9, 11, 13, 27):
            content = signed(value)
        elif kind == VARINT and number in (15, 17):
            content = value >> 1 ^ -(value & 1)
        elif kind == LENGTH_DELIMITED and number in (8, 10, 12, 14):
            content = _list(data, value, stop)
        elif kind == LENGTH_DELIMITED and number == 29:
            content = data[value:stop].decode("utf-8", "replace")
    return name, content


def _list(data: bytes, at: int, end: int) -> list[int]:
    values: list[int] = []
    for number, kind, value, stop in fields(data, at, end):
        if number == 1:
            values += [signed(v) for v in (packed(data, value, stop) if kind == LENGTH_DELIMITED else [value])]
    return values
