"""Steps as TOML: a cluster, and a table per task. docs/reference/step.md says what may stand in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from interlock.collectives import CollectiveKind, collective
from interlock.errors import InvalidInput, LimitExceeded, nearest
from interlock.files import as_path
from interlock.problem.step import Step
from interlock.topology import Cluster, cluster, read_cluster
from interlock.topology.toml_text import check_keys, read_toml
from interlock.traffic import Demand, matrix, parse
from interlock.traffic.by_name import is_file, kinds
from interlock.traffic.demand import MAX_TOTAL_BYTES

__all__ = ["read_step", "step_presets"]

MAX_FILE_BYTES = 1 << 20
MAX_ENTRIES = 1 << 23  # pairs of ranks of all moves together: 3 s and 0.7 GB
PRESETS = Path(__file__).parent / "step_presets"
KEYS = {"name", "after", "ready"}
COMPUTE = KEYS | {"compute", "ranks", "alone"}
MOVE = KEYS | {"move", "size", "ranks", "groups", "root", "seed", "times"}
TRANSPOSED = KEYS | {"transposed", "times"}


def step_presets() -> dict[str, str]:
    """Names of the steps that come with the package, each with the first sentence of its file."""
    told = {}
    for file in sorted(PRESETS.glob("*.toml")):
        words = " ".join(line.lstrip("# ") for line in file.read_text().splitlines() if line.startswith("#"))
        told[file.stem] = words.split(":")[0].split(". ")[0]
    return told


def read_step(path: str | Path) -> Step:
    """The step in a TOML file, or a preset by name.

    >>> [task.name for task in read_step("mixtral-fsdp").tasks if not task.is_move]
    ['experts 0', 'experts 1']
    """
    if isinstance(path, str) and path in step_presets():
        path = PRESETS / f"{path}.toml"
    file = as_path(path)
    if not file.is_file():
        raise InvalidInput(f"{str(path)[:128]} is no file, and no preset; {nearest(str(path)[:64], step_presets())}")
    said = read_toml(file, MAX_FILE_BYTES)
    check_keys(said, {"name", "cluster", "task"}, "the file")
    made = Step(_cluster(said.get("cluster"), file), _text(said, "name", "the file", file.stem))
    tasks = said.get("task")
    if not isinstance(tasks, list) or not tasks:
        raise InvalidInput(f"{file} has no tasks; every task is a table [[task]]")
    entries = sum(_entries(made.cluster, table) for table in tasks)
    if entries > MAX_ENTRIES:
        raise LimitExceeded(f"{file}: its tasks name {entries} pairs of ranks in all; at most {MAX_ENTRIES} are read")
    for table in tasks:
        _add_named(made, table)
    made.problem()
    return made


def _cluster(said: object, file: Path) -> Cluster:
    if isinstance(said, str):
        said = {"preset": said}
    if not isinstance(said, dict):
        raise InvalidInput(f"{file} has no table [cluster]; it must name a preset, or a file of a cluster")
    fields = dict(said)
    if "file" in fields:
        check_keys(fields, {"file"}, "[cluster] with a file")
        return read_cluster(file.parent / str(fields["file"]))
    return cluster(str(fields.pop("preset", "h200")), **fields)


def _entries(cluster: Cluster, table: object) -> int:
    """Pairs of ranks that a move names, or ranks that compute: what it takes to write the task out."""
    if not isinstance(table, dict):
        return 0
    everyone, ranks, kind = cluster.num_ranks, table.get("ranks"), table.get("move")
    named = len(ranks) if isinstance(ranks, list) else everyone
    if "compute" in table:
        return named
    together = {"servers": cluster.gpus_per_server, "rails": cluster.servers}.get(str(table.get("groups")), everyone)
    if kind == "all-to-all" or kind not in list(CollectiveKind):  # a matrix of all ranks for each group
        return everyone // together * everyone**2
    return min(named**2, everyone * together)


def _add_named(step: Step, table: object) -> None:
    """Add a task; whatever is wrong with it is said with its name."""
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise InvalidInput("a [[task]] lacks a name")
    where = f"task {table['name']!r}"
    try:
        _add(step, table["name"], where, table)
    except InvalidInput as error:
        if str(error).startswith(where):
            raise
        raise InvalidInput(f"{where}: {error}") from None


def _add(step: Step, name: str, where: str, table: Mapping[str, Any]) -> None:
    kinds = [kind for kind in ("move", "compute", "transposed") if kind in table]
    if len(kinds) != 1:
        raise InvalidInput(f"{where} must say one of move, compute and transposed; it says {kinds or 'none'}")
    after, ready = table.get("after", []), table.get("ready", 0)
    if kinds == ["compute"]:
        check_keys(table, COMPUTE, where)
        alone = table.get("alone", False)
        if not isinstance(alone, bool):
            raise InvalidInput(f"{where}: alone={str(alone)[:64]!r} must be true or false")
        ranks = _ranks(step, table.get("ranks"), where)
        step.compute(name, table["compute"], ranks=ranks, after=after, ready=ready, alone=alone)
    elif kinds == ["transposed"]:
        check_keys(table, TRANSPOSED, where)
        other = next((task for task in step.tasks if task.name == table["transposed"]), None)
        if other is None or not isinstance(other.what, Demand):
            raise InvalidInput(f"{where}: transposed={str(table['transposed'])[:64]!r} must name a demand before it")
        step.move(name, _times(other.what.transposed(), table, where), after=after, ready=ready)
    else:
        check_keys(table, MOVE, where)
        _move(step, name, where, table, after, ready)


def _move(step: Step, name: str, where: str, table: Mapping[str, Any], after: object, ready: Any) -> None:
    kind, ranks = _text(table, "move", where), _ranks(step, table.get("ranks"), where)
    if kind not in list(CollectiveKind):
        if kind.partition(":")[0] not in kinds() and not is_file(kind):
            known = nearest(kind[:64], [*map(str, CollectiveKind), *kinds()])
            raise InvalidInput(f"{where}: move={kind[:64]!r} is no collective and no traffic; {known}")
        if ranks is not None or "groups" in table or "root" in table:
            raise InvalidInput(
                f"{where}: ranks, groups and root are for collectives; {kind[:64]!r} is traffic of all ranks"
            )
        seed = table.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise InvalidInput(f"{where}: seed={str(seed)[:64]!r} must be a whole number")
        demand = parse(kind, step.cluster, table.get("size", "64 MB"), seed)
        step.move(name, _times(demand, table, where), after=after, ready=ready)
        return
    if "size" not in table:
        raise InvalidInput(f"{where}: size is missing; it is counted as nccl-tests count it")
    groups = table.get("groups")
    if groups is None:
        what = collective(kind, table["size"], ranks, table.get("root", 0))
        step.move(name, what, after=after, ready=ready)
        return
    if ranks is not None or groups not in ("servers", "rails"):
        raise InvalidInput(f"{where}: groups={str(groups)[:64]!r} must be 'servers' or 'rails', without ranks")
    width, everyone = step.cluster.gpus_per_server, np.arange(step.cluster.num_ranks)
    of = everyone // width if groups == "servers" else everyone % width
    for group in range(int(of.max()) + 1):
        members = everyone[of == group].tolist()
        part = f"{name}, {'server' if groups == 'servers' else 'rail'} {group}"
        step.move(part, collective(kind, table["size"], members), after=after, ready=ready)
    # One name for all of them, so that others can come after it.
    step.compute(name, 0, ranks=[0], after=[task.name for task in step.tasks[-(int(of.max()) + 1) :]])


def _times(demand: Demand, table: Mapping[str, Any], where: str) -> Demand:
    times, most = table.get("times", 1), MAX_TOTAL_BYTES // max(1, int(demand.bytes_matrix.sum()))
    if not isinstance(times, int) or isinstance(times, bool) or not 1 <= times <= most:
        raise InvalidInput(f"{where}: times={str(times)[:64]!r} must be a whole number from 1 to {most} (2^62 bytes)")
    return demand if times == 1 else matrix(demand.bytes_matrix * times, f"{demand.name}, times {times}")


def _ranks(step: Step, said: object, where: str) -> list[int] | None:
    """A list of ranks, or a slice in words like "0::8"."""
    if said is None or isinstance(said, list):
        return said
    parts = said.split(":") if isinstance(said, str) else []
    if not 2 <= len(parts) <= 3 or not all(part.strip().isdecimal() or not part.strip() for part in parts):
        raise InvalidInput(f"{where}: ranks={str(said)[:64]!r} must be a list of ranks, or first:end:step like '0::8'")
    numbers = [int(part) if part.strip() else None for part in parts]
    if len(numbers) == 3 and numbers[2] == 0:
        raise InvalidInput(f"{where}: ranks={said!r} has a step of 0")
    return list(range(step.cluster.num_ranks))[slice(*numbers)]


def _text(table: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: {key}={str(value)[:64]!r} must be text")
    return value
