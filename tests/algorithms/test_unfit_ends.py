"""A plan that takes a missing GPU or a dead NIC is refused before it is returned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock import planning
from interlock.algorithms import registry
from interlock.algorithms.two_tier_plan import Way, check_ends, check_straight
from interlock.errors import InterlockError, InvalidInput
from interlock.schedule import Schedule
from interlock.topology.graph import DEAD_BANDWIDTH

ABSENT, DEAD = 3, 5  # ranks of server 0 and 1
FAULTS = [il.missing_gpu(server=0, gpu=3), il.dead_nic(server=1, gpu=1)]
NOTHING = dict.fromkeys(("out_target", "in_target", "out_bytes", "in_bytes", "far", "near"), np.empty((0, 6), np.int64))


def faulty(**changes: object) -> tuple[il.Cluster, il.Demand]:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4, faults=FAULTS, **changes)  # type: ignore[arg-type]
    matrix = np.full((8, 8), 1_000_000)
    matrix[ABSENT], matrix[:, ABSENT] = 0, 0
    return cluster, il.traffic.matrix(matrix)


@pytest.mark.parametrize(
    ("column", "rows", "words"),
    [
        ("far", [[0, 4, 0, 4, -1, 8], [0, 4, ABSENT, 4, -1, 8]], "NIC that is dead, of rank 3"),
        ("far", [[0, 4, 0, DEAD, -1, 8]], "NIC that is dead, of rank 5"),
        ("far", [[0, 4, 0, 4, ABSENT, 8]], "GPU that is missing, of rank 3"),
        ("near", [[0, 1, -1, -1, 2, 8], [0, 1, -1, -1, ABSENT, 8]], "GPU that is missing, of rank 3"),
    ],
)
def test_decisions_that_take_what_is_broken(column: str, rows: list[list[int]], words: str) -> None:
    with pytest.raises(InterlockError, match=words):
        check_ends(faulty()[0], **NOTHING | {column: np.array(rows)})


def test_shares_of_a_dead_nic() -> None:
    shares = np.zeros((8, 4), np.int64)
    shares[4, 0] = 8
    check_ends(faulty()[0], **NOTHING | {"in_bytes": shares})
    shares[4, 1] = 8
    with pytest.raises(InterlockError, match="NIC that is dead, of rank 5"):
        check_ends(faulty()[0], **NOTHING | {"in_bytes": shares})


def test_targets_of_a_dead_nic() -> None:
    bytes_by_nic = np.zeros(8, np.int64)
    bytes_by_nic[4] = 8
    check_ends(faulty()[0], **NOTHING | {"out_target": bytes_by_nic, "in_target": bytes_by_nic})
    bytes_by_nic[DEAD] = 8
    for column in ("out_target", "in_target"):
        with pytest.raises(InterlockError, match="NIC that is dead, of rank 5"):
            check_ends(faulty()[0], **NOTHING | {column: bytes_by_nic})


@pytest.mark.parametrize(("src", "dst"), [(0, DEAD), (DEAD, 0)])
def test_straight_ways_of_a_dead_nic(src: int, dst: int) -> None:
    matrix = np.zeros((8, 8), np.int64)
    matrix[4, DEAD] = matrix[0, 4] = 8  # the first stays inside its server
    check_straight(faulty()[0], il.traffic.matrix(matrix))
    matrix[src, dst] = 8
    with pytest.raises(InterlockError, match="NIC that is dead, of rank 5"):
        check_straight(faulty()[0], il.traffic.matrix(matrix))


def test_straight_ways_between_rails() -> None:
    cluster = faulty(scale_out="rail")[0]
    matrix = np.zeros((8, 8), np.int64)
    matrix[0, 4] = matrix[0, 1] = 8
    check_straight(cluster, il.traffic.matrix(matrix))
    matrix[2, 4] = 8
    with pytest.raises(InterlockError, match="a way between rails, of rank 2"):
        check_straight(cluster, il.traffic.matrix(matrix))


def test_a_decision_to_send_straight_is_checked() -> None:
    """The plan of a whole cluster, given out for one with a dead NIC."""
    whole = il.cluster("h200", servers=2, gpus_per_server=4)
    decided = il.plan(whole, il.traffic.uniform(whole, "1 MB"), algorithm="adaptive", way="direct").compact
    assert decided.way is Way.DIRECT  # type: ignore[attr-defined]
    with pytest.raises(InterlockError, match="NIC that is dead"):
        replace(decided, cluster=faulty()[0])  # type: ignore[type-var]


@pytest.mark.parametrize("fault", FAULTS, ids=["missing", "dead"])
def test_rows_that_take_what_is_broken(fault: object, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = il.cluster("h200", servers=2, gpus_per_server=4)
    rows = il.plan(whole, il.traffic.uniform(whole, "1 MB"), algorithm="spreadout").schedule
    careless = replace(registry.get("spreadout"), build=lambda problem, seed: rows, refuses=lambda problem: None)
    monkeypatch.setattr(planning.registry, "get", lambda name: careless)
    cluster = il.cluster("h200", servers=2, gpus_per_server=4, faults=[fault])  # type: ignore[list-item]
    assert isinstance(rows, Schedule)
    assert il.plan(whole, il.traffic.uniform(whole, "1 MB"), algorithm="spreadout").schedule is rows
    demand = np.zeros((8, 8), np.int64)
    demand[0, 4] = 1
    with pytest.raises(InterlockError, match="refused") as caught:
        il.plan(cluster, il.traffic.matrix(demand), algorithm="spreadout")
    assert not isinstance(caught.value, InvalidInput)


def test_rows_that_take_a_dead_link(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, demand = faulty(scale_up="mesh", scale_out="rail")
    rows = il.plan(cluster, demand, algorithm="guided").schedule
    dead = int(np.flatnonzero(cluster.topology.bandwidth_bytes_per_s <= DEAD_BANDWIDTH)[0])
    links = rows.path.values.copy()
    links[-1] = dead
    broken = replace(rows, path=replace(rows.path, values=links))
    careless = replace(registry.get("guided"), build=lambda problem, seed, **rest: broken)
    monkeypatch.setattr(planning.registry, "get", lambda name: careless)
    with pytest.raises(InterlockError, match=f"dead link {dead}"):
        il.plan(cluster, demand, algorithm="guided")
