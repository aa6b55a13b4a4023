"""Train a small MoE language model twice, step by step: with torch's All-to-All and eager experts, and with
`interlock.torch.Experts`. Both see the same text and start from the same weights; their losses agree within rounding.

python examples/moe_training.py                      # four ranks over loopback, measured before
python examples/moe_training.py --lab                # 4x4 in namespaces with 50 Mbit/s NICs; needs root
python examples/moe_training.py --cuda               # one process on a GPU, experts in bfloat16
torchrun --nproc-per-node 8 examples/moe_training.py --cuda   # a rank per GPU, over NCCL
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.nn import functional

import interlock as il
import interlock.torch as ilt
from interlock.lab import LabNetwork, LabSpec, RankContext, RankProcesses, Seat, ranks_in

VOCABULARY, HEADS = 64, 4
WAYS = ("torch", "interlock")


@dataclass(frozen=True)
class Sizes:
    """Of the model and its batches."""

    steps: int
    sequences: int  # per rank and step
    length: int
    hidden: int
    inner: int
    experts: int
    top_k: int = 2
    blocks: int = 1
    learning_rate: float = 0.003
    device: str = "cpu"

    @property
    def expert_type(self) -> torch.dtype:
        """What experts compute in."""
        return torch.bfloat16 if self.device == "cuda" else torch.float32


class TorchAllToAll(torch.autograd.Function):
    """torch's own call with gradients: they go back with splits swapped."""

    @staticmethod
    def forward(ctx, source, receives, sends, group):
        """Rows that came."""
        ctx.splits, ctx.group = (receives, sends), group
        output = source.new_empty(sum(receives), *source.shape[1:])
        dist.all_to_all_single(output, source.contiguous(), receives, sends, group=group)
        return output

    @staticmethod
    def backward(ctx, gradient):
        """Gradient of `source`."""
        receives, sends = ctx.splits
        back = gradient.new_empty(sum(sends), *gradient.shape[1:])
        dist.all_to_all_single(back, gradient.contiguous(), sends, receives, group=ctx.group)
        return back, None, None, None


class TorchExperts:
    """What one writes by hand: a copy of a token per expert, experts one after the other, weights applied at home."""

    def __init__(self, group: dist.ProcessGroup, experts: int) -> None:
        self.group, self.ranks = group, group.size()
        self.per_rank = experts // self.ranks

    def __call__(self, x, topk_idx, topk_weights, gate_up, down):
        """As `interlock.torch.Experts`."""
        order = torch.argsort(topk_idx.flatten(), stable=True)
        token = order // topk_idx.shape[1]
        counts = torch.bincount(topk_idx.flatten(), minlength=self.ranks * self.per_rank).view(self.ranks, -1)
        told = torch.empty_like(counts)  # of each rank, for each expert here
        dist.all_to_all_single(told, counts, group=self.group)
        receives, sends = told.sum(1).tolist(), counts.sum(1).tolist()
        rows = TorchAllToAll.apply(x[token], receives, sends, self.group)
        by_expert = torch.argsort(
            torch.arange(self.per_rank, device=x.device).repeat(self.ranks).repeat_interleave(told.flatten()),
            stable=True,
        )
        parts = torch.split(rows[by_expert], told.sum(0).tolist())
        made = [self.expert(part, gate_up[e], down[e]) for e, part in enumerate(parts)]
        results = torch.empty_like(rows).index_copy(0, by_expert, torch.cat(made))
        returned = TorchAllToAll.apply(results, sends, receives, self.group)
        weighted = returned * topk_weights.flatten()[order].to(returned.dtype).unsqueeze(1)
        return torch.zeros_like(x).index_add(0, token, weighted)

    @staticmethod
    def expert(x, gate_up, down):
        """SwiGLU."""
        gate, up = (x @ gate_up.T).chunk(2, dim=1)
        return (functional.silu(gate) * up) @ down.T


class Block(torch.nn.Module):
    """Causal attention, then experts."""

    def __init__(self, sizes: Sizes, rank: int, ranks: int, number: int) -> None:
        super().__init__()
        hidden, inner, held = sizes.hidden, sizes.inner, sizes.experts // ranks
        self.top_k, self.expert_type = sizes.top_k, sizes.expert_type
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(hidden) for _ in range(2))
        self.mixes = torch.nn.Linear(hidden, 3 * hidden, bias=False)
        self.leaves = torch.nn.Linear(hidden, hidden, bias=False)
        self.router = torch.nn.Linear(hidden, sizes.experts, bias=False)
        draw = torch.Generator().manual_seed(1000 * number + rank)
        self.gate_up = torch.nn.Parameter(torch.randn(held, 2 * inner, hidden, generator=draw) * hidden**-0.5)
        self.down = torch.nn.Parameter(torch.randn(held, hidden, inner, generator=draw) * inner**-0.5)

    def forward(self, x: torch.Tensor, experts) -> torch.Tensor:
        """``[sequences, length, hidden]`` in and out."""
        many, length, hidden = x.shape
        parts = self.mixes(self.norms[0](x)).view(many, length, 3, HEADS, -1).unbind(2)
        mixed = functional.scaled_dot_product_attention(*(part.transpose(1, 2) for part in parts), is_causal=True)
        x = x + self.leaves(mixed.transpose(1, 2).reshape(many, length, hidden))
        tokens = self.norms[1](x).view(-1, hidden)
        weights, chosen = self.router(tokens).softmax(dim=1).topk(self.top_k, dim=1)
        kind = self.expert_type
        made = experts(tokens.to(kind), chosen, weights, self.gate_up.to(kind), self.down.to(kind))
        return x + made.to(x.dtype).view(x.shape)


class Model(torch.nn.Module):
    """A language model whose experts lie on all ranks; everything else is the same everywhere."""

    def __init__(self, sizes: Sizes, rank: int, ranks: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(VOCABULARY, sizes.hidden)
        self.blocks = torch.nn.ModuleList(Block(sizes, rank, ranks, number) for number in range(sizes.blocks))
        self.head = torch.nn.Linear(sizes.hidden, VOCABULARY, bias=False)

    def forward(self, text: torch.Tensor, experts) -> torch.Tensor:
        """Mean loss of the next word."""
        x = self.words(text[:, :-1])
        for block in self.blocks:
            x = block(x, experts)
        return functional.cross_entropy(self.head(x).flatten(0, 1), text[:, 1:].flatten())

    def shared(self) -> list[torch.nn.Parameter]:
        """Parameters that all ranks hold."""
        return [p for name, p in self.named_parameters() if not name.endswith(("gate_up", "down"))]


def write_text(sizes: Sizes, draw: torch.Generator) -> torch.Tensor:
    """Synthetic text: every word has four that may follow it, of unequal odds. At best the loss is 1.13."""
    follows = torch.rand(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(7)).argsort(dim=1)[:, :4]
    odds = torch.tensor([0.55, 0.25, 0.15, 0.05])
    words = [torch.randint(VOCABULARY, (sizes.sequences,), generator=draw)]
    for _ in range(sizes.length):
        taken = torch.multinomial(odds, sizes.sequences, replacement=True, generator=draw)
        words.append(follows[words[-1], taken])
    return torch.stack(words, dim=1)


def step(context, model, experts, optimiser, text) -> tuple[float, float]:
    """Mean loss over ranks, and seconds, of one training step."""
    dist.barrier(group=context.control)
    start_s = time.perf_counter()
    loss = model(text, experts)
    optimiser.zero_grad()
    loss.backward()
    shared = model.shared()
    flat = torch.cat([p.grad.flatten() for p in shared] + [loss.detach().view(1)])
    dist.all_reduce(flat, group=context.group)
    flat /= context.num_ranks
    for parameter, part in zip(shared, torch.split(flat[:-1], [p.numel() for p in shared]), strict=True):
        parameter.grad.copy_(part.view_as(parameter))
    for name, parameter in model.named_parameters():
        if name.endswith(("gate_up", "down")):
            parameter.grad /= context.num_ranks
    optimiser.step()
    return flat[-1].item(), time.perf_counter() - start_s


def train(context: RankContext, cluster: il.Cluster | None, sizes: Sizes) -> tuple[dict, dict, list[str]]:
    """Losses and seconds of every step of both ways on this rank, and what moved the last bytes of ours."""
    torch.set_num_threads(1)
    group, rank, ranks = context.group, context.rank, context.num_ranks
    if cluster is None:
        cluster = ilt.calibrate(group, hosts=[f"server{r // 2}" for r in range(ranks)], seconds=0.3)
    hosts = [f"server{r // cluster.gpus_per_server}" for r in range(ranks)]
    exchange = ilt.AllToAll(cluster, group, hosts=hosts)
    ways = {"torch": TorchExperts(group, sizes.experts), "interlock": ilt.Experts(exchange, sizes.experts)}
    models = {way: Model(sizes, rank, ranks).to(sizes.device) for way in WAYS}
    optimisers = {way: torch.optim.Adam(models[way].parameters(), lr=sizes.learning_rate) for way in WAYS}
    draw = torch.Generator().manual_seed(100 + rank)
    losses: dict[str, list[float]] = {way: [] for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    reasons: list[str] = []
    for number in range(sizes.steps):
        text = write_text(sizes, draw).to(sizes.device)
        for way in WAYS if number % 2 else reversed(WAYS):
            loss, took_s = step(context, models[way], ways[way], optimisers[way], text)
            losses[way].append(loss)
            seconds[way].append(took_s)
        if exchange.report is not None:
            reasons.append(exchange.report.algorithm)
    exchange.close()
    return losses, seconds, reasons


def tell(results: Sequence[tuple[dict, dict, list[str]]], sizes: Sizes) -> bool:
    """Print loss curves and step times; whether the losses agree."""
    losses, _, moved_by = results[0]
    marks = sorted({*range(0, sizes.steps, max(1, sizes.steps // 6)), sizes.steps - 1})
    print("step      " + "".join(f"{mark:>9}" for mark in marks))
    for way in WAYS:
        print(f"{way:<10}" + "".join(f"{losses[way][mark]:>9.4f}" for mark in marks))
    warm = min(sizes.steps - 1, 5)
    slowest = {
        way: [max(times) for times in zip(*(seconds[way] for _, seconds, _ in results), strict=True)][warm:]
        for way in WAYS
    }
    ms = {way: 1e3 * statistics.median(slowest[way]) for way in WAYS}
    print(f"a step takes {ms['torch']:.1f} ms with torch, {ms['interlock']:.1f} ms with interlock (medians)")
    planned = sum(name != "native" for name in moved_by)
    print(f"the last exchange of a step: planned in {planned} of {len(moved_by)} steps, else the backend's own call")
    apart = max(abs(a - b) / a for a, b in zip(losses["torch"], losses["interlock"], strict=True))
    limit = 0.02 if sizes.device == "cuda" else 0.002
    print(f"losses are at most {100 * apart:.4f} % apart; within rounding ({100 * limit:g} %): {apart <= limit}")
    return apart <= limit


def main() -> None:
    """Run on loopback, in a lab, or on GPUs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", action="store_true", help="4x4 in namespaces; needs root")
    parser.add_argument("--cuda", action="store_true", help="on GPUs: one process, or one per rank by torchrun")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    if options.lab:
        spec = LabSpec(4, 4, 50e6 / 8, 500e6 / 8)
        sizes = Sizes(options.steps, sequences=4, length=32, hidden=128, inner=64, experts=32, top_k=4)
        with LabNetwork(spec) as network, ranks_in(network) as ranks:
            results = ranks.call(train, spec.to_cluster(), sizes)
    elif options.cuda:
        shape = {"hidden": 1024, "inner": 512, "experts": 32, "blocks": 2}
        sizes = Sizes(options.steps, sequences=16, length=256, **shape, learning_rate=0.0003, device="cuda")
        results = on_gpus(sizes)
    else:
        sizes = Sizes(options.steps, sequences=4, length=32, hidden=64, inner=32, experts=8)
        with RankProcesses([Seat()] * 4) as ranks:
            results = ranks.call(train, None, sizes)
    if results and not tell(results, sizes):
        raise SystemExit(1)


def on_gpus(sizes: Sizes) -> list[tuple[dict, dict, list[str]]]:
    """In this process, one rank of a job that torchrun started or all there is; results on rank 0."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29677")
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    device = torch.device("cuda", torch.cuda.current_device())
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=device)
    context = SimpleNamespace(
        rank=rank, num_ranks=ranks, group=dist.group.WORLD, control=dist.new_group(backend="gloo")
    )
    cluster = il.cluster("h200", servers=1, gpus_per_server=ranks)
    made = train(context, cluster, sizes)
    told: list = [None] * ranks
    dist.all_gather_object(told, made)
    dist.destroy_process_group()
    return told if rank == 0 else []


if __name__ == "__main__":
    main()
