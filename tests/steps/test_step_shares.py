"""Shares of one demand are planned one by one; put together they must not contradict each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import interlock as il
from interlock.schedule import resolved_paths
from interlock.steps.lone import _sharing_alike
from interlock.steps.rows import Part


def shares_of(*, first_alone: bool, second_alone: bool) -> tuple[list[Part], il.Plan]:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster, bytes_per_gpu="1 MB"), algorithm="direct")
    rows, none = plan.schedule, np.zeros(0, np.int32)
    parts = [
        Part(0, replace(rows, exclusive=np.full(rows.num_messages, alone)), none, none.astype(np.int64), share)
        for share, alone in enumerate((first_alone, second_alone))
    ]
    return parts, plan


def test_no_share_has_a_link_for_itself_that_another_shares() -> None:
    parts, plan = shares_of(first_alone=True, second_alone=False)
    topology = plan.problem.topology
    assert set(resolved_paths(parts[0].rows, topology).values) & set(resolved_paths(parts[1].rows, topology).values)
    assert not any(part.rows.exclusive.any() for part in _sharing_alike(parts, topology))


def test_shares_that_agree_stay_as_they_are() -> None:
    for alone in (True, False):
        parts, plan = shares_of(first_alone=alone, second_alone=alone)
        assert _sharing_alike(parts, plan.problem.topology) == parts
