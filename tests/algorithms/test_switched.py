"""`auto` and `weighted-direct` on switched fabrics."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import interlock as il

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from switched import switched_fabric


@pytest.mark.parametrize("seed", range(100, 108))
@pytest.mark.parametrize("make", [il.all_gather, il.all_reduce, il.all_to_all])
def test_auto_is_near_the_bound_and_not_behind_what_needs_no_search(seed: int, make: object) -> None:
    _, fabric = switched_fabric(seed)
    collective = make("64 MiB")  # type: ignore[operator]
    proof = il.synthesize(fabric, collective).certificate(tolerance=1e-3)
    assert proof.valid and proof.makespan_s <= 1.12 * proof.lower_bound_s
    for other in ("direct", "ring"):
        try:
            theirs = il.synthesize(fabric, collective, algorithm=other).certificate(tolerance=1e-3)
        except il.InvalidInput:
            continue
        assert proof.makespan_s <= 1.01 * theirs.makespan_s, other


def test_a_slow_rank_owns_nothing() -> None:
    fabric = il.topology.from_edges(
        [*range(8), *[8] * 8],
        [*[8] * 8, *range(8)],
        bandwidth=[25e9, *[50e9] * 7] * 2,
        num_ranks=8,
    )
    plan = il.synthesize(fabric, il.all_reduce("64 MiB"), algorithm="weighted-direct")
    proof = plan.certificate()
    assert proof.valid and proof.makespan_s <= 1.06 * proof.lower_bound_s
    sums = plan.schedule.kind == 1
    assert 0 not in plan.schedule.dst.values[sums]


@pytest.mark.parametrize("slices", [0, 1.5, True])
def test_slices_are_counted(slices: object) -> None:
    with pytest.raises(il.InvalidInput, match="slices="):
        il.synthesize(
            il.topology.switch(4, bandwidth="50 GB/s"), il.all_reduce("4 MB"), "weighted-direct", slices=slices
        )
