"""Every algorithm through every format able to hold it: export, read back, validate."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from tests.interchange.problems import intent_of, plans

import interlock as il
from interlock.algorithms import registry
from interlock.interchange import FORMATS, Intent, read_foreign
from interlock.interchange.tacos import COPYING
from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.validate import check

CARRYING_BYTES = ("msccl-xml", "mscclpp-json", "chakra", "tacos-csv")


def can_hold(name: str, problem: Problem) -> bool:
    """Whether a format has words for a problem."""
    if name == "tacos-csv":
        return problem.collective is not None and problem.collective.kind in COPYING
    return True


@pytest.mark.parametrize("algorithm", registry.names())
def test_what_is_exported_delivers_the_same_when_read_back(algorithm: str, tmp_path: Path) -> None:
    tried = 0
    for label, plan in plans(algorithm):
        for format_name in CARRYING_BYTES:
            if not can_hold(format_name, plan.problem):
                continue
            target = tmp_path / f"{tried}"
            plan.export(format_name, target)
            back = read_foreign(target, intent_of(plan.problem), format_name)
            report = check(back.schedule, back.problem)
            assert back.violations == (), (label, format_name, back.violations[:3])
            assert report.valid, (label, format_name, str(report))
            wanted, found = delivered(plan.problem), delivered(back.problem)
            assert found.keys() == wanted.keys(), (label, format_name)
            assert all(found[ends] >= size for ends, size in wanted.items()), (label, format_name)
            tried += 1
    if not tried:
        pytest.skip(f"{algorithm} plans none of these problems")


def delivered(problem: Problem) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
    """Bytes from each set of contributors to each set of destinations."""
    total: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    for item, size in enumerate(problem.items.size_bytes.tolist()):
        key = (
            tuple(sorted(problem.items.contributors[item].tolist())),
            tuple(sorted(problem.items.destinations[item].tolist())),
        )
        total[key] = total.get(key, 0) + size
    return total


@pytest.mark.parametrize("format_name", list(FORMATS))
def test_exporting_twice_gives_equal_bytes_and_leaves_the_schedule_alone(format_name: str, tmp_path: Path) -> None:
    made = 0
    for _, plan in plans("direct"):
        if not can_hold(format_name, plan.problem) or (format_name == "nccl-tests" and plan.problem.demand is None):
            continue
        before = fingerprint(plan.schedule)
        for name in ("first", "second"):
            plan.export(format_name, tmp_path / name)
        assert contents(tmp_path / "first") == contents(tmp_path / "second")
        assert fingerprint(plan.schedule) == before
        made += 1
    assert made >= 3


def contents(path: Path) -> dict[str, bytes]:
    """All files of an export, by name."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return {file.name if path.is_dir() else "": file.read_bytes() for file in files}


def fingerprint(schedule: Schedule) -> str:
    """Changes with any value of any column."""
    made = hashlib.blake2b()
    for name in ("kind", "phase", "stage", "slice", "size_bytes", "exclusive", "order", "barriers"):
        made.update(np.ascontiguousarray(getattr(schedule, name)).tobytes())
    for ragged in (schedule.src, schedule.dst, schedule.path, schedule.deps):
        made.update(ragged.offsets.tobytes() + ragged.values.tobytes())
    for column in (schedule.pieces.offsets, schedule.pieces.item, schedule.pieces.offset, schedule.pieces.length):
        made.update(column.tobytes())
    return made.hexdigest()


@pytest.mark.parametrize("algorithm", ["direct", "pxn", "forward"])
def test_htsim_flows_say_enough_to_infer_what_they_carry(algorithm: str, tmp_path: Path) -> None:
    for label, plan in plans(algorithm):
        if plan.problem.demand is None:
            continue
        plan.export("htsim", tmp_path / "flows.cm")
        back = read_foreign(tmp_path / "flows.cm", intent_of(plan.problem))
        report = check(back.schedule, back.problem)
        assert report.valid, (label, str(report))
        assert any("inferred" in note for note in back.notes) or plan.schedule.num_messages == 0


def test_a_wrong_demand_is_noticed_in_every_format(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    demand = il.traffic.matrix(np.full((4, 4), 64 * 1024))
    larger = demand.bytes_matrix.copy()
    larger[1, 2] += 64 * 1024
    plan = il.plan(cluster, demand, "pxn")
    for format_name in ("msccl-xml", "mscclpp-json", "chakra", "htsim"):
        plan.export(format_name, tmp_path / format_name)
        back = read_foreign(tmp_path / format_name, Intent(demand=il.traffic.matrix(larger)))
        assert back.violations or not check(back.schedule, back.problem).valid, format_name
