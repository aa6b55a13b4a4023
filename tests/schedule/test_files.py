"""Schedule files come back as written, and whatever is wrong with one is refused in one sentence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms import registry
from interlock.errors import InterlockError, InvalidInput
from interlock.planning import solve
from interlock.problem import Problem
from interlock.schedule import read_schedule, write_atomically, write_schedule
from interlock.schedule.files import MAGIC, MAX_HEADER_BYTES
from interlock.validate import check
from strategies import problems


@pytest.fixture
def saved(tmp_path: Path, h200_2x4: il.Cluster) -> Path:
    """A file that is all right."""
    path = tmp_path / "plan.ilk"
    il.plan(h200_2x4, il.traffic.random(h200_2x4, "1 MB", seed=1), algorithm="pxn").save(path)
    return path


@settings(max_examples=60)
@given(problems(max_servers=2, max_gpus=3, max_ranks=5))
def test_a_schedule_comes_back_as_written(tmp_path_factory: pytest.TempPathFactory, problem: Problem) -> None:
    path = tmp_path_factory.mktemp("ilk") / "x.ilk"
    for name in registry.supported(problem)[:3]:
        plan = solve(problem, name)
        plan.save(path)
        back = read_schedule(path)
        assert back.algorithm == name
        for column in ("kind", "phase", "stage", "slice", "size_bytes", "exclusive", "order", "barriers"):
            assert np.array_equal(getattr(back.schedule, column), getattr(plan.schedule, column)), column
        for column in ("src", "dst", "path", "deps"):
            assert getattr(back.schedule, column) == getattr(plan.schedule, column), column
        assert np.array_equal(back.problem.items.size_bytes, problem.items.size_bytes)
        assert check(back.schedule, back.problem).valid
        path.unlink()


def test_writing_twice_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    plan = il.load(saved)
    plan.save(tmp_path / "again.ilk")
    assert saved.read_bytes() == (tmp_path / "again.ilk").read_bytes()


def test_fabric_of_a_graph_comes_back(tmp_path: Path) -> None:
    """It changes the simulated time, so a file without it would tell another."""
    graph = replace(il.topology.switch(4, bandwidth="50 GB/s"), fabric=il.topology.Fabric("half", efficiency=0.5))
    made = il.synthesize(graph, il.all_gather("4 MB"), "guided")
    made.save(tmp_path / "graph.ilk")
    loaded = il.load(tmp_path / "graph.ilk")
    assert loaded.problem.topology.fabric == graph.fabric
    assert loaded.simulate().makespan_s == made.simulate().makespan_s == pytest.approx(120e-6)


def test_columns_are_mapped_not_read(saved: Path) -> None:
    column = read_schedule(saved).schedule.size_bytes
    while column.base is not None and not isinstance(column, np.memmap):
        column = column.base
    assert isinstance(column, np.memmap)


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "x.ilk"
    target.write_bytes(b"old")

    def half(file) -> None:
        file.write(b"new")
        raise RuntimeError("disk gone")

    with pytest.raises(RuntimeError):
        write_atomically(target, half)
    assert target.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["x.ilk"]


def test_every_truncation_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in [*range(0, 200, 7), len(whole) // 2, len(whole) - 1]:
        saved.write_bytes(whole[:length])
        with pytest.raises(InvalidInput):
            read_schedule(saved)


@settings(max_examples=300)
@given(st.data())
def test_flipped_bytes_never_pass_unnoticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    path = tmp_path_factory.mktemp("ilk") / "x.ilk"
    il.plan(cluster, il.traffic.uniform(cluster, "1 kB"), algorithm="direct").save(path)
    whole = bytearray(path.read_bytes())
    length = int.from_bytes(whole[8:16], "little")
    place = data.draw(st.integers(0, 31 + length))
    whole[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    with pytest.raises(InvalidInput):
        read_schedule(path)
    path.unlink()


def _rewrite(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    """Change the header as an attacker would, digest included."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[8:16], "little")
    header = json.loads(whole[32 : 32 + length])
    body = whole[-(-(32 + length) // 64) * 64 :]
    change(header)
    text = json.dumps(header).encode()
    start = MAGIC + len(text).to_bytes(8, "little") + hashlib.blake2b(text, digest_size=16).digest() + text
    path.write_bytes(start + b"\0" * (-len(start) % 64) + body)


def _column(column: str, **values: object) -> Callable[[dict[str, object]], None]:
    def change(header: dict[str, object]) -> None:
        columns = header["columns"]
        assert isinstance(columns, list)
        next(row for row in columns if row["name"] == column).update(values)

    return change


def _set(*path: str, value: object) -> Callable[[dict[str, object]], None]:
    def change(header: dict[str, object]) -> None:
        table = header
        for key in path[:-1]:
            inner = table[key]
            assert isinstance(inner, dict)
            table = inner
        table[path[-1]] = value

    return change


def _drop(name: str) -> Callable[[dict[str, object]], None]:
    def change(header: dict[str, object]) -> None:
        columns = header["columns"]
        assert isinstance(columns, list)
        header["columns"] = [row for row in columns if row["name"] != name]

    return change


def test_files_of_version_1_give_no_place_to_what_shares_its_links(tmp_path: Path, h200_2x4: il.Cluster) -> None:
    demand = il.traffic.uniform(h200_2x4, "1 MB")
    for algorithm in ("rails", "adaptive"):
        plan = il.plan(h200_2x4, demand, algorithm=algorithm)
        path = tmp_path / f"{algorithm}.ilk"
        plan.save(path)
        assert np.array_equal(read_schedule(path).schedule.expand().order, plan.schedule.order)
        assert not plan.schedule.exclusive.all() and (algorithm != "rails" or plan.schedule.order.any())
        _rewrite(path, _set("version", value=1))
        wanted = np.where(plan.schedule.exclusive, plan.schedule.order, 0)
        assert np.array_equal(read_schedule(path).schedule.expand().order, wanted)


HOSTILE = {
    "another version": (_set("version", value=99), "format version 99"),
    "no version": (_set("version", value=None), "format version None"),
    "a column of objects": (_column("size_bytes", dtype="object"), "dtype 'object'"),
    "a column of strings": (_column("size_bytes", dtype="S8"), "dtype 'S8'"),
    "a column of floats where integers belong": (
        _column("size_bytes", dtype="float64"),
        "lacks column 'size_bytes' of type int64",
    ),
    "a negative length": (_column("size_bytes", length=-1), "'size_bytes' would end at"),
    "a length beyond the file": (_column("size_bytes", length=2**40), "'size_bytes' would end at"),
    "a length beyond 64 bits": (_column("size_bytes", length=2**70), "'size_bytes' would end at byte 9444732965739290"),
    "a place beyond the file": (_column("size_bytes", place=2**40), "'size_bytes' would end at"),
    "a negative place": (_column("size_bytes", place=-64), "'size_bytes' would end at"),
    "a misaligned place": (_column("size_bytes", place=3), "'size_bytes' would end at"),
    "one row too few": (_column("stage", length=1), "'stage' does not match its digest"),
    "a length that is a word": (_column("stage", length="many"), "lacks 'length' of type int"),
    "a digest that is no word": (_column("stage", digest=5), "lacks 'digest' of type str"),
    "a column named twice": (_column("stage", name="slice"), "'slice' has dtype 'int32' or is named twice"),
    "a missing column": (_drop("deps.values"), "lacks column 'deps.values'"),
    "missing offsets": (_drop("pieces.offsets"), "lacks column 'pieces.offsets'"),
    "a missing problem column": (_drop("problem.demand"), "goes on after its last column"),
    "no columns": (_set("columns", value=[]), "goes on after its last column"),
    "columns that are no list": (_set("columns", value={"a": 1}), "lacks 'columns' of type list"),
    "a column that is no table": (_set("columns", value=[1]), "column lacks 'name' of type str"),
    "too many columns": (_set("columns", value=[{}] * 1000), "names 1000 columns; at most 64"),
    "no problem": (_set("problem", value=None), "lacks 'problem' of type dict"),
    "a problem of words": (_set("problem", value="all"), "lacks 'problem' of type dict"),
    "an unknown cluster field": (_set("problem", "cluster", "warp", value=9), "'warp'"),
    "no servers": (_set("problem", "cluster", "servers", value=0), "servers=0 must be"),
    "servers that are a list": (_set("problem", "cluster", "servers", value=[2]), "servers=[2] must be"),
    "a million servers": (_set("problem", "cluster", "servers", value=10**6), "servers=1000000 must be"),
    "zero bandwidth": (
        _set("problem", "cluster", "scale_out_bandwidth_bytes_per_s", value=0.0),
        "scale_out_bandwidth_bytes_per_s=0.0 must be",
    ),
    "bandwidth of words": (
        _set("problem", "cluster", "scale_out_bandwidth_bytes_per_s", value="fast"),
        "scale_out_bandwidth_bytes_per_s='fast' must be",
    ),
    "infinite latency": (
        _set("problem", "cluster", "scale_out_latency_s", value=1e300),
        "scale_out_latency_s=1e+300 must be",
    ),
    "an unknown fabric field": (_set("problem", "cluster", "fabric", value={"ether": 1}), "'ether'"),
    "a fabric of words": (_set("problem", "cluster", "fabric", value="ether"), "fabric must be a table"),
    "an unknown fault": (_set("problem", "cluster", "faults", value=[{"kind": "fire"}]), "kind='fire' is not one of"),
    "a fault outside the cluster": (
        _set("problem", "cluster", "faults", value=[{"kind": "missing-gpu", "server": 9, "gpu": 0}]),
        "server=9 must be below 2",
    ),
    "faults of words": (_set("problem", "cluster", "faults", value="all"), "lacks 'faults' of type list"),
    "a demand seed of words": (_set("problem", "demand", "seed", value="x"), "lacks 'seed' of type int"),
    "no algorithm": (_set("algorithm", value=None), "lacks 'algorithm' of type str"),
    "a seed of words": (_set("seed", value="x"), "lacks 'seed' of type int"),
    "parameters that are a list": (_set("parameters", value=[]), "lacks 'parameters' of type dict"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_header_is_refused_in_one_sentence(saved: Path, name: str) -> None:
    change, says = HOSTILE[name]
    _rewrite(saved, change)
    with pytest.raises(InterlockError) as caught:
        read_schedule(saved)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def _schedule_with(saved: Path, column: str, place: int, value: int) -> Path:
    """A file whose digests are right but whose one entry is not."""
    back = il.load(saved)
    schedule = back.schedule
    target = {"src": "src.values", "dst": "dst.values", "deps": "deps.values", "path": "path.values"}.get(
        column, column
    )
    whole = bytearray(saved.read_bytes())
    length = int.from_bytes(whole[8:16], "little")
    header = json.loads(whole[32 : 32 + length])
    row = next(row for row in header["columns"] if row["name"] == target)
    start = -(-(32 + length) // 64) * 64 + row["place"]
    width = np.dtype(row["dtype"]).itemsize
    whole[start + place * width : start + (place + 1) * width] = np.array([value], row["dtype"]).tobytes()
    data = bytes(whole[start : start + row["length"] * width])
    saved.write_bytes(whole)
    _rewrite(saved, _column(target, digest=hashlib.blake2b(data, digest_size=16).hexdigest()))
    assert schedule.num_messages > 2
    return saved


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("src", -1, "message 1: src names rank -1"),
        ("src", 10**6, "message 1: src names rank 1000000"),
        ("dst", -(2**31), "message 1: dst names rank -2147483648"),
        ("deps", 10**6, "deps names message 1000000"),
        ("kind", 200, "message 1: kind=200"),
        ("phase", 77, "message 1: phase=77"),
        ("stage", -5, "message 1: stage=-5"),
        ("slice", -1, "message 1: slice=-1"),
        ("size_bytes", -1, "message 1: size_bytes=-1"),
        ("pieces.item", -3, "a piece names item -3"),
        ("pieces.item", 10**6, r"a piece names item 0\.\.1000000"),
        ("pieces.offset", -1, r"bytes -1\+\d+ do not lie inside item 1"),
        ("pieces.offset", 2**62, r"bytes 4611686018427387904\+\d+ do not lie inside item 1"),
        ("pieces.length", 0, r"bytes 0\+0 do not lie inside item 1"),
        ("pieces.length", 2**62, r"bytes 0\+4611686018427387904 do not lie inside item 1"),
        ("src.offsets", 5, "'src': offsets must rise"),
        ("deps.offsets", -1, "'deps': offsets must rise"),
        ("pieces.offsets", 10**9, "pieces must be listed message by message"),
    ],
)
def test_a_wrong_entry_is_refused(saved: Path, column: str, value: int, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        read_schedule(_schedule_with(saved, column, 1, value))


def test_a_place_that_nobody_keeps_is_found_invalid(saved: Path) -> None:
    back = read_schedule(_schedule_with(saved, "exclusive", 1, 1))
    assert not check(back.schedule, back.problem).valid


def test_a_header_longer_than_the_limit_is_not_written(tmp_path: Path, h200_2x4: il.Cluster) -> None:
    plan = il.plan(h200_2x4, il.traffic.uniform(h200_2x4, "1 kB"), algorithm="direct")
    with pytest.raises(InvalidInput, match="header"):
        write_schedule(
            tmp_path / "x.ilk", plan.schedule, plan.problem, algorithm="direct", parameters={"x": "y" * 2_000_000}
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [MAX_HEADER_BYTES + 1, 2**40, 2**63, 2**64 - 1])
def test_a_header_said_to_be_longer_than_the_limit_is_not_read(saved: Path, length: int) -> None:
    whole = bytearray(saved.read_bytes())
    whole[8:16] = length.to_bytes(8, "little")
    saved.write_bytes(whole + bytes(max(0, MAX_HEADER_BYTES + 64 - len(whole))))
    with pytest.raises(InvalidInput, match=f"header of {length} bytes is too long"):
        read_schedule(saved)


def test_files_up_to_the_limits_are_read(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = saved.stat().st_size
    header = int.from_bytes(saved.read_bytes()[len(MAGIC) :][:8], "little")
    columns = len(json.loads(saved.read_bytes()[len(MAGIC) + 24 :][:header])["columns"])
    limits = {"MAX_FILE_BYTES": size, "MAX_HEADER_BYTES": header, "MAX_COLUMNS": columns}
    for name, least in limits.items():
        monkeypatch.setattr(f"interlock.schedule.files.{name}", least)
    assert read_schedule(saved).seed == 0
    for name, least in limits.items():
        with monkeypatch.context() as patch:
            patch.setattr(f"interlock.schedule.files.{name}", least - 1)
            with pytest.raises(InvalidInput, match=r"at most|too long"):
                read_schedule(saved)


def test_what_is_not_said_when_writing_is_nothing(saved: Path, tmp_path: Path) -> None:
    plan = il.load(saved)
    write_schedule(tmp_path / "x.ilk", plan.schedule, plan.problem, algorithm="pxn")
    back = read_schedule(tmp_path / "x.ilk")
    assert (back.seed, back.parameters, back.version) == (0, {}, "interlock")
