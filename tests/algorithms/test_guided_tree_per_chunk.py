"""`guided` where ranks have many links of many speeds: quick trees, one for every chunk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms.synthesis.arcs import arcs_of
from interlock.algorithms.synthesis.forests import Forest
from interlock.algorithms.synthesis.goal import TreeGoal, goal_of
from interlock.algorithms.synthesis.graph import graph_of
from interlock.algorithms.synthesis.tree_per_chunk import has_many_links, sweep
from interlock.problem import collective_problem

GIB = 2**30


def dense(ranks: int, seed: int, overhead: str = "0.5 us") -> il.Topology:
    """Every other pair joined, and neighbours; five speeds."""
    rng = np.random.default_rng(seed)
    joined = rng.random((ranks, ranks)) < 0.5
    joined[np.arange(ranks), (np.arange(ranks) + 1) % ranks] = True
    np.fill_diagonal(joined, False)
    src, dst = np.nonzero(joined)
    rate = GIB * rng.choice([12.5, 25, 50, 100, 200], len(src))
    return il.topology.from_edges(src, dst, rate, message_overhead=overhead)


@pytest.mark.parametrize(
    ("wanted", "most"),
    [(il.all_gather("1 GiB"), 1.08), (il.reduce_scatter("1 GiB"), 1.08), (il.all_reduce("1 GiB"), 1.2)],
)
def test_dense_graph_of_many_speeds_is_near_the_bound(wanted: il.Collective, most: float) -> None:
    """A slow link takes longer for one shard than the whole should; one shard per rank would take 1.5 times as long."""
    plan = il.synthesize(dense(24, seed=7), wanted, "guided")
    assert plan.certificate().valid
    assert plan.simulate().makespan_s <= most * plan.bound.seconds


def swept(topology: il.Topology, trees: int, seed: int, is_paired: bool) -> Forest:
    arcs = arcs_of(topology)
    ticks = arcs.ticks(trees * topology.num_ranks, 1e6 * trees * topology.num_ranks)
    ranks = np.arange(topology.num_ranks, dtype=np.int32)
    return sweep(
        arcs,
        ticks,
        ranks[np.arange(trees) % len(ranks)],
        np.full(trees, 1_000_000, np.int64),
        1e6 * ticks.per_byte,
        passes=2,
        haste=0.3,
        seed=seed,
        free_roots=ranks if is_paired else None,
    )


@settings(max_examples=40)
@given(ranks=st.integers(2, 12), seed=st.integers(0, 2**31), is_paired=st.booleans())
def test_swept_trees_lead_from_their_roots_to_all(ranks: int, seed: int, is_paired: bool) -> None:
    topology = dense(ranks, seed)
    arcs = arcs_of(topology)
    forest = swept(topology, 2 * ranks, seed, is_paired)
    sides = [(forest.arc_into, arcs.src, arcs.dst), (forest.arc_outof, arcs.dst, arcs.src)]
    for table, near, far in sides if is_paired else sides[:1]:
        for root, row in zip(forest.root.tolist(), table, strict=True):
            others = np.delete(np.arange(ranks), root)
            assert row[root] == -1
            assert (far[row[others]] == others).all()
            at = others
            for _ in range(ranks):
                at = np.where(at == root, root, near[row[at]])
            assert (at == root).all()


@pytest.mark.parametrize("wanted", [il.all_gather("1 GiB"), il.all_reduce("1 GiB")])
def test_ports_of_a_switch_are_not_many_links(wanted: il.Collective) -> None:
    """Ways from every rank to every other are many, but all pass through one port of each."""
    problems = [collective_problem(dense(12, seed=3), wanted)]
    problems.append(collective_problem(il.topology.switch(12, bandwidth="10 GB/s"), wanted))
    goals = [(goal_of(problem), graph_of(problem.topology)) for problem in problems]
    assert [isinstance(goal, TreeGoal) and has_many_links(goal, graph) for goal, graph in goals] == [True, False]


def test_sweeps_are_repeatable_and_count_what_they_load() -> None:
    topology = dense(16, seed=1)
    first, again = (swept(topology, 64, 5, is_paired=True) for _ in range(2))
    assert np.array_equal(first.arc_into, again.arc_into) and np.array_equal(first.root, again.root)
    arcs = arcs_of(topology)
    ticks = arcs.ticks(64 * 16, 1e6 * 64 * 16)
    used = np.concatenate([first.arc_into.reshape(-1), first.arc_outof.reshape(-1)])
    used = used[used >= 0]
    load = np.bincount(used, ticks.overhead[used] + np.rint(1e6 * ticks.per_byte[used]), len(arcs))
    assert first.peak_ticks == int(load.max())
