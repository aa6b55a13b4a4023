"""Bounds of cuts around servers that count a NIC's message and the hops before and after it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms import registry
from interlock.collectives import collective
from interlock.cost import lower_bound
from interlock.planning import Plan
from interlock.problem import collective_problem
from interlock.ragged import Ragged
from interlock.schedule import Batch, Phase, assemble, make_pieces

FREE = {"message_overhead": "0 us", "stage_overhead": "0 us", "multicasts": False, "reduces": False}


@given(
    st.sampled_from(["all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce"]),
    st.integers(2, 4),
    st.integers(1, 4),
    st.sampled_from([1_000, 50_000, 400_000]),
    st.sampled_from(["0.5 us", "4 us", "40 us"]),
    st.booleans(),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_nothing_is_faster(
    kind: str, servers: int, gpus: int, size: int, latency: str, in_switch: bool, data: st.DataObject
) -> None:
    cluster = il.cluster(
        "h200",
        servers=servers,
        gpus_per_server=gpus,
        scale_up_latency=latency,
        stage_overhead="0 us",
        multicasts=in_switch,
        reduces=in_switch,
    )
    everyone = list(range(cluster.num_ranks))
    group = data.draw(st.lists(st.sampled_from(everyone), min_size=2, unique=True) | st.just(everyone))
    problem = collective_problem(cluster.topology, collective(kind, size, group, group[0]), 1, cluster)
    bound_s = lower_bound(problem).seconds
    for name in registry.supported(problem):
        if name not in ("auto", "guided", "tacos", "multitree", "two-tree"):
            made = Plan(problem, registry.get(name).build(problem), name)
            assert made.simulate().makespan_s >= bound_s * (1 - 1e-9), name


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_bytes_with_and_without_the_hop_meet_the_bound_between_two_servers_of_two(share: float) -> None:
    """A part of every item enters the other server once and is passed on, the rest enters twice."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, scale_up_latency="2 us", **FREE)
    size = 400_000
    problem = collective_problem(cluster.topology, il.all_gather(size), 1, cluster)
    found = lower_bound(problem)
    once, length = int(share * size / 4), size // 4
    ends = [(rank, (rank + 2) % 4, 0, once) for rank in range(4)]
    ends += [(rank, other, once, length) for rank in range(4) for other in range(4) if rank // 2 != other // 2]
    ends += [(rank, rank ^ 1, 0, length) for rank in range(4)]
    first = [end for end in ends if end[3] > end[2]]
    later = [((rank + 2) % 4, ((rank + 2) % 4) ^ 1, rank) for rank in range(4) if once]
    items = [end[0] for end in first] + [item for *_, item in later]
    offsets = [end[2] for end in first] + [0] * len(later)
    lengths = [end[3] - end[2] for end in first] + [once] * len(later)
    batch = Batch(
        np.array([end[0] for end in first] + [end[0] for end in later], np.int32),
        np.array([end[1] for end in first] + [end[1] for end in later], np.int32),
        make_pieces(np.arange(len(items) + 1), items, offsets, lengths),
        Phase.SPREAD,
        deps=Ragged.from_lists([[]] * len(first) + [[item] for *_, item in later]),
    )
    made = Plan(problem, assemble([batch]), "by hand")
    assert made.certificate().valid
    assert made.certificate().makespan_s >= found.seconds


def test_a_hop_after_the_nics_counts_but_for_what_enters_twice() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, scale_up_latency="2 us", **FREE)
    found = lower_bound(collective_problem(cluster.topology, il.all_gather(400_000), 1, cluster))
    assert found.seconds == pytest.approx(200_000 / 100e9 + 3e-6 + 2e-6 * (1 - 1 / 2))
    assert found.binds == "links of server 0, sending"


def test_a_sum_pays_hops_at_both_ends_and_a_nic_between() -> None:
    cluster = il.cluster("h200", servers=2, **FREE)
    found = lower_bound(collective_problem(cluster.topology, il.all_reduce("1 MiB"), 1, cluster))
    assert found.seconds == pytest.approx(2**20 / 400e9 + 3e-6 + 2 * 1e-6 * (1 - 1 / 8))
