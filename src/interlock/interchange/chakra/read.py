"""Reads Chakra execution traces of sends and receives, and lowers them to our schedule."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.interchange.chakra.encode import (
    COMM_COLL_NODE,
    COMM_RECV_NODE,
    COMM_SEND_NODE,
    COMP_NODE,
    PIECES_ATTRIBUTE,
)
from interlock.interchange.chakra.parse import MAX_NODES, Node, find_traces, parse_trace
from interlock.interchange.contract import ForeignSchedule, Intent
from interlock.interchange.shared.flows import Name, UnnamedFlow, lower_flows
from interlock.interchange.shared.regions import NONE
from interlock.schedule import Kind

__all__ = ["read_schedule"]

MAX_SIZE = 2**62
COLLECTIVE_NAMES = [  # by their numbers in Chakra
    "all-reduce",
    "reduce",
    "all-gather",
    "gather",
    "scatter",
    "broadcast",
    "all-to-all",
    "reduce-scatter",
]


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
        name = COLLECTIVE_NAMES[code] if 0 <= code < len(COLLECTIVE_NAMES) else "unknown"
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
    waiting = {}
    followers: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        deps = {*node.data_deps, *node.ctrl_deps}
        for dep in deps:
            if dep not in by_id:
                raise InvalidInput(f"{file}: node {node.id} depends on node {dep}, which is not there")
            followers[dep].append(node.id)
        waiting[node.id] = len(deps)
    ready = deque(node.id for node in nodes if waiting[node.id] == 0)
    order = []
    while ready:
        number = ready.popleft()
        order.append(by_id[number])
        for later in followers[number]:
            waiting[later] -= 1
            if waiting[later] == 0:
                ready.append(later)
    if len(order) != len(nodes):
        stuck = next(node.id for node in nodes if waiting[node.id] > 0)
        raise InvalidInput(f"{file}: node {stuck} is part of a cycle of dependencies")
    return order
