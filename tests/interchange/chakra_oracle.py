"""Chakra's messages built with protobuf's own library, and ASTRA-sim's rules for running a custom collective."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32

F = descriptor_pb2.FieldDescriptorProto
NODE_FIELDS = [
    ("id", 1, F.TYPE_UINT64, False),
    ("name", 2, F.TYPE_STRING, False),
    ("type", 3, F.TYPE_INT32, False),
    ("ctrl_deps", 4, F.TYPE_UINT64, True),
    ("data_deps", 5, F.TYPE_UINT64, True),
    ("duration_micros", 7, F.TYPE_UINT64, False),
]
VALUES = [
    ("int32_val", 7, F.TYPE_INT32),
    ("int64_val", 9, F.TYPE_INT64),
    ("bool_val", 27, F.TYPE_BOOL),
    ("string_val", 29, F.TYPE_STRING),
]


def message_classes() -> dict[str, Any]:
    """GlobalMetadata, Node and their parts, as et_def.proto declares them."""
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="ChakraProtoMsg", syntax="proto3")
    values = file.message_type.add(name="Int64List")
    values.field.add(name="values", number=1, type=F.TYPE_INT64, label=F.LABEL_REPEATED)
    attribute = file.message_type.add(name="AttributeProto")
    attribute.field.add(name="name", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    attribute.oneof_decl.add(name="value")
    for name, number, kind in VALUES:
        attribute.field.add(name=name, number=number, type=kind, label=F.LABEL_OPTIONAL, oneof_index=0)
    attribute.field.add(
        name="int64_list",
        number=10,
        type=F.TYPE_MESSAGE,
        type_name=".ChakraProtoMsg.Int64List",
        label=F.LABEL_OPTIONAL,
        oneof_index=0,
    )
    metadata = file.message_type.add(name="GlobalMetadata")
    metadata.field.add(name="version", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    node = file.message_type.add(name="Node")
    for name, number, kind, repeated in NODE_FIELDS:
        node.field.add(name=name, number=number, type=kind, label=F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL)
    node.field.add(
        name="attr", number=10, type=F.TYPE_MESSAGE, type_name=".ChakraProtoMsg.AttributeProto", label=F.LABEL_REPEATED
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("GlobalMetadata", "Node", "AttributeProto")
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{n}")) for n in names}


CLASSES = message_classes()


def decode(path: Path) -> list[Any]:
    """Nodes of a trace, parsed by protobuf."""
    data = path.read_bytes()
    at, messages = 0, []
    while at < len(data):
        size, at = _DecodeVarint32(data, at)
        kind = CLASSES["GlobalMetadata"] if not messages else CLASSES["Node"]
        message = kind()
        message.ParseFromString(data[at : at + size])
        messages.append(message)
        at += size
    assert messages[0].version
    return messages[1:]


def attributes(node: Any) -> dict[str, Any]:
    """Attribute values by name."""
    made = {}
    for attribute in node.attr:
        kind = attribute.WhichOneof("value")
        value = getattr(attribute, kind)
        made[attribute.name] = list(value.values) if kind == "int64_list" else value
    return made


def run(traces: list[list[Any]], chunk_bytes_of_total: int) -> dict[tuple[int, int], int]:
    """Run a custom collective as ASTRA-sim does: issue free nodes, match by (tag, source, destination, size).

    Returns the bytes sent between ranks. Asserts that every node ends, and that both ways of giving sizes agree.
    """
    done: list[set[int]] = [set() for _ in traces]
    issued: list[set[int]] = [set() for _ in traces]
    sent: dict[tuple[int, int, int, int], int] = defaultdict(int)
    moved: dict[tuple[int, int], int] = defaultdict(int)
    assert all(traces), "a rank without nodes never ends its collective"
    while any(len(done[rank]) < len(nodes) for rank, nodes in enumerate(traces)):
        progress = False
        for rank, nodes in enumerate(traces):
            for node in nodes:
                if node.id in done[rank] or not {*node.ctrl_deps, *node.data_deps} <= done[rank]:
                    continue
                found = attributes(node)
                if node.type in (5, 6):
                    scaled = found["msg_chunk_cnt"] * (chunk_bytes_of_total // found["total_chunk_cnt"])
                    assert scaled == found["comm_size"] > 0
                if node.type == 5:
                    sent[found["comm_tag"], rank, found["comm_dst"], found["comm_size"]] += 1
                    moved[rank, found["comm_dst"]] += found["comm_size"]
                elif node.type == 6:
                    key = (found["comm_tag"], found["comm_src"], rank, found["comm_size"])
                    if not sent[key]:
                        continue
                    sent[key] -= 1
                else:
                    assert node.type == 4
                issued[rank].add(node.id)
                done[rank].add(node.id)
                progress = True
        assert progress, "stuck"
    assert not any(sent.values())
    return moved
