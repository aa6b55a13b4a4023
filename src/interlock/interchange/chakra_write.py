"""Writes Chakra execution traces: one `.et` per rank, and the ASTRA-sim configuration that runs them.

The schedule is a custom collective algorithm (`algorithm.<rank>.et`), sizes in true bytes; `workload.<rank>.et` calls
it once. Each send also names the bytes it carries in an attribute of our own: simulators ignore it, our reader uses it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import CollectiveKind
from interlock.interchange.chakra_graph import JOIN, RECEIVE, REDUCE, SEND, SendReceiveGraph, build_graph
from interlock.interchange.files import write_folder
from interlock.interchange.protobuf import text_field, varint, varint_field
from interlock.interchange.regions import Regions, regions_of
from interlock.interchange.report import ExportReport
from interlock.interchange.sequence import sequence_messages
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["PIECES_ATTRIBUTE", "write_chakra"]

SCHEMA_VERSION = b"0.0.4"
PIECES_ATTRIBUTE = "interlock_pieces"  # int64 list: kind, then (first name, second name, offset, length) per piece
COMP_NODE, COMM_SEND_NODE, COMM_RECV_NODE, COMM_COLL_NODE = 4, 5, 6, 7
COMM_TYPE = {
    CollectiveKind.ALL_REDUCE: 0,
    CollectiveKind.ALL_GATHER: 2,
    CollectiveKind.ALL_TO_ALL: 6,
    CollectiveKind.REDUCE_SCATTER: 7,
}
MAX_INT32 = 2**31 - 1
GIB = 2**30  # ASTRA-sim's "GB/s" are 2^30 bytes per second

Writer = Callable[[BinaryIO], None]


def write_chakra(schedule: Schedule, problem: Problem, path: Path) -> ExportReport:
    """Write a folder with the traces of all ranks and configurations for ASTRA-sim."""
    sequence = sequence_messages(schedule, problem.topology)
    graph = build_graph(schedule, sequence, problem.num_ranks)
    units = _Units(schedule, problem)
    encoder = _Encoder(schedule, problem, graph, units)
    writers: dict[str, Writer] = {}
    for rank in range(problem.num_ranks):
        writers[f"algorithm.{rank}.et"] = partial(encoder.write_rank, rank)
        writers[f"workload.{rank}.et"] = partial(_write_workload, problem, units)
    for name, text in _configurations(problem).items():
        writers[name] = partial(_write_text, text)
    write_folder(path, writers, owned=_is_ours)
    return ExportReport("chakra", tuple(path / name for name in writers), notes=_notes(schedule, problem, graph))


def _is_ours(name: str) -> bool:
    stem, _, ending = name.partition(".")
    return name in CONFIGURATION_FILES or (stem in ("algorithm", "workload") and ending.endswith("et"))


def _notes(schedule: Schedule, problem: Problem, graph: SendReceiveGraph) -> tuple[str, ...]:
    notes = ["run.sh runs it in ASTRA-sim, whose analytical backend stores and forwards whole messages: times differ"]
    if not (schedule.src.is_single and schedule.dst.is_single):
        notes.append("Chakra has no in-switch operations: multicasts and in-switch sums are written as single sends")
    if len(schedule.barriers):
        notes.append("barriers are kept at each rank, not between ranks")
    if graph.num_dropped:
        notes.append(f"{graph.num_dropped} dependencies join messages that meet at no rank; they are not written")
    if problem.cluster is None:
        notes.append("network.yml replaces the topology by one switch: the analytical backend has no general graphs")
    return tuple(notes)


class _Units:
    """Sizes as multiples of one unit, for ASTRA-sim versions that scale messages by the workload's size."""

    def __init__(self, schedule: Schedule, problem: Problem) -> None:
        sizes = schedule.size_bytes[schedule.size_bytes > 0]
        self.unit = int(np.gcd.reduce(sizes)) if len(sizes) else 1
        largest = int(schedule.size_bytes.max(initial=1))
        wanted = max(1, math.ceil(_rank_bytes(problem) / self.unit / problem.num_ranks))
        self.total = problem.num_ranks * wanted
        self.fits = largest // self.unit <= MAX_INT32 and self.total <= MAX_INT32
        gathers = problem.collective is not None and problem.collective.kind is CollectiveKind.ALL_GATHER
        self.workload_bytes = self.unit * (self.total // problem.num_ranks if gathers else self.total)


def _rank_bytes(problem: Problem) -> int:
    if problem.demand is not None:
        return problem.demand.largest_rank_bytes
    if problem.collective is not None:
        return problem.collective.size_bytes
    return int(problem.items.size_bytes.sum())


class _Encoder:
    """Encodes nodes; whatever repeats (ranks, sizes, tags) is encoded once."""

    def __init__(self, schedule: Schedule, problem: Problem, graph: SendReceiveGraph, units: _Units) -> None:
        self.schedule, self.graph, self.units = schedule, graph, units
        self.regions = regions_of(problem)
        self.cache: dict[tuple[str, int], bytes] = {}
        self.sizes: dict[int, bytes] = {}
        self.fixed = _attribute("is_cpu_op", varint_field(27, 0))

    def write_rank(self, rank: int, file: BinaryIO) -> None:
        """All nodes of one rank."""
        graph = self.graph
        first, last = int(graph.first_of_rank[rank]), int(graph.first_of_rank[rank + 1])
        file.write(_framed(text_field(1, SCHEMA_VERSION)))
        if first == last:
            # ASTRA-sim ends a collective when its last node ends: a rank without nodes would never end it.
            file.write(_framed(_node(0, b"IDLE", COMP_NODE, b"", b"") + self.fixed))
            return
        legs = graph.leg[first:last]
        src, dst = graph.leg_src[legs].tolist(), graph.leg_dst[legs].tolist()
        tags, message = graph.leg_tag[legs].tolist(), graph.leg_message[legs].tolist()
        sizes = self.schedule.size_bytes[graph.leg_message[legs]].tolist()
        data, data_at = graph.data_deps.values.tolist(), graph.data_deps.offsets[first : last + 1].tolist()
        ctrl, ctrl_at = graph.ctrl_deps.values.tolist(), graph.ctrl_deps.offsets[first : last + 1].tolist()
        kinds = graph.type[first:last].tolist()
        for node, kind in enumerate(kinds):
            deps = b""
            if ctrl_at[node + 1] > ctrl_at[node]:
                deps = text_field(4, b"".join(map(varint, ctrl[ctrl_at[node] : ctrl_at[node + 1]])))
            if data_at[node + 1] > data_at[node]:
                deps += text_field(5, b"".join(map(varint, data[data_at[node] : data_at[node + 1]])))
            if kind == JOIN:
                body = _node(node, b"JOIN", COMP_NODE, deps, self.fixed)
            elif kind == REDUCE:
                body = _node(node, b"REDUCE_%d" % message[node], COMP_NODE, deps, self.fixed)
            else:
                attributes = self._comm(kind, src[node], dst[node], tags[node], max(1, sizes[node]))
                if kind == SEND:
                    attributes += self._pieces(message[node])
                name = b"COMM_%s_%d_%d_%d" % (b"SEND" if kind == SEND else b"RECV", src[node], dst[node], message[node])
                body = _node(node, name, COMM_SEND_NODE if kind == SEND else COMM_RECV_NODE, deps, attributes)
            file.write(_framed(body))

    def _comm(self, kind: int, src: int, dst: int, tag: int, size: int) -> bytes:
        assert kind in (SEND, RECEIVE)
        return b"".join(
            (
                self.fixed,
                COMM_TYPE_SEND if kind == SEND else COMM_TYPE_RECEIVE,
                self._int32("comm_src", src),
                self._int32("comm_dst", dst),
                self._int32("comm_tag", tag),
                self.sizes.get(size) or self._size(size),
            )
        )

    def _int32(self, name: str, value: int) -> bytes:
        made = self.cache.get((name, value))
        if made is None:
            made = self.cache[name, value] = _attribute(name, varint_field(7, value))
        return made

    def _size(self, size: int) -> bytes:
        """The size in bytes for every version of ASTRA-sim, and in units for those that scale it."""
        counts = (size // self.units.unit, 0, self.units.total) if self.units.fits else (-1, -1, -1)
        made = _attribute("comm_size", varint_field(9, size))
        for name, value in zip(("msg_chunk_cnt", "msg_chunk_idx", "total_chunk_cnt"), counts, strict=True):
            made += _attribute(name, varint_field(7, value))
        if len(self.sizes) < 1 << 16:
            self.sizes[size] = made
        return made

    def _pieces(self, message: int) -> bytes:
        if self.regions is None:
            return b""
        pieces, regions = self.schedule.pieces, self.regions
        values = [int(self.schedule.kind[message])]
        for row in range(int(pieces.offsets[message]), int(pieces.offsets[message + 1])):
            values += _name(regions, int(pieces.item[row]), int(pieces.offset[row]), int(pieces.length[row]))
        packed = text_field(1, b"".join(map(varint, values)))
        return _attribute(PIECES_ATTRIBUTE, text_field(10, packed))


def _name(regions: Regions, item: int, offset: int, length: int) -> tuple[int, int, int, int]:
    return int(regions.first[item]), int(regions.second[item]), int(regions.offset[item]) + offset, length


def _node(number: int, name: bytes, kind: int, deps: bytes, attributes: bytes) -> bytes:
    head = varint_field(1, number) if number else b""
    return head + text_field(2, name) + varint_field(3, kind) + deps + attributes


def _attribute(name: str, value: bytes) -> bytes:
    return text_field(10, text_field(1, name.encode()) + value)


def _framed(message: bytes) -> bytes:
    return varint(len(message)) + message


COMM_TYPE_SEND = _attribute("comm_type", varint_field(9, COMM_SEND_NODE))
COMM_TYPE_RECEIVE = _attribute("comm_type", varint_field(9, COMM_RECV_NODE))


def _write_workload(problem: Problem, units: _Units, file: BinaryIO) -> None:
    kind = CollectiveKind.ALL_TO_ALL if problem.collective is None else problem.collective.kind
    attributes = _attribute("is_cpu_op", varint_field(27, 0))
    attributes += _attribute("comm_type", varint_field(9, COMM_TYPE.get(kind, 6)))
    attributes += _attribute("comm_size", varint_field(9, units.workload_bytes))
    file.write(_framed(text_field(1, SCHEMA_VERSION)))
    file.write(_framed(_node(0, b"collective", COMM_COLL_NODE, b"", attributes)))


def _write_text(text: str, file: BinaryIO) -> None:
    file.write(text.encode())


CONFIGURATION_FILES = ("system.json", "network.yml", "memory.json", "run.sh")


def _configurations(problem: Problem) -> dict[str, str]:
    """What ASTRA-sim needs beside the traces. Paths are relative: it looks from where it is started."""
    kind = CollectiveKind.ALL_TO_ALL if problem.collective is None else problem.collective.kind
    slot = str(kind if kind in COMM_TYPE else CollectiveKind.ALL_TO_ALL)
    system: dict[str, object] = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 1,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "all-reduce-implementation": ["ring"],
        "all-gather-implementation": ["ring"],
        "reduce-scatter-implementation": ["ring"],
        "all-to-all-implementation": ["direct"],
        f"{slot}-implementation-custom": ["./algorithm"],
        "collective-optimization": "localBWAware",
        "local-mem-bw": 3350,
        "boost-mode": 0,
    }
    network = _network(problem)
    yaml = "".join(f"{key}: [ {', '.join(map(str, values))} ]\n" for key, values in network.items())
    return {
        "system.json": json.dumps(system, indent=2) + "\n",
        "network.yml": yaml,
        "memory.json": json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}) + "\n",
        "run.sh": RUN_SCRIPT,
    }


def _network(problem: Problem) -> dict[str, list[object]]:
    """Scale-up and scale-out as switches; anything else as one switch of its mean link."""
    cluster = problem.cluster
    if cluster is None:
        bandwidth = float(np.mean(problem.topology.bandwidth_bytes_per_s)) / GIB
        latency_ns = float(np.mean(problem.topology.latency_s)) * 1e9
        return {
            "topology": ["Switch"],
            "npus_count": [problem.num_ranks],
            "bandwidth": [round(bandwidth, 6)],
            "latency": [round(latency_ns / 2, 3)],
        }
    alive: NDArray[np.float64] = cluster.nic_bandwidth_bytes_per_s[cluster.nic_bandwidth_bytes_per_s > 0]
    tiers = [
        (cluster.gpus_per_server, cluster.scale_up_bandwidth_bytes_per_s, cluster.scale_up_latency_s),
        (cluster.servers, float(alive.mean()) if len(alive) else 1.0, cluster.scale_out_latency_s),
    ]
    tiers = [tier for tier in tiers if tier[0] > 1] or tiers[:1]
    return {
        "topology": ["Switch"] * len(tiers),
        "npus_count": [size for size, _, _ in tiers],
        "bandwidth": [round(bandwidth / GIB, 6) for _, bandwidth, _ in tiers],
        "latency": [round(latency_s * 1e9 / 2, 3) for _, _, latency_s in tiers],
    }


RUN_SCRIPT = """#!/bin/sh
# Runs this collective in ASTRA-sim; set ASTRA_SIM to the path of AstraSim_Analytical_Congestion_Aware (or _Unaware).
# ASTRA-sim looks for the algorithm's traces from where it is started, hence the cd.
cd "$(dirname "$0")" && exec "${ASTRA_SIM:-AstraSim_Analytical_Congestion_Aware}" \\
  --workload-configuration=workload --system-configuration=system.json \\
  --remote-memory-configuration=memory.json --network-configuration=network.yml "$@"
"""
