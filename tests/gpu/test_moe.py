"""Experts of a layer: against a plain loop, with gradients, and planned over a link; on a GPU where there is one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch")

import interlock as il  # noqa: E402
from interlock.errors import InvalidInput  # noqa: E402
from interlock.gpu.device import missing  # noqa: E402
from interlock.gpu.executor import Stuck  # noqa: E402
from interlock.gpu.moe import Layer, experts  # noqa: E402
from interlock.gpu.moe.layer import _experts, _experts_back  # noqa: E402
from interlock.gpu.moe.pipeline import Pipeline, Rates, _tables, plan_chunks, predict  # noqa: E402
from interlock.gpu.moe.products import compile_experts  # noqa: E402
from interlock.gpu.moe.ranks import Ranks  # noqa: E402
from interlock.gpu.moe.tables import DOWN, GATE_UP, SUM, TILE_TOKENS, make_tables  # noqa: E402

pytestmark = pytest.mark.torch
has_gpu = missing() is None and torch.cuda.get_device_capability() == (9, 0)
needs_gpu = pytest.mark.skipif(not has_gpu, reason="needs a Hopper GPU")


def draw(tokens: int, hidden: int, inner: int, num_experts: int, k: int, seed: int = 0, **options: object) -> tuple:
    """Inputs with some missing choices and one token without any."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, hidden, generator=generator)
    gate_up = torch.randn(num_experts, 2 * inner, hidden, generator=generator) * hidden**-0.5
    down = torch.randn(num_experts, hidden, inner, generator=generator) * inner**-0.5
    idx = torch.rand(tokens, num_experts, generator=generator).topk(k, 1).indices
    idx[torch.rand(tokens, k, generator=generator) < 0.1] = -1
    if tokens > 5:
        idx[5] = -1
    weights = torch.rand(tokens, k, generator=generator)
    return (
        *(v.to(**options) for v in (x, gate_up, down)),
        idx.to(options.get("device")),
        weights.to(options.get("device")),
    )


def looped(x, gate_up, down, idx, weights):
    """The definition, token by token."""
    inner, made = down.shape[2], []
    for token in range(len(x)):
        y = torch.zeros_like(x[token])
        for expert, weight in zip(idx[token].tolist(), weights[token], strict=True):
            if expert >= 0:
                both = gate_up[expert] @ x[token]
                y = y + weight * (down[expert] @ (torch.nn.functional.silu(both[:inner]) * both[inner:]))
        made.append(y)
    return torch.stack(made)


def test_a_layer_is_its_definition_forth_and_back() -> None:
    inputs = draw(23, 32, 16, 5, 3)
    leaves = [v.clone().requires_grad_() for v in (*inputs[:3], inputs[4])]
    y = experts(*leaves[:3], inputs[3], leaves[3])
    want = looped(*leaves[:3], inputs[3], leaves[3])
    torch.testing.assert_close(y, want, rtol=1e-4, atol=1e-5)
    grad = torch.randn_like(y)
    for got, known in zip(*(torch.autograd.grad(v, leaves, grad) for v in (y, want)), strict=True):
        torch.testing.assert_close(got, known, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("keeps", [False, True])
def test_torch_accepts_the_operations(keeps: bool) -> None:
    x, gate_up, down, idx, weights = draw(9, 16, 8, 3, 2)
    torch.library.opcheck(_experts, (x.requires_grad_(keeps), gate_up, down, idx, weights, True, keeps))
    kept = _experts(x, gate_up, down, idx, weights, True, True)[1:]
    arguments = (torch.randn(9, 16), x.detach(), gate_up, down, idx, weights, *(v.detach() for v in kept))
    torch.library.opcheck(_experts_back, arguments)


def test_bad_arguments_are_named() -> None:
    x, gate_up, down, idx, weights = draw(9, 16, 8, 3, 2)
    for words, arguments in {
        "topk_idx": (x, gate_up, down, idx[:5], weights),
        "gate_up": (x, gate_up[:, :8], down, idx, weights),
        "integers": (x, gate_up, down, weights, weights),
        "alike": (x.double(), gate_up, down, idx, weights),
    }.items():
        with pytest.raises(InvalidInput, match=words):
            experts(*arguments)
    with pytest.raises(InvalidInput, match="order='none'"):
        experts(x, gate_up, down, idx, weights, order="none")
    with pytest.raises(InvalidInput, match="no gradients"):
        experts(x.requires_grad_(), gate_up, down, idx, weights, order="any")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 9), st.integers(1, 4), st.integers(0, 10**6))
def test_items_cover_every_row_and_column_once(tokens: int, num_experts: int, k: int, seed: int) -> None:
    k = min(k, num_experts)
    rng = np.random.default_rng(seed)
    idx = torch.from_numpy(rng.integers(-1, num_experts, (tokens, k)))
    tables = make_tables(idx, torch.ones(tokens, k), num_experts, 512, 384)
    items = tables.items.numpy()
    flat = idx.reshape(-1).numpy()
    ends = np.cumsum(np.bincount(flat[flat >= 0], minlength=num_experts))
    for kind, columns in ((GATE_UP, 3), (DOWN, 2)):
        covered = np.zeros((tokens * k, columns), int)
        for _, column, row, end, tile, _, expert, _ in items[items[:, 0] == kind]:
            covered[row:end, column] += 1
            assert 0 < end - row <= TILE_TOKENS and end <= ends[expert] and row >= (ends[expert - 1] if expert else 0)
            assert 0 <= tile < len(tables.counters) - 4
        assert (covered[: ends[-1]] == 1).all() and not covered[ends[-1] :].any()
    assert int(tables.finished_of[0]) == (items[:, 0] == DOWN).sum()
    summed = np.concatenate([np.arange(row, end) for _, _, row, end, *_ in items[items[:, 0] == SUM]] or [np.empty(0)])
    assert summed.tolist() == list(range(tokens))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(2, 12), st.integers(1, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_a_planned_order_brings_tokens_before_and_takes_them_after_their_experts(
    tokens: int, num_experts: int, per_part: int, parts: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    idx = np.where(rng.random((tokens, 3)) < 0.5, rng.integers(0, num_experts, (tokens, 3)), -1)
    idx[:, 0] = rng.integers(0, num_experts, tokens)
    idx[:, 1:][idx[:, 1:] == idx[:, :1]] = -1
    order = plan_chunks(idx, num_experts, min(per_part, num_experts) * parts, parts)
    assert sorted(order.arrival) == sorted(order.departure) == list(range(tokens))
    assert order.arrival_ends[-1] == order.departure_ends[-1] == tokens == len(order.part_of)
    came = np.searchsorted(order.arrival_ends, np.argsort(order.arrival), side="right")
    left = np.searchsorted(order.departure_ends, np.argsort(order.departure), side="right")
    chunk = np.where(idx < 0, -1, order.chunk_of[order.part_of[:, None], np.maximum(idx, 0)])
    assert (came == np.where(chunk < 0, 10**9, chunk).min(axis=1)).all() and (left == chunk.max(axis=1)).all()
    assert order.rows_per_chunk().sum() == (idx >= 0).sum()
    rates = Rates(1e9, 2e9, 1e-7, 0.0, 0.0)
    least = max(tokens * 100 / 1e9, (idx >= 0).sum() * 1e-7)
    assert least <= predict(order, 100, rates) <= tokens * 150 / 1e9 + (idx >= 0).sum() * 1e-7 + 1e-12
    tables = _tables(order, torch.ones(idx.shape), num_experts, 256, 128, 1, torch.device("cpu"))
    assert (tables.token_of.numpy() < np.repeat(order.arrival_ends, order.rows_per_chunk())).all()


def test_a_link_used_one_way_only_is_faster_and_every_copy_costs_something() -> None:
    order = plan_chunks(np.zeros((100, 1), np.int64), 1, 1)
    one = predict(order, 10, Rates(1e3, 2e3, 1e-3, 0.5, 0.25, 0.125, alone=2.0))
    assert one == pytest.approx((1.0 + 0.125) / 2 + 0.1 + 0.25 + (0.5 + 0.125) / 2)
    order = plan_chunks(np.arange(100)[:, None] % 2, 2, 2)  # the second chunk comes while the first leaves
    two = predict(order, 10, Rates(1e3, 1e3, 0.0, 0.0, 0.0, alone=2.0))
    assert two == pytest.approx(0.25 + 0.5 + 0.25)


def test_tokens_without_an_expert_and_odd_chunks_are_refused() -> None:
    with pytest.raises(InvalidInput, match="token 1 has no expert"):
        plan_chunks(np.array([[0], [-1]]), 2, 1)
    with pytest.raises(InvalidInput, match="num_chunks=3"):
        plan_chunks(np.array([[0]]), 2, 3)
    with pytest.raises(InvalidInput, match="experts from 0 to 1"):
        plan_chunks(np.array([[2]]), 2, 1)


def test_the_kernel_compiles(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.core", reason="needs cuda-core (extra: gpu)")
    pathfinder = pytest.importorskip("cuda.pathfinder", reason="needs cuda-core (extra: gpu)")
    try:
        pathfinder.load_nvidia_dynamic_lib("nvrtc")
    except pathfinder.DynamicLibNotFoundError:
        pytest.skip("needs NVRTC (package nvidia-cuda-nvrtc)")
    monkeypatch.setenv("INTERLOCK_CACHE", str(tmp_path))
    assert len(compile_experts().code) > 10_000


@needs_gpu
@pytest.mark.parametrize("tokens", [1, 37, 300, 2049, 5000])
@pytest.mark.parametrize("shape", [(256, 128, 4, 2), (1024, 640, 9, 3), (768, 256, 2, 1)])
def test_the_kernel_computes_what_plain_torch_does(tokens: int, shape: tuple[int, int, int, int]) -> None:
    inputs = draw(tokens, *shape, seed=tokens, dtype=torch.bfloat16, device="cuda")
    want = experts(*(v.float().cpu() if v.is_floating_point() else v.cpu() for v in inputs))
    for order in ("fixed", "any"):
        got = experts(*inputs, order=order).float().cpu()
        assert float((got - want).norm() / want.norm()) < 0.012, order
    assert torch.equal(experts(*inputs), experts(*inputs))


@needs_gpu
def test_gradients_on_the_device_are_those_of_plain_torch() -> None:
    inputs = draw(513, 512, 256, 6, 3, dtype=torch.bfloat16, device="cuda")
    grads = []
    for place in ("cuda", "cpu"):
        x, gate_up, down, idx, weights = (v.to(place) for v in inputs)
        leaves = [
            v.float().requires_grad_() if place == "cpu" else v.clone().requires_grad_()
            for v in (x, gate_up, down, weights)
        ]
        y = experts(*leaves[:3], idx, leaves[3])
        grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(3)).to(y)
        grads.append([v.float().cpu() for v in torch.autograd.grad(y, leaves, grad)])
    for got, want in zip(*grads, strict=True):
        assert float((got - want).norm() / want.norm()) < 0.02


@needs_gpu
@pytest.mark.parametrize(("chunks", "parts", "lag"), [(1, 1, 0), (4, 1, 1), (8, 2, 0), (8, 2, 1), (12, 4, 1)])
def test_a_pipeline_over_the_host_link_gives_what_the_layer_gives(chunks: int, parts: int, lag: int) -> None:
    x, gate_up, down, idx, weights = draw(1500, 512, 256, 6, 3, dtype=torch.bfloat16, device="cuda")
    is_any = (idx >= 0).any(1)
    x, idx, weights = x[is_any], idx[is_any], weights[is_any]
    want = experts(x, gate_up, down, idx, weights).cpu()
    order = plan_chunks(idx, 6, chunks, parts)
    pipeline = Pipeline(order, gate_up, down, weights, lag=lag)
    coming = x.cpu()[torch.from_numpy(order.arrival)].pin_memory()
    leaving = torch.empty_like(coming).pin_memory()
    for _ in range(5):
        leaving.fill_(float("nan"))
        pipeline(coming, leaving)
        pipeline.check()
        assert torch.equal(leaving, want[torch.from_numpy(order.departure)])


@needs_gpu
def test_tokens_that_never_come_are_an_error_and_leave_the_device_usable() -> None:
    x, gate_up, down, idx, weights = draw(300, 512, 256, 6, 3, dtype=torch.bfloat16, device="cuda")
    idx[:, 0] = 1
    pipeline = Pipeline(plan_chunks(idx, 6, 3), gate_up, down, weights)
    pipeline.tables.counters.zero_()
    pipeline.launch(limit_s=0.2)
    with pytest.raises(Stuck, match="did not come"):
        pipeline.check()
    assert torch.isfinite(experts(x, gate_up, down, idx, weights)).all()


def _by_hand(rows: np.ndarray, sent: list, wanted: list) -> None:
    """Rows of every rank to every rank, one after the other."""
    parts = [each.split(row.tolist()) for each, row in zip(sent, rows, strict=True)]
    for rank, target in enumerate(wanted):
        target.copy_(torch.cat([part[rank] for part in parts]))


@pytest.mark.parametrize("place", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("chunks", [1, 3])
def test_experts_on_many_ranks_give_what_their_sums_in_order_are(place: str, chunks: int) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    dtype = torch.bfloat16 if place == "cuda" else torch.float32
    sizes = (300, 0, 77, 150)
    x, gate_up, down, idx, weights = draw(sum(sizes), 256, 128, 8, 3, dtype=dtype, device=place)
    layer = Ranks(cluster, gate_up, down, num_chunks=chunks, mover=_by_hand if place == "cpu" else None)
    wanted = torch.zeros_like(x, dtype=torch.float32)
    for rank in range(4):  # what a rank's experts make of every token, summed in the order of ranks
        here = torch.where((idx >= 2 * rank) & (idx < 2 * rank + 2), idx - 2 * rank, -1)
        part = experts(x, gate_up[2 * rank : 2 * rank + 2], down[2 * rank : 2 * rank + 2], here, weights)
        wanted += torch.where((here >= 0).any(1, keepdim=True), part, 0).float()
    for _ in range(3):
        made = torch.cat(layer(x.split(sizes), idx.split(sizes), weights.split(sizes)))
        if place == "cuda":
            assert torch.equal(made, wanted.to(dtype))
        else:  # plain products are rounded by how many rows there are
            torch.testing.assert_close(made, wanted.to(dtype))


def test_experts_that_cannot_be_spread_evenly_are_refused() -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=3)
    with pytest.raises(InvalidInput, match="4 experts cannot be spread evenly over 3 ranks"):
        Ranks(cluster, torch.zeros(4, 4, 2), torch.zeros(4, 2, 2))


def test_a_layer_holds_its_weights() -> None:
    layer = Layer(32, 16, 3)
    y = layer(torch.randn(4, 32), torch.zeros(4, 1, dtype=torch.long), torch.ones(4, 1))
    y.sum().backward()
    assert y.shape == (4, 32) and layer.gate_up.grad is not None and not layer.gate_up.grad[1:].any()
