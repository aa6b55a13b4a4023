"""`tiers`: every collective on clusters of all kinds, groups, roots and faults; few messages; near the bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import clusters

import interlock as il
from interlock.algorithms import compared, registry
from interlock.algorithms import tiers as tiers_module
from interlock.algorithms.tier_shares import carriers_of, cut_lines
from interlock.algorithms.tiers import Scene, TierWay, _scenes, tiers
from interlock.collectives import CollectiveKind, collective
from interlock.cost.predict import Tier, ramp, slices_s
from interlock.lab import LabSpec
from interlock.planning import Plan
from interlock.problem import Problem, collective_problem
from interlock.schedule import Schedule
from interlock.topology import Fabric

KINDS = [kind for kind in CollectiveKind if kind is not CollectiveKind.ALL_TO_ALL]


@st.composite
def cluster_collectives(draw: st.DrawFn) -> Problem:
    """Any collective over some of the ranks that are there."""
    cluster = draw(clusters())
    here = np.flatnonzero(cluster.present).tolist()
    group = draw(st.lists(st.sampled_from(here), min_size=1, unique=True)) if draw(st.booleans()) else here
    size = draw(st.integers(1, 100_000) | st.integers(1, 500))
    asked = collective(draw(st.sampled_from(KINDS)), size, group, draw(st.sampled_from(group)))
    return collective_problem(cluster.topology, asked, draw(st.integers(1, 3)), cluster)


@given(
    cluster_collectives(),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
)
@settings(max_examples=80, deadline=None)
def test_every_way_is_valid(problem: Problem, slices: int, relays: bool, in_turns: bool, under_way: int) -> None:
    if registry.get("tiers").supports(problem) is not None:
        return
    way = TierWay(ramp(slices), relays=relays, in_turns=in_turns, under_way=under_way)
    assert Plan(problem, tiers(problem, way=way), "tiers").certificate().valid


@given(cluster_collectives())
@settings(max_examples=30, deadline=None)
def test_the_chosen_way_is_valid_and_not_below_the_bound(problem: Problem) -> None:
    if registry.get("tiers").supports(problem) is not None:
        return
    proof = Plan(problem, tiers(problem), "tiers").certificate()
    assert proof.valid
    assert proof.makespan_s >= proof.lower_bound_s * (1 - 1e-9)


@pytest.mark.parametrize(("faster", "chosen"), [(0.5, 1), (0.999, 0)])
def test_the_faster_of_two_is_taken_where_it_is_worth_its_messages(
    monkeypatch: pytest.MonkeyPatch, faster: float, chosen: int
) -> None:
    """The likeliest by the ledger, beside what has fewer messages and is about as good by it."""
    monkeypatch.setattr(tiers_module, "MOST_TIMED", 1)
    cluster = il.cluster("h200", servers=2)
    timed: list[int] = []

    def time_of(schedule: Schedule) -> float:
        timed.append(schedule.num_messages)
        return 1.0 if len(timed) == 1 else faster

    made = tiers(collective_problem(cluster.topology, il.all_gather("16 MB"), 1, cluster), time_of=time_of)
    assert len(timed) == 2 and timed[0] < timed[1]
    assert made.num_messages == timed[chosen]


@pytest.mark.parametrize("radices", [(12,), (3, 4), (2, 2, 3), (6, 2)])
@pytest.mark.parametrize("make", [il.all_gather, il.reduce_scatter, il.all_reduce])
def test_rounds_of_servers_are_valid(radices: tuple[int, ...], make: object) -> None:
    cluster = il.cluster("h200", servers=12, gpus_per_server=2)
    problem = collective_problem(cluster.topology, make("1 MiB"), 1, cluster)  # type: ignore[operator]
    made = Plan(problem, tiers(problem, way=TierWay(ramp(4), radices)), "tiers")
    assert made.certificate().valid


@pytest.mark.parametrize("preset", ["h200", "mi300x"])
@pytest.mark.parametrize(("servers", "most"), [(2, 1.06), (4, 1.06)])
@pytest.mark.parametrize("make", [il.all_gather, il.reduce_scatter, il.all_reduce])
def test_large_collectives_are_near_the_bound_with_few_messages(
    preset: str, servers: int, most: float, make: object
) -> None:
    cluster = il.cluster(preset, servers=servers)
    plan = il.synthesize(cluster, make("1 GiB"))  # type: ignore[operator]
    proof = plan.certificate(tolerance=1e-3)
    assert proof.valid and proof.makespan_s <= most * proof.lower_bound_s
    assert plan.compact.num_messages <= 1_200 * cluster.num_ranks


@pytest.mark.parametrize(
    "faults",
    [
        [il.dead_nic(server=0, gpu=3)],
        [il.slow_nic(server=1, gpu=5, bandwidth="200 Gb/s")],
        [il.dead_nic(server=2, gpu=1), il.slow_nic(server=0, gpu=5, bandwidth="200 Gb/s")],
    ],
)
def test_faults_are_shares(faults: list[object]) -> None:
    proof = il.synthesize(il.cluster("h200", servers=4, faults=faults), il.all_reduce("1 GiB")).certificate(1e-3)
    assert proof.valid and proof.makespan_s <= 1.10 * proof.lower_bound_s


@pytest.mark.parametrize("make", [il.broadcast, il.reduce])
def test_the_port_of_a_root_carries_everything_once(make: object) -> None:
    """Without multicast in the switch: what the root's NIC carries its peers hand on at home."""
    cluster = il.cluster("a100", servers=2)
    plan = il.synthesize(cluster, make("2 GiB"), algorithm="tiers")  # type: ignore[operator]
    near_root = slice(0, 1) if make is il.broadcast else slice(cluster.num_ranks, cluster.num_ranks + 1)
    loads = plan.simulate(tolerance=1e-3).link_bytes
    assert loads[near_root].max() <= 1.001 * 2**31
    proof = plan.certificate(tolerance=1e-3)
    assert proof.valid and proof.makespan_s <= 1.04 * proof.lower_bound_s


def test_small_sums_leave_a_rail_with_a_dead_nic() -> None:
    cluster = il.cluster("h200", servers=2, faults=[il.dead_nic(server=0, gpu=3)])
    made, other = (il.synthesize(cluster, il.all_reduce("1 MiB"), name) for name in ("tiers", "nvls-tree"))
    assert made.certificate().makespan_s <= 1.01 * other.certificate().makespan_s


def test_nic_loads_of_an_all_reduce_are_even_with_a_dead_nic() -> None:
    cluster = il.cluster("h200", servers=4, faults=[il.dead_nic(server=0, gpu=3)])
    problem = collective_problem(cluster.topology, il.all_reduce("1 GiB"), 1, cluster)
    made = tiers(problem, way=TierWay(ramp(48)))
    links = np.bincount(made.path.values, np.repeat(made.size_bytes, made.path.counts), cluster.topology.num_links)
    out = links[2 * 32 : 3 * 32]
    assert out[3] == 0
    assert out[out > 0].max() <= 1.01 * out[out > 0].min()


def test_members_alone_carry_where_waking_others_takes_longer() -> None:
    cluster = il.cluster("h200", servers=4)
    made = il.synthesize(cluster, il.all_gather("4 KiB", group=[5, 13, 21, 29]), "tiers").schedule
    assert set(made.src.values.tolist()) == {5, 13, 21, 29}


@pytest.mark.parametrize("kind", KINDS)
def test_members_of_no_common_rail_carry_across_rails(kind: CollectiveKind) -> None:
    cluster = il.cluster("b200", servers=4)
    asked = collective(kind, "640 kB", [5, 12, 19, 26], 19)
    problem = collective_problem(cluster.topology, asked, 1, cluster)
    wanted = [[5], [12], [19], [26]]
    assert any(scene.carriers.rank.T.tolist() == wanted for scene in _scenes(problem))
    assert il.synthesize(cluster, asked, "tiers").certificate().valid


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_nics_pass_parts_on_in_turns_that_are_one_to_one(kind: str) -> None:
    cluster = il.cluster("h200", servers=5, gpus_per_server=2)
    problem = collective_problem(cluster.topology, collective(kind, "1 GiB", root=3), 1, cluster)
    rows = tiers(problem, way=TierWay(ramp(24)))
    crosses = rows.src.values[rows.src.offsets[:-1]] // 2 != rows.dst.values[rows.dst.offsets[:-1]] // 2
    assert rows.exclusive[crosses].all()
    proof = Plan(problem, rows, "tiers").certificate(1e-3)
    assert proof.valid and proof.makespan_s <= 1.08 * proof.lower_bound_s
    together = Plan(problem, tiers(problem, way=TierWay(ramp(24), in_turns=False)), "tiers").certificate(1e-3)
    assert proof.makespan_s < 0.99 * together.makespan_s


@pytest.mark.parametrize(
    ("preset", "shape", "asked"),
    [
        ("h100", (8, 8), il.gather("1.6 kB", root=11)),  # tiers alone takes 1.85 times as long
        ("b200", (10, 6), il.reduce("2 KiB", root=7)),
        ("a100", (5, 8), il.broadcast("1 GiB", root=9)),  # a ring was 1.02 times as fast
        ("h100", (2, 6), il.reduce_scatter("89 kB", group=[0, 1, 2, 3, 4, 7, 8, 9, 10, 11])),
    ],
)
def test_no_library_is_ahead_by_more_than_a_hundredth(
    preset: str, shape: tuple[int, int], asked: il.Collective
) -> None:
    cluster = il.cluster(preset, servers=shape[0], gpus_per_server=shape[1], scale_out="rail-spine")
    mine = il.synthesize(cluster, asked).certificate(1e-3).makespan_s
    problem = collective_problem(cluster.topology, asked, 1, cluster)
    others = [name for name in compared.QUICK if registry.get(name).supports(problem) is None]
    assert others
    for name in others:
        theirs = il.synthesize(cluster, asked, name).certificate(1e-3).makespan_s
        assert mine <= 1.01 * theirs, name


def test_shares_of_a_slow_nic_are_owned_elsewhere() -> None:
    rate = np.ones((4, 4))
    rate[1, 2] = 0.5
    carriers = carriers_of(rate, np.arange(rate.size).reshape(rate.shape), has_owners=True)
    shares = carriers.by_slice([1.0])
    assert not carriers.has_stand_ins
    assert shares.weight[2, 0, 1] == 0.0
    assert shares.length[2, 0] < shares.length[0, 0]


def test_stand_ins_take_turns_by_rate() -> None:
    rate = np.ones((4, 4))
    rate[0, 3] = 0.0
    shares = carriers_of(rate, np.arange(rate.size).reshape(rate.shape), has_owners=True).by_slice([1.0] * 30)
    stand_ins = shares.rank[3:, :, 0]  # those of a slice differ
    assert np.bincount(stand_ins.ravel(), minlength=4).tolist() == [20, 20, 20, 0]
    assert (stand_ins[0] != stand_ins[1]).all()


@pytest.mark.parametrize("has_owners", [True, False])
def test_no_nic_carries_more_than_it_can_of_any_slice(has_owners: bool) -> None:
    rate = np.ones((4, 8))
    rate[2, 1], rate[0, 5] = 0.0, 0.5
    shares = carriers_of(rate, np.arange(rate.size).reshape(rate.shape), has_owners=has_owners).by_slice([1.0] * 14)
    assert shares.length.sum() == pytest.approx(1.0)
    others = len(rate) - 2 if has_owners else 0
    for number in range(14):
        load = np.zeros(rate.size)
        length = shares.length[:, number, None] * (1 + others * shares.weight[:, number])
        np.add.at(load, shares.rank[:, number], np.broadcast_to(length, shares.rank[:, number].shape))
        busiest = load[rate.ravel() > 0] / rate[rate > 0]
        assert load[rate.ravel() == 0].sum() == 0
        together = rate.sum() / (2 * len(rate) - 2) if has_owners else rate.sum(axis=1).min()
        assert busiest.max() * together <= 1.1 * shares.length[:, number].sum()


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6), st.integers(1, 9), st.data())
def test_lines_are_cut_without_gaps_at_aligned_places(sizes: list[int], cells: int, data: st.DataObject) -> None:
    lines = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(sizes), max_size=len(sizes))))
    cut = cut_lines(np.array(sizes), lines, np.linspace(0.0, 1.0, cells + 1))
    for item, size in enumerate(sizes):
        rows = np.flatnonzero(cut.chunks.item == item)
        rows = rows[np.argsort(cut.chunks.offset[rows])]
        assert cut.chunks.offset[rows][0] == 0 and cut.chunks.length[rows].sum() == size
        assert (cut.chunks.offset[rows][1:] == np.cumsum(cut.chunks.length[rows])[:-1]).all()
        assert (cut.chunks.offset[rows] % 64 == 0).all()
        assert (cut.line[rows] == lines[item]).all()
        assert (np.diff(cut.cell[rows]) >= 0).all()


def test_tiers_that_share_ports_take_turns() -> None:
    alone = [Tier("up", 1.0, 1, 0.0, 0.0), Tier("nic", 1.0, 1, 0.0, 0.0)]
    shared = [Tier("nic", 1.0, 1, 0.0, 0.0), Tier("nic", 1.0, 1, 0.0, 0.0)]
    assert slices_s(alone, [1.0] * 10) == pytest.approx(1.1)
    assert slices_s(shared, [1.0] * 10) == pytest.approx(2.0)


def test_reason_says_who_won_and_by_how_much() -> None:
    plan = il.synthesize(il.cluster("h200", servers=2), il.all_reduce("64 KiB"))
    assert plan.reason is not None and plan.reason.startswith("tiers: ") and "direct " in plan.reason


def test_all_to_all_on_a_cluster_is_planned_as_traffic() -> None:
    proof = il.synthesize(il.cluster("h200", servers=2), il.all_to_all("64 MiB")).certificate()
    assert proof.valid and proof.makespan_s <= 1.02 * proof.lower_bound_s


@pytest.mark.parametrize("scene_of", [{"scale_out": "rail"}, {"scale_out": "rail-spine", "oversubscription": 2.0}])
def test_exchange_keeps_to_rails(scene_of: dict[str, object]) -> None:
    cluster = il.cluster("h200", servers=4, **scene_of)
    problem = collective_problem(cluster.topology, il.all_reduce("1 MiB"), 1, cluster)
    carriers = Scene.of(problem).carriers
    assert (carriers.rank % 8 == carriers.rank[:, :1] % 8).all()


def test_partners_of_a_nic_that_a_fabric_bears_exchange_at_once() -> None:
    # Here rounds of two servers are predicted faster, but connections that share a NIC keep their rates.
    partners = {}
    for fan_in in (2, 3):
        tcp = Fabric("tcp", fan_in=fan_in, loss_per_sender=0.15)
        cluster = LabSpec(4, 4, 50e6 / 8, 500e6 / 8).to_cluster(fabric=tcp)
        rows = il.synthesize(cluster, il.all_reduce("4 MB"), "tiers").schedule
        src, dst = rows.src.values // 4, rows.dst.values // 4
        partners[fan_in] = {int(server) for server in dst[src == 0]} - {0}
    assert partners == {2: {1, 2}, 3: {1, 2, 3}}
