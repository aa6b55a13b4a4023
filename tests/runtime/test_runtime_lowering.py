"""Lowered programs move every byte to its place, in any order the programs allow; no network is involved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import interlock as il  # noqa: E402
from interlock.algorithms import registry  # noqa: E402
from interlock.planning import solve  # noqa: E402
from interlock.problem import demand_problem  # noqa: E402
from interlock.ragged import Ragged  # noqa: E402
from interlock.runtime import Layout  # noqa: E402
from interlock.runtime.batches import batches  # noqa: E402
from interlock.runtime.posting import Posting  # noqa: E402
from interlock.schedule import Batch, Buffer, Phase, PortLoads, assemble, lower, make_pieces  # noqa: E402
from runtime.in_memory import run  # noqa: E402
from runtime.jobs import expected, filled  # noqa: E402
from strategies import clusters, collective_problems, planners_of_collectives, planners_of_demand  # noqa: E402

pytestmark = pytest.mark.torch

SIZES = [0, 0, 1, 2, 3, 7, 64, 1000, 4099]


@st.composite
def small_problems(draw: st.DrawFn) -> il.Problem:
    """All-to-Allvs small enough to move in memory, with empty ranks and odd sizes."""
    cluster = draw(clusters(max_servers=3, max_gpus=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    matrix = rng.choice(SIZES, size=(cluster.num_ranks,) * 2).astype(np.int64)
    matrix[rng.random(cluster.num_ranks) < 0.2] = 0
    matrix *= cluster.present[:, None] & cluster.present[None, :]
    return demand_problem(cluster, il.traffic.matrix(matrix))


@pytest.mark.parametrize("name", planners_of_demand())
@given(problem=small_problems(), seed=st.integers(0, 99))
@settings(max_examples=10)
def test_every_byte_lands_in_its_place(name: str, problem: il.Problem, seed: int) -> None:
    assume(registry.get(name).supports(problem) is None)
    assert problem.demand is not None
    matrix = problem.demand.bytes_matrix
    ranks = range(problem.num_ranks)
    targets = [torch.full((int(matrix[:, rank].sum()),), 255, dtype=torch.uint8) for rank in ranks]
    layouts = [Layout.all_to_all(matrix, rank) for rank in ranks]
    run(solve(problem, name), layouts, [filled(matrix, rank) for rank in ranks], targets, seed)
    for rank in ranks:
        assert torch.equal(targets[rank], expected(matrix, rank)), f"rank {rank}"


@pytest.mark.parametrize("name", planners_of_collectives())
@given(problem=collective_problems(max_ranks=6), seed=st.integers(0, 99))
@settings(max_examples=6)
def test_collectives_end_with_every_contribution(name: str, problem: il.Problem, seed: int) -> None:
    assume(registry.get(name).supports(problem) is None)
    ranks = range(problem.num_ranks)
    layouts = [Layout.packed(problem, rank) for rank in ranks]
    rng = np.random.default_rng(seed)
    sources = [torch.from_numpy(rng.integers(0, 256, lay.input.size_bytes).astype(np.uint8)) for lay in layouts]
    targets = [torch.full((lay.output.size_bytes,), 9, dtype=torch.uint8) for lay in layouts]
    run(solve(problem, name), layouts, sources, targets, seed, torch.uint8)
    for rank, target in zip(ranks, targets, strict=True):
        assert torch.equal(target, summed(problem, layouts, sources, rank)), f"rank {rank}"


def summed(problem: il.Problem, layouts: list[Layout], sources: list[torch.Tensor], rank: int) -> torch.Tensor:
    """What a rank must end with: each of its items, summed byte by byte over the item's contributors."""
    parts = [torch.zeros(0, dtype=torch.uint8)]
    for item in layouts[rank].output.item.tolist():
        total = torch.zeros(int(problem.items.size_bytes[item]), dtype=torch.uint8)
        for contributor in problem.items.contributors[item].tolist():
            mine = layouts[contributor].input
            start = int(mine.start[np.searchsorted(mine.item, item)])
            total += sources[contributor].narrow(0, start, len(total))
        parts.append(total)
    return torch.cat(parts)


def listed(program: il.Program, *names: str) -> list[list[int]]:
    """Columns as lists."""
    return [program.columns[name].tolist() for name in names]


@pytest.fixture
def two_by_two() -> il.Cluster:
    """Two servers of two GPUs."""
    return il.cluster("h200", servers=2, gpus_per_server=2)


def relayed(cluster: il.Cluster, exclusive: bool = False) -> tuple[il.Problem, il.Schedule]:
    """Rank 0 sends 10 bytes to rank 3 in two slices by way of rank 2; rank 2 gets 6 bytes of its own beside them."""
    matrix = np.zeros((4, 4), np.int64)
    matrix[0, 2], matrix[0, 3] = 6, 10
    problem = demand_problem(cluster, il.traffic.matrix(matrix))
    wire = Batch(
        np.array([0, 0], np.int32),
        np.array([2, 2], np.int32),
        make_pieces([0, 2, 3], [0, 1, 1], [0, 0, 4], [6, 4, 6]),
        Phase.SCALE_OUT,
        order=np.array([1, 0]) if exclusive else None,
    )
    last = Batch(
        np.array([2], np.int32),
        np.array([3], np.int32),
        make_pieces([0, 1], [1], [0], [10]),
        Phase.REDISTRIBUTE,
        deps=Ragged.from_lists([[0, 1]]),
    )
    return problem, assemble([wire, last])


def test_a_relay_packs_what_came_in_parts(two_by_two: il.Cluster) -> None:
    problem, schedule = relayed(two_by_two)
    assert problem.demand is not None
    matrix = problem.demand.bytes_matrix
    program = lower(schedule, problem, Layout.all_to_all(matrix, 2))
    assert listed(program, "receive_buffer", "receive_start") == [[Buffer.SCRATCH] * 2, [0, 64]]
    unpacking = listed(program, "unpack_offsets", "unpack_start", "unpack_buffer", "unpack_to", "unpack_bytes")
    assert unpacking == [[0, 1, 1], [0], [Buffer.OUTPUT], [0], [6]]
    packing = listed(program, "pack_offsets", "pack_buffer", "pack_start", "pack_to", "pack_bytes")
    assert packing == [[0, 2], [Buffer.SCRATCH] * 2, [6, 64], [128, 132], [4, 6]]
    assert listed(program, "wait_offsets", "wait_on") == [[0, 2, 2, 2], [1, 2]]


def test_bytes_in_one_run_are_sent_and_received_in_place(two_by_two: il.Cluster) -> None:
    matrix = np.full((4, 4), 5, np.int64)
    plan = il.plan(two_by_two, il.traffic.matrix(matrix), algorithm="direct")
    program = plan.program(1, Layout.all_to_all(matrix, 1))
    assert program.scratch_bytes == 0
    assert listed(program, "send_buffer", "receive_buffer") == [[Buffer.INPUT] * 3, [Buffer.OUTPUT] * 3]
    assert listed(program, "own_from", "own_to", "own_bytes") == [[5], [5], [5]]


def test_messages_that_hold_a_link_alone_queue_in_its_order(two_by_two: il.Cluster) -> None:
    problem, schedule = relayed(two_by_two, exclusive=True)
    assert problem.demand is not None
    program = lower(schedule, problem, Layout.all_to_all(problem.demand.bytes_matrix, 2))
    posting = Posting.of(program, two_by_two, lambda: PortLoads.of(schedule, two_by_two))
    assert posting.queues == [[1, 0]]
    assert posting.awaited == [[1, 0]]
    assert posting.unawaited == []


def test_messages_between_servers_queue_by_peer_where_the_fabric_bears_few_senders() -> None:
    matrix = np.full((6, 6), 9, np.int64)
    for fan_in, queues in ((None, []), (2, [[1], [2], [3], [4]])):
        cluster = il.cluster("h200", servers=3, gpus_per_server=2, fan_in=fan_in)
        plan = il.plan(cluster, il.traffic.matrix(matrix), algorithm="direct")
        loads = plan.port_loads
        assert Posting.of(plan.program(0), cluster, lambda loads=loads: loads).queues == queues  # type: ignore[misc]


def test_receivers_let_in_bytes_in_proportion_to_what_the_busiest_has_to_take() -> None:
    cluster = il.cluster("h200", servers=3, gpus_per_server=1, fan_in=2)
    matrix = np.array([[0, 10, 40], [20, 0, 60], [0, 30, 0]], np.int64)
    plan = il.plan(cluster, il.traffic.matrix(matrix), algorithm="direct")
    postings = [Posting.of(plan.program(rank), cluster, lambda: plan.port_loads) for rank in range(3)]
    assert [sorted(posting.window_shares) for posting in postings] == [[0.2], [0.1, 0.3], [0.4, 0.6]]


def test_bytes_the_source_never_holds_are_refused(two_by_two: il.Cluster) -> None:
    problem, _ = relayed(two_by_two)
    wrong = Batch(np.array([1], np.int32), np.array([3], np.int32), make_pieces([0, 1], [1], [0], [10]), Phase.LOCAL)
    with pytest.raises(il.InvalidInput, match="never holds"):
        lower(assemble([wrong]), problem, Layout.all_to_all(problem.demand.bytes_matrix, 1))  # type: ignore[union-attr]


def test_rounds_follow_dependencies_and_link_order(two_by_two: il.Cluster) -> None:
    problem, schedule = relayed(two_by_two, exclusive=True)
    relay = lower(schedule, problem, Layout.packed(problem, 2), rounds=True)
    assert listed(relay, "send_round", "receive_round") == [[2], [1, 0]]
    assert batches(relay, 4) == [([], [1]), ([], [0]), ([0], [])]


def test_no_rank_has_more_operations_in_a_round_than_allowed(h200_2x4: il.Cluster) -> None:
    plan = il.plan(h200_2x4, il.traffic.uniform(h200_2x4, "8 kB"), algorithm="direct")
    made = [batches(plan.program(rank, rounds=True), 8, max_batch=4) for rank in range(8)]
    assert all(len(sends) + len(receives) <= 4 for own in made for sends, receives in own)
    assert [sum(len(sends) for sends, _ in own) for own in made] == [7] * 8
