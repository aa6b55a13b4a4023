"""Baselines around dead NICs: valid, through neighbours only, and marked as such."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.algorithms import registry
from interlock.algorithms.detours import through_live_nics

BASELINES = [name for name in registry.names() if registry.get(name).detours]
DEAD = [il.dead_nic(server=0, gpu=5), il.dead_nic(server=1, gpu=2), il.dead_nic(server=1, gpu=3)]


def test_the_page_names_the_baselines_that_go_around_dead_nics() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "baselines.md"
    sentence = page.read_text().partition("Where a NIC is dead, ")[2].partition(" do what libraries do")[0]
    assert len(BASELINES) >= 10 and set(re.findall(r"`([^`]+)`", sentence)) == set(BASELINES)


def test_collectives_do_not_and_say_so() -> None:
    cluster = il.cluster("h200", servers=2, faults=DEAD[:1])
    for name in ("direct", "halving-doubling"):
        with pytest.raises(il.InvalidInput, match="a NIC on the way is dead or missing"):
            il.synthesize(cluster, il.all_reduce("1 MiB"), name)


@pytest.mark.parametrize("scale_out", ["flat", "rail-spine", "rail"])
@pytest.mark.parametrize("name", BASELINES)
def test_a_dead_nic_carries_nothing_and_every_byte_arrives(name: str, scale_out: str) -> None:
    cluster = il.cluster("h200", servers=3, scale_out=scale_out, faults=DEAD)
    traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="8 MB", seed=3)
    problem = il.plan(cluster, traffic, "rails-split").problem
    if registry.get(name).supports(problem) is not None:
        assert scale_out == "rail" and name in ("direct", "spreadout", "padded")
        return
    made = il.plan(cluster, traffic, name)
    assert made.certificate().valid, made.report.violations

    routes = cluster.topology.router
    dead = np.flatnonzero(cluster.nic_bandwidth_bytes_per_s == 0)
    carried = made.simulate().link_bytes
    assert carried[routes.nic_out + dead].sum() == carried[routes.nic_in + dead].sum() == 0


def test_neighbours_are_the_next_that_have_a_nic() -> None:
    cluster = il.cluster("h200", servers=2, faults=DEAD)
    first, last = through_live_nics(cluster, np.array([5, 4], np.int32), np.array([10, 12], np.int32))
    assert first.tolist() == [6, 4] and last.tolist() == [12, 12]

    rails = il.cluster("h200", servers=2, faults=DEAD, scale_out="rail")
    first, last = through_live_nics(rails, np.array([2, 5], np.int32), np.array([10, 13], np.int32))
    assert first.tolist() == [4, 6] and last.tolist() == [12, 14]


def test_a_comparison_marks_them_and_says_why() -> None:
    cluster = il.cluster("h200", servers=2, faults=DEAD)
    made = il.compare(cluster, il.traffic.uniform(cluster, "1 MB"), ["direct", "rails-split"], baseline="direct")

    assert {row.algorithm: row.detours for row in made.results} == {"direct": True, "rails-split": False}
    assert {cells[0] for cells in made.cells()} == {"direct*", "rails-split"}
    assert made.auto is not None and made.auto.reason.startswith(made.auto.algorithm) and "inf" not in made.auto.reason
    traffic, dead = made.remarks()
    assert traffic == f"Traffic: {made.problem.demand.unevenness.summary}."
    assert dead == "* a NIC is dead: what it would carry goes through the next GPU of its server that has one."


def test_a_server_without_any_nic_is_refused_by_name() -> None:
    cluster = il.cluster("h200", servers=2, faults=[il.dead_nic(1, gpu) for gpu in range(8)])
    with pytest.raises(il.InvalidInput, match="server 1 has no NIC that is alive"):
        il.plan(cluster, il.traffic.uniform(cluster, "1 MB"), "direct")
