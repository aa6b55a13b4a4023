"""A problem and a slot table as named columns and plain values, and back, for schedule files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective, CollectiveKind
from interlock.errors import InvalidInput, nearest
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
    "cluster_from_dict",
    "cluster_to_dict",
    "columns_of_problem",
    "columns_of_slots",
    "fabric_from_dict",
    "problem_from_columns",
    "slots_of_columns",
]


Made = TypeVar("Made")

_FAULTS: dict[str, type[NicFault] | type[MissingGpu]] = {"nic": NicFault, "missing-gpu": MissingGpu}


def cluster_to_dict(cluster: Cluster) -> dict[str, object]:
    """Every field by name, SI values; nested tables for the fabric and the faults."""
    values = asdict(cluster)
    values["faults"] = [_fault_to_dict(fault) for fault in cluster.faults]
    return values


def cluster_from_dict(values: Mapping[str, object]) -> Cluster:
    """The inverse; refuses unknown names and wrong types."""
    known = {field.name for field in fields(Cluster)}
    for key in values:
        if key not in known:
            raise InvalidInput(f"unknown cluster field {key!r}; {nearest(key, known)}")
    made = dict(values)
    if "fabric" in made:
        made["fabric"] = fabric_from_dict(made["fabric"])
    if "faults" in made:
        made["faults"] = _faults(made["faults"])
    if "nic_rates_bytes_per_s" in made:
        made["nic_rates_bytes_per_s"] = _rate_lists(made["nic_rates_bytes_per_s"])
    if isinstance(made.get("scale_up_rates_bytes_per_s"), list):
        made["scale_up_rates_bytes_per_s"] = tuple(made["scale_up_rates_bytes_per_s"])  # type: ignore[arg-type]
    return _record(Cluster, made, "cluster")


def fabric_from_dict(values: object) -> Fabric:
    """A fabric from its fields by name; refuses unknown names and wrong types."""
    return _record(Fabric, values, "fabric")


def _fault_to_dict(fault: Fault) -> dict[str, object]:
    kind = next(name for name, made in _FAULTS.items() if isinstance(fault, made))
    return {"kind": kind} | asdict(fault)


def _rate_lists(values: object) -> tuple[tuple[float, ...], ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(nics, list | tuple) for nics in values):
        raise InvalidInput("nic_rates_bytes_per_s must be a list of lists: the rate of every NIC of each GPU")
    return tuple(tuple(nics) for nics in values)


def _faults(values: object) -> tuple[Fault, ...]:
    if not isinstance(values, list | tuple) or len(values) > 65_536:
        raise InvalidInput("faults must be a list of tables")
    made: list[Fault] = []
    for value in values:
        kind = value.get("kind") if isinstance(value, Mapping) else None
        if kind not in _FAULTS:
            raise InvalidInput(f"fault kind={kind!r} is not one of {', '.join(_FAULTS)}")
        made.append(_record(_FAULTS[kind], {k: v for k, v in value.items() if k != "kind"}, "fault"))
    return tuple(made)


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


Columns = dict[str, NDArray[Any]]

_TOPOLOGY_DTYPES: dict[str, Any] = {"node_kinds": np.uint8, **LINK_COLUMNS, **NODE_COLUMNS}
ENTRIES_AT_ONCE = 1 << 26
_DTYPES = {"item": np.int32, "offset": np.int64, "length": np.int64}


def columns_of_problem(problem: Problem) -> tuple[Columns, dict[str, object]]:
    """Large things as columns, small ones as plain values."""
    columns: Columns = {}
    described: dict[str, object] = {}
    if problem.cluster is not None:
        described["cluster"] = cluster_to_dict(problem.cluster)
    else:
        topology = problem.topology
        for name, dtype in _TOPOLOGY_DTYPES.items():
            columns[f"topology.{name}"] = np.ascontiguousarray(getattr(topology, name), dtype)
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
        columns["demand"] = problem.demand.bytes_matrix.reshape(-1)
        described["demand"] = {"name": problem.demand.name, "seed": problem.demand.seed}
    else:
        columns["items.size_bytes"] = problem.items.size_bytes
        for name in ("contributors", "destinations"):
            columns |= _columns_of_sets(getattr(problem.items, name), f"items.{name}")
    return columns, described


def problem_from_columns(columns: Columns, described: Mapping[str, object]) -> Problem:
    """The inverse; everything is checked as if a user had typed it."""
    cluster: Cluster | None = None
    if "cluster" in described:
        cluster = cluster_from_dict(_table(described, "cluster"))
        topology = cluster.topology
    else:
        fabric = fabric_from_dict(described["fabric"]) if "fabric" in described else Fabric()
        topology = _topology(columns, _table(described, "topology"), fabric)
    collective = _collective(_table(described, "collective")) if "collective" in described else None
    if "demand" in described:
        demand = _demand(columns, _table(described, "demand"), topology.num_ranks)
        return demand_problem(topology if cluster is None else cluster, demand)
    sizes = _column(columns, "items.size_bytes", np.int64)
    if len(sizes) and int(sizes.min()) < 1:
        raise InvalidInput("the file's problem has an item of no bytes")
    sets = [
        _sets(columns, f"items.{name}", len(sizes), topology.num_ranks) for name in ("contributors", "destinations")
    ]
    items = Items(sizes, *sets)
    if "step" in described:
        return _step(items, cluster, _table(described, "step"))
    return Problem(topology, items, cluster=cluster, collective=collective)


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
    name, listed = described.get("name"), described.get("tasks")
    if not isinstance(name, str) or not isinstance(listed, list):
        raise InvalidInput("the file's step lacks a name or tasks")
    step, place = Step(cluster, name), 0
    for said in listed:
        title, after = (said.get("name"), said.get("after")) if isinstance(said, dict) else (None, None)
        ready_s = said.get("ready_s") if isinstance(said, dict) else None
        if not isinstance(title, str) or not isinstance(after, list) or not isinstance(ready_s, float | int):
            raise InvalidInput("a task of the file's step lacks a name, after or ready_s")
        if "demand" in said:
            table = _table(said, "demand")
            count = table.get("items")
            if not isinstance(count, int) or not 0 <= count <= len(items) - place:
                raise InvalidInput(
                    f"task {title!r} of the file's step names {count!r} items; it has {len(items)} in all"
                )
            mine = np.arange(place, place + count)
            what: Demand | Collective = _demand_of_items(items, mine, cluster.num_ranks, table)
        elif "collective" in said:
            what = _collective(_table(said, "collective"))
        else:
            seconds, ranks, alone = (said.get(key) for key in ("seconds", "ranks", "alone"))
            if not isinstance(seconds, float | int) or not isinstance(ranks, list) or not isinstance(alone, bool):
                raise InvalidInput(f"task {title!r} of the file's step is neither a move nor computation")
            step.compute(title, seconds, ranks=ranks, after=after, ready=ready_s, alone=alone)
            continue
        step.move(title, what, after=after, ready=ready_s)
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
        ranks = _column(columns, f"{name}.shared", np.int32)
        made = RankSets.same(ranks, num_items)
        least = len(ranks)
    else:
        offsets = _column(columns, f"{name}.offsets", np.int64)
        ranks = _column(columns, f"{name}.values", np.int32)
        if (
            len(offsets) != num_items + 1
            or offsets[0] != 0
            or offsets[-1] != len(ranks)
            or (np.diff(offsets) < 0).any()
        ):
            raise InvalidInput(f"{name}: offsets must rise from 0 to the number of values")
        made = RankSets.of(Ragged(offsets, ranks))
        least = int(np.diff(offsets).min(initial=1))
    if num_items and (least < 1 or int(ranks.min()) < 0 or int(ranks.max()) >= num_ranks):
        raise InvalidInput(f"{name}: every item needs ranks between 0 and {num_ranks - 1}")
    return made


def _topology(columns: Columns, described: Mapping[str, object], fabric: Fabric) -> Topology:
    made: dict[str, Any] = {n: _column(columns, f"topology.{n}", dtype) for n, dtype in _TOPOLOGY_DTYPES.items()}
    links, nodes = len(made["link_src"]), len(made["node_kinds"])
    for name, column in made.items():
        want = nodes if name in NODE_COLUMNS else links
        if len(column) != want:
            raise InvalidInput(f"topology.{name} has {len(column)} entries; {want} are needed")
    for name in ("bandwidth_bytes_per_s", "latency_s", "message_overhead_s"):
        values = np.asarray(made[name], np.float64)
        if not np.isfinite(values).all() or (values < 0).any() or (name.startswith("band") and (values <= 0).any()):
            raise InvalidInput(f"topology.{name} must be finite and not negative; bandwidth must be above zero")
    channel = np.asarray(made["channel"])
    if links and (channel.min() < 0 or channel.max() >= links):
        raise InvalidInput(f"topology.channel must name channels between 0 and {links - 1}")
    num_ranks, title, overhead = (described.get(key) for key in ("num_ranks", "name", "stage_overhead_s"))
    if not isinstance(num_ranks, int) or not isinstance(title, str) or not isinstance(overhead, int | float):
        raise InvalidInput("the file's topology lacks num_ranks, name or stage_overhead_s")
    if not 0.0 <= overhead <= 1e9:
        raise InvalidInput(f"stage_overhead_s={overhead!r} must be at least zero seconds")
    return Topology(name=title, num_ranks=num_ranks, stage_overhead_s=float(overhead), fabric=fabric, **made)


def _collective(described: Mapping[str, object]) -> Collective:
    kind, size, group, root = (described.get(key) for key in ("kind", "size_bytes", "group", "root"))
    if kind not in list(CollectiveKind) or not isinstance(size, int) or not isinstance(root, int) or size < 0:
        raise InvalidInput(f"the file's collective {kind!r} of {size!r} bytes is not known")
    if group is not None and not (isinstance(group, list) and all(isinstance(rank, int) for rank in group)):
        raise InvalidInput("the file's collective has a group that is not a list of ranks")
    return Collective(CollectiveKind(str(kind)), size, None if group is None else tuple(group), root)


def _demand(columns: Columns, described: Mapping[str, object], num_ranks: int) -> Demand:
    flat = _column(columns, "demand", np.int64)
    if len(flat) != num_ranks**2:
        raise InvalidInput(f"the file's demand has {len(flat)} entries; {num_ranks**2} are needed")
    return _named_demand(np.asarray(flat).reshape(num_ranks, num_ranks), described)


def _named_demand(whole: NDArray[np.int64], described: Mapping[str, object]) -> Demand:
    checked = matrix(whole)
    name, seed = described.get("name"), described.get("seed")
    if not isinstance(name, str) or not isinstance(seed, int | None):
        raise InvalidInput("the file's demand lacks a name or has a seed that is not a whole number")
    return Demand(checked.bytes_matrix, name, seed)


def _column(columns: Columns, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    if name not in columns or columns[name].dtype != np.dtype(dtype):
        raise InvalidInput(f"the schedule file lacks column 'problem.{name}' of type {np.dtype(dtype)}")
    return columns[name]


def _table(described: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = described.get(key)
    if not isinstance(value, Mapping):
        raise InvalidInput(f"the schedule file's header lacks a table {key!r}")
    return value


def columns_of_slots(schedule: SlotSchedule) -> Columns:
    """The chunks, and the table row by row."""
    columns: Columns = {f"chunks.{name}": getattr(schedule.chunks, name).astype(t) for name, t in _DTYPES.items()}
    return columns | {"table": np.ascontiguousarray(schedule.table).reshape(-1)}


def slots_of_columns(columns: Columns, described: Mapping[str, object], problem: Problem) -> SlotSchedule:
    """The inverse; every chunk must exist and lie within its item. The table stays a memory map."""
    num_slots, num_reducing = (described.get(key) for key in ("num_slots", "num_reducing"))
    if not isinstance(num_slots, int) or not isinstance(num_reducing, int) or not 0 <= num_reducing <= num_slots:
        raise InvalidInput("the schedule file's slots lack num_slots, or num_reducing between 0 and it")
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
    found: dict[str, NDArray[Any]] = {}
    for name, dtype in _DTYPES.items():
        column = columns.get(f"chunks.{name}")
        if column is None or column.dtype != dtype:
            raise InvalidInput(f"the schedule file lacks column 'chunks.{name}' of type {np.dtype(dtype)}")
        found[name] = column
    chunks = Chunks(found["item"], found["offset"], found["length"])
    if len({len(column) for column in found.values()}) != 1 or len(chunks) == 0:
        raise InvalidInput("the schedule file's chunks must have an item, an offset and a length each")
    if int(chunks.item.min()) < 0 or int(chunks.item.max()) >= len(problem.items):
        raise InvalidInput(f"the schedule file's chunks must be of items between 0 and {len(problem.items) - 1}")
    room = problem.items.size_bytes[chunks.item]
    if (chunks.offset < 0).any() or (chunks.length < 1).any() or (chunks.length > room - chunks.offset).any():
        raise InvalidInput("the schedule file's chunks must lie within their items")
    return chunks
