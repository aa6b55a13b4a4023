"""Steps in Chakra: a planned step as sends, receives and computation of every rank, and steps out of workload traces.

Written: `step.<rank>.et`, in which a wait is a computation with its duration and dependencies join nodes of one rank.
Read: traces of collective and compute nodes, as frameworks record them. Collectives of one name (and process group) in
the traces of several ranks are one task of those ranks; so are computations of one name and duration.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import BinaryIO

from interlock.collectives import collective
from interlock.errors import InvalidInput
from interlock.interchange.chakra.encode import (
    BOOL,
    COLLECTIVES,
    COMM_COLL_NODE,
    COMM_RECV_NODE,
    COMM_SEND_NODE,
    COMP_NODE,
    INT32,
    INT64,
    SCHEMA_VERSION,
    SIMULATED,
    attribute,
    framed,
    node_bytes,
)
from interlock.interchange.chakra.read import Node, find_traces, parse_trace
from interlock.interchange.contract import ExportReport
from interlock.interchange.shared.files import write_folder
from interlock.interchange.shared.protobuf import text_field, varint, varint_field
from interlock.problem import Problem, Step
from interlock.schedule import Kind, Schedule
from interlock.topology import Cluster

__all__ = ["read_step_traces", "write_step"]

MAX_TASKS = 4096


def write_step(schedule: Schedule, problem: Problem, path: Path) -> ExportReport:
    """A folder with a trace per rank: what it sends, receives and computes, in the order of the schedule."""
    assert problem.step is not None and schedule.tasks is not None
    names = [task.name.encode() for task in problem.step.tasks]
    traces: list[list[bytes]] = [[] for _ in range(problem.num_ranks)]
    node_of: list[dict[int, list[int]]] = [{} for _ in range(problem.num_ranks)]  # row -> nodes, by rank
    tags: dict[tuple[int, int], int] = defaultdict(int)
    dropped = 0

    def add(rank: int, row: int, name: bytes, kind: int, more: bytes, micros: int = 0) -> None:
        deps = sorted({node for dep in schedule.deps[row].tolist() for node in node_of[rank].get(dep, ())})
        packed = text_field(5, b"".join(varint(dep) for dep in deps)) if deps else b""
        duration = varint_field(7, micros) if micros else b""
        number = len(traces[rank])
        made = node_bytes(number, name, kind, packed + duration, attribute("is_cpu_op", BOOL, 0) + more)
        traces[rank].append(framed(made))
        node_of[rank].setdefault(row, []).append(number)

    for row in range(schedule.num_messages):
        task = int(schedule.tasks.task[row])
        src, dst = schedule.src[row].tolist(), schedule.dst[row].tolist()
        if schedule.kind[row] == Kind.WAIT:
            micros = round(1e6 * float(schedule.tasks.seconds[row]))
            name = names[task] if task >= 0 else b"meet"
            ranks = src if task >= 0 else range(problem.num_ranks)
            for rank in ranks:
                add(rank, row, name, COMP_NODE, b"", micros)
            continue
        size = attribute("comm_size", INT64, int(schedule.size_bytes[row]))
        met = {rank for dep in schedule.deps[row].tolist() for rank in (*src, *dst) if dep in node_of[rank]}
        dropped += len(schedule.deps[row]) > 0 and not met
        for a in src:
            for b in dst:
                tag = attribute("comm_tag", INT32, tags[a, b])
                tags[a, b] += 1
                ends = attribute("comm_src", INT32, a) + attribute("comm_dst", INT32, b)
                add(a, row, names[task], COMM_SEND_NODE, size + ends + tag)
                add(b, row, names[task], COMM_RECV_NODE, size + ends + tag)
    files = {f"step.{rank}.et": partial(_write, trace) for rank, trace in enumerate(traces)}
    write_folder(path, files, owned=lambda name: name.startswith("step.") and name.endswith(".et"))
    notes = ["what a task is after is kept at each rank, not between ranks"]
    notes += [f"{dropped} messages wait only for messages of other ranks; that is not written"] if dropped else []
    return ExportReport("chakra", tuple(path / name for name in files), notes=tuple(notes))


def _write(nodes: list[bytes], file: BinaryIO) -> None:
    file.write(framed(text_field(1, SCHEMA_VERSION)))
    file.writelines(nodes)


def read_step_traces(path: str | Path, cluster: Cluster) -> Step:
    """The step in workload traces of all ranks of a cluster; `path` is a folder, a prefix or one of the files."""
    files = find_traces(Path(path))
    if len(files) != cluster.num_ranks:
        raise InvalidInput(f"{path} has traces of {len(files)} ranks but the cluster has {cluster.num_ranks}")
    members: dict[tuple[object, ...], list[int]] = {}
    after: dict[tuple[object, ...], set[tuple[object, ...]]] = defaultdict(set)
    for rank, file in enumerate(files):
        keys: dict[int, tuple[object, ...]] = {}
        seen: dict[tuple[object, ...], int] = defaultdict(int)
        nodes = parse_trace(file)
        for node in nodes:
            key = _key(file, node)
            keys[node.id] = (*key, seen[key])  # the same again is the next of its kind
            seen[key] += 1
            ranks = members.setdefault(keys[node.id], [])
            ranks.append(rank)
            if len(members) > MAX_TASKS:
                raise InvalidInput(f"{path} has more than {MAX_TASKS} tasks")
        for node in nodes:
            for dep in (*node.data_deps, *node.ctrl_deps):
                if dep not in keys:
                    raise InvalidInput(f"{file}: node {node.id} depends on node {dep}, which is not there")
                after[keys[node.id]].add(keys[dep])
    step = Step(cluster, Path(path).name or "step")
    names: dict[tuple[object, ...], str] = {}
    for key in members:
        base = str(key[1])[:100] or "task"
        names[key] = base if base not in names.values() else f"{base} ({len(names)})"
    for key, ranks in members.items():
        before = sorted(names[each] for each in after[key] if each != key)
        if key[0] == "compute":
            step.compute(names[key], float(key[2]) * 1e-6, ranks=ranks, after=before)  # type: ignore[arg-type]
        else:
            step.move(names[key], collective(str(key[0]), int(key[2]), ranks), after=before)  # type: ignore[call-overload]
    step.problem()
    return step


def _key(file: Path, node: Node) -> tuple[object, ...]:
    """What makes nodes of several ranks one task."""
    if node.type == COMP_NODE:
        return "compute", node.name, node.duration_micros
    if node.type != COMM_COLL_NODE:
        raise InvalidInput(
            f"{file}: node {node.id} has type {node.type}; a step is read from collective and compute nodes"
        )
    code, size = node.number("comm_type") or 0, node.number("comm_size")
    if code not in SIMULATED.values():
        raise InvalidInput(f"{file}: node {node.id}: comm_type={code} is none of {sorted(SIMULATED.values())}")
    if size is None or size < 1:
        raise InvalidInput(f"{file}: node {node.id} ({node.name[:40]}) lacks a comm_size of at least 1")
    group = node.attributes.get("pg_name", node.attributes.get("comm_group", ""))
    return str(COLLECTIVES[code]), node.name, size, str(group)
