"""Encodes Chakra nodes quickly: millions of them, most of whose bytes repeat.

An attribute's bytes before its value depend only on its name and on how many bytes the value takes, so they are made
once; values are varints (see `interlock.interchange.shared.protobuf`).
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import CollectiveKind
from interlock.interchange.chakra.graph import JOIN, REDUCE, SEND, SendReceiveGraph
from interlock.interchange.shared.protobuf import text_field, varint, varint_field, varints
from interlock.interchange.shared.regions import Regions
from interlock.ragged import ranges
from interlock.schedule import Schedule

__all__ = [
    "COLLECTIVES",
    "COMM_COLL_NODE",
    "COMM_RECV_NODE",
    "COMM_SEND_NODE",
    "COMP_NODE",
    "PIECES_ATTRIBUTE",
    "SCHEMA_VERSION",
    "SIMULATED",
    "Encoder",
    "attribute",
    "framed",
    "node_bytes",
]

SCHEMA_VERSION = b"0.0.4"
PIECES_ATTRIBUTE = "interlock_pieces"  # int64 list: kind, then (first name, second name, offset, length) per piece
COMP_NODE, COMM_SEND_NODE, COMM_RECV_NODE, COMM_COLL_NODE = 4, 5, 6, 7
_NUMBERED = "all-reduce reduce all-gather gather scatter broadcast all-to-all reduce-scatter"
COLLECTIVES = tuple(CollectiveKind(name) for name in _NUMBERED.split())  # by their numbers in Chakra
SIMULATED = {kind: number for number, kind in enumerate(COLLECTIVES) if number in (0, 2, 6, 7)}  # by ASTRA-sim
INT32, INT64, BOOL = 7, 9, 27  # field numbers of an attribute's value
FLUSH_NODES = 4096


def attribute(name: str, field_number: int, value: int) -> bytes:
    """A whole-number attribute of a node."""
    return text_field(10, text_field(1, name.encode()) + varint_field(field_number, value))


def node_bytes(number: int, name: bytes, kind: int, deps: bytes, attributes: bytes) -> bytes:
    """A node."""
    head = b"\x08" + varint(number) if number else b""
    return head + text_field(2, name) + varint_field(3, kind) + deps + attributes


def framed(message: bytes) -> bytes:
    """A message behind its length, as traces hold them."""
    return varint(len(message)) + message


def _heads(name: str, field_number: int) -> list[bytes]:
    """Bytes of an attribute before its value, by the value's length."""
    inner = text_field(1, name.encode()) + varint(field_number << 3)
    return [b"\x52" + varint(len(inner) + length) + inner for length in range(11)]


class Encoder:
    """Writes one rank's nodes at a time.

    Parameters
    ----------
    unit, total
        Sizes are also given as multiples of `unit` among `total`, for ASTRA-sim versions that scale messages by the
        workload's size; unit 0 tells them to take the bytes.
    """

    def __init__(
        self, schedule: Schedule, graph: SendReceiveGraph, regions: Regions | None, unit: int, total: int
    ) -> None:
        self.schedule, self.graph, self.regions, self.unit = schedule, graph, regions, unit
        self.fixed = attribute("is_cpu_op", BOOL, 0)
        self.size_heads, self.count_heads = _heads("comm_size", INT64), _heads("msg_chunk_cnt", INT32)
        index, all_chunks = (0, total) if unit else (-1, -1)
        self.chunk_tail = attribute("msg_chunk_idx", INT32, index) + attribute("total_chunk_cnt", INT32, all_chunks)
        self.tag_heads = _heads("comm_tag", INT32)
        ranks = range(len(graph.first_of_rank) - 1)
        self.src = [attribute("comm_src", INT32, rank) for rank in ranks]
        self.dst = [attribute("comm_dst", INT32, rank) for rank in ranks]
        self.pieces_head = text_field(1, PIECES_ATTRIBUTE.encode()) + varint(10 << 3 | 2)

    def write_rank(self, rank: int, file: BinaryIO) -> None:
        """The trace of one rank."""
        graph = self.graph
        first, last = int(graph.first_of_rank[rank]), int(graph.first_of_rank[rank + 1])
        file.write(framed(text_field(1, SCHEMA_VERSION)))
        if first == last:
            # ASTRA-sim ends a collective when its last node ends: a rank without nodes would never end it.
            file.write(framed(node_bytes(0, b"IDLE", COMP_NODE, b"", self.fixed)))
            return
        legs = graph.leg[first:last]
        src, dst, message = graph.leg_src[legs].tolist(), graph.leg_dst[legs].tolist(), graph.leg_message[legs].tolist()
        # ASTRA-sim refuses messages of no bytes.
        sizes = np.maximum(self.schedule.size_bytes[graph.leg_message[legs]], 1)
        counts = varints((sizes // self.unit if self.unit else np.full(len(sizes), -1)).tolist())
        tags, kinds = varints(graph.leg_tag[legs].tolist()), graph.type[first:last].tolist()
        shared = list(zip(tags, varints(sizes.tolist()), counts, strict=True))
        deps = self._deps(first, last)
        names = iter(self._names(graph.leg_message[legs][graph.type[first:last] == SEND]))
        lines: list[bytes] = []
        for node, kind in enumerate(kinds):
            waits = deps.get(node, b"")
            if kind == JOIN:
                body = node_bytes(node, b"JOIN", COMP_NODE, waits, self.fixed)
            elif kind == REDUCE:
                body = node_bytes(node, b"REDUCE_%d" % message[node], COMP_NODE, waits, self.fixed)
            elif kind == SEND:
                name = b"COMM_SEND_%d_%d_%d" % (rank, dst[node], message[node])
                tail = self._comm(rank, dst[node], *shared[node]) + next(names)
                body = _comm_node(node, name, SEND_KIND, waits, SEND_TYPE, tail)
            else:
                name = b"COMM_RECV_%d_%d_%d" % (src[node], rank, message[node])
                tail = self._comm(src[node], rank, *shared[node])
                body = _comm_node(node, name, RECEIVE_KIND, waits, RECEIVE_TYPE, tail)
            lines.append(varint(len(body)))
            lines.append(body)
            if len(lines) > FLUSH_NODES:
                file.write(b"".join(lines))
                lines.clear()
        file.write(b"".join(lines))

    def _deps(self, first: int, last: int) -> dict[int, bytes]:
        """Encoded dependencies of the nodes that have any."""
        made: dict[int, bytes] = {}
        for number, rows in ((4, self.graph.ctrl_deps), (5, self.graph.data_deps)):
            begin = int(rows.offsets[first])
            offsets = (rows.offsets[first : last + 1] - begin).tolist()
            values = rows.values[begin : begin + offsets[-1]].tolist()
            for node in range(last - first):
                if offsets[node + 1] > offsets[node]:
                    packed = b"".join(map(varint, values[offsets[node] : offsets[node + 1]]))
                    made[node] = made.get(node, b"") + text_field(number, packed)
        return made

    def _comm(self, src: int, dst: int, tag: bytes, size: bytes, count: bytes) -> bytes:
        """Attributes that sends and receives share."""
        return b"".join(
            (
                self.src[src],
                self.dst[dst],
                self.tag_heads[len(tag)],
                tag,
                self.size_heads[len(size)],
                size,
                self.count_heads[len(count)],
                count,
                self.chunk_tail,
            )
        )

    def _names(self, messages: NDArray[np.int64]) -> list[bytes]:
        """For each message, an attribute with the names of the bytes it carries."""
        if self.regions is None:
            return [b""] * len(messages)
        pieces, regions = self.schedule.pieces, self.regions
        begin = pieces.offsets[messages]
        counts = pieces.offsets[messages + 1] - begin
        rows = ranges(begin, counts)
        item = pieces.item[rows]
        columns = (regions.first[item], regions.second[item], regions.offset[item] + pieces.offset[rows])
        flat = np.stack([*columns, pieces.length[rows]], axis=1).ravel().tolist()
        values = varints(flat)
        kinds = self.schedule.kind[messages].tolist()
        made, at = [], 0
        for kind, count in zip(kinds, counts.tolist(), strict=True):
            inner = text_field(1, varint(kind) + b"".join(values[at : at + 4 * count]))
            made.append(text_field(10, self.pieces_head + varint(len(inner)) + inner))
            at += 4 * count
        return made


def _comm_node(number: int, name: bytes, kind: bytes, waits: bytes, fixed: bytes, tail: bytes) -> bytes:
    """`node_bytes` of a send or receive, whose names are short."""
    head = b"\x08" + varint(number) if number else b""
    return b"".join((head, b"\x12", varint(len(name)), name, kind, waits, fixed, tail))


SEND_KIND, RECEIVE_KIND = varint_field(3, COMM_SEND_NODE), varint_field(3, COMM_RECV_NODE)
SEND_TYPE = attribute("is_cpu_op", BOOL, 0) + attribute("comm_type", INT64, COMM_SEND_NODE)
RECEIVE_TYPE = attribute("is_cpu_op", BOOL, 0) + attribute("comm_type", INT64, COMM_RECV_NODE)
