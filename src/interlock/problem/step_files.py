"""Steps as TOML: a cluster, and a table per task. docs/reference/step.md says what may stand in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from interlock.collectives import Collective, CollectiveKind, collective
from interlock.errors import InvalidInput, LimitExceeded, at, nearest
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
KEYS_BY_KIND = {
    "move": KEYS | {"move", "size", "ranks", "groups", "root", "seed", "times"},
    "compute": KEYS | {"compute", "ranks", "alone"},
    "transposed": KEYS | {"transposed", "times"},
}


def step_presets() -> dict[str, str]:
    """Names of the steps that come with the package, each with the first sentence of its file."""
    told = {}
    for file in sorted(PRESETS.glob("*.toml")):
        comment = " ".join(line.lstrip("# ") for line in file.read_text().splitlines() if line.startswith("#"))
        told[file.stem] = comment.split(":")[0].split(". ")[0]
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
    made = Step(_cluster(said.get("cluster"), file), _text(said, "name", file.stem))
    tasks = said.get("task")
    if not isinstance(tasks, list) or not tasks:
        raise InvalidInput(f"{file} has no tasks; every task is a table [[task]]")
    entries = sum(_entries(made.cluster, table) for table in tasks)
    if entries > MAX_ENTRIES:
        raise LimitExceeded(f"{file}: its tasks name {entries} pairs of ranks in all; at most {MAX_ENTRIES} are read")
    for table in tasks:
        _add(made, table)
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
    group_size = {"servers": cluster.gpus_per_server, "rails": cluster.servers}.get(str(table.get("groups")), everyone)
    if kind == "all-to-all" or kind not in list(CollectiveKind):  # a matrix of all ranks for each group
        return everyone // group_size * everyone**2
    return min(named**2, everyone * group_size)


def _add(step: Step, table: object) -> None:
    """Add a task; whatever is wrong with it is said with its name."""
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise InvalidInput("a [[task]] lacks a name")
    name, when = table["name"], {"after": table.get("after", []), "ready": table.get("ready", 0)}
    what: Demand | Collective | dict[str, Collective] | None = None
    with at(f"task {name!r}"):
        kinds = [kind for kind in KEYS_BY_KIND if kind in table]
        if len(kinds) != 1:
            raise InvalidInput(f"it must say one of move, compute and transposed; it says {kinds or 'none'}")
        check_keys(table, KEYS_BY_KIND[kinds[0]])
        ranks, alone = _ranks(step, table.get("ranks")), table.get("alone", False)
        if not isinstance(alone, bool):
            raise InvalidInput(f"alone={str(alone)[:64]!r} must be true or false")
        if kinds == ["transposed"]:
            other = next((task for task in step.tasks if task.name == table["transposed"]), None)
            if other is None or not isinstance(other.what, Demand):
                raise InvalidInput(f"transposed={str(table['transposed'])[:64]!r} must name a demand before it")
            what = _times(other.what.transposed(), table)
        elif kinds == ["move"]:
            what = _moved(step, table, ranks)
    if what is None:
        step.compute(name, table["compute"], ranks=ranks, alone=alone, **when)
    elif isinstance(what, dict):  # and one name for all of them, so that others can come after it
        parts = [step.move(f"{name}, {group}", each, **when) for group, each in what.items()]
        step.compute(name, 0, ranks=[0], after=parts)
    else:
        step.move(name, what, **when)


def _moved(
    step: Step, table: Mapping[str, Any], ranks: list[int] | None
) -> Demand | Collective | dict[str, Collective]:
    """What a move moves; for groups of ranks, by the name of the group."""
    kind, groups = _text(table, "move"), table.get("groups")
    if kind not in list(CollectiveKind):
        if kind.partition(":")[0] not in kinds() and not is_file(kind):
            known = nearest(kind[:64], [*map(str, CollectiveKind), *kinds()])
            raise InvalidInput(f"move={kind[:64]!r} is no collective and no traffic; {known}")
        if ranks is not None or "groups" in table or "root" in table:
            raise InvalidInput(f"ranks, groups and root are for collectives; {kind[:64]!r} is traffic of all ranks")
        seed = table.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise InvalidInput(f"seed={str(seed)[:64]!r} must be a whole number")
        return _times(parse(kind, step.cluster, table.get("size", "64 MB"), seed), table)
    if "size" not in table:
        raise InvalidInput("size is missing; it is counted as nccl-tests count it")
    if groups is None:
        return collective(kind, table["size"], ranks, table.get("root", 0))
    if ranks is not None or groups not in ("servers", "rails"):
        raise InvalidInput(f"groups={str(groups)[:64]!r} must be 'servers' or 'rails', without ranks")
    width, everyone = step.cluster.gpus_per_server, np.arange(step.cluster.num_ranks)
    of = everyone // width if groups == "servers" else everyone % width
    members = {f"{groups.removesuffix('s')} {group}": everyone[of == group].tolist() for group in range(of.max() + 1)}
    return {group: collective(kind, table["size"], each) for group, each in members.items()}


def _times(demand: Demand, table: Mapping[str, Any]) -> Demand:
    times, most = table.get("times", 1), MAX_TOTAL_BYTES // max(1, int(demand.bytes_matrix.sum()))
    if not isinstance(times, int) or isinstance(times, bool) or not 1 <= times <= most:
        raise InvalidInput(f"times={str(times)[:64]!r} must be a whole number from 1 to {most} (2^62 bytes)")
    return demand if times == 1 else matrix(demand.bytes_matrix * times, f"{demand.name}, times {times}")


def _ranks(step: Step, said: object) -> list[int] | None:
    """A list of ranks, or a slice in words like "0::8"."""
    if said is None or isinstance(said, list):
        return said
    parts = said.split(":") if isinstance(said, str) else []
    if not 2 <= len(parts) <= 3 or not all(part.strip().isdecimal() or not part.strip() for part in parts):
        raise InvalidInput(f"ranks={str(said)[:64]!r} must be a list of ranks, or first:end:step like '0::8'")
    numbers = [int(part) if part.strip() else None for part in parts]
    if len(numbers) == 3 and numbers[2] == 0:
        raise InvalidInput(f"ranks={said!r} has a step of 0")
    return list(range(step.cluster.num_ranks))[slice(*numbers)]


def _text(table: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise InvalidInput(f"{key}={str(value)[:64]!r} must be text")
    return value
