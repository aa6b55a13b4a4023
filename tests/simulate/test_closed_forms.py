"""Schedules whose time is known in closed form: exact to 1e-9."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import interlock as il
from interlock.ragged import Ragged
from interlock.schedule import Kind, Schedule
from interlock.simulate import simulate
from interlock.topology import Topology, from_edges
from interlock.topology.graph import NodeKind
from simulate.strategies import bare_schedule, crossbar

FREE = {"scale_out_latency": "0 us", "scale_up_latency": "0 us", "message_overhead": "0 us", "stage_overhead": "0 us"}


def exactly(seconds: float) -> object:
    return pytest.approx(seconds, rel=1e-9, abs=0)


def line(num_ranks: int, *, bandwidth: float = 10.0, latency_s: float = 0.0, overhead_s: float = 0.0) -> Topology:
    """Ranks in a row; link r leads from rank r to rank r + 1."""
    ranks = np.arange(num_ranks)
    return from_edges(ranks[:-1], ranks[1:], bandwidth, latency_s, overhead_s)


def directed_ring(num_ranks: int, *, bandwidth: float, latency_s: float, overhead_s: float) -> Topology:
    """Link r leads from rank r to the next."""
    ranks = np.arange(num_ranks)
    return from_edges(ranks, (ranks + 1) % num_ranks, bandwidth, latency_s, overhead_s)


def test_a_single_message_pays_stage_overhead_message_overhead_size_and_latency_in_turn() -> None:
    topology = crossbar(2, [10.0] * 4, latency_s=0.5, overhead_s=0.25, stage_overhead_s=2.0)
    result = simulate(bare_schedule([0], [1], [100]), topology)
    assert result.start_s[0] == exactly(2.0)
    assert result.sent_s[0] == exactly(2.0 + 0.25 + 10.0)
    assert result.makespan_s == exactly(2.0 + 0.25 + 10.0 + 0.5)


def test_a_chain_of_dependencies_adds_up() -> None:
    sizes = [30, 70, 10, 25]
    topology = line(5, latency_s=0.125, overhead_s=0.5)
    schedule = bare_schedule([0, 1, 2, 3], [1, 2, 3, 4], sizes, [[0], [1], [2], [3]], deps=[[], [0], [1], [2]])
    assert simulate(schedule, topology).makespan_s == exactly(sum(0.5 + size / 10 + 0.125 for size in sizes))


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_equal_messages_share_a_link_equally(count: int) -> None:
    topology = line(2)
    result = simulate(bare_schedule([0] * count, [1] * count, [50] * count), topology)
    assert result.finish_s == exactly(5.0 * count)


def test_unequal_messages_on_one_link_leave_smallest_first() -> None:
    """The k-th smallest ends when it and all smaller ones are through and the larger ones had as much as it."""
    rng = np.random.default_rng(1)
    sizes = np.sort(rng.integers(1, 10_000, 40))
    result = simulate(bare_schedule([0] * 40, [1] * 40, sizes.tolist()), line(2))
    done = [(sizes[:k].sum() + sizes[k] * (40 - k)) / 10 for k in range(40)]
    np.testing.assert_allclose(result.finish_s, done, rtol=1e-9)


def test_a_message_takes_what_a_tighter_link_leaves_over() -> None:
    """Two flows from rank 0 share its link of 10; one of them is held to 2 at its receiver, so the other has 8."""
    topology = crossbar(3, [10.0, 10.0, 10.0, 10.0, 2.0, 100.0])
    result = simulate(bare_schedule([0, 0], [1, 2], [20, 80]), topology)
    assert result.finish_s.tolist() == [exactly(10.0), exactly(10.0)]


def test_message_overhead_is_work_on_the_sending_port() -> None:
    """Two messages of one rank hold its port together: twice the overhead, then half the rate each."""
    topology = crossbar(3, [10.0] * 6, overhead_s=3.0)
    result = simulate(bare_schedule([0, 0], [1, 2], [10, 10]), topology)
    assert result.finish_s == exactly(2 * 3.0 + 2 * 1.0)


def test_exclusive_messages_follow_their_order_and_latency_holds_nothing() -> None:
    topology = line(2, latency_s=100.0, overhead_s=1.0)
    result = simulate(bare_schedule([0] * 3, [1] * 3, [10, 20, 30], [[0]] * 3, order=[2, 0, 1]), topology)
    assert result.sent_s.tolist() == [exactly(9.0), exactly(3.0), exactly(7.0)]
    assert result.finish_s.tolist() == [exactly(109.0), exactly(103.0), exactly(107.0)]


def test_a_connection_sends_one_after_the_other_beside_others_on_its_links() -> None:
    """0 to 1 sends 20, then 10 when that has left, not arrived; 0 to 2 sends 30 and shares 0's port with whichever."""
    topology = crossbar(3, [10.0] * 6, latency_s=100.0, overhead_s=0.0)
    schedule = bare_schedule([0, 0, 0], [1, 2, 1], [10, 30, 20], order=[2, 0, 1], shares_links=True)
    result = simulate(schedule, topology)
    assert result.start_s.tolist() == [exactly(4.0), 0.0, 0.0]
    assert result.sent_s.tolist() == [exactly(6.0), exactly(6.0), exactly(4.0)]
    assert result.finish_s.tolist() == [exactly(106.0), exactly(106.0), exactly(104.0)]
    by_link = simulate(schedule, topology, forwarding="store-and-forward")
    assert by_link.start_s.tolist() == [exactly(4.0), 0.0, 0.0]  # each of its links keeps the order
    apart = simulate(replace(schedule, slice=np.array([0, 0, 1], np.int32)), topology)
    assert apart.start_s.tolist() == [0.0] * 3  # every slice has a connection of its own: none waits
    assert apart.sent_s.tolist() == [exactly(3.0), exactly(6.0), exactly(5.0)]


def test_stages_open_one_after_the_other_at_a_rank() -> None:
    """Rank 0 starts three stages: each opening takes 5, one at a time; a second message of a stage opens nothing."""
    topology = crossbar(4, [10.0] * 8, stage_overhead_s=5.0)
    result = simulate(bare_schedule([0, 0, 0, 0], [1, 2, 3, 3], [0, 0, 0, 0], stage=[0, 1, 2, 2]), topology)
    assert result.start_s.tolist() == [exactly(5.0), exactly(10.0), exactly(15.0), exactly(15.0)]


def test_spreadout_takes_the_sum_of_diagonal_maxima() -> None:
    rng = np.random.default_rng(3)
    n = 12
    matrix = rng.integers(1, 10**7, (n, n))
    np.fill_diagonal(matrix, 0)
    cluster = il.cluster("h200", servers=n, gpus_per_server=1, **FREE)
    got = il.plan(cluster, il.traffic.matrix(matrix), algorithm="spreadout").simulate().makespan_s
    rows = np.arange(n)
    assert got == exactly(sum(matrix[rows, (rows + k) % n].max() for k in range(1, n)) / 50e9)


def test_one_to_one_stages_reach_the_bound_when_scale_up_is_free() -> None:
    """Rows and columns of the server matrix all sum to 9: stages (5, 3, 1) of permutations keep every NIC busy."""
    weights, width, unit = {1: 5, 2: 3, 3: 1}, 2, 10**6
    cluster = il.cluster("h200", servers=4, gpus_per_server=width, scale_up_bandwidth="1e15 B/s", **FREE)
    src, dst, sizes, stage = [], [], [], []
    for number, (shift, weight) in enumerate(weights.items()):
        for rank in range(cluster.num_ranks):
            src.append(rank)
            dst.append((rank + shift * width) % cluster.num_ranks)
            sizes.append(weight * unit)
            stage.append(number)
    schedule = bare_schedule(src, dst, sizes, stage=stage, order=stage)
    assert simulate(schedule, cluster).makespan_s == exactly(9 * unit / 50e9)


@pytest.mark.parametrize("num_ranks", [2, 3, 8, 17])
def test_a_ring_all_gather_is_p_minus_1_steps(num_ranks: int) -> None:
    topology = directed_ring(num_ranks, bandwidth=1e9, latency_s=2e-6, overhead_s=3e-6)
    plan = il.synthesize(topology, il.all_gather(num_ranks * 10**6), algorithm="ring")
    assert plan.simulate().makespan_s == exactly((num_ranks - 1) * (3e-6 + 1e-3 + 2e-6))


@pytest.mark.parametrize("rounds", [1, 3, 5])
def test_a_binomial_broadcast_is_log2_steps(rounds: int) -> None:
    topology = crossbar(2**rounds, [1e9] * 2 ** (rounds + 1), latency_s=2e-6, overhead_s=3e-6)
    src, dst, deps, brought = [], [], [], {0: -1}
    for k in range(rounds):
        for rank in range(2**k):
            src.append(rank)
            dst.append(rank + 2**k)
            # A rank sends its rounds one after the other, each after its own message left.
            deps.append([d for d in [brought[rank]] if d >= 0])
            brought[rank + 2**k] = len(src) - 1
    order = list(range(len(src)))
    result = simulate(bare_schedule(src, dst, [10**6] * len(src), order=order, deps=deps), topology)
    step = 3e-6 + 1e-3
    # The last leaf hangs on a chain of `rounds` messages, each after the one before arrived.
    assert result.makespan_s == exactly(rounds * (step + 2e-6))


def test_a_multicast_is_as_fast_as_its_slowest_branch() -> None:
    """One copy up, three down at 10, 5 and 8: all move at 5; the longest branch's latency counts."""
    kinds = np.array([NodeKind.GPU] * 4 + [NodeKind.SWITCH], np.uint8)
    topology = _star(kinds, [10.0, 10.0, 5.0, 8.0], [1.0, 0.5, 2.0, 0.25])
    schedule = _tree_schedule(src=[[0]], dst=[[1, 2, 3]], path=[[0, 4, 5, 6]], kind=Kind.COPY)
    result = simulate(schedule, topology)
    assert result.sent_s[0] == exactly(100 / 5)
    assert result.makespan_s == exactly(100 / 5 + 1.0 + 2.0)


def test_an_in_switch_reduction_is_as_fast_as_its_slowest_source() -> None:
    kinds = np.array([NodeKind.GPU] * 4 + [NodeKind.SWITCH], np.uint8)
    topology = _star(kinds, [10.0, 4.0, 5.0, 8.0], [1.0, 0.5, 3.0, 0.25])
    schedule = _tree_schedule(src=[[0, 1, 2]], dst=[[3]], path=[[0, 1, 2, 6]], kind=Kind.REDUCE)
    result = simulate(schedule, topology)
    assert result.sent_s[0] == exactly(100 / 4)
    assert result.makespan_s == exactly(100 / 4 + 3.0 + 0.25)


@pytest.mark.parametrize(("hops", "slices"), [(1, 1), (3, 1), (3, 8), (6, 50)])
def test_slices_through_a_chain_take_hops_plus_slices_minus_one_steps(hops: int, slices: int) -> None:
    topology = line(hops + 1, overhead_s=0.5)
    src = [hop for _ in range(slices) for hop in range(hops)]
    path = [[hop] for hop in src]
    deps = [[m - 1] if m % hops else [] for m in range(hops * slices)]
    order = [m // hops for m in range(hops * slices)]
    schedule = bare_schedule(src, [s + 1 for s in src], [20] * len(src), path, order=order, deps=deps)
    assert simulate(schedule, topology).makespan_s == exactly((hops + slices - 1) * (0.5 + 2.0))


def test_store_and_forward_pays_every_hop_and_cut_through_only_the_slowest() -> None:
    topology = from_edges([0, 1, 2], [1, 2, 3], [10.0, 5.0, 20.0], 0.25, 0.5)
    schedule = bare_schedule([0], [3], [100], [[0, 1, 2]])
    assert simulate(schedule, topology).makespan_s == exactly(0.5 + 100 / 5 + 3 * 0.25)
    stored = simulate(schedule, topology, forwarding="store-and-forward")
    assert stored.makespan_s == exactly((100 / 10 + 100 / 5 + 100 / 20) + 3 * (0.5 + 0.25))
    assert stored.start_s.tolist() == [0.0] and stored.finish_s[0] == stored.makespan_s


def test_store_and_forward_spreads_a_tree_level_by_level_and_keeps_dependencies() -> None:
    kinds = np.array([NodeKind.GPU] * 4 + [NodeKind.SWITCH], np.uint8)
    topology = _star(kinds, [10.0, 10.0, 5.0, 8.0], [0.0] * 4)
    schedule = _tree_schedule(
        src=[[0], [2]], dst=[[1, 2, 3], [0]], path=[[0, 4, 5, 6], [2, 3]], kind=Kind.COPY, deps=[[], [0]]
    )
    result = simulate(schedule, topology, forwarding="store-and-forward")
    assert result.finish_s[0] == exactly(100 / 10 + 100 / 5)
    assert result.finish_s[1] == exactly(100 / 10 + 100 / 5 + 100 / 5 + 100 / 10)
    assert result.waited_for.tolist() == [-1, 0]


def test_half_duplex_directions_share_one_capacity() -> None:
    both_ways = bare_schedule([0, 1], [1, 0], [100, 100])
    assert simulate(both_ways, crossbar(2, [10.0] * 4)).makespan_s == exactly(10.0)
    assert simulate(both_ways, crossbar(2, [10.0] * 4, half_duplex=True)).makespan_s == exactly(20.0)


def _star(kinds: np.ndarray, bandwidth: list[float], latency_s: list[float]) -> Topology:
    """Ranks around a switch that can replicate and add: link r up, 3 + r down for r > 0 (rank 0's is link 3)."""
    ranks = len(bandwidth)
    down = list(range(ranks))
    hub = ranks
    return Topology(
        name="star",
        num_ranks=ranks,
        node_kinds=kinds,
        link_src=np.array([0, 1, 2] + [hub] * ranks, np.int32),
        link_dst=np.array([hub] * 3 + down, np.int32),
        bandwidth_bytes_per_s=np.array(bandwidth[:3] + bandwidth, np.float64),
        latency_s=np.array(latency_s[:3] + latency_s, np.float64),
        message_overhead_s=np.zeros(3 + ranks),
        channel=np.arange(3 + ranks, dtype=np.int32),
        multicasts=kinds == NodeKind.SWITCH,
        reduces=kinds == NodeKind.SWITCH,
    )


def _tree_schedule(
    src: list[list[int]], dst: list[list[int]], path: list[list[int]], kind: Kind, deps: list[list[int]] | None = None
) -> Schedule:
    from dataclasses import replace

    bare = bare_schedule([0] * len(src), [0] * len(src), [100] * len(src), path, deps=deps)
    kinds = np.full(len(src), kind, np.uint8)
    return replace(bare, src=Ragged.from_lists(src), dst=Ragged.from_lists(dst), kind=kinds)


@pytest.mark.parametrize("fast", [1e3, 1e9, 1e12, 1e15])
@pytest.mark.parametrize("others", [0, 3])
def test_a_slow_link_behind_a_fast_one_keeps_its_pace(fast: float, others: int) -> None:
    """However far rates lie apart, none drowns in what another rounds."""
    ranks = 2 + others  # the others send to rank 1 as well, and share its slow link
    hub = [ranks] * ranks
    star = il.topology.from_edges(
        [*range(ranks), *hub], [*hub, *range(ranks)], [fast] * ranks + [73.3] * ranks, num_ranks=ranks
    )
    rows = np.zeros((ranks, ranks), np.int64)
    rows[[0, *range(2, ranks)], 1] = 10**6
    makespan_s = il.plan(star, il.traffic.matrix(rows), "direct").simulate().makespan_s
    assert makespan_s == pytest.approx((1 + others) * 1e6 / 73.3, rel=1e-9)
