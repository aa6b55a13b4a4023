"""Plans on a real device, all ranks in one process: byte-exact, launched again and again, and never hanging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import interlock as il
from gpu.plans import make_inputs, odd_demand, wanted
from interlock.algorithms import registry
from interlock.gpu import executor as executor_module
from interlock.gpu.device import missing
from interlock.gpu.work import WorkList, make_work
from interlock.planning import Plan, solve
from interlock.problem import collective_problem, demand_problem

pytestmark = [pytest.mark.torch, pytest.mark.skipif(missing() is not None, reason=missing() or "")]

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int32]
COLLECTIVES = {"all-reduce": il.all_reduce, "all-gather": il.all_gather, "reduce-scatter": il.reduce_scatter}


def _is_right(plan: Plan, dtype: torch.dtype = torch.float32, operation: str = "sum", launches: int = 2) -> bool:
    executor = il.gpu.Executor(plan, dtype=dtype, operation=operation)
    for seed in range(launches):
        inputs = make_inputs(plan.problem, dtype, seed)
        outputs = executor(inputs)
        executor.wait()
        if not all(torch.equal(a, b) for a, b in zip(outputs, wanted(plan.problem, inputs, operation), strict=True)):
            return False
    return True


def _shapes() -> list[tuple[int, str]]:
    """Servers of eight ranks, and every algorithm that is there for them."""
    made = []
    for servers in (1, 4, 16):
        cluster = il.cluster("h200", servers=servers)
        names = registry.supported(demand_problem(cluster, il.traffic.uniform(cluster, "1 MB")))
        assert len(names) >= 13
        made += [(servers, name) for name in names]
    return made


@pytest.mark.parametrize(("servers", "name"), _shapes())
def test_every_all_to_allv_is_byte_exact(servers: int, name: str) -> None:
    cluster = il.cluster("h200", servers=servers)
    demand = odd_demand(cluster, servers, 100_003 if servers < 16 else 9_001)
    if servers == 16 and name == "guided":  # takes minutes to plan all pairs of 128 ranks
        matrix = demand.bytes_matrix.copy()
        matrix[np.random.default_rng(2).random(matrix.shape) > 0.02] = 0
        demand = il.traffic.matrix(matrix)
    assert _is_right(solve(demand_problem(cluster, demand), name), launches=1 if servers > 1 else 2)


@pytest.mark.parametrize("kind", COLLECTIVES)
@pytest.mark.parametrize("servers", [1, 4, 16])
def test_every_collective_is_byte_exact(servers: int, kind: str) -> None:
    cluster = il.cluster("h200", servers=servers)
    problem = collective_problem(cluster.topology, COLLECTIVES[kind](cluster.num_ranks * 3 * 48), 1, cluster)
    for name in registry.supported(problem):
        if servers == 16 and name == "guided":
            continue  # takes minutes to plan; above it has 128 ranks
        try:
            plan = solve(problem, name)
            executor_is_right = _is_right(plan, torch.int32, launches=1)
        except il.InvalidInput as error:
            assert "cuts elements" in str(error), (name, error)
            continue
        assert executor_is_right, name


@pytest.mark.parametrize("align", [16, 4096])
def test_aligned_plans_are_byte_exact(align: int) -> None:
    cluster = il.cluster("h200", servers=4)
    rows = odd_demand(cluster, 7, 999).bytes_matrix * align
    for demand in (il.traffic.matrix(rows % (1 << 22)), odd_demand(cluster, 8, 100_003)):
        for name in ("adaptive", "fast", "rails-split"):
            assert _is_right(il.plan(cluster, demand, algorithm=name, align=align), launches=1), name


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_are_exact_for_every_type(dtype: torch.dtype) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    for make in COLLECTIVES.values():
        problem = collective_problem(cluster.topology, make(8 * 3 * 1008), 1, cluster)
        for name in registry.supported(problem):
            try:
                plan = solve(problem, name)
                executor_is_right = _is_right(plan, dtype)
            except il.InvalidInput as error:
                assert "cuts elements" in str(error), (name, error)
                continue
            assert executor_is_right, name


@pytest.mark.parametrize("operation", ["max", "min"])
def test_largest_and_least(operation: str) -> None:
    ring = il.synthesize(il.topology.ring(4, bandwidth="50 GB/s"), il.all_reduce(64_000), algorithm="ring")
    for dtype in DTYPES:
        assert _is_right(ring, dtype, operation)


def test_gigabytes_and_nothing() -> None:
    """Every algorithm with no byte to move; and one pair that has more than 32 bits can count, beside small ones."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    nothing = demand_problem(cluster, il.traffic.uniform(cluster, 0))
    for name in registry.supported(nothing):
        assert _is_right(solve(nothing, name), launches=1), name
    matrix = np.full((8, 8), 1_000_003)
    matrix[1, 6] = 2**32 + 5
    for name in ("direct", "adaptive", "fast", "pxn"):
        assert _is_right(il.plan(cluster, il.traffic.matrix(matrix), algorithm=name), launches=1), name


def test_a_thousand_launches_of_changing_plans() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    for number in range(200):
        plan = il.plan(cluster, odd_demand(cluster, number, 20_011), algorithm="adaptive")
        executor = il.gpu.Executor(plan)
        inputs = make_inputs(plan.problem, torch.float32, number)
        right = wanted(plan.problem, inputs)
        for _ in range(5):
            outputs = executor(inputs)
            assert all(torch.equal(a, b) for a, b in zip(outputs, right, strict=True)), number
        executor.wait()


def _without_a_signal(work: WorkList) -> None:
    """A message whose arrival nobody is told of."""
    chunks = work.chunks
    waited = {(int(c["rank"]), int(w)) for c in chunks for w in work.waits["flag"][c["first_wait"] : c["end_wait"]]}
    is_waited_for = [(int(c["arrival_rank"]), int(c["arrival"])) in waited for c in chunks]
    chunks["arrival"][np.argmax(is_waited_for)] = -1


def _with_a_wait_for_more(work: WorkList) -> None:
    """A program that waits for one signal more than comes."""
    waiting = work.chunks[int(np.argmax(work.chunks["end_wait"] > work.chunks["first_wait"]))]
    work.waits["needed"][waiting["first_wait"]] += 1


@pytest.mark.parametrize("break_it", [_without_a_signal, _with_a_wait_for_more])
def test_what_never_comes_is_named_and_the_device_lives_on(
    break_it: Callable[[WorkList], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    plan = il.plan(cluster, il.traffic.uniform(cluster, "64 kB"), algorithm="pxn")

    def broken(*arguments: Any, **options: Any) -> WorkList:
        work = make_work(*arguments, **options)
        break_it(work)
        return work

    with monkeypatch.context() as patched:
        patched.setattr(executor_module, "make_work", broken)
        executor = il.gpu.Executor(plan, timeout_s=0.5)
    inputs = make_inputs(plan.problem, torch.float32)
    executor(inputs)
    with pytest.raises(il.gpu.Stuck, match=r"rank \d .*waited for .* for more than 0.5 s"):
        executor.wait()
    assert _is_right(plan)


def test_bad_tensors_are_refused_in_words() -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster, "1 kB"), algorithm="direct")
    executor = il.gpu.Executor(plan)
    good = make_inputs(plan.problem, torch.float32)
    with pytest.raises(il.InvalidInput, match=r"inputs has 1 tensors"):
        executor(good[:1])
    with pytest.raises(il.InvalidInput, match=r"inputs\[1\] has \d+ bytes; the plan needs \d+"):
        executor([good[0], good[1][:-1]])
    with pytest.raises(il.InvalidInput, match=r"inputs\[0\] is on cpu"):
        executor([good[0].cpu(), good[1]])
    with pytest.raises(il.InvalidInput, match=r"dtype=torch.float64 is not one of"):
        il.gpu.Executor(plan, dtype=torch.float64)
