"""Reads Chakra execution traces (`.et`: framed protobuf messages, plain or gzip), and lowers them to our schedule."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import read_bytes
from interlock.interchange.chakra.encode import (
    COLLECTIVES,
    COMM_COLL_NODE,
    COMM_RECV_NODE,
    COMM_SEND_NODE,
    COMP_NODE,
    PIECES_ATTRIBUTE,
)
from interlock.interchange.contract import ForeignSchedule, Intent
from interlock.interchange.shared.files import MAX_FILE_BYTES
from interlock.interchange.shared.flows import Name, UnnamedFlow, lower_flows
from interlock.interchange.shared.protobuf import LENGTH_DELIMITED, VARINT, fields, packed, read_varint, signed
from interlock.interchange.shared.regions import NONE
from interlock.interchange.shared.sequence import executable_order
from interlock.schedule import Kind

__all__ = ["Node", "find_traces", "parse_trace", "read_schedule"]

MAX_NODES = 4_000_000
MAX_RANKS = 65_536
KNOWN_TYPES = range(1, 11)
MAX_SIZE = 2**62


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
    data = _unzipped(path, read_bytes(path, MAX_FILE_BYTES))
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


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """The schedule in the traces of all ranks; `path` is a folder, a prefix or one of the files."""
    files = find_traces(path)
    traces: list[list[Node]] = []
    total = 0
    for file in files:
        traces.append(parse_trace(file))
        total += len(traces[-1])
        if total > MAX_NODES:
            raise LimitExceeded(f"{path}: more than {MAX_NODES} nodes in all ranks together")
    flows = _match(files, traces)
    return lower_flows("chakra", str(path), flows, len(files), intent)


def _match(files: list[Path], traces: list[list[Node]]) -> list[UnnamedFlow]:
    """Pair sends with receives: the n-th of equal source, destination and tag, as simulators do."""
    flows: list[UnnamedFlow] = []
    flow_of_node: list[dict[int, int]] = [{} for _ in traces]
    waiting: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
    for rank, (file, nodes) in enumerate(zip(files, traces, strict=True)):
        for node in nodes:
            _check_type(file, node)
            if node.type == COMM_SEND_NODE:
                peer = _number(file, node, "comm_dst", len(files) - 1)
                if peer == rank:
                    raise InvalidInput(f"{file}: node {node.id} sends to its own rank")
                flow = UnnamedFlow(rank, peer, _number(file, node, "comm_size", MAX_SIZE))
                flow.is_added, flow.names = _names(file, node)
                waiting[rank, peer, node.number("comm_tag") or 0].append(len(flows))
                flow_of_node[rank][node.id] = len(flows)
                flows.append(flow)
    for rank, (file, nodes) in enumerate(zip(files, traces, strict=True)):
        for node in nodes:
            if node.type != COMM_RECV_NODE:
                continue
            peer = _number(file, node, "comm_src", len(files) - 1)
            box = waiting[peer, rank, node.number("comm_tag") or 0]
            if not box:
                raise InvalidInput(f"{file}: node {node.id} receives from rank {peer}, which does not send it")
            number = box.popleft()
            size = _number(file, node, "comm_size", MAX_SIZE)
            if size != flows[number].size_bytes:
                raise InvalidInput(
                    f"{file}: node {node.id} receives {size} bytes from rank {peer}, which sends "
                    f"{flows[number].size_bytes}"
                )
            flow_of_node[rank][node.id] = number
    for (src, dst, tag), box in waiting.items():
        if box:
            raise InvalidInput(f"{files[src]}: a send to rank {dst} with tag {tag} is never received")
    for rank, (file, nodes) in enumerate(zip(files, traces, strict=True)):
        _link(file, nodes, flow_of_node[rank], flows)
    return flows


def _check_type(file: Path, node: Node) -> None:
    if node.type == COMM_COLL_NODE:
        code = node.number("comm_type") or 0
        name = COLLECTIVES[code] if 0 <= code < len(COLLECTIVES) else "unknown"
        raise InvalidInput(
            f"{file}: node {node.id} is a whole {name} of {node.number('comm_size') or 0} bytes: it names a collective "
            "and leaves the algorithm to the simulator, so there is no schedule to check"
        )
    if node.type not in (COMM_SEND_NODE, COMM_RECV_NODE, COMP_NODE):
        raise InvalidInput(f"{file}: node {node.id} has type {node.type}; sends, receives and computations are read")


def _number(file: Path, node: Node, key: str, most: int) -> int:
    value = node.number(key)
    if value is None:
        raise InvalidInput(f"{file}: node {node.id} ({node.name[:40]}) lacks {key!r}")
    if not 0 <= value <= most:
        raise InvalidInput(f"{file}: node {node.id}: {key}={value} must be between 0 and {most}")
    return value


def _names(file: Path, node: Node) -> tuple[bool, list[Name] | None]:
    """Kind and contents, where the trace carries our names."""
    values = node.attributes.get(PIECES_ATTRIBUTE)
    if not isinstance(values, list):
        return False, None
    if len(values) % 4 != 1 or values[0] not in (Kind.COPY, Kind.REDUCE):
        raise InvalidInput(f"{file}: node {node.id}: {PIECES_ATTRIBUTE!r} is not a kind and rows of four numbers")
    names = []
    for k in range(1, len(values), 4):
        first, second, offset, length = values[k : k + 4]
        if max(first, second, offset, length) > MAX_SIZE or min(first, offset, length - 1) < 0 or second < NONE:
            raise InvalidInput(f"{file}: node {node.id}: {PIECES_ATTRIBUTE!r} names bytes that cannot be")
        names.append((first, second, offset, length))
    return values[0] == Kind.REDUCE, names


def _link(file: Path, nodes: list[Node], flow_of_node: dict[int, int], flows: list[UnnamedFlow]) -> None:
    """Dependencies between flows at one rank; computations pass them on, and an addition marks its operand."""
    by_id = {node.id: node for node in nodes}
    behind: dict[int, frozenset[int]] = {}  # computation -> flows behind it
    for node in _in_order(file, nodes, by_id):
        data: set[int] = set()
        control: set[int] = set()
        for deps, found in ((node.data_deps, data), (node.ctrl_deps, control)):
            for dep in deps:
                found |= behind[dep] if by_id[dep].type == COMP_NODE else {flow_of_node[dep]}
        if node.type == COMP_NODE:
            behind[node.id] = frozenset(data | control)
            operands = [dep for dep in node.data_deps if by_id[dep].type == COMM_RECV_NODE]
            if len(operands) == 1 and flows[flow_of_node[operands[0]]].names is None:
                flows[flow_of_node[operands[0]]].is_added = True
            continue
        number = flow_of_node[node.id]
        flow = flows[number]
        for earlier in sorted((data | control) - {number}):
            if node.type == COMM_RECV_NODE:
                flow.taken_after.append(earlier)
            elif flows[earlier].dst == flow.src and earlier in data:
                flow.fed_by.append(earlier)
            else:
                flow.after.append(earlier)


def _in_order(file: Path, nodes: list[Node], by_id: dict[int, Node]) -> list[Node]:
    """Nodes after those they depend on."""
    place = {node.id: k for k, node in enumerate(nodes)}
    after: list[set[int]] = []
    for node in nodes:
        deps = {*node.data_deps, *node.ctrl_deps}
        for dep in deps:
            if dep not in by_id:
                raise InvalidInput(f"{file}: node {node.id} depends on node {dep}, which is not there")
        after.append({place[dep] for dep in deps})
    order = executable_order(after)
    if len(order) != len(nodes):
        stuck = nodes[min(set(range(len(nodes))) - set(order))]
        raise InvalidInput(f"{file}: node {stuck.id} is part of a cycle of dependencies")
    return [nodes[k] for k in order]
