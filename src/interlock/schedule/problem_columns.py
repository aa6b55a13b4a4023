"""A problem and a slot table as named columns and plain values, and back, for schedule files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective, collective
from interlock.errors import InvalidInput
from interlock.problem import Items, Problem, RankSets, Step, StepTasks, demand_problem, task_problem
from interlock.ragged import Ragged
from interlock.schedule.slots import SlotSchedule, resting
from interlock.schedule.transfers import Chunks
from interlock.topology import Cluster, Fabric, Topology
from interlock.topology.faults import Fault, MissingGpu, NicFault
from interlock.topology.graph import LINK_COLUMNS, NODE_COLUMNS
from interlock.traffic import Demand, matrix

__all__ = [
    "Columns",
    "column_of",
    "columns_of_problem",
    "columns_of_slots",
    "entry",
    "problem_from_columns",
    "slots_of_columns",
]

Columns = dict[str, NDArray[Any]]
Made = TypeVar("Made")

_TOPOLOGY_DTYPES: dict[str, Any] = {"node_kinds": np.uint8, **LINK_COLUMNS, **NODE_COLUMNS}
ENTRIES_AT_ONCE = 1 << 26
_CHUNK_DTYPES = {"item": np.int32, "offset": np.int64, "length": np.int64}
_FAULTS: dict[str, type[NicFault] | type[MissingGpu]] = {"nic": NicFault, "missing-gpu": MissingGpu}
_LISTED = ("nic_rates_bytes_per_s", "scale_up_rates_bytes_per_s")  # fields of a cluster that are tuples


def entry(table: object, key: str, kind: type[Made], of: str = "header") -> Made:
    """What a table of the header says under a key; whole numbers are fractions too."""
    value = table.get(key) if isinstance(table, Mapping) else None
    is_one = isinstance(value, int | float if kind is float else kind) and (kind is bool or not isinstance(value, bool))
    if not is_one:
        raise InvalidInput(f"the schedule file's {of} lacks {key!r} of type {kind.__name__}")
    return value  # type: ignore[return-value]


def column_of(columns: Columns, name: str, dtype: Any) -> NDArray[Any]:
    """A column, if it is there and of that type."""
    if name not in columns or columns[name].dtype != np.dtype(dtype):
        raise InvalidInput(f"the schedule file lacks column {name!r} of type {np.dtype(dtype)}")
    return columns[name]


def _described_cluster(cluster: Cluster) -> dict[str, object]:
    """Every field by name, SI values; nested tables for the fabric and the faults."""
    kinds = {made: name for name, made in _FAULTS.items()}
    return asdict(cluster) | {"faults": [{"kind": kinds[type(fault)]} | asdict(fault) for fault in cluster.faults]}


def _cluster(described: dict[str, object]) -> Cluster:
    made = described | {name: _tuples(described[name]) for name in _LISTED if name in described}
    if "fabric" in described:
        made["fabric"] = _record(Fabric, described["fabric"], "fabric")
    if "faults" in described:
        made["faults"] = tuple(_fault(fault) for fault in entry(described, "faults", list, "cluster"))
    return _record(Cluster, made, "cluster")


def _tuples(value: object) -> object:
    """A list, perhaps of lists, as a tuple."""
    if not isinstance(value, list):
        return value
    return tuple(tuple(each) if isinstance(each, list) else each for each in value)


def _fault(described: object) -> Fault:
    kind = entry(described, "kind", str, "fault")
    if kind not in _FAULTS:
        raise InvalidInput(f"fault kind={kind!r} is not one of {', '.join(_FAULTS)}")
    return _record(_FAULTS[kind], {k: v for k, v in described.items() if k != "kind"}, "fault")  # type: ignore[attr-defined]


def _record(kind: type[Made], values: object, name: str) -> Made:
    """Build a frozen dataclass from a table, words and numbers only."""
    if not isinstance(values, Mapping):
        raise InvalidInput(f"{name} must be a table of values")
    for key, value in values.items():
        if not isinstance(value, str | int | float | bool | None | tuple | Fabric):
            raise InvalidInput(f"{name}.{key}={value!r} must be a number, a word or true/false")
    try:
        return kind(**values)
    except TypeError as error:
        raise InvalidInput(f"{name}: {error}") from None


def columns_of_problem(problem: Problem) -> tuple[Columns, dict[str, object]]:
    """Large things as columns, small ones as plain values."""
    columns: Columns = {}
    described: dict[str, object] = {}
    if problem.cluster is not None:
        described["cluster"] = _described_cluster(problem.cluster)
    else:
        topology = problem.topology
        for name, dtype in _TOPOLOGY_DTYPES.items():
            columns[f"problem.topology.{name}"] = np.ascontiguousarray(getattr(topology, name), dtype)
        described["topology"] = {
            "name": topology.name,
            "num_ranks": topology.num_ranks,
            "stage_overhead_s": topology.stage_overhead_s,
        }
        if topology.fabric != Fabric():
            described["fabric"] = asdict(topology.fabric)
    if problem.collective is not None:
        described["collective"] = _described_collective(problem.collective)
    if problem.step is not None:
        described["step"] = {
            "name": problem.step.name,
            "tasks": [_described_task(problem.step, number) for number in range(len(problem.step.tasks))],
        }
    if problem.demand is not None:
        columns["problem.demand"] = problem.demand.bytes_matrix.reshape(-1)
        described["demand"] = {"name": problem.demand.name, "seed": problem.demand.seed}
    else:
        columns["problem.items.size_bytes"] = problem.items.size_bytes
        for name in ("contributors", "destinations"):
            columns |= _columns_of_sets(getattr(problem.items, name), f"problem.items.{name}")
    return columns, described


def problem_from_columns(columns: Columns, described: Mapping[str, object]) -> Problem:
    """The inverse; everything is checked as if a user had typed it."""
    cluster: Cluster | None = None
    if "cluster" in described:
        cluster = _cluster(entry(described, "cluster", dict))
        topology = cluster.topology
    else:
        fabric = _record(Fabric, described["fabric"], "fabric") if "fabric" in described else Fabric()
        topology = _topology(columns, entry(described, "topology", dict), fabric)
    if "demand" in described:
        demand = _demand(columns, entry(described, "demand", dict), topology.num_ranks)
        return demand_problem(topology if cluster is None else cluster, demand)
    sizes = column_of(columns, "problem.items.size_bytes", np.int64)
    if len(sizes) and int(sizes.min()) < 1:
        raise InvalidInput("the file's problem has an item of no bytes")
    ends = (
        _sets(columns, f"problem.items.{name}", len(sizes), topology.num_ranks)
        for name in ("contributors", "destinations")
    )
    items = Items(sizes, *ends)
    if "step" in described:
        return _step(items, cluster, entry(described, "step", dict))
    wanted = _collective(entry(described, "collective", dict)) if "collective" in described else None
    return Problem(topology, items, cluster=cluster, collective=wanted)


def _described_task(step: StepTasks, number: int) -> dict[str, object]:
    task = step.tasks[number]
    said: dict[str, object] = {"name": task.name, "after": list(task.after), "ready_s": task.ready_s}
    if isinstance(task.what, Demand):
        items = step.first_item[number : number + 2].tolist()
        return said | {"demand": {"name": task.what.name, "seed": task.what.seed, "items": items[1] - items[0]}}
    if task.what is not None:
        return said | {"collective": _described_collective(task.what)}
    return said | {"seconds": task.seconds, "ranks": list(task.ranks), "alone": task.alone}


def _described_collective(what: Collective) -> dict[str, object]:
    group = None if what.group is None else list(what.group)
    return {"kind": str(what.kind), "size_bytes": what.size_bytes, "group": group, "root": what.root}


def _step(items: Items, cluster: Cluster | None, described: Mapping[str, object]) -> Problem:
    """The step that a file describes, made anew; the items of its demands are in the file, and must be its own."""
    if cluster is None:
        raise InvalidInput("the file's step is on no cluster")
    step, place = Step(cluster, entry(described, "name", str, "step")), 0
    for said in entry(described, "tasks", list, "step"):
        title = entry(said, "name", str, "task")
        of = f"task {title!r}"
        when: dict[str, Any] = {"after": entry(said, "after", list, of), "ready": entry(said, "ready_s", float, of)}
        if "demand" in said:
            table = entry(said, "demand", dict, of)
            count = entry(table, "items", int, of)
            if not 0 <= count <= len(items) - place:
                raise InvalidInput(f"{of} of the file's step names {count} items; it has {len(items)} in all")
            mine = np.arange(place, place + count)
            what: Demand | Collective = _demand_of_items(items, mine, cluster.num_ranks, table)
        elif "collective" in said:
            what = _collective(entry(said, "collective", dict, of))
        else:
            seconds, ranks = entry(said, "seconds", float, of), entry(said, "ranks", list, of)
            step.compute(title, seconds, ranks=ranks, alone=entry(said, "alone", bool, of), **when)
            continue
        step.move(title, what, **when)
        place += len(task_problem(cluster, step.tasks[-1]).items)
    problem = step.problem()
    made = problem.items
    if not np.array_equal(made.size_bytes, items.size_bytes) or any(
        getattr(made, name).to_ragged() != getattr(items, name).to_ragged() for name in ("contributors", "destinations")
    ):
        raise InvalidInput("the items of the file's step are not those of its tasks")
    return problem


def _demand_of_items(items: Items, mine: NDArray[np.int64], num_ranks: int, said: Mapping[str, object]) -> Demand:
    src, dst = items.contributors.take(mine).to_ragged(), items.destinations.take(mine).to_ragged()
    if not src.is_single or not dst.is_single:
        raise InvalidInput("a demand of the file's step has items of several ranks")
    whole = np.zeros((num_ranks, num_ranks), np.int64)
    whole[src.values, dst.values] = items.size_bytes[mine]
    return _named_demand(whole, said)


def _columns_of_sets(sets: RankSets, name: str) -> Columns:
    if sets.shared is not None:
        return {f"{name}.shared": sets.shared}
    assert sets.rows is not None
    return {f"{name}.offsets": sets.rows.offsets, f"{name}.values": sets.rows.values}


def _sets(columns: Columns, name: str, num_items: int, num_ranks: int) -> RankSets:
    if f"{name}.shared" in columns:
        ranks = column_of(columns, f"{name}.shared", np.int32)
        made = RankSets.same(ranks, num_items)
        least = len(ranks)
    else:
        offsets, ranks = column_of(columns, f"{name}.offsets", np.int64), column_of(columns, f"{name}.values", np.int32)
        spans = len(offsets) == num_items + 1 and offsets[0] == 0 and offsets[-1] == len(ranks)
        if not spans or (np.diff(offsets) < 0).any():
            raise InvalidInput(f"{name}: offsets must rise from 0 to the number of values")
        made = RankSets.of(Ragged(offsets, ranks))
        least = int(np.diff(offsets).min(initial=1))
    if num_items and (least < 1 or int(ranks.min()) < 0 or int(ranks.max()) >= num_ranks):
        raise InvalidInput(f"{name}: every item needs ranks between 0 and {num_ranks - 1}")
    return made


def _topology(columns: Columns, described: Mapping[str, object], fabric: Fabric) -> Topology:
    made: dict[str, Any] = {
        n: column_of(columns, f"problem.topology.{n}", dtype) for n, dtype in _TOPOLOGY_DTYPES.items()
    }
    made["num_ranks"] = entry(described, "num_ranks", int, "topology")
    made["stage_overhead_s"] = float(entry(described, "stage_overhead_s", float, "topology"))
    if not 0.0 <= made["stage_overhead_s"] <= 1e9:
        raise InvalidInput(f"stage_overhead_s={made['stage_overhead_s']!r} must be at least zero seconds")
    return Topology(name=entry(described, "name", str, "topology"), fabric=fabric, **made)


def _collective(described: Mapping[str, object]) -> Collective:
    kind, group = entry(described, "kind", str, "collective"), described.get("group")
    size_bytes, root = (entry(described, key, int, "collective") for key in ("size_bytes", "root"))
    return collective(kind, size_bytes, group, root)  # type: ignore[arg-type]


def _demand(columns: Columns, described: Mapping[str, object], num_ranks: int) -> Demand:
    flat = column_of(columns, "problem.demand", np.int64)
    if len(flat) != num_ranks**2:
        raise InvalidInput(f"the file's demand has {len(flat)} entries; {num_ranks**2} are needed")
    return _named_demand(np.asarray(flat).reshape(num_ranks, num_ranks), described)


def _named_demand(whole: NDArray[np.int64], described: Mapping[str, object]) -> Demand:
    name, seed = entry(described, "name", str, "demand"), described.get("seed")
    return Demand(matrix(whole).bytes_matrix, name, None if seed is None else entry(described, "seed", int, "demand"))


def columns_of_slots(schedule: SlotSchedule) -> Columns:
    """The chunks, and the table row by row."""
    columns: Columns = {f"chunks.{name}": getattr(schedule.chunks, name).astype(t) for name, t in _CHUNK_DTYPES.items()}
    return columns | {"table": np.ascontiguousarray(schedule.table).reshape(-1)}


def slots_of_columns(columns: Columns, described: Mapping[str, object], problem: Problem) -> SlotSchedule:
    """The inverse; every chunk must exist and lie within its item. The table stays a memory map."""
    num_slots, num_reducing = (entry(described, key, int, "slots") for key in ("num_slots", "num_reducing"))
    if not 0 <= num_reducing <= num_slots:
        raise InvalidInput(f"the schedule file has {num_slots} slots, {num_reducing} of them reducing (num_reducing)")
    chunks = _chunks(columns, problem)
    topology, table = problem.topology, columns.get("table")
    num_links = topology.num_links
    if topology.num_nodes != topology.num_ranks:
        raise InvalidInput("the schedule file has a slot table for a graph with switches; all nodes must be ranks")
    if table is None or table.dtype not in (np.uint16, np.uint32) or len(table) != num_slots * num_links:
        raise InvalidInput(f"the schedule file lacks a table of {num_slots} slots of {num_links} links")
    for first in range(0, len(table), ENTRIES_AT_ONCE):
        block = table[first : first + ENTRIES_AT_ONCE]
        unknown = np.flatnonzero((block >= len(chunks)) & (block != resting(table)))
        if len(unknown):
            slot, link = divmod(first + int(unknown[0]), num_links)
            raise InvalidInput(f"slot {slot}, link {link}: chunk {block[unknown[0]]} is not one of {len(chunks)}")
    return SlotSchedule(chunks, topology.link_src, topology.link_dst, table.reshape(num_slots, -1), num_reducing)


def _chunks(columns: Columns, problem: Problem) -> Chunks:
    found = [column_of(columns, f"chunks.{name}", dtype) for name, dtype in _CHUNK_DTYPES.items()]
    chunks = Chunks(*found)
    if len({len(each) for each in found}) != 1 or len(chunks) == 0:
        raise InvalidInput("the schedule file's chunks must have an item, an offset and a length each")
    if int(chunks.item.min()) < 0 or int(chunks.item.max()) >= len(problem.items):
        raise InvalidInput(f"the schedule file's chunks must be of items between 0 and {len(problem.items) - 1}")
    room = problem.items.size_bytes[chunks.item]
    if (chunks.offset < 0).any() or (chunks.length < 1).any() or (chunks.length > room - chunks.offset).any():
        raise InvalidInput("the schedule file's chunks must lie within their items")
    return chunks
