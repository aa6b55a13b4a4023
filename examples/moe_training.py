"""Train a tiny mixture of experts twice, with torch's own All-to-All and with plans: the losses agree to the last bit.

python examples/moe_training.py            # four ranks over loopback
python examples/moe_training.py --lab      # 4x4 in namespaces with 50 Mbit/s NICs; needs root
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist

import interlock as il
import interlock.torch as ilt
from interlock.lab import LabSpec, Network, RankContext, Ranks, Seat, ranks_in
from interlock.runtime import Placement


@dataclass(frozen=True)
class Sizes:
    """Of the model and its batches."""

    steps: int
    tokens: int  # per rank and step
    hidden: int
    experts_per_rank: int
    choices: int = 2


class TorchAllToAll(torch.autograd.Function):
    """torch's own call with gradients: they go back with splits swapped."""

    @staticmethod
    def forward(ctx, output, source, receives, sends, group):
        """Fill `output`."""
        ctx.splits, ctx.group, ctx.shape = (receives, sends), group, source.shape
        dist.all_to_all_single(output, source, receives, sends, group=group)
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx, gradient):
        """Gradient of `source`."""
        receives, sends = ctx.splits
        back = gradient.new_empty(ctx.shape)
        dist.all_to_all_single(back, gradient.contiguous(), sends, receives, group=ctx.group)
        return None, back, None, None, None


class TorchMover:
    """torch's own All-to-All, in the shape that `Experts` wants."""

    def __init__(self, group: dist.ProcessGroup, hosts: Sequence[str]) -> None:
        self.rank, self.placement, self._group = group.rank(), Placement.by_host(hosts), group

    def share_rows(self, input_split_sizes: Sequence[int]) -> np.ndarray:
        """Rows that every rank has for every rank."""
        told = [torch.zeros(len(input_split_sizes), dtype=torch.int64) for _ in input_split_sizes]
        dist.all_gather(told, torch.tensor(input_split_sizes), group=self._group)
        return torch.stack(told).numpy()

    def move_rows(self, output: torch.Tensor, source: torch.Tensor, rows: np.ndarray) -> None:
        """Move rows of `source` into `output`."""
        receives, sends = rows[:, self.rank].tolist(), rows[self.rank].tolist()
        TorchAllToAll.apply(output, source.contiguous(), receives, sends, self._group)


class Model(torch.nn.Module):
    """A router, this rank's experts and a head. Router and head are the same on every rank, experts are not."""

    def __init__(self, mover: TorchMover | ilt.AllToAll, sizes: Sizes, num_ranks: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.router = torch.nn.Linear(sizes.hidden, sizes.experts_per_rank * num_ranks)
        self.head = torch.nn.Linear(sizes.hidden, 1)
        torch.manual_seed(1 + mover.rank)
        layers = [torch.nn.Linear(sizes.hidden, sizes.hidden) for _ in range(sizes.experts_per_rank)]
        self.experts = torch.nn.ModuleList(layers)
        self.choices = sizes.choices
        self.exchange = ilt.Experts(mover, sizes.experts_per_rank * num_ranks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One number per token."""
        weights, chosen = self.router(x).softmax(dim=1).topk(self.choices, dim=1)
        sent = self.exchange.dispatch(x, chosen, weights)
        parts = torch.split(sent.x, sent.tokens_per_expert)
        results = torch.cat([torch.relu(expert(part)) for expert, part in zip(self.experts, parts, strict=True)])
        return self.head(x + self.exchange.combine(results, sent)).squeeze(1)


def train(
    context: RankContext, cluster: il.Cluster, sizes: Sizes, planned: bool, falls_back: bool
) -> tuple[list[float], list[float]]:
    """Losses and seconds of every step on this rank."""
    hosts = [f"server{rank // cluster.gpus_per_server}" for rank in range(context.num_ranks)]
    handle = ilt.AllToAll(cluster, context.group, hosts=hosts, fallback=falls_back) if planned else None
    model = Model(handle or TorchMover(context.group, hosts), sizes, context.num_ranks)
    shared = [*model.router.parameters(), *model.head.parameters()]
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
    draw = torch.Generator().manual_seed(100 + context.rank)
    # Tokens favour a direction, so that some experts are hot.
    favour = torch.linspace(0, 2, sizes.hidden)
    losses, seconds = [], []
    for _ in range(sizes.steps):
        x = torch.randn(sizes.tokens, sizes.hidden, generator=draw) + favour
        dist.barrier(group=context.control)
        start_s = time.perf_counter()
        loss = (model(x) - x.sin().mean(dim=1)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        for parameter in shared:
            dist.all_reduce(parameter.grad, group=context.group)
            parameter.grad /= context.num_ranks
        optimiser.step()
        seconds.append(time.perf_counter() - start_s)
        losses.append(loss.item())
    if handle is not None:
        handle.close()
    return losses, seconds


def compare(ranks: Ranks, cluster: il.Cluster, sizes: Sizes, falls_back: bool) -> bool:
    """Train both ways; say how losses and step times compare."""
    native, ours = (ranks.call(train, cluster, sizes, planned, falls_back) for planned in (False, True))
    is_same = [losses for losses, _ in native] == [losses for losses, _ in ours]
    for name, result in (("torch", native), ("interlock", ours)):
        slowest = [max(times) for times in zip(*(seconds for _, seconds in result), strict=True)]
        first, last = (statistics.mean(losses[step] for losses, _ in result) for step in (0, -1))
        step_s = statistics.median(slowest[1:])
        print(f"{name:>9}: loss {first:.6f} at first, {last:.6f} at last; a step takes {step_s * 1e3:.1f} ms")
    print(f"losses equal to the last bit on every rank and step: {is_same}")
    return is_same


def main() -> None:
    """Run on loopback, or in a lab."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", action="store_true", help="4x4 in namespaces; needs root")
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    if options.lab:
        spec = LabSpec(4, 4, 50e6 / 8, 500e6 / 8)
        sizes = Sizes(options.steps, tokens=256, hidden=256, experts_per_rank=2)
        with Network(spec) as network, ranks_in(network) as ranks:
            is_same = compare(ranks, spec.to_cluster(), sizes, falls_back=True)
    else:
        sizes = Sizes(options.steps, tokens=64, hidden=32, experts_per_rank=2)
        with Ranks([Seat()] * 4) as ranks:
            is_same = compare(ranks, il.cluster("h200", servers=2, gpus_per_server=2), sizes, falls_back=False)
    if not is_same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
