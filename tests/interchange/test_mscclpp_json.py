"""MSCCL++ plans: form, limits and meaning, also what MSCCL++'s own loader lets pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlock as il
from interlock import planning
from interlock.interchange import Intent, read_foreign
from interlock.interchange.mscclpp.write import write_schedule
from interlock.ragged import Ragged
from interlock.schedule import Kind, Phase, Pieces, Schedule
from interlock.validate import check

Plan = dict[str, Any]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A plan with relays, memory and port channels."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    made = il.plan(cluster, il.traffic.matrix(np.full((4, 4), 4096)), "pxn")
    file = tmp_path_factory.mktemp("sound") / "a.json"
    made.export("mscclpp-json", file)
    plan: Plan = json.loads(file.read_text())
    return plan


def block(plan: Plan, gpu: int = 0, number: int = 0) -> dict[str, Any]:
    """One threadblock."""
    found: dict[str, Any] = plan["gpus"][gpu]["threadblocks"][number]
    return found


def first(plan: Plan, name: str) -> dict[str, Any]:
    """The first operation of a name, anywhere."""
    return next(op for gpu in plan["gpus"] for tb in gpu["threadblocks"] for op in tb["ops"] if op["name"] == name)


def setter(value: object, *keys: str | int) -> Callable[[Plan], None]:
    """Puts a value at a place in the plan."""

    def change(plan: Plan) -> None:
        holder: Any = plan
        for key in keys[:-1]:
            holder = holder[key]
        holder[keys[-1]] = value

    return change


REFUSED: dict[str, tuple[Callable[[Plan], Any], str]] = {
    "an unknown operation": (lambda p: first(p, "put").update(name="shove"), "name='shove' is not one of"),
    "a GPU out of order": (setter(1, "gpus", 0, "id"), "gpu 0 has id 1"),
    "a threadblock out of order": (lambda p: block(p).update(id=3), "gpu 0, threadblock 0 has id 3"),
    "too many operations": (
        lambda p: block(p).update(ops=block(p)["ops"] + [{"name": "nop"}] * 64),
        "operations; at most 64 fit",
    ),
    "a channel that is not there": (
        lambda p: block(p)["channels"][0].update(channel_ids=[99]),
        "'channel_ids' names 99",
    ),
    "a channel the threadblock does not have": (
        lambda p: first(p, "signal").update(channel_ids=[15]),
        "'channel_ids' names 15; there are",
    ),
    "too many channels in one operation": (
        lambda p: first(p, "signal").update(channel_ids=[0] * 9),
        "names 9 channels; 8 fit",
    ),
    "too many channels in one threadblock": (
        lambda p: block(p)["channels"][0].update(channel_ids=[0] * 17),
        "has 17",
    ),
    "a peer that is not there": (
        lambda p: p["gpus"][0]["channels"][0].update(connected_to=[7]),
        "'connected_to' names gpu 7; there are 4",
    ),
    "a channel to itself": (
        lambda p: p["gpus"][0]["channels"][0].update(connected_to=[0] * 9),
        "is connected to its own gpu",
    ),
    "chunks outside a remote buffer": (
        lambda p: first(p, "put")["dst_buff"][0].update(index=10_000),
        "lie outside buffer",
    ),
    "chunks outside a local buffer": (
        lambda p: first(p, "put")["src_buff"][0].update(size=10_000),
        "lie outside buffer",
    ),
    "a remote buffer that is not there": (
        lambda p: first(p, "put")["dst_buff"][0].update(buffer_id=40),
        "buffer_id=40",
    ),
    "sizes that differ": (lambda p: first(p, "copy")["src_buff"][0].update(size=2), "of different sizes"),
    "no source": (lambda p: first(p, "put").update(src_buff=[]), "put needs src_buff and dst_buff"),
    "a signal without a channel": (lambda p: first(p, "signal").update(channel_ids=[]), "signal names no channel"),
    "a semaphore that is not there": (
        lambda p: block(p)["ops"].append({"name": "sem_acquire", "semaphore_ids": [0]}),
        "'semaphore_ids' names 0; there are 0",
    ),
    "too many semaphores": (
        lambda p: p["gpus"][0].update(semaphores=[{"init_value": 0}] * 17),
        "'semaphores' has 17 entries; at most 16",
    ),
    "a barrier out of range": (
        lambda p: block(p)["ops"].append({"name": "barrier", "barrier_id": 16, "num_threadblocks": 1}),
        "barrier_id=16 must be between 0 and 15",
    ),
    "no GPUs": (setter([], "gpus"), "'gpus' is empty"),
    "inplace that is no truth value": (setter(0, "inplace"), "'inplace' must be true or false"),
    "negative chunks": (setter(-4, "gpus", 1, "input_chunks"), "input_chunks=-4 must be between"),
    "an unknown protocol": (setter("Fast", "protocol"), "protocol='Fast' is not one of Simple, LL"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_defects_of_form_are_refused_with_their_place(name: str, sound: Plan, tmp_path: Path) -> None:
    change, reason = REFUSED[name]
    plan = copy.deepcopy(sound)
    change(plan)
    (tmp_path / "a.json").write_text(json.dumps(plan))
    with pytest.raises(il.InvalidInput) as caught:
        read_foreign(tmp_path / "a.json")
    assert reason in str(caught.value)


def drop(plan: Plan, name: str) -> None:
    """Remove the last operation of a name from GPU 0."""
    for tb in reversed(plan["gpus"][0]["threadblocks"]):
        for k in range(len(tb["ops"]) - 1, -1, -1):
            if tb["ops"][k]["name"] == name:
                del tb["ops"][k]
                return
    raise AssertionError(name)


WRONG: dict[str, tuple[Callable[[Plan], Any], str]] = {
    "a wait nobody answers": (lambda p: drop(p, "signal"), "waits forever"),
    "a missing wait": (lambda p: drop(p, "wait"), "waits for it: the rank may finish"),
    "a missing put": (lambda p: drop(p, "put"), "is never written"),
    "chunks of the wrong place": (lambda p: first(p, "put")["src_buff"][0].update(index=0), "instead of chunk"),
    "a barrier that never fills": (
        lambda p: block(p)["ops"].insert(0, {"name": "barrier", "barrier_id": 0, "num_threadblocks": 9}),
        "(barrier) waits forever",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_defects_of_meaning_are_violations_with_their_place(name: str, sound: Plan, tmp_path: Path) -> None:
    change, reason = WRONG[name]
    plan = copy.deepcopy(sound)
    change(plan)
    (tmp_path / "a.json").write_text(json.dumps(plan))
    demand = il.traffic.matrix(np.full((4, 4), 4096))
    found = read_foreign(tmp_path / "a.json", Intent(demand=demand))
    assert any(reason in text for text in found.violations), found.violations[:4]


def test_two_threadblocks_that_write_one_chunk_unordered_are_a_race(sound: Plan, tmp_path: Path) -> None:
    plan = copy.deepcopy(sound)
    copy_op = {"name": "copy", "src_buff": [{"type": "i", "index": 0, "size": 1}]}
    for number in (0, 1):
        target = [{"type": "s", "index": 0, "size": 1}]
        plan["gpus"][0]["scratch_chunks"] = 1
        block(plan, 0, number)["ops"].append(copy_op | {"dst_buff": target})
    (tmp_path / "a.json").write_text(json.dumps(plan))
    found = read_foreign(tmp_path / "a.json", Intent(demand=il.traffic.matrix(np.full((4, 4), 4096))))
    assert any("overwrites scratch[0] of rank 0 without waiting" in text for text in found.violations)


def test_barriers_and_semaphores_order_what_they_should(tmp_path: Path) -> None:
    def plan(sync: list[list[dict[str, Any]]], count: int) -> str:
        bring = {"name": "copy", "src_buff": [part("i", 0)], "dst_buff": [part("s", 0)]}
        use = {"name": "copy", "src_buff": [part("s", 0)], "dst_buff": [part("o", 0)]}
        blocks = [[bring, *sync[0]], [*sync[1], use]]
        gpu = {
            "id": 0,
            "input_chunks": 1,
            "output_chunks": 1,
            "scratch_chunks": 1,
            "threadblocks": [{"id": k, "ops": ops, "channels": []} for k, ops in enumerate(blocks)],
            "channels": [],
            "remote_buffers": [],
            "semaphores": [{"init_value": 0}] * count,
        }
        top = {"name": "x", "collective": "allgather", "protocol": "Simple", "inplace": False, "gpus": [gpu]}
        return json.dumps(top)

    barrier = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
    for sync, count, sound_ in (
        ([[barrier], [barrier]], 0, True),
        (
            [[{"name": "sem_release", "semaphore_ids": [0]}], [{"name": "sem_acquire", "semaphore_ids": [0]}]],
            1,
            True,
        ),
        ([[], []], 0, False),
    ):
        (tmp_path / "a.json").write_text(plan(sync, count))
        found = read_foreign(tmp_path / "a.json")
        assert (found.violations == ()) == sound_, found.violations


def part(buffer: str, index: int) -> dict[str, Any]:
    """One chunk."""
    return {"type": buffer, "index": index, "size": 1}


def multicast_all_gather(cluster: il.Cluster, size: int) -> tuple[Schedule, il.Problem]:
    """Every rank stores its share at all others through the switch."""
    from interlock.problem import collective_problem

    problem = collective_problem(cluster.topology, il.all_gather(size), 1, cluster)
    ranks = problem.num_ranks
    others = [[r for r in range(ranks) if r != s] for s in range(ranks)]
    count = ranks
    share = problem.items.size_bytes
    schedule = Schedule(
        src=Ragged.single(np.arange(ranks, dtype=np.int32)),
        dst=Ragged.from_lists(others),
        kind=np.full(count, Kind.COPY, np.uint8),
        phase=np.full(count, Phase.SPREAD, np.uint8),
        stage=np.zeros(count, np.int32),
        slice=np.zeros(count, np.int32),
        size_bytes=share.copy(),
        path=Ragged.from_lists([[s, *(ranks + r for r in others[s])] for s in range(ranks)]),
        exclusive=np.zeros(count, np.bool_),
        order=np.zeros(count, np.int64),
        deps=Ragged.empty(count),
        pieces=Pieces(
            np.arange(count + 1, dtype=np.int64),
            np.arange(count, dtype=np.int32),
            np.zeros(count, np.int64),
            share.copy(),
        ),
    )
    return schedule, problem


def test_multicasts_become_stores_through_the_switch(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=4)
    schedule, problem = multicast_all_gather(cluster, 4 * 65536)
    assert check(schedule, problem).valid
    write_schedule(schedule, problem, tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text()
    assert text.count('"gstore"') == 4 and '"put"' not in text
    found = read_foreign(tmp_path / "a.json")
    assert found.violations == () and check(found.schedule, found.problem).valid
    assert found.schedule.dst.counts.tolist() == [3] * 4
    from tests.interchange.mscclpp_machine import Machine

    assert Machine(text).run(0) == [[0.0, 1000.0, 2000.0, 3000.0]] * 4


def test_sums_in_the_switch_become_loads_through_it(tmp_path: Path) -> None:
    from interlock.problem import collective_problem

    cluster = il.cluster("h200", servers=1, gpus_per_server=4)
    problem = collective_problem(cluster.topology, il.reduce_scatter(4 * 65536), 1, cluster)
    others = [[r for r in range(4) if r != s] for s in range(4)]
    share = problem.items.size_bytes
    schedule = Schedule(
        src=Ragged.from_lists(others),
        dst=Ragged.single(np.arange(4, dtype=np.int32)),
        kind=np.full(4, Kind.REDUCE, np.uint8),
        phase=np.full(4, Phase.REDUCE, np.uint8),
        stage=np.zeros(4, np.int32),
        slice=np.zeros(4, np.int32),
        size_bytes=share.copy(),
        path=Ragged.from_lists([[*others[s], 4 + s] for s in range(4)]),
        exclusive=np.zeros(4, np.bool_),
        order=np.zeros(4, np.int64),
        deps=Ragged.empty(4),
        pieces=Pieces(np.arange(5, dtype=np.int64), np.arange(4, dtype=np.int32), np.zeros(4, np.int64), share.copy()),
    )
    assert check(schedule, problem).valid
    write_schedule(schedule, problem, tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text()
    assert text.count('"glres"') == 4
    found = read_foreign(tmp_path / "a.json")
    assert found.violations == (), found.violations
    assert check(found.schedule, found.problem).valid
    from tests.interchange.mscclpp_machine import Machine

    assert Machine(text).run(1) == [[6000.0 + 4 * k] for k in range(4)]


def test_buffers_beyond_32_bits_are_refused(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.matrix(np.array([[0, 5 * 2**30], [2**30, 0]])), "direct")
    with pytest.raises(il.InvalidInput, match="above 4 GiB"):
        plan.export("mscclpp-json", tmp_path / "a.json")


@pytest.mark.parametrize(
    ("kind", "name", "waits"), [("memory", "put", 1), ("port", "put", 0), ("port", "pws", 0), ("port", "pwsf", 1)]
)
def test_a_threadblock_goes_on_after_posting_a_put_to_a_port(kind: str, name: str, waits: int, tmp_path: Path) -> None:
    def put(k: int) -> list[dict[str, Any]]:
        channel = {"channel_type": kind, "channel_ids": [k]}
        moved = {"src_buff": [part("i", 0)], "dst_buff": [{"buffer_id": k, "index": 0, "size": 1}]}
        return [{"name": name, **moved, **channel}, *([{"name": "signal", **channel}] if name == "put" else [])]

    def gpu(rank: int, peers: list[int], operations: list[dict[str, Any]]) -> dict[str, Any]:
        mine = list(range(len(peers)))
        block = {
            "id": 0,
            "ops": operations,
            "channels": [{"channel_type": kind, "channel_ids": mine}],
            "remote_buffer_refs": [{"access_channel_type": kind, "remote_buffer_ids": mine}],
        }
        return {
            "id": rank,
            **dict.fromkeys(("input_chunks", "output_chunks", "scratch_chunks"), 1),
            "threadblocks": [block],
            "channels": [{"channel_type": kind, "connected_to": peers}],
            "remote_buffers": [{"rank": peer, "type": "o", "access_channel_types": [kind]} for peer in peers],
            "semaphores": [],
        }

    wait = {"name": "wait", "channel_type": kind, "channel_ids": [0]}
    gpus = [gpu(0, [1, 2], [*put(0), *put(1)]), gpu(1, [0], [wait]), gpu(2, [0], [wait])]
    top = {"name": "x", "collective": "broadcast", "protocol": "Simple", "inplace": False, "gpus": gpus}
    (tmp_path / "a.json").write_text(json.dumps(top))
    found = read_foreign(tmp_path / "a.json", Intent(collective="broadcast"))
    assert found.schedule.dst.values.tolist() == [1, 2]
    assert found.schedule.deps.counts.tolist() == [0, waits]


def test_slices_of_a_lane_follow_each_other_over_threadblocks(tmp_path: Path) -> None:
    """Each threadblock that goes on with a stream waits for the one before, and the plan's time survives."""
    cluster = il.cluster("h200", servers=3, gpus_per_server=2)
    traffic = il.traffic.hot_expert(cluster, skew=1.0, bytes_per_gpu="256 MB", seed=0)
    plan = il.plan(cluster, traffic)
    plan.export("mscclpp-json", tmp_path / "a.json")
    longest = 0
    for gpu in json.loads((tmp_path / "a.json").read_text())["gpus"]:
        streams: dict[int, list[list[str]]] = {}
        for block in gpu["threadblocks"]:
            puts = [op for op in block["ops"] if op["name"] in ("put", "pws") and op["channel_type"] == "port"]
            for peer in {_peer(gpu, block, op) for op in puts}:
                streams.setdefault(peer, []).append([op["name"] for op in block["ops"]])
        for first, *others in streams.values():
            longest = max(longest, 1 + len(others))
            assert "sem_acquire" not in first
            assert all("sem_acquire" in operations for operations in others)
            flushed = [operations[operations.index("sem_release") - 1] for operations in [first, *others][:-1]]
            assert set(flushed) <= {"flush"}  # a put to a port is posted, not done
    assert longest > 1
    found = read_foreign(tmp_path / "a.json", Intent(demand=traffic, cluster=cluster))
    assert found.violations == ()
    assert check(found.schedule, found.problem).violations == ()
    after_s = planning.Plan(found.problem, found.schedule, "read").simulate().makespan_s
    assert after_s < 1.15 * plan.simulate().makespan_s


def _peer(gpu: dict[str, Any], block: dict[str, Any], op: dict[str, Any]) -> int:
    """The rank that an operation puts to."""
    refs = next(r for r in block["remote_buffer_refs"] if r["access_channel_type"] == op["channel_type"])
    rank: int = gpu["remote_buffers"][refs["remote_buffer_ids"][op["dst_buff"][0]["buffer_id"]]]["rank"]
    return rank
