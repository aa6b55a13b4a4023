"""Drawings show every link once, and only nodes that are there."""

from __future__ import annotations

import re

import pytest

import interlock as il
from interlock.problem import Problem, collective_problem, demand_problem
from interlock.report.drawing import draw, link_names, link_shares


def problem_on(cluster: il.Cluster) -> Problem:
    return demand_problem(cluster, il.traffic.uniform(cluster, "1 MB"))


PROBLEMS = {
    "two tiers": problem_on(il.cluster("h200", servers=2)),
    "one wide switch": problem_on(il.cluster("gb200-nvl72", servers=1)),
    "mesh inside servers": problem_on(il.cluster("mi300x", servers=2)),
    "torus": collective_problem(il.topology.torus(3, 4, bandwidth="1 GB/s"), il.all_gather("12 MB"), 1),
    "switch": collective_problem(il.topology.switch(4, bandwidth="1 GB/s"), il.all_gather("4 MB"), 1),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_link_is_drawn_once(name: str) -> None:
    problem = PROBLEMS[name]
    drawn = [int(link) for links in re.findall(r'data-links="([\d ]+)"', draw(problem)) for link in links.split()]

    assert sorted(drawn) == list(range(problem.topology.num_links))


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_rank_is_drawn_once_and_no_node_without_links(name: str) -> None:
    topology = PROBLEMS[name].topology
    shown = [int(node) for node in re.findall(r">(\d+)</text>", draw(PROBLEMS[name]))]
    ends = {*topology.link_src.tolist(), *topology.link_dst.tolist()}

    assert len(set(shown)) == len(shown)
    assert set(range(topology.num_ranks)) <= set(shown) <= ends | set(range(topology.num_ranks))


def test_links_are_called_by_rank_and_port() -> None:
    names = link_names(PROBLEMS["two tiers"].topology)

    assert [names[k] for k in (0, 16, 32, 63)] == [
        "rank 0 scale-up out",
        "rank 0 scale-up in",
        "rank 0 NIC out",
        "rank 15 NIC in",
    ]
    assert link_names(PROBLEMS["torus"].topology)[0].startswith("0 to ")


def test_the_share_of_a_link_that_never_rests_is_one() -> None:
    ring = il.topology.ring(4, bandwidth="1 GB/s", message_overhead="0 us")
    plan = il.synthesize(ring, il.all_gather("400 MB"), algorithm="ring")

    assert link_shares(plan.simulate()).max() == pytest.approx(1.0)
