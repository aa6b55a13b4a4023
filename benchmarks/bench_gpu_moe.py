"""How fast are the experts of an MoE layer on a GPU, and their pipeline over a slow link?

Protocol: bfloat16, top-8, five shapes and three others, in turns in one run, median of --repeats; routing tables
excluded for all alike. *eager* is torch throughout (index_select, grouped products, silu, index_add); *strong* is
index_select, torch's grouped products, a Triton SwiGLU and a Triton weighted sum; *triton* is `triton_experts.py`,
gather and SwiGLU fused into its products, and the same weighted sum.

    python benchmarks/bench_gpu_moe.py --json benchmarks/results/gpu_moe.json
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from cuda.bindings import driver

from common import RESULTS, machine
from interlock.gpu.moe.layer import _experts
from interlock.gpu.moe.pipeline import Order, Pipeline, Rates, plan_chunks, predict
from interlock.gpu.moe.products import launch_experts
from interlock.gpu.moe.rows import multiply_rows, multiply_weights, sum_rows, swiglu_back
from interlock.gpu.moe.tables import TILE_GRAIN, make_tables
from triton_experts import make_products

SHAPES = {  # hidden, inner, experts, tokens, skew of the routing
    "4096/1536/128/4096": (4096, 1536, 128, 4096, 0.0),
    "4096/1536/128/16384": (4096, 1536, 128, 16384, 0.0),
    "4096/2048/64/4096": (4096, 2048, 64, 4096, 0.0),
    "4096/2048/64/16384": (4096, 2048, 64, 16384, 0.0),
    "7168/2048/256/8192": (7168, 2048, 256, 8192, 0.0),
    "4096/1536/128/1024, 64 tokens per expert": (4096, 1536, 128, 1024, 0.0),
    "4096/1536/128/4096, skewed": (4096, 1536, 128, 4096, 1.2),
    "4096/1536/128/16384, skewed": (4096, 1536, 128, 16384, 1.2),
}
TOP_K = 8
PARTS = ["forth", "back", "beside", "link"]


@triton.jit
def split_swiglu(gate_up, made, inner, BLOCK: tl.constexpr):  # noqa: N803
    row = tl.program_id(0).to(tl.int64)
    for first in range(0, inner, BLOCK):
        at = first + tl.arange(0, BLOCK)
        is_inside = at < inner
        gate = tl.load(gate_up + row * 2 * inner + at, mask=is_inside, other=0.0).to(tl.float32)
        up = tl.load(gate_up + row * 2 * inner + inner + at, mask=is_inside, other=0.0).to(tl.float32)
        tl.store(made + row * inner + at, (gate / (1.0 + tl.exp(-gate)) * up).to(tl.bfloat16), mask=is_inside)


@triton.jit
def weighted_sum(rows, row_of, weights, made, width, k: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for j in tl.static_range(k):
        row = tl.load(row_of + token * k + j).to(tl.int64)
        total += tl.load(rows + row * width + at).to(tl.float32) * tl.load(weights + token * k + j)
    tl.store(made + token * width + at, total.to(tl.bfloat16))


@triton.jit
def copy_rounds(source, target, per_program, rounds, BLOCK: tl.constexpr):  # noqa: N803
    first = tl.program_id(0).to(tl.int64) * per_program
    for _ in range(rounds):
        for at in range(0, per_program, BLOCK):
            place = first + at + tl.arange(0, BLOCK)
            tl.store(target + place, tl.load(source + place))


def in_turns(calls: dict[str, Callable[[], Any]], repeats: int, *, takes_least: bool = False) -> dict[str, float]:
    """Median (or least) milliseconds of each, all in every round, in another order in each.

    What follows something that draws much power runs at a lower clock for a while.
    """
    for call in calls.values():
        call()
        call()
    torch.cuda.synchronize()
    marks: dict[str, list[tuple[Any, Any]]] = {name: [] for name in calls}
    rng, order = random.Random(0), list(calls)
    for _ in range(repeats):
        rng.shuffle(order)
        for name in order:
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            calls[name]()
            last.record()
            marks[name].append((first, last))
    torch.cuda.synchronize()
    place = 0 if takes_least else repeats // 2
    return {name: sorted(a.elapsed_time(b) for a, b in pairs)[place] for name, pairs in marks.items()}


def draw(
    hidden: int, inner: int, num_experts: int, num_tokens: int, skew: float, seed: int
) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(seed)
    options = {"device": "cuda", "dtype": torch.bfloat16}
    x = torch.randn(num_tokens, hidden, **options)
    gate_up = torch.empty(num_experts, 2 * inner, hidden, **options).normal_(0, hidden**-0.5)
    down = torch.empty(num_experts, hidden, inner, **options).normal_(0, inner**-0.5)
    bias = -skew * torch.log(torch.arange(1, num_experts + 1, device="cuda").float())
    gumbel = -torch.log(-torch.log(torch.rand(num_tokens, num_experts, device="cuda").clamp(1e-9, 1 - 1e-7)))
    topk_idx = (gumbel + bias).topk(TOP_K, 1).indices
    weights = torch.softmax(torch.randn(num_tokens, TOP_K, device="cuda"), 1)
    return x, gate_up, down, topk_idx, weights


def error_of(y: torch.Tensor, inputs: tuple[torch.Tensor, ...], count: int = 32) -> float:
    """Relative error of some tokens against float64."""
    x, gate_up, down, topk_idx, weights = inputs
    inner = down.shape[2]
    total = worst = 0.0
    for token in range(0, len(x), max(1, len(x) // count)):
        want = torch.zeros(x.shape[1], dtype=torch.float64, device="cuda")
        for j in range(TOP_K):
            expert = int(topk_idx[token, j])
            if expert < 0:
                continue
            both = gate_up[expert].double() @ x[token].double()
            made = torch.nn.functional.silu(both[:inner]) * both[inner:]
            want += weights[token, j].double() * (down[expert].double() @ made)
        worst += float((y[token].double() - want).square().sum())
        total += float(want.square().sum())
    return math.sqrt(worst / total)


def measure(name: str, repeats: int, seed: int) -> dict[str, Any]:
    hidden, inner, num_experts, num_tokens, skew = SHAPES[name]
    inputs = x, gate_up, down, topk_idx, weights = draw(hidden, inner, num_experts, num_tokens, skew, seed)
    tables = make_tables(topk_idx, weights, num_experts, hidden, inner)
    rows = len(tables.token_of)
    inner_rows, results = x.new_empty(rows, inner), x.new_empty(rows, hidden)
    made = torch.empty_like(x)
    token, ends = tables.token_of.long(), tables.row_ends
    up_t, down_t = gate_up.transpose(1, 2), down.transpose(1, 2)
    row_of, row_weight = tables.out_row, tables.row_weight[:, None].to(torch.bfloat16)

    def eager() -> torch.Tensor:
        both = torch._grouped_mm(x.index_select(0, token), up_t, offs=ends)
        h = torch.nn.functional.silu(both[:, :inner]) * both[:, inner:]
        return torch.zeros_like(x).index_add_(0, token, torch._grouped_mm(h, down_t, offs=ends) * row_weight)

    def strong() -> torch.Tensor:
        both = torch._grouped_mm(x.index_select(0, token), up_t, offs=ends)
        split_swiglu[(rows,)](both, inner_rows, inner, BLOCK=1024)
        y = torch._grouped_mm(inner_rows, down_t, offs=ends)
        weighted_sum[(num_tokens, hidden // 1024)](y, row_of, weights, made, hidden, TOP_K, BLOCK=1024)
        return made

    def ours() -> torch.Tensor:
        tables.counters.zero_()
        launch_experts(tables, x, gate_up, down, outputs=made, inner_rows=inner_rows, results=results)
        return made

    in_triton = make_products(tables, x, gate_up, down)

    def plain_triton() -> torch.Tensor:
        in_triton(inner_rows, results)
        weighted_sum[(num_tokens, hidden // 1024)](results, row_of, weights, made, hidden, TOP_K, BLOCK=1024)
        return made

    without = tables.without_sums()

    def ours_atomic() -> torch.Tensor:
        tables.counters.zero_()
        made.zero_()
        launch_experts(without, x, gate_up, down, outputs=made, inner_rows=inner_rows, results=None)
        return made

    calls = {"eager": eager, "strong": strong, "triton": plain_triton, "ours": ours, "ours, atomic": ours_atomic}
    errors = {}
    for label, call in calls.items():
        for buffer in (made, inner_rows, results):
            buffer.fill_(float("nan"))
        errors[label] = error_of(call().clone(), inputs)
    first = ours().clone()
    is_same = all(torch.equal(first, ours()) for _ in range(100))
    times = in_turns(calls, repeats)
    flop = 6.0 * rows * hidden * inner
    products = tables.items[(tables.items[:, 0] == 0) & (tables.items[:, 1] == 0)]
    filled = float(((products[:, 3] - products[:, 2] + TILE_GRAIN - 1) // TILE_GRAIN * TILE_GRAIN).sum()) / rows
    print(f"== {name}: tile rows / rows {filled:.3f}, floor at 788 TFLOP/s {flop / 788e9:.2f} ms")
    for label in calls:
        over = {base: times[base] / times[label] for base in ("eager", "strong")}
        print(
            f"  {label:14} {times[label]:7.3f} ms {flop / times[label] / 1e9:5.0f} TFLOP/s  "
            f"x{over['eager']:.3f} of eager  x{over['strong']:.3f} of strong  error {errors[label]:.5f}",
            flush=True,
        )
    print(f"  bit-identical over 100 runs: {is_same}")
    return {"ms": times, "error": errors, "is_bit_identical": is_same, "tile_rows_over_rows": filled}


def backward(name: str, repeats: int, seed: int) -> dict[str, Any]:
    """The way back alone; *strong*'s is the same products with index_add and one kernel for each step."""
    hidden, inner, num_experts, num_tokens, skew = SHAPES[name]
    x, gate_up, down, topk_idx, weights = draw(hidden, inner, num_experts, num_tokens, skew, seed)
    tables = make_tables(topk_idx, weights, num_experts, hidden, inner)
    token, ends, rows = tables.token_of.long(), tables.row_ends, len(tables.token_of)
    y_grad = torch.randn_like(x)
    kept = [v.detach() for v in _experts(x, gate_up, down, topk_idx, weights, True, True)[1:]]
    slot = torch.empty_like(token)
    slot[tables.out_row.long()] = torch.arange(rows, device="cuda")

    def strong() -> tuple[torch.Tensor, ...]:
        grad = y_grad.index_select(0, token)
        weight_grad = (grad.float() * kept[2].float()).sum(1)[tables.out_row.long()].reshape(weights.shape)
        grad = grad * tables.row_weight[:, None].to(grad.dtype)
        inner_grad = multiply_rows(grad, down, ends)
        down_grad = multiply_weights(grad, kept[1], ends)
        both = swiglu_back(kept[0], inner_grad)
        x_grad = torch.zeros_like(x).index_add_(0, token, multiply_rows(both, gate_up, ends))
        return x_grad, multiply_weights(both, x.index_select(0, token), ends), down_grad, weight_grad

    def ours() -> tuple[torch.Tensor, ...]:
        return torch.ops.interlock.experts_back(y_grad, x, gate_up, down, topk_idx, weights, *kept)

    pairs = zip(ours(), strong(), strict=True)
    apart = [float((a[:1].float() - b[:1].float()).norm() / b[:1].float().norm()) for a, b in pairs]
    times = in_turns({"strong": strong, "ours": ours}, repeats)
    faster = times["strong"] / times["ours"]
    print(f"== back {name}: strong {times['strong']:.3f} ms, ours {times['ours']:.3f} ms x{faster:.3f}", end="; ")
    print("apart", [f"{value:.1e}" for value in apart], flush=True)
    return {"ms": times, "apart": apart}


def beside_copies(name: str, repeats: int, seed: int, copying: int = 16) -> dict[str, float]:
    """The experts on the other multiprocessors, alone and while some copy."""
    hidden, inner, num_experts, num_tokens, skew = SHAPES[name]
    x, gate_up, down, topk_idx, weights = draw(hidden, inner, num_experts, num_tokens, skew, seed)
    tables = make_tables(topk_idx, weights, num_experts, hidden, inner)
    rows = len(tables.token_of)
    inner_rows, results, made = x.new_empty(rows, inner), x.new_empty(rows, hidden), torch.empty_like(x)
    others = (
        torch.cuda.get_device_properties(0).multi_processor_count - copying - 8
    )  # pairs must find room in a cluster
    per_program = 16 << 20
    source = torch.empty(copying * per_program, dtype=torch.int32, device="cuda").random_()
    target = torch.empty_like(source)
    side = torch.cuda.Stream()
    copies: list[tuple[Any, Any]] = []

    def run(is_beside: bool, turn: int) -> float:
        tables.counters.zero_()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        torch.cuda.synchronize()
        if is_beside:
            with torch.cuda.stream(side):
                marks[2].record()
                copy_rounds[(copying,)](source, target, per_program, 8, BLOCK=8192, num_warps=32)
                marks[3].record()
            torch.cuda._sleep(200_000)  # until the copies have begun
        marks[0].record()
        launch_experts(
            tables, x, gate_up, down, outputs=made, inner_rows=inner_rows, results=results, multiprocessors=others
        )
        marks[1].record()
        torch.cuda.synchronize()
        if is_beside and turn > 1:
            copies.append((marks[1].elapsed_time(marks[3]), marks[2].elapsed_time(marks[3])))
        return float(marks[0].elapsed_time(marks[1]))

    times = {is_beside: [] for is_beside in (False, True)}
    for turn in range(repeats + 2):
        for is_beside, taken in times.items():
            ms = run(is_beside, turn)
            if turn > 1:
                taken.append(ms)
    alone, beside = (sorted(taken)[len(taken) // 2] for taken in times.values())
    was_busy = all(after > 0 for after, _ in copies)
    rate = source.numel() * 4 * 8 / 1e6 / sorted(ms for _, ms in copies)[len(copies) // 2]
    print(
        f"== {name} on {others} SMs: {alone:.3f} ms alone, {beside:.3f} ms beside {copying} that copy {rate:.0f} GB/s "
        f"x{beside / alone:.3f}; copies outlasted every run: {was_busy}",
        flush=True,
    )
    facts = {"multiprocessors": others, "copying": copying, "copied_gb_per_s": rate, "copies_outlasted": was_busy}
    return {"alone_ms": alone, "beside_ms": beside, **facts}


LINKS = {  # hidden, inner, all experts, tokens that come to one rank of eight
    "4096/1536": (4096, 1536, 128, 16384),
    "7168/2048": (7168, 2048, 256, 8192),
    "4096/4096": (4096, 4096, 64, 16384),
}
WAYS = ((4, 1), (8, 1), (8, 2), (16, 1), (16, 2), (16, 4), (32, 4))  # chunks, parts of the tokens


Way = tuple[int, int]  # chunks, parts of the tokens
Variant = tuple[Way, int]  # and the lag between arrivals and departures


class SlowLink:
    """One rank of eight, the others' tokens in pinned host memory: the host link is a real slow link."""

    def __init__(self, name: str, seed: int) -> None:
        hidden, inner, all_experts, num_tokens = LINKS[name]
        torch.manual_seed(seed)
        self.num_experts = all_experts // 8
        chosen = torch.rand(int(num_tokens * 2.5), all_experts, device="cuda").topk(TOP_K, 1).indices
        weights = torch.softmax(torch.randn(len(chosen), TOP_K, device="cuda"), 1)
        is_here = (chosen < self.num_experts).any(1)
        chosen, self.weights = chosen[is_here][:num_tokens], weights[is_here][:num_tokens]
        self.chosen = torch.where(chosen < self.num_experts, chosen, -1)
        options = {"device": "cuda", "dtype": torch.bfloat16}
        self.gate_up = torch.empty(self.num_experts, 2 * inner, hidden, **options).normal_(0, hidden**-0.5)
        self.down = torch.empty(self.num_experts, hidden, inner, **options).normal_(0, inner**-0.5)
        self.tokens = torch.randn(num_tokens, hidden, **options)
        self.x = self.tokens.cpu().pin_memory()
        self.y = torch.empty(num_tokens, hidden, dtype=torch.bfloat16).pin_memory()
        self.x_here, self.y_here = torch.empty_like(self.tokens), torch.empty_like(self.tokens)
        self.side = torch.cuda.Stream()
        self.tables = make_tables(self.chosen, self.weights, self.num_experts, hidden, inner)
        self.num_rows = int(self.tables.row_ends[-1])
        self.token_of = self.tables.token_of.long()[: self.num_rows]
        self.inner_rows = self.x_here.new_empty(self.num_rows, inner)

    def bring(self) -> None:
        """All tokens to the device."""
        self.x_here.copy_(self.x, non_blocking=True)

    def send(self) -> None:
        """All results to the host."""
        self.y.copy_(self.y_here, non_blocking=True)

    def sequential(self) -> None:
        """Bring, compute with torch, send."""
        self.bring()
        ends, inner = self.tables.row_ends, self.inner_rows.shape[1]
        gate_up = torch._grouped_mm(self.x_here.index_select(0, self.token_of), self.gate_up.transpose(1, 2), offs=ends)
        split_swiglu[(self.num_rows,)](gate_up, self.inner_rows, inner, BLOCK=1024)
        results = torch._grouped_mm(self.inner_rows, self.down.transpose(1, 2), offs=ends)
        self.y_here.copy_(sum_rows(results, self.tables, self.tables.out_weight))
        self.send()

    def at_once(self, bring: Callable[[], Any], send: Callable[[], Any]) -> None:
        """Both ways of the link, on a stream each."""
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            send()
        bring()
        torch.cuda.current_stream().wait_stream(self.side)

    def in_pieces(self, order: Order) -> Callable[[], None]:
        """Both ways at once as a pipeline copies, with nothing to wait for."""
        flags = torch.zeros(order.num_chunks, dtype=torch.int32, device="cuda")

        def copy(ends: np.ndarray, target: torch.Tensor, source: torch.Tensor) -> None:
            for chunk, (first, end) in enumerate(pairwise([0, *ends.tolist()])):
                target[first:end].copy_(source[first:end], non_blocking=True)
                stream = torch.cuda.current_stream().cuda_stream
                driver.cuStreamWriteValue32(stream, flags.data_ptr() + 4 * chunk, 1, 0)

        return lambda: self.at_once(
            lambda: copy(order.arrival_ends, self.x_here, self.x),
            lambda: copy(order.departure_ends, self.y, self.y_here),
        )

    def error_of(self, call: Callable[[], Any], order: Order | None) -> float:
        """Of what a call leaves at the host, in the order in which it leaves."""
        self.y.fill_(float("nan"))
        call()
        torch.cuda.synchronize()
        y = self.y.cuda()
        if order is not None:
            y = y[torch.from_numpy(np.argsort(order.departure)).cuda()]
        return error_of(y, (self.tokens, self.gate_up, self.down, self.chosen, self.weights))


def without_link(pipeline: Pipeline) -> Callable[[], None]:
    """A pipeline whose chunks are all there."""

    def run() -> None:
        pipeline.tables.counters.zero_()
        pipeline.tables.counters[1 : 1 + pipeline.order.num_chunks] = 1
        pipeline.launch()

    return run


def predicted_ms(link: SlowLink, pipelines: dict[Variant, Pipeline], alone: dict[str, float]) -> dict[Variant, float]:
    """What each pipeline should take, by what the link and the experts take alone."""
    most_chunks = pipelines[max(pipelines)].order.num_chunks
    bytes_per_s = link.tokens.numel() * 2 / alone["link"] * 1e3
    copy_s = max(0.0, alone["link in pieces"] - alone["link"]) / 1e3 / most_chunks
    faster = 2 * alone["link"] / (alone["in"] + alone["out"])
    row_s = alone[f"{(1, 1)} 0"] / 1e3 / link.num_rows
    predicted = {}
    for (way, lag), pipeline in pipelines.items():
        chunk_s, start_s = (max(0.0, alone[f"{way} {n}"] / 1e3 - link.num_rows * row_s) / way[0] for n in (lag, 0))
        rates = Rates(bytes_per_s, bytes_per_s, row_s, chunk_s, start_s, copy_s, faster)
        predicted[way, lag] = predict(pipeline.order, link.tokens.shape[1] * 2, rates, lag) * 1e3
    return predicted


def over_link(name: str, repeats: int, seed: int) -> dict[str, Any]:
    """Pipelines over a slow link: predicted from what their parts take alone, then run, beside torch in sequence."""
    link = SlowLink(name, seed)
    ways = [(1, 1), *((n, parts) for n, parts in WAYS if n // parts <= link.num_experts)]
    orders = {way: plan_chunks(link.chosen, link.num_experts, *way) for way in ways}
    pipelines = {
        (way, lag): Pipeline(orders[way], link.gate_up, link.down, link.weights, lag=lag)
        for way in ways
        for lag in (0, 1)
    }
    parts: dict[str, Callable[[], Any]] = {
        "link": lambda: link.at_once(link.bring, link.send),
        "link in pieces": link.in_pieces(orders[max(ways)]),
        "in": link.bring,
        "out": link.send,
        **{f"{way} {lag}": without_link(pipeline) for (way, lag), pipeline in pipelines.items()},
    }
    alone = in_turns(parts, repeats, takes_least=True)
    predicted = predicted_ms(link, pipelines, alone)
    best = min(predicted, key=lambda variant: predicted[variant])
    rounded = {part: round(ms, 3) for part, ms in alone.items()}
    print(f"== {name}: {link.num_rows} rows of {len(link.tokens)} tokens; alone, ms: {rounded}")
    print(f"  predicted before any run, ms: {predicted}; so {best}", flush=True)

    label_of = {(way, lag): f"{way[0]} chunks, {way[1]} parts, lag {lag}" for way, lag in pipelines}
    placed = {way: link.x[torch.from_numpy(order.arrival)].pin_memory() for way, order in orders.items()}
    calls: dict[str, Callable[[], Any]] = {"sequential torch": link.sequential}
    errors = {"sequential torch": link.error_of(link.sequential, None)}
    for variant, pipeline in pipelines.items():
        call = partial(pipeline, placed[variant[0]], link.y)
        calls[label_of[variant]] = call
        errors[label_of[variant]] = link.error_of(call, pipeline.order)
    times = in_turns(calls, repeats)
    foretold = {label: predicted[variant] for variant, label in label_of.items()}
    for label, ms in times.items():
        beside = f", predicted {foretold[label]:.3f} ({foretold[label] / ms:.3f} of it)" if label in foretold else ""
        ahead = times["sequential torch"] / ms
        print(f"  {label:28} {ms:.3f} ms x{ahead:.3f}  error {errors[label]:.5f}{beside}", flush=True)
    return {"alone_ms": alone, "predicted_ms": foretold, "ms": times, "error": errors, "planned": label_of[best]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=RESULTS / "gpu_moe.json")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES))
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    options = parser.parse_args()
    repeats, seed, parts = options.repeats, options.seed, options.parts
    forth = {name: measure(name, repeats, seed) for name in options.shapes if "forth" in parts}
    back = {name: backward(name, repeats, seed) for name in options.shapes[:5] if "back" in parts}
    beside = {name: beside_copies(name, repeats, seed) for name in list(SHAPES)[1:2] if "beside" in parts}
    link = {name: over_link(name, repeats, seed) for name in LINKS if "link" in parts}
    named = [forth[name]["ms"] for name in list(SHAPES)[:5] if name in forth]
    for base in ("strong", "eager"):
        if named:
            mean = math.exp(sum(math.log(t[base] / t["ours"]) for t in named) / len(named))
            print(f"geometric mean over {base}: {mean:.3f}, least {min(t[base] / t['ours'] for t in named):.3f}")
    facts = {"seed": seed, "device": torch.cuda.get_device_name(), "torch": torch.__version__}
    made = {"benchmark": "gpu_moe", "machine": machine(), **facts}
    made |= {"forth": forth, "back": back, "beside": beside, "link": link}
    options.json.write_text(json.dumps(made, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    sys.exit(main())
