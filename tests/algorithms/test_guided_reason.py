"""`guided` says which of its ways won, alone and as a candidate of `auto`."""

from __future__ import annotations

import pytest

import interlock as il

LINK = {"bandwidth": "50 GB/s", "message_overhead": "0.5 us"}


@pytest.mark.parametrize(
    ("where", "wanted", "way"),
    [
        (il.topology.mesh(3, 3, **LINK), il.all_reduce("1 GB"), "pairs of trees"),
        (il.topology.torus(3, 3, **LINK), il.all_to_all("1 GB"), "moved by symmetry"),
        (il.topology.mesh(2, 3, **LINK), il.all_to_all("1 GB"), "balanced paths"),
        (il.cluster("h200", servers=1), il.broadcast("1 GB"), "in the switch"),
    ],
)
def test_the_way_that_won_is_told(where: il.Topology | il.Cluster, wanted: il.Collective, way: str) -> None:
    assert way in il.synthesize(where, wanted, "guided").reason


def test_sums_and_copies_one_after_the_other_name_both_ways() -> None:
    plan = il.synthesize(il.topology.ring(4, **LINK), il.all_reduce("4 KB"), "guided", parts=1)
    assert plan.reason and "  " not in plan.reason and not plan.reason.startswith(",")


def test_auto_tells_the_way_beside_the_others() -> None:
    reason = il.synthesize(il.topology.mesh(3, 3, **LINK), il.all_reduce("1 GB")).reason
    assert reason.startswith("guided (") and "pairs of trees" in reason and "beside it" in reason
