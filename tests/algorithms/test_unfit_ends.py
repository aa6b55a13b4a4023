"""A plan that takes a missing GPU or a dead NIC is refused before it is returned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock import planning
from interlock.algorithms import registry
from interlock.algorithms.two_tier_plan import check_ends
from interlock.errors import InterlockError, InvalidInput
from interlock.schedule import Schedule

ABSENT, DEAD = 3, 5  # ranks of server 0 and 1
FAULTS = [il.missing_gpu(server=0, gpu=3), il.dead_nic(server=1, gpu=1)]
NOTHING = dict.fromkeys(("near_relays", "out_bytes", "in_bytes", "far", "near"), np.empty((0, 6), np.int64))


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
        ("near", [[0, 1, -1, -1, ABSENT, 8]], "GPU that is missing, of rank 3"),
        ("near_relays", [[0, 1, 2, 8], [0, 1, ABSENT, 8]], "GPU that is missing, of rank 3"),
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


@pytest.mark.parametrize("fault", FAULTS, ids=["missing", "dead"])
def test_rows_that_take_what_is_broken(fault: object, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = il.cluster("h200", servers=2, gpus_per_server=4)
    rows = il.plan(whole, il.traffic.uniform(whole, "1 MB"), algorithm="spreadout").schedule
    careless = replace(registry.get("spreadout"), build=lambda problem, seed: rows, supports=lambda problem: None)
    monkeypatch.setattr(planning.registry, "get", lambda name: careless)
    cluster = il.cluster("h200", servers=2, gpus_per_server=4, faults=[fault])  # type: ignore[list-item]
    assert isinstance(rows, Schedule)
    assert il.plan(whole, il.traffic.uniform(whole, "1 MB"), algorithm="spreadout").schedule is rows
    demand = np.zeros((8, 8), np.int64)
    demand[0, 4] = 1
    with pytest.raises(InterlockError, match="refused") as caught:
        il.plan(cluster, il.traffic.matrix(demand), algorithm="spreadout")
    assert not isinstance(caught.value, InvalidInput)
