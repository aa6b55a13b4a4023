"""Which ranks one may stand for others in a bound, and what nothing costs."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.cost import lower_bound
from interlock.cost.bounds import _orbits
from interlock.cost.cuts import group_partition
from interlock.cost.flows import _RootedSearch
from interlock.cost.network import usable_network
from interlock.problem import collective_problem, demand_problem

RING = il.topology.ring(4, bandwidth="1 GB/s")


def test_ranks_that_a_symmetry_moves_to_each_other_share_a_number() -> None:
    assert np.asarray(_orbits(RING)).tolist() == [0, 0, 0, 0]
    assert _orbits(il.topology.from_edges([0, 1], [1, 0], "1 GB/s")) is None


@pytest.mark.parametrize(
    ("root_bytes", "asked"),
    [
        ([10.0, 10.0, 10.0, 10.0], [0]),
        ([10.0, 11.0, 10.0, 11.0], [0]),  # to a byte
        ([10.0, 11.5, 10.0, 11.5], [0, 1, 2, 3]),
        ([1e7, 1e7 + 10, 1e7, 1e7], [0]),  # to a millionth
        ([1e7, 1e7 + 12, 1e7, 1e7], [0, 1, 2, 3]),
    ],
)
def test_one_rank_stands_for_those_that_have_as_many_bytes(root_bytes: list[float], asked: list[int]) -> None:
    network = usable_network(collective_problem(RING, il.all_gather("4 MB")))
    search = _RootedSearch.of(network, np.array(root_bytes))
    ranks = np.arange(4, dtype=np.int32)
    assert search._representatives(ranks, _orbits(RING)).tolist() == asked
    assert search._representatives(ranks, None).tolist() == [0, 1, 2, 3]


def test_nothing_to_move_takes_no_time() -> None:
    nothing = lower_bound(demand_problem(RING, il.traffic.matrix(np.zeros((4, 4), np.int64))))
    assert nothing.seconds == 0.0 and nothing.binds == "nothing to move"


@pytest.mark.parametrize("able", [False, True])
def test_what_a_switch_between_groups_copies_or_adds_is_no_traffic_between_them(able: bool) -> None:
    """Two groups of two ranks around a switch: 4 MB of an All-Gather pass between them both ways, over 4 links."""
    cluster = il.Cluster("switch", 1, 4, scale_up_bandwidth_bytes_per_s=1e9, multicasts=able)
    problem = collective_problem(cluster.topology, il.all_gather("4 MB"))
    network = usable_network(problem)
    group = np.full(network.num_nodes, -1)
    group[:4] = [0, 0, 1, 1]
    seconds, _ = group_partition(network, problem.items, group, "all")
    assert (seconds == 0.0) is able
