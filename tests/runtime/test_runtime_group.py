"""Real processes over loopback: every algorithm byte for byte, torch's semantics, errors on every rank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import interlock as il  # noqa: E402
import interlock.torch as ilt  # noqa: E402
from interlock.algorithms import registry  # noqa: E402
from interlock.interchange import Intent, read_foreign  # noqa: E402
from interlock.lab.ranks import RankFailed, RankProcesses, Seat  # noqa: E402
from interlock.planning import Plan, solve  # noqa: E402
from interlock.problem import collective_problem, demand_problem  # noqa: E402
from interlock.runtime import Layout  # noqa: E402
from rank_soak import soak, soak_under_way  # noqa: E402
from runtime import jobs  # noqa: E402
from runtime.flipping import Wire  # noqa: E402

pytestmark = pytest.mark.torch

Groups = Callable[[int], RankProcesses]

DTYPES = [torch.uint8, torch.bool, torch.int16, torch.bfloat16, torch.float32, torch.float64, torch.complex128]


def odd_matrices(num_ranks: int) -> list[np.ndarray]:
    """Skewed, equal, sparse with empty ranks, one lone byte, nothing at all."""
    rng = np.random.default_rng(num_ranks)
    shape = (num_ranks, num_ranks)
    skewed = (rng.zipf(1.3, shape) % 50_000).astype(np.int64)
    sparse = np.where(rng.random(shape) < 0.2, rng.integers(1, 5000, shape), 0)
    sparse[1], sparse[:, 2] = 0, 0
    lone = np.zeros(shape, np.int64)
    lone[0, num_ranks - 1] = 1
    return [skewed, np.full(shape, 777), sparse, lone, np.zeros(shape, np.int64)]


def demand_algorithms(cluster: il.Cluster) -> list[str]:
    """Algorithms for an All-to-Allv on the cluster."""
    return [*registry.supported(demand_problem(cluster, il.traffic.uniform(cluster, "1 kB"))), "native"]


@pytest.mark.parametrize("servers", [4, 2, 1])
def test_every_algorithm_delivers_every_byte(group_of: Groups, servers: int) -> None:
    cluster = il.cluster("h200", servers=servers, gpus_per_server=8 // servers)
    names = demand_algorithms(cluster)
    for rank, right in enumerate(group_of(8).call(jobs.move_all, cluster, odd_matrices(8), names)):
        assert right == {name: [True] * 5 for name in names}, f"rank {rank}"


def test_a_dead_nic_is_planned_around(group_of: Groups) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4, faults=[il.dead_nic(server=0, gpu=1)])
    names = [name for name in demand_algorithms(cluster) if name != "native"]
    results = group_of(8).call(jobs.move_all, cluster, odd_matrices(8), names)
    assert all(all(right) for result in results for right in result.values())


@pytest.mark.parametrize("algorithm", ["no-stage", "spreadout"])
def test_batches_move_the_same_bytes_and_stay_small(group_of: Groups, algorithm: str) -> None:
    cluster = il.cluster("h200", servers=4, gpus_per_server=2)
    problem = demand_problem(cluster, il.traffic.matrix(odd_matrices(8)[0]))
    for right, largest in group_of(8).call(jobs.move_in_rounds, problem, algorithm, 4):
        assert right
        assert largest <= 4


def test_bytes_that_stay_are_copied_beside_exchange_and_planning(group_of: Groups) -> None:
    """From the second call on, where they are many; every byte is where it belongs."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    for told in group_of(4).call(jobs.keep_much, cluster, [1_000_000, 2_000_000, 10, 1_000_000]):
        assert all(right for right, _, _ in told)
        assert [stays_s > 0 for _, stays_s, _ in told] == [False, True, False, True]
        assert all(total_s > 0 for _, _, total_s in told)


def test_types_shapes_and_memory_as_torch_has_them(group_of: Groups) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    for algorithm in ("no-stage", "native"):
        assert group_of(4).call(jobs.wrong_results, cluster, DTYPES, algorithm) == [[]] * 4


@pytest.mark.parametrize("algorithm", ["adaptive", "native"])
def test_verifying_names_who_received_changed_bytes_on_every_rank(group_of: Groups, algorithm: str) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    told = group_of(4).call(jobs.changed_on_the_way, cluster, algorithm, 1)
    # The middle of what rank 1 receives comes from rank 2.
    assert told == [(True, ((2, 1),), rank != 1, True) for rank in range(4)]


@pytest.mark.parametrize("algorithm", ["adaptive", "native"])
def test_bits_flipped_on_the_wire_are_found_where_that_is_asked_for_and_cost_nothing_elsewhere(algorithm: str) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    wire = Wire()
    with RankProcesses([Seat()] * 4, timeout_s=60.0) as ranks:
        told = ranks.call(jobs.over_a_wire_that_flips, cluster, algorithm, wire.port)
    wire.close()
    wrong = sorted((src, dst) for dst, one in enumerate(told) for src in one["wrong"])
    assert 0 < len(wrong) <= wire.num_flipped
    for one in told:
        assert one["before"] == ([], []) and one["afterwards"] == []
        assert sorted(one["named"]) == wrong
        assert not one["raised_unasked"] and not one["digests_unasked"] and not one["exchanges_unasked"]
    assert any(one["passed"] for one in told)


@pytest.mark.parametrize("holds", [False, True])
def test_gradients_go_back_the_way_values_came(group_of: Groups, holds: bool) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    assert group_of(4).call(jobs.gradients, cluster, holds) == [(True, True)] * 4


def test_drop_ins_fall_back_where_no_plan_gains_and_say_so(group_of: Groups) -> None:
    for told in group_of(4).call(jobs.drop_ins):
        assert told["lists"]
        assert told["async"]
        assert told["algorithm"] == "native"
        assert "a plan gains nothing" in told["reasons"][0]
        assert "sent along with the demand" in told["reasons"][1]
        assert 0 < float(str(told["predicted_s"])) < 1 < 60 * float(str(told["measured_s"])) * 1e9


def test_small_demands_travel_with_their_bytes_until_one_does_not_fit(group_of: Groups) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    small, other = np.full((4, 4), 4096, np.int64), np.arange(16).reshape(4, 4) * 200
    tiny, none, big = small // 100, small * 0, small * 10
    demands = [tiny, none, tiny, other, other, small, big, tiny, small, small]
    # Room is made for the last demand that did not fit. A demand that came along before may not fit the next time.
    comes = [False, True, True, False, True, True, False, False, False, True]
    results = group_of(4).call(jobs.small_calls_in_a_row, cluster, demands)
    assert results == [[(True, has_come) for has_come in comes]] * 4


def test_a_held_demand_takes_any_tensors_of_its_size(group_of: Groups) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    assert group_of(4).call(jobs.held_natively, cluster) == [[]] * 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("algorithm", ["adaptive", "native"])
def test_device_memory_goes_through_pinned_host_memory_on_gloo(group_of: Groups, algorithm: str) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    for rows in (np.full((4, 4), 3000), np.arange(16).reshape(4, 4)):
        told = group_of(4).call(jobs.move_device_memory, cluster, rows, algorithm)
        assert told[0]["pinned"]
        assert all(each["right"] for each in told)


@pytest.mark.parametrize("algorithm", ["direct", "native"])
def test_wrong_splits_are_an_error_on_every_rank(group_of: Groups, algorithm: str) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    for rank, (mismatch, bad, works) in enumerate(group_of(4).call(jobs.bad_calls, cluster, algorithm)):
        assert "rank 1 sends 12 bytes to rank 3, which expects 8" in mismatch
        assert ("must hold 4 sizes" if rank == 1 else "rank 1 was called with bad arguments") in bad
        assert works == "True"


def test_ranks_that_plan_differently_are_told_before_anything_moves(group_of: Groups) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    assert all("rank 1 plans with another cluster" in told for told in group_of(4).call(jobs.disagree, cluster))
    assert all("rank 1 made another plan" in told for told in group_of(4).call(jobs.different_plans, cluster))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64])
def test_a_synthesized_all_reduce_sums(group_of: Groups, dtype: torch.dtype) -> None:
    topology = il.topology.torus(2, 4, bandwidth="1 GB/s")
    problem = collective_problem(topology, il.all_reduce(16 * 480), chunks=3)
    for algorithm in ("ring", "hierarchical", "multitree"):
        plan = solve(problem, algorithm)
        results = group_of(8).call(jobs.run_collective, plan, dtype)
        total = torch.stack([source for source, _ in results]).sum(dim=0).to(dtype)
        assert all(torch.equal(target, total) for _, target in results), algorithm


def test_a_rank_executes_its_part_without_the_rows_of_others(group_of: Groups) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    matrix = il.traffic.zipf(cluster, bytes_per_gpu="1 MB", seed=5).bytes_matrix * ~np.eye(4, dtype=bool)
    problem = demand_problem(cluster, il.traffic.matrix(matrix))
    assert group_of(4).call(jobs.execute_a_burst, problem) == [(True, False)] * 4


@pytest.mark.parametrize("name", ["allreduce-allpairs-8n-ll-32tb.xml", "alltoall-8n-0-9kb.xml"])
def test_an_imported_schedule_runs(group_of: Groups, shared_data: Path, name: str) -> None:
    file = shared_data / "msccl_xml" / name
    foreign = read_foreign(file, Intent(chunk_bytes=64))
    plan = Plan(foreign.problem, foreign.schedule, "imported")
    results = group_of(8).call(jobs.run_collective, plan, torch.int32)
    for rank, (_, target) in enumerate(results):
        assert torch.equal(target, expected_sum(foreign.problem, [source for source, _ in results], rank)), rank


def test_a_plan_that_cuts_elements_is_refused(group_of: Groups) -> None:
    problem = collective_problem(il.topology.torus(2, 2, bandwidth="1 GB/s"), il.all_reduce(4 * 5))
    with pytest.raises(RankFailed, match="cuts elements of 8 bytes"):
        group_of(4).call(jobs.run_collective, solve(problem, "ring"), torch.float64)


def expected_sum(problem: il.Problem, sources: list[torch.Tensor], rank: int) -> torch.Tensor:
    """What a rank must end with, element by element, from every rank's packed input."""
    layouts = [Layout.packed(problem, peer) for peer in range(problem.num_ranks)]
    parts = [torch.zeros(0, dtype=torch.int32)]
    for item in layouts[rank].output.item.tolist():
        size = int(problem.items.size_bytes[item]) // 4
        held = [(sources[peer], layouts[peer].input) for peer in problem.items.contributors[item].tolist()]
        starts = [int(mine.start[np.searchsorted(mine.item, item)]) // 4 for _, mine in held]
        given = [source[start : start + size] for (source, _), start in zip(held, starts, strict=True)]
        parts.append(torch.stack(given).sum(dim=0))
    return torch.cat([part.to(torch.int32) for part in parts])


@pytest.mark.parametrize("nic", ["50 GB/s", "1 MB/s"])
@pytest.mark.parametrize("ranks_per_server", [4, 2, 1])
def test_experts_get_each_token_once_and_give_the_dense_result(
    group_of: Groups, ranks_per_server: int, nic: str
) -> None:
    for copies_right, close, gradients_close in group_of(4).call(jobs.moe_layer, ranks_per_server, "cpu", nic):
        assert copies_right
        assert close
        assert gradients_close


@pytest.mark.parametrize("has_replicas", [False, True])
@pytest.mark.parametrize("ranks_per_server", [4, 2, 1])
def test_a_layer_over_a_group_is_the_layer_in_one_place(
    group_of: Groups, ranks_per_server: int, has_replicas: bool
) -> None:
    """Values, gradients (of replicas summed), tokens sent again by their handle, counts and refusals."""
    for apart in group_of(4).call(jobs.moe_call, ranks_per_server, has_replicas, ranks_per_server == 4):
        assert max(apart.values()) < 2e-6, apart


def test_ranks_out_of_order_and_servers_half_full_are_fine(group_of: Groups) -> None:
    for hosts in (["a", "b", "a", "b"], ["a", "a", "a", "b"], ["b", "a", "c", "a"]):
        assert all(group_of(4).call(jobs.move_between_hosts, hosts)), hosts


def test_calibration_tells_the_tiers_and_their_order_of_speed(group_of: Groups, tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    made = group_of(4).call(jobs.calibrate_group, ["a", "a", "b", "b"], str(file))
    assert all(cluster == made[0] for cluster in made)
    assert (made[0].servers, made[0].gpus_per_server) == (2, 2)
    assert made[0].scale_out_bandwidth_bytes_per_s > 1e6
    assert 0 < made[0].scale_out_latency_s < 1
    assert il.topology.read_cluster(file).scale_out_bandwidth_bytes_per_s == pytest.approx(
        made[0].scale_out_bandwidth_bytes_per_s, rel=1e-6
    )


def test_a_nic_reported_dead_changes_the_plan(group_of: Groups) -> None:
    for before, after, right in group_of(8).call(jobs.replan):
        assert before > 0
        assert after == 0
        assert right


@pytest.mark.parametrize(("algorithm", "count"), [("adaptive", 300), ("no-stage", 50)])
def test_many_random_collectives_leave_no_wear(group_of: Groups, algorithm: str, count: int) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, fan_in=2)
    for wear in group_of(4).call(soak, cluster, algorithm, count, 0):
        assert wear.num_wrong == 0
        assert wear.descriptors[1] <= wear.descriptors[0]
        assert wear.memory_bytes[1] < wear.memory_bytes[0] + 32e6


@pytest.mark.parametrize(("most_under_way", "num_threads"), [(0, 2), (8, 1), (8, 2)])
def test_calls_run_in_the_order_in_which_they_were_made(
    group_of: Callable[[int], RankProcesses], most_under_way: int, num_threads: int
) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    for wear in group_of(4).call(soak_under_way, ilt.AllToAll, cluster, 120, most_under_way, num_threads, 7):
        assert wear.num_wrong == 0
        assert wear.descriptors[1] <= wear.descriptors[0]
        assert wear.threads[1] <= wear.threads[0] + 4  # that wait for one peer each
        assert wear.memory_bytes[1] < wear.memory_bytes[0] + 32e6
