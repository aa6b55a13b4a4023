"""Collectives over real processes: torch's semantics for every type and operation, the same bits on every rank."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import interlock as il  # noqa: E402
import interlock.torch as ilt  # noqa: E402
from interlock.execution import _sums_once, plan_collective  # noqa: E402
from interlock.lab.collectives import collective_of  # noqa: E402
from interlock.lab.ranks import RankProcesses, Seat  # noqa: E402
from interlock.schedule import Phase  # noqa: E402
from rank_faults import Fault, try_collective_fault  # noqa: E402
from rank_soak import soak_collectives  # noqa: E402
from runtime import collective_jobs as jobs  # noqa: E402

pytestmark = pytest.mark.torch

Groups = Callable[[int], RankProcesses]
TIMEOUT_S = 6.0
DTYPES = [torch.uint8, torch.bool, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float32]
DTYPES += [torch.float64, torch.complex64, torch.complex128]


def small() -> il.Cluster:
    """Two servers of two."""
    return il.cluster("h200", servers=2, gpus_per_server=2)


@pytest.mark.parametrize(("algorithm", "dtypes"), [("ring", DTYPES), ("auto", DTYPES[-2:])], ids=["ring", "auto"])
def test_types_operations_and_memory_as_torch_has_them(group_of: Groups, algorithm: str, dtypes: list) -> None:
    assert group_of(4).call(jobs.wrong_results, small(), dtypes, algorithm) == [[]] * 4


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "double-tree", "nvls-tree", "direct"])
def test_every_rank_ends_with_the_same_bits(group_of: Groups, algorithm: str) -> None:
    first, *others = group_of(4).call(jobs.bits, small(), algorithm)
    assert others == [first] * 3


def test_the_drop_ins_are_called_as_torchs_are(group_of: Groups) -> None:
    for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"):
        ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (ilt, dist))
        assert list(ours) == list(theirs)
    assert list(inspect.signature(ilt.broadcast).parameters)[:4] == ["tensor", "src", "group", "async_op"]
    assert group_of(4).call(jobs.drop_ins, ["a", "a", "b", "b"]) == [[]] * 4


def test_servers_need_not_be_full_nor_ranks_in_order(group_of: Groups) -> None:
    hosts = ["a", "b", "a", "a"]
    cluster = il.cluster("h200", servers=2, gpus_per_server=3)
    assert group_of(4).call(jobs.all_kinds, cluster, hosts, "ring") == [[]] * 4


def test_bad_arguments_are_told_and_nothing_hangs(group_of: Groups) -> None:
    for rank, told in enumerate(group_of(4).call(jobs.complaints, small())):
        assert told[0].startswith("Disagreement: rank 3 calls another"), rank
        assert "op=" in told[1] and "SUM, AVG, MAX and MIN" in told[1]
        assert "has no order" in told[2]
        assert "output_tensor has 5 elements; it must have 4 times the 2" in told[3]
        assert "torch.int32" in told[4] and "both must be the same" in told[4]
        assert "root=9 must be a rank" in told[5]
        assert told[6] == "[4.0, 4.0, 4.0, 4.0]"


def test_many_mixed_collectives_stay_right(group_of: Groups) -> None:
    for wear in group_of(4).call(soak_collectives, small(), "ring", 60, 3):
        assert wear.num_wrong == 0
        assert wear.descriptors[1] <= wear.descriptors[0] and wear.threads[1] <= wear.threads[0] + 4


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "phase"), [(1, Phase.REDUCE), (2, Phase.SPREAD)])
def test_survivors_name_the_rank_that_failed(victim: int, phase: Phase) -> None:
    wanted = collective_of("all-reduce", 400_000, 4)
    with RankProcesses([Seat()] * 4, timeout_s=TIMEOUT_S) as ranks:
        verdict = try_collective_fault(ranks, small(), wanted, "ring", Fault(victim, phase), TIMEOUT_S)
    assert verdict.num_hanging == 0, verdict.words
    assert verdict.num_naming == 3, verdict.words
    assert verdict.works_again


@pytest.mark.parametrize("size", [4, 20, 4_000_004])
def test_plans_in_elements_are_valid_plans_in_bytes(size: int) -> None:
    cluster = il.cluster("h200", servers=2, faults=[il.slow_nic(server=0, gpu=1, bandwidth="100 Gb/s")])
    plan = plan_collective(cluster, il.all_reduce(size), 4, "ring")
    assert plan.report.valid and _sums_once(plan)
    assert (plan.pieces["offset"] % 4 == 0).all() and (plan.pieces["length"] % 4 == 0).all()
    if size > 1000:
        in_bytes = il.synthesize(cluster, il.all_reduce(size), "ring")
        assert plan.simulate().makespan_s == pytest.approx(in_bytes.simulate().makespan_s, rel=0.05)
