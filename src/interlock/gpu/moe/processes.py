"""One rank of an MoE layer whose experts are spread over processes: dispatch, experts and combine, chunk by chunk.

What `Ranks` does in one process, with a process per rank on one server: chunks of tokens follow each other on three
streams, each moved by a plan that runs on the device, between processes that have mapped each other's memory. Copies
have multiprocessors of their own: a copy waits on the device for its peers, and the experts for each other, so each
must find room whatever else is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.distributed as dist

from interlock.errors import InvalidInput
from interlock.gpu.moe.layer import experts
from interlock.gpu.moe.products import launch_experts, why_not
from interlock.gpu.moe.ranks import choices_here, cut_tokens
from interlock.gpu.moe.tables import Tables, make_tables
from interlock.gpu.processes import Neighbours, RankExecutor
from interlock.planning import plan
from interlock.topology import Cluster
from interlock.traffic import matrix

__all__ = ["RankPipeline"]

COPYING = 8  # multiprocessors of a copy; dispatch and combine have as many each
ODD = 8  # that pairs of blocks may leave unused: one of each group of neighbours on the chip


@dataclass(frozen=True, slots=True)
class _Move:
    """Rows between this rank and the others, and room for them."""

    executor: RankExecutor
    leaving: torch.Tensor  # for other ranks, in their order
    rows: torch.Tensor  # of all ranks for this one, in their order
    own_at: int  # where this rank's own are among them
    own_rows: int

    def __call__(self, leaving: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """Rows for the others away, theirs and our own into place; on the current stream."""
        self.leaving.copy_(leaving)
        got = self.executor(self.leaving).view(self.rows.dtype).view(-1, self.rows.shape[1])
        self.rows[: self.own_at] = got[: self.own_at]
        self.rows[self.own_at : self.own_at + self.own_rows] = own
        self.rows[self.own_at + self.own_rows :] = got[self.own_at :]
        return self.rows


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some tokens of every rank, as this rank handles them."""

    tokens: list[torch.Tensor]  # of this rank, by the rank of their experts
    dispatch: _Move
    combine: _Move
    here: torch.Tensor  # [rows that come, k] experts of this rank, -1 for others
    weights: torch.Tensor
    tables: Tables | None  # None where plain torch runs the experts


class RankPipeline:
    """This process' rank of a layer, planned for one routing; called any number of times. All ranks call it alike.

    Parameters
    ----------
    gate_up, down
        Weights of this rank's experts, as `experts` takes them; every rank has as many, rank 0 the first.
    topk_idx, topk_weights
        Routing of this rank's tokens, ``[tokens, k]``, numbered over the experts of all ranks; -1 is no expert.
    num_chunks
        Parts that each rank's tokens are cut into.
    """

    def __init__(
        self,
        cluster: Cluster,
        gate_up: torch.Tensor,
        down: torch.Tensor,
        topk_idx: torch.Tensor,
        topk_weights: torch.Tensor,
        *,
        group: dist.ProcessGroup | None = None,
        num_chunks: int = 1,
        algorithm: str = "adaptive",
        timeout_s: float = 10.0,
    ) -> None:
        if num_chunks < 1:
            raise InvalidInput(f"num_chunks={num_chunks} must be at least 1")
        self._neighbours: list[Neighbours] = []
        self._group, self._timeout_s = group, timeout_s
        first = self._meet()
        self._rank, self._num_ranks = first.rank, first.num_ranks
        self._gate_up, self._down = gate_up, down
        self._copying, self._multiplying = _share(first.ranks_on_device)
        all_idx, all_weights = (self._gather(first, of) for of in (topk_idx.long(), topk_weights.float()))
        self._num_tokens = len(topk_idx)
        per_rank = len(down)
        self._chunks = []
        for number in range(num_chunks):
            tokens = cut_tokens(all_idx, per_rank, self._num_ranks, number, num_chunks)
            rows = np.array([[len(each) for each in row] for row in tokens], np.int64)
            here, weights = choices_here(tokens, self._rank, per_rank, all_idx, all_weights)
            tables = None
            if why_not(gate_up.new_empty(0, gate_up.shape[2]), gate_up) is None and len(here):
                tables = make_tables(here, weights, *down.shape)
            dispatch, combine = (self._plan_move(cluster, each, algorithm) for each in (rows, rows.T))
            self._chunks.append(_Chunk(tokens[self._rank], dispatch, combine, here, weights, tables))
        self._streams = [torch.cuda.Stream(down.device) for _ in range(3)]  # type: ignore[no-untyped-call]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's tokens through their experts, wherever these are; ordered on the current stream."""
        if x.shape != (self._num_tokens, self._down.shape[1]):
            raise InvalidInput(f"x is {tuple(x.shape)}; the routing is of {self._num_tokens} tokens")
        y = torch.zeros_like(x, dtype=torch.float32)
        current = torch.cuda.current_stream()
        for stream in self._streams:
            stream.wait_stream(current)
        kept: list[object] = [x, y]
        for chunk in self._chunks:
            come = self._stage(0, partial(self._dispatch, chunk, x))
            made = self._stage(1, partial(self._compute, chunk, come))
            self._stage(2, partial(self._combine, chunk, made, y))
            kept.append(made)
        for stream in self._streams:
            current.wait_stream(stream)
        self._kept = kept  # what other streams use until the next call, which follows them
        return y.to(x.dtype)

    def check(self) -> None:
        """Wait for the last call; raise `Stuck` if a peer did not come."""
        for chunk in self._chunks:
            for move in (chunk.dispatch, chunk.combine):
                move.executor.wait()

    def close(self) -> None:
        """Give the memory that peers have mapped back. Every rank must call it."""
        for neighbours in self._neighbours:
            neighbours.close()

    def _meet(self) -> Neighbours:
        """Memory of its own for each plan: several are under way at a time."""
        self._neighbours.append(Neighbours(self._group))
        return self._neighbours[-1]

    def _stage(self, number: int, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        """On the stream of the stage, after what the stage before was given."""
        if number:
            self._streams[number].wait_stream(self._streams[number - 1])
        with torch.cuda.stream(self._streams[number]):
            return run()

    def _gather(self, neighbours: Neighbours, mine: torch.Tensor) -> list[torch.Tensor]:
        """The same of every rank, on this device."""
        kind, width = mine.dtype, mine.shape[1]
        raw = mine.contiguous().cpu().view(torch.int64 if kind == torch.int64 else torch.int32).long().numpy()
        told = neighbours.share_lists(raw)
        as_bits = [torch.from_numpy(np.ascontiguousarray(one)).view(-1, width) for one in told]
        return [
            (bits if kind == torch.int64 else bits.int().view(torch.float32)).to(self._down.device) for bits in as_bits
        ]

    def _plan_move(self, cluster: Cluster, rows: np.ndarray, algorithm: str) -> _Move:
        hidden, dtype, rank = self._down.shape[1], self._down.dtype, self._rank
        row_bytes = hidden * dtype.itemsize
        made = plan(cluster, matrix(rows * row_bytes), algorithm=algorithm, align=row_bytes)
        executor = RankExecutor(made, self._meet(), timeout_s=self._timeout_s, blocks=self._copying)
        leaving = self._down.new_empty(int(rows[rank].sum() - rows[rank, rank]), hidden)
        come = self._down.new_empty(int(rows[:, rank].sum()), hidden)
        return _Move(executor, leaving, come, int(rows[:rank, rank].sum()), int(rows[rank, rank]))

    def _dispatch(self, chunk: _Chunk, x: torch.Tensor) -> torch.Tensor:
        others = torch.cat([*chunk.tokens[: self._rank], *chunk.tokens[self._rank + 1 :]])
        return chunk.dispatch(x.index_select(0, others), x.index_select(0, chunk.tokens[self._rank]))

    def _compute(self, chunk: _Chunk, come: torch.Tensor) -> torch.Tensor:
        if chunk.tables is None:
            return experts(come, self._gate_up, self._down, chunk.here, chunk.weights)
        rows, (_, hidden, inner) = len(chunk.tables.token_of), self._down.shape
        made = torch.empty_like(come)
        chunk.tables.counters.zero_()
        launch_experts(
            chunk.tables,
            come,
            self._gate_up,
            self._down,
            outputs=made,
            inner_rows=come.new_empty(rows, inner),
            results=come.new_empty(rows, hidden),
            multiprocessors=self._multiplying,
            limit_s=self._timeout_s,
        )
        return made

    def _combine(self, chunk: _Chunk, made: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first, end = chunk.dispatch.own_at, chunk.dispatch.own_at + chunk.dispatch.own_rows
        back = chunk.combine(torch.cat([made[:first], made[end:]]), made[first:end])
        for mine, part in zip(chunk.tokens, torch.split(back, [len(each) for each in chunk.tokens]), strict=True):
            y[mine] += part.float()  # each token once: the order is that of ranks
        return back


def _share(ranks_on_device: int) -> tuple[int, int]:
    """Multiprocessors of each copy and of the experts, so that those of all ranks on the device fit at once."""
    share = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count // ranks_on_device
    copying = max(1, min(COPYING, share // 8))
    return copying, max(2, share - 2 * copying - ODD)
