"""`guided`: valid on every graph, as good as its table says, the same on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms.guided import guided, refuses
from interlock.algorithms.synthesis.arcs import arcs_of
from interlock.algorithms.synthesis.goal import cut
from interlock.collectives import CollectiveKind, collective
from interlock.problem import Problem, collective_problem, demand_problem
from interlock.schedule import Schedule
from interlock.simulate import simulate
from interlock.validate import check
from strategies import collective_problems, graphs

GIB = 2**30
LINK = {"bandwidth": 50 * GIB, "message_overhead": "0.5 us"}


def makespan_us(plan: il.Plan) -> float:
    """Simulated time of a plan that is valid."""
    report = check(plan.schedule, plan.problem)
    assert report.valid, [str(violation) for violation in report.violations]
    return plan.simulate().makespan_s * 1e6


@pytest.mark.parametrize("kind", list(CollectiveKind))
@settings(max_examples=25)
@given(topology=graphs(max_ranks=9), size=st.sampled_from([1, 1000, 3_000_017]), parts=st.sampled_from([None, 1, 3]))
def test_every_collective_is_complete_on_any_graph(
    kind: CollectiveKind, topology: il.Topology, size: int, parts: int | None
) -> None:
    problem = collective_problem(topology, collective(kind, size))
    report = check(guided(problem, parts=parts, threads=1), problem)
    assert report.valid, [str(violation) for violation in report.violations]


@settings(max_examples=60)
@given(collective_problems(max_ranks=8))
def test_planned_and_simulated_times_agree(problem: Problem) -> None:
    """A slot table is a promise kept early at worst; with times of their own, messages keep them."""
    made = guided(problem, threads=1)
    simulated_s = simulate(made.expand(), problem).makespan_s
    assert check(made, problem).valid
    again_s = simulate(guided(problem, threads=1).expand(), problem).makespan_s
    assert simulated_s == again_s


def rows(schedule: Schedule) -> list[np.ndarray]:
    return [schedule.size_bytes, schedule.src.values, schedule.dst.values, schedule.deps.values, schedule.pieces.offset]


@pytest.mark.parametrize("wanted", [il.all_gather("64 KB"), il.all_gather("64 MB"), il.all_reduce("64 MB")])
def test_result_does_not_depend_on_threads(wanted: il.Collective, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.algorithms.synthesis.budget.WORTH_A_THREAD", 0)
    topology = il.topology.mesh(2, 3, bandwidth=("100 GB/s", "25 GB/s"), message_overhead="0.5 us")
    problem = collective_problem(topology, wanted)
    made = [rows(guided(problem, seed=5, threads=threads).expand()) for threads in (1, 2, 3)]
    for other in made[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(made[0], other, strict=True))


@pytest.mark.parametrize(("width", "slots"), [(4, 4), (8, 16), (12, 36), (16, 64)])
def test_torus_all_gather_takes_the_least_slots(width: int, slots: int) -> None:
    topology = il.topology.torus(width, width, **LINK)
    plan = il.synthesize(topology, il.all_gather("1 GiB"), "guided", chunks=1)
    assert plan.num_stages == slots
    assert check(plan.schedule, plan.problem).valid


@pytest.mark.parametrize(("width", "most_slots"), [(8, 17), (12, 37), (16, 65), (32, 257)])
def test_torus_without_its_symmetry_takes_one_slot_more_at_most(width: int, most_slots: int) -> None:
    regular = il.topology.torus(width, width, **LINK)
    topology = il.topology.from_edges(
        regular.link_src, regular.link_dst, regular.bandwidth_bytes_per_s, message_overhead=regular.message_overhead_s
    )
    plan = il.synthesize(topology, il.all_gather("1 GiB"), "guided", chunks=1)
    assert plan.num_stages <= most_slots
    assert plan.report.valid


def test_mesh_all_gather_takes_the_least_slots() -> None:
    plan = il.synthesize(il.topology.mesh(8, 8, **LINK), il.all_gather("1 GiB"), "guided", chunks=1)
    assert plan.num_stages == 32
    assert makespan_us(plan) == pytest.approx(32 * 313, rel=1e-9)


def test_small_all_gather_merges_messages() -> None:
    assert makespan_us(il.synthesize(il.topology.mesh(8, 8, **LINK), il.all_gather("1 MiB"), "guided")) <= 17


def test_unequal_torus_uses_all_its_links() -> None:
    topology = il.topology.torus(4, 4, 4, bandwidth=(200 * GIB, 100 * GIB, 50 * GIB), message_overhead="0.5 us")
    assert makespan_us(il.synthesize(topology, il.all_gather("1 GiB"), "guided")) <= 1475


def test_scarce_links_between_servers_carry_everything_once() -> None:
    """Four servers of eight on rails: the optimum is 3750 us, greedy matching takes 5699."""
    topology = rail_cluster(4, 8, 450 * GIB, 25 * GIB)
    assert makespan_us(il.synthesize(topology, il.all_gather("1 GiB"), "guided")) <= 4200


def rail_cluster(servers: int, gpus: int, inside: float, nic: float) -> il.Topology:
    """Full meshes joined by rails, the rails' switches unwound."""
    rank = np.arange(servers * gpus)
    src, dst = np.nonzero(rank[:, None] != rank)
    same_server, same_rail = src // gpus == dst // gpus, src % gpus == dst % gpus
    keep = same_server | same_rail
    rate = np.where(same_server, inside / (gpus - 1), nic / (servers - 1))
    return il.topology.from_edges(src[keep], dst[keep], rate[keep], message_overhead="0.5 us")


def test_all_reduce_overlaps_sums_and_copies() -> None:
    """One after the other they would need 20 ms; the optimum is 11.25 ms."""
    assert makespan_us(il.synthesize(il.topology.mesh(8, 8, **LINK), il.all_reduce("1 GiB"), "guided")) <= 12_000


def test_all_reduce_on_links_of_many_speeds_uses_the_trees_that_fit_them() -> None:
    """Every other pair joined, at a sixteenth of the fastest speed or more: chunks must not wait on slow links."""
    rng = np.random.default_rng(2)
    table = rng.random((14, 14)) < 0.5
    np.fill_diagonal(table, False)
    src, dst = np.nonzero(table)
    rate = GIB * rng.choice([12.5, 25, 50, 100, 200], len(src))
    plan = il.synthesize(il.topology.from_edges(src, dst, rate, message_overhead="0.5 us"), il.all_reduce("1 GiB"))
    assert plan.certificate().valid
    assert plan.simulate().makespan_s <= 1.12 * plan.bound.seconds


def test_switch_ports_are_held_by_one_message_at_a_time() -> None:
    plan = il.synthesize(il.topology.switch(6, bandwidth="10 GB/s"), il.all_gather("60 MB"), "guided")
    schedule, result = plan.schedule, plan.simulate()
    assert set(schedule.path.counts.tolist()) == {2}
    assert makespan_us(plan) <= 1.05 * 5e4 / 10
    for link in range(plan.problem.topology.num_links):
        users = np.unique(schedule.path.row_of_value[schedule.path.values == link])
        order = users[np.argsort(result.start_s[users])]
        assert (result.start_s[order][1:] >= result.sent_s[order][:-1] - 1e-12).all()


def test_group_is_served_through_ranks_outside_it() -> None:
    line = il.topology.mesh(5, bandwidth="10 GB/s")
    plan = il.synthesize(line, il.all_gather("10 MB", group=[0, 4]), "guided")
    assert check(plan.schedule, plan.problem).valid
    assert set(plan.schedule.dst.values.tolist()) == {0, 1, 2, 3, 4}


def test_unreachable_rank_is_named() -> None:
    one_way = il.topology.from_edges([0, 1], [1, 2], bandwidth="10 GB/s")
    assert il.synthesize(one_way, il.broadcast("1 MB"), "guided").certificate().valid
    with pytest.raises(il.InvalidInput, match="nothing leads from rank 1 to rank 0"):
        il.synthesize(one_way, il.all_gather("1 MB"), "guided")


def test_interruption_keeps_the_best_answer() -> None:
    calls = 0

    def stop(share: float) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt

    topology = il.topology.mesh(3, 3, bandwidth=("10 GB/s", "4 GB/s"))
    problem = collective_problem(topology, il.all_gather("9 MB"))
    assert check(guided(problem, threads=1, report=stop), problem).valid
    assert calls == 2


def test_huge_table_is_kept_in_a_file(tmp_path) -> None:
    problem = collective_problem(il.topology.mesh(6, 6, **LINK), il.all_gather("1 GiB"))
    made = guided(problem, parts=1, threads=2, table_file=tmp_path / "slots.bin")
    assert (tmp_path / "slots.bin").stat().st_size > 0
    assert check(made, problem).valid


def test_ways_through_two_layers_of_switches_are_found() -> None:
    arcs = arcs_of(il.topology.clos(2, 2, 2, bandwidth="10 GB/s"))
    across = (arcs.src == 0) & (arcs.dst == 2)
    assert arcs.path.counts[across].tolist() == [4, 4]
    inside = (arcs.src == 0) & (arcs.dst == 1)
    assert arcs.path.counts[inside].tolist() == [2]


def test_symmetry_is_not_used_where_it_puts_two_ranks_on_one_link() -> None:
    """Declared symmetries may swap spines and leave ranks; those that move ranks leave the spines."""
    topology = il.topology.clos(2, 2, 2, bandwidth="10 GB/s", message_overhead="1 us")
    plan = il.synthesize(topology, il.all_gather("1 GiB"), "guided")
    assert makespan_us(plan) <= 1e6 * 1.01 * plan.bound.seconds


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=20), st.integers(1, 64))
def test_cut_chunks_are_whole_and_nearly_equal(sizes: list[int], parts: int) -> None:
    size_bytes = np.array(sizes, np.int64)
    chunks = cut(size_bytes, parts)
    assert np.array_equal(np.bincount(chunks.item, chunks.length), size_bytes)
    assert (chunks.length > 0).all()
    largest = int(np.argmax(size_bytes))
    assert np.count_nonzero(chunks.item == largest) == min(parts, sizes[largest])
    assert np.ptp(chunks.length[chunks.item == largest]) <= 1


def test_merged_messages_do_not_mix_sums_and_copies() -> None:
    topology = il.topology.from_edges([0, 0, 1, 2, 3, 4], [1, 2, 2, 3, 4, 0], bandwidth=1e9, message_overhead=5e-7)
    problem = collective_problem(topology, il.all_reduce(1_000_003))
    assert check(guided(problem), problem).valid


def test_a_group_of_one_rank_needs_no_way_to_anyone():
    apart = il.topology.from_edges([3], [2], "1 GB/s", num_ranks=3, num_nodes=4)
    assert il.synthesize(apart, il.all_gather(1, group=[1]), "guided").certificate().valid


def test_pairs_that_look_unlike_are_refused_above_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (il.cluster("h200", servers=servers) for servers in (26, 27))
    assert refuses(demand_problem(small, il.traffic.random(small, "1 MB"))) is None
    words = "216 ranks x 47,952 links are more than 10,000,000"
    assert words in str(refuses(demand_problem(large, il.traffic.random(large, "1 MB"))))
    monkeypatch.setattr("interlock.algorithms.guided.MOST_SEARCHED", 0)
    assert refuses(collective_problem(il.topology.torus(4, 4, bandwidth="50 GB/s"), il.all_to_all("1 MB"))) is None
