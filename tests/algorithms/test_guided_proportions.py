"""Trees in the proportions of a linear program: near the fluid optimum where links are very unlike."""

import numpy as np
import pytest

import interlock as il
from interlock._native import _core
from interlock.algorithms import guided
from interlock.algorithms.synthesis import proportioned_trees
from interlock.algorithms.synthesis.arcs import arcs_of
from interlock.algorithms.synthesis.budget import Budget, SearchBound
from interlock.algorithms.synthesis.goal import goal_of
from interlock.algorithms.synthesis.graph import graph_of
from interlock.cost.lp import fluid_optimum_s
from interlock.problem import Problem, collective_problem
from interlock.topology import Topology
from interlock.validate import check

GIB = 2**30


def unlike(seed: int, ranks: int = 8, overhead: str = "0.5 us") -> Topology:
    """A ring with many chords, links of 2 or 200 GiB/s."""
    rng = np.random.default_rng(seed)
    is_link = rng.random((ranks, ranks)) < 0.6
    is_link |= np.roll(np.eye(ranks, dtype=np.bool_), 1, axis=1)
    src, dst = np.nonzero(is_link & ~np.eye(ranks, dtype=np.bool_))
    rate = rng.choice([2.0, 200.0], len(src)) * GIB
    return il.topology.from_edges(src, dst, bandwidth=rate, message_overhead=overhead)


def share_trees(problem: Problem, *, is_free: bool) -> float:
    """Seconds that the busiest link needs with the trees of the program."""
    pytest.importorskip("highspy")
    goal, arcs = goal_of(problem), arcs_of(problem.topology)
    assert not isinstance(goal, str)
    ticks = arcs.ticks(10**6, 1e12)
    roots = np.arange(goal.num_ranks, dtype=np.int32)
    everyone: tuple[np.ndarray, ...] = (np.zeros(0, np.uint8), np.zeros(0, np.int32))
    free = roots if is_free else roots[:0]
    made = _core.share_trees(
        arcs.columns(ticks), roots, goal.size_bytes, *everyone, free, ticks.per_byte, 1.0, 0.002, 50_000
    )
    return float(made[5]) * ticks.tick_s


@pytest.mark.parametrize("seed", range(3))
def test_trees_reach_the_fluid_optimum(seed: int) -> None:
    topology = unlike(seed)
    gather = collective_problem(topology, il.all_gather("1 GiB"))
    assert share_trees(gather, is_free=False) == pytest.approx(fluid_optimum_s(gather), rel=0.003)
    reduce = collective_problem(topology, il.all_reduce("1 GiB"))
    assert share_trees(reduce, is_free=True) == pytest.approx(fluid_optimum_s(reduce), rel=0.003)


@pytest.mark.parametrize("seed", [10, 52])
def test_sums_over_links_of_very_unlike_speeds(seed: int) -> None:
    pytest.importorskip("highspy")
    plan = il.synthesize(unlike(seed), il.all_reduce("1 GiB"), "guided")
    assert check(plan.schedule, plan.problem).valid
    assert plan.simulate().makespan_s <= 1.10 * fluid_optimum_s(plan.problem)


def test_a_few_links_with_much_overhead_do_not_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed trees alone come near the optimum, as long as the worst link does not speak for all."""
    pytest.importorskip("highspy")
    others = tuple(way for way in guided.COPIES if "proportions" not in way.name)
    assert len(others) == len(guided.COPIES) - 1
    monkeypatch.setattr(guided, "COPIES", others)
    rng = np.random.default_rng(99)
    base = unlike(99)
    topology = il.topology.from_edges(
        base.link_src,
        base.link_dst,
        bandwidth=np.exp(rng.uniform(np.log(5), np.log(400), len(base.link_src))) * GIB,
        message_overhead=rng.choice([0.0, 1e-6, 5e-6, 15e-6], len(base.link_src)),
    )
    plan = il.synthesize(topology, il.all_gather("1 GiB"), "guided")
    assert check(plan.schedule, plan.problem).valid
    assert plan.simulate().makespan_s <= 1.10 * fluid_optimum_s(plan.problem)


@pytest.mark.parametrize("collective", [il.all_reduce, il.all_gather, il.broadcast, il.reduce_scatter])
def test_chunks_cover_every_item_once(collective: object) -> None:
    problem = collective_problem(unlike(1), collective(1_000_003))  # type: ignore[operator]
    goal = goal_of(problem)
    assert not isinstance(goal, str)
    budget = Budget(limit=10**7, bound=SearchBound(0.0))
    answers = list(proportioned_trees.proportioned_trees(goal, graph_of(problem.topology), budget))
    assert answers
    for answer in answers:
        chunks = answer.chunks
        order = np.lexsort((chunks.offset, chunks.item))
        end = chunks.offset + chunks.length
        is_first = np.diff(chunks.item[order], prepend=-1) != 0
        assert (chunks.offset[order][is_first] == 0).all()
        assert np.array_equal(chunks.offset[order][1:][~is_first[1:]], end[order][:-1][~is_first[1:]])
        assert np.array_equal(np.bincount(chunks.item, chunks.length), goal.size_bytes)
        assert (chunks.length > 0).all()


def test_ways_of_trees_are_counted_there_and_back() -> None:
    """Everything goes along a line of four: three hops from the end, two and back from the middle."""
    line = il.topology.mesh(4, bandwidth="50 GB/s", message_overhead="0 us")
    for collective, hops in ((il.broadcast("1 GiB"), 3.0), (il.all_reduce("1 GiB"), 4.0)):
        goal = goal_of(collective_problem(line, collective))
        assert not isinstance(goal, str)
        arcs = arcs_of(line)
        ticks = arcs.ticks(10**6, 1e12)
        found = proportioned_trees._solve(
            goal, arcs, ticks, ticks.per_byte, Budget(limit=10**7, bound=SearchBound(0.0))
        )
        assert found is not None
        assert proportioned_trees._hops(found, arcs) == pytest.approx(hops)


def test_the_same_for_any_number_of_threads() -> None:
    one, two = (
        il.synthesize(unlike(52), il.all_reduce("1 GiB"), "guided", threads=threads).schedule for threads in (1, 2)
    )
    assert np.array_equal(one.order, two.order) and np.array_equal(one.pieces.item, two.pieces.item)
