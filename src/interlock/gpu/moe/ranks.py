"""An MoE layer whose experts are spread over ranks that share one GPU: dispatch, experts and combine, chunk by chunk.

A token goes once to each rank that has experts of it, by a plan that runs on the device; that rank's experts make one
weighted sum of it, which comes back by a plan of its own; sums are added in the order of ranks. Chunks of tokens follow
each other on three streams: while one is with its experts, the next may be dispatched and the last combined. On one GPU
the experts leave no room for that, so nothing is gained; it is for tests and studies of what ranks do together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from interlock.errors import InvalidInput
from interlock.gpu.executor import Executor
from interlock.gpu.moe.layer import experts
from interlock.planning import plan
from interlock.topology import Cluster
from interlock.traffic import matrix

__all__ = ["Ranks", "choices_here", "cut_tokens"]

Mover = Callable[[np.ndarray, Sequence[torch.Tensor], Sequence[torch.Tensor]], None]
"""Moves rows between ranks: how many from each to each, what every rank has and where it wants what it gets."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some tokens of every rank: which of them go where, by (rank they are on, rank of their experts)."""

    tokens: list[list[torch.Tensor]]

    @property
    def rows(self) -> np.ndarray:
        return np.array([[len(tokens) for tokens in row] for row in self.tokens], np.int64)


class Ranks:
    """Experts of a layer, spread evenly over the ranks of a cluster that are all on this GPU.

    Parameters
    ----------
    gate_up, down
        Weights of all experts, as `experts` takes them; rank r has the r-th part.
    num_chunks
        Parts that each rank's tokens are cut into.
    mover
        How rows get to other ranks; None plans for the cluster and runs that on the device.
    """

    def __init__(
        self,
        cluster: Cluster,
        gate_up: torch.Tensor,
        down: torch.Tensor,
        *,
        num_chunks: int = 1,
        algorithm: str = "adaptive",
        mover: Mover | None = None,
    ) -> None:
        if len(down) % cluster.num_ranks:
            raise InvalidInput(f"{len(down)} experts cannot be spread evenly over {cluster.num_ranks} ranks")
        if num_chunks < 1:
            raise InvalidInput(f"num_chunks={num_chunks} must be at least 1")
        self._cluster, self._algorithm, self._num_chunks = cluster, algorithm, num_chunks
        self._per_rank = len(down) // cluster.num_ranks
        self._weights = list(zip(torch.split(gate_up, self._per_rank), torch.split(down, self._per_rank), strict=True))
        self._mover = self._move if mover is None else mover
        self._streams = [torch.cuda.Stream(down.device) for _ in range(3)] if down.is_cuda else []  # type: ignore[no-untyped-call]
        self._kept: list[object] = []  # what a call's streams still use; they begin the next one after it

    def __call__(
        self, x: Sequence[torch.Tensor], topk_idx: Sequence[torch.Tensor], topk_weights: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Every rank's tokens through their experts, each ``[tokens, hidden]`` with its routing ``[tokens, k]``."""
        ranks, count = self._cluster.num_ranks, self._num_chunks
        chunks = [_Chunk(cut_tokens(topk_idx, self._per_rank, ranks, number, count)) for number in range(count)]
        y = [torch.zeros_like(tokens, dtype=torch.float32) for tokens in x]
        for stream in self._streams:
            stream.wait_stream(torch.cuda.current_stream())
        self._kept.clear()
        for chunk in chunks:
            come = self._stage(0, partial(self._dispatch, chunk, x))
            made = self._stage(1, partial(self._compute, chunk, come, topk_idx, topk_weights))
            back = self._stage(2, partial(self._combine, chunk, made, y))
            self._kept.append((come, made, back))
        for stream in self._streams:
            torch.cuda.current_stream().wait_stream(stream)
        return [total.to(tokens.dtype) for total, tokens in zip(y, x, strict=True)]

    def _stage(self, number: int, run: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
        """On the stream of the stage, after what the stage before was given."""
        if not self._streams:
            return run()
        if number:
            self._streams[number].wait_stream(self._streams[number - 1])
        with torch.cuda.stream(self._streams[number]):
            return run()

    def _dispatch(self, chunk: _Chunk, x: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        sent = [each[torch.cat(tokens)] for each, tokens in zip(x, chunk.tokens, strict=True)]
        come = [x[0].new_empty(count, x[0].shape[1]) for count in chunk.rows.sum(0).tolist()]
        self._mover(chunk.rows, sent, come)
        self._kept.append(sent)
        return come

    def _compute(
        self,
        chunk: _Chunk,
        come: Sequence[torch.Tensor],
        topk_idx: Sequence[torch.Tensor],
        topk_weights: Sequence[torch.Tensor],
    ) -> list[torch.Tensor]:
        made = []
        for rank, (rows, (gate_up, down)) in enumerate(zip(come, self._weights, strict=True)):
            made.append(
                experts(rows, gate_up, down, *choices_here(chunk.tokens, rank, self._per_rank, topk_idx, topk_weights))
            )
        return made

    def _combine(self, chunk: _Chunk, made: Sequence[torch.Tensor], y: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        back = [made[0].new_empty(count, made[0].shape[1]) for count in chunk.rows.sum(1).tolist()]
        self._mover(chunk.rows.T, made, back)
        for total, rows, tokens in zip(y, back, chunk.tokens, strict=True):
            for mine, part in zip(tokens, torch.split(rows, [len(each) for each in tokens]), strict=True):
                total[mine] += part.float()  # each token once: the order is that of ranks
        return back

    def _move(self, rows: np.ndarray, sent: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> None:
        row_bytes = sent[0].shape[1] * sent[0].element_size()
        made = plan(self._cluster, matrix(rows * row_bytes), algorithm=self._algorithm, align=row_bytes)
        executor = Executor(made)
        parts = [torch.split(each, row) for each, row in zip(sent, rows.tolist(), strict=True)]
        others = [torch.cat([*part[:rank], *part[rank + 1 :]]) for rank, part in enumerate(parts)]
        come = [torch.empty_like(each[: len(each) - int(rows[rank, rank])]) for rank, each in enumerate(wanted)]
        executor(others, come)
        for rank, (target, got) in enumerate(zip(wanted, come, strict=True)):  # a plan leaves out what stays
            before = int(rows[:rank, rank].sum())
            torch.cat([got[:before], parts[rank][rank], got[before:]], out=target)
        self._kept.append((executor, others, come))


def cut_tokens(
    topk_idx: Sequence[torch.Tensor], per_rank: int, num_ranks: int, number: int, num_chunks: int
) -> list[list[torch.Tensor]]:
    """Tokens of a chunk by the rank they are on and the rank of their experts; waits for the routing."""
    made = []
    for chosen in topk_idx:
        first, end = (len(chosen) * n // num_chunks for n in (number, number + 1))
        rank_of = torch.where(chosen[first:end] < 0, -1, chosen[first:end] // per_rank)
        made.append([first + (rank_of == rank).any(1).nonzero().flatten() for rank in range(num_ranks)])
    return made


def choices_here(
    tokens: Sequence[Sequence[torch.Tensor]],
    rank: int,
    per_rank: int,
    topk_idx: Sequence[torch.Tensor],
    topk_weights: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Routing of the tokens that come to a rank, numbered among its experts, -1 for those of others."""
    chosen, weights = (
        torch.cat([each[of_home[rank]] for each, of_home in zip(of, tokens, strict=True)])
        for of in (topk_idx, topk_weights)
    )
    first = rank * per_rank
    is_here = (chosen >= first) & (chosen < first + per_rank)
    return torch.where(is_here, chosen - first, -1), weights
