"""Experts behind a slow link: tokens come in, pass their experts and leave, all at once, in chunks.

A chunk is some experts: their tokens that are not here yet come with it, and a token leaves with the last of its
experts. So weights are read once and tiles are as full as without chunks, and dispatch and combine share the link both
ways at once. Where that makes most tokens come early and leave late, tokens are split into parts that go through all
experts one after the other. `plan_chunks` says what goes together; `predict` what it should take.

>>> order = plan_chunks(topk_idx, num_experts=16, num_chunks=8)
>>> pipeline = Pipeline(order, gate_up, down, topk_weights)  # doctest: +SKIP
>>> pipeline(x, y)  # x, y in pinned host memory, rows as order.arrival and order.departure say  # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.gpu.executor import Stuck
from interlock.gpu.moe.products import launch_experts
from interlock.gpu.moe.tables import (
    CHANNELS_DOWN,
    CHANNELS_UP,
    DOWN,
    GATE_UP,
    Tables,
    product_items,
    sum_items,
    tile_groups,
)

__all__ = ["Order", "Pipeline", "Rates", "plan_chunks", "predict"]

WARPS = 16  # that tell of a sum item's end


@dataclass(frozen=True, slots=True)
class Order:
    """Which experts make a chunk, and the order in which tokens come and leave."""

    topk_idx: NDArray[np.int64]  # [tokens, k], -1 is no expert of this rank
    part_of: NDArray[np.int64]  # [tokens]
    chunk_of: NDArray[np.int64]  # [parts, experts], ascending
    arrival: NDArray[np.int64]  # [tokens] token of each row that comes
    arrival_ends: NDArray[np.int64]  # [chunks] rows that have come with each chunk
    departure: NDArray[np.int64]  # [tokens] token of each row that leaves
    departure_ends: NDArray[np.int64]  # [chunks]

    @property
    def num_chunks(self) -> int:
        """How many chunks there are."""
        return len(self.arrival_ends)

    def rows_per_chunk(self) -> NDArray[np.int64]:
        """Rows of experts (a token at an expert) in each chunk."""
        token, choice = np.nonzero(self.topk_idx >= 0)
        chunk = self.chunk_of[self.part_of[token], self.topk_idx[token, choice]]
        return np.bincount(chunk, minlength=self.num_chunks)


@dataclass(frozen=True, slots=True)
class Rates:
    """What a pipeline is predicted from, each measured by itself."""

    in_bytes_per_s: float  # the link, both ways at once
    out_bytes_per_s: float
    row_s: float  # an expert's row, of all experts in one go
    chunk_s: float  # what a chunk costs beyond its rows where its tokens are here in time
    start_s: float  # and where the experts had to wait for them
    copy_s: float = 0.0  # what a chunk's copy costs beyond its bytes, either way
    alone: float = 1.0  # how many times faster the link is while it is used one way only


def plan_chunks(
    topk_idx: NDArray[np.int64] | torch.Tensor, num_experts: int, num_chunks: int, num_parts: int = 1
) -> Order:
    """Experts in chunks of about as many rows each, for each part of the tokens.

    The first and the last chunk are half as long: nothing else runs beside those.

    >>> order = plan_chunks(np.array([[0, 1], [1, -1], [0, -1]]), num_experts=2, num_chunks=2)
    >>> order.arrival.tolist(), order.arrival_ends.tolist(), order.departure.tolist(), order.departure_ends.tolist()
    ([0, 2, 1], [2, 3], [2, 0, 1], [1, 3])
    """
    chosen = np.asarray(topk_idx.cpu() if isinstance(topk_idx, torch.Tensor) else topk_idx, np.int64)
    if chosen.ndim != 2 or chosen.max(initial=-1) >= num_experts or chosen.min(initial=0) < -1:
        raise InvalidInput(f"topk_idx must be [tokens, k] of experts from 0 to {num_experts - 1}, or -1")
    if num_parts < 1 or num_chunks % num_parts or not 1 <= num_chunks // num_parts <= num_experts:
        raise InvalidInput(
            f"num_chunks={num_chunks} must be a multiple of num_parts={num_parts}, "
            f"with 1 to {num_experts} (the experts) for each part"
        )
    is_none = (chosen < 0).all(axis=1)
    if is_none.any():
        raise InvalidInput(f"token {int(np.argmax(is_none))} has no expert of this rank; leave it out")
    part_of = np.arange(len(chosen)) * num_parts // max(1, len(chosen))
    token, choice = np.nonzero(chosen >= 0)
    rows = np.bincount(part_of[token] * num_experts + chosen[token, choice], minlength=num_parts * num_experts)
    middle = (np.cumsum(rows) - rows / 2) / max(1, rows.sum())  # of each expert's rows, among all
    place = middle * max(1, num_chunks - 1) + (0.5 if num_chunks > 1 else 0)
    chunk = np.minimum(place.astype(np.int64), num_chunks - 1)
    chunk_of = np.unique(chunk, return_inverse=True)[1].reshape(num_parts, num_experts)
    steps = np.arange(int(chunk_of.max(initial=0)) + 1)
    of_choice = chunk_of[part_of[:, None], np.maximum(chosen, 0)]
    first = np.where(chosen < 0, len(steps), of_choice).min(axis=1, initial=len(steps))
    last = np.where(chosen < 0, -1, of_choice).max(axis=1, initial=-1)
    arrival, departure = np.argsort(first, kind="stable"), np.argsort(last, kind="stable")
    return Order(
        chosen,
        part_of,
        chunk_of,
        arrival,
        np.searchsorted(first[arrival], steps, side="right"),
        departure,
        np.searchsorted(last[departure], steps, side="right"),
    )


def predict(order: Order, row_bytes: int, rates: Rates, lag: int = 0) -> float:
    """Seconds from the first byte in to the last byte out: three stages, each one chunk at a time.

    With a lag, a chunk is through its experts when those of that many chunks behind it have begun to be.
    """
    arrivals, departures = (np.diff(ends, prepend=0).tolist() for ends in (order.arrival_ends, order.departure_ends))
    coming = [rows * row_bytes / rates.in_bytes_per_s + rates.copy_s for rows in arrivals]  # both ways at once
    leaving = [rows * row_bytes / rates.out_bytes_per_s + rates.copy_s for rows in departures]
    rows_of, last = order.rows_per_chunk().tolist(), order.num_chunks - 1
    ended: list[float] = []  # of chunks' experts
    now, came, left = 0.0, 0, 0
    while left <= last:
        needed = min(left + 2 * lag, last)
        may_leave_s = ended[needed] if needed < len(ended) else math.inf
        is_coming, is_leaving = came <= last, may_leave_s <= now
        faster = 1.0 if is_coming and is_leaving else rates.alone
        passed = min(
            coming[came] / faster if is_coming else math.inf,
            leaving[left] / faster if is_leaving else may_leave_s - now,
        )
        now += passed
        if is_leaving:
            leaving[left] -= passed * faster
            left += leaving[left] <= 1e-12
        if is_coming:
            coming[came] -= passed * faster
            if coming[came] <= 1e-12:
                before = ended[-1] if ended else 0.0
                beyond = rates.start_s if now > before else rates.chunk_s
                ended.append(max(now, before) + rows_of[came] * rates.row_s + beyond)
                came += 1
    return now


class Pipeline:
    """A planned order with its tables on the device; called any number of times.

    Parameters
    ----------
    order
        From `plan_chunks`.
    gate_up, down
        Weights of this rank's experts, as `experts` takes them.
    topk_weights
        ``[tokens, k]``, as `order.topk_idx`.
    lag
        Chunks between gate and up and down: 0 where the link is the slower one, 1 where the experts are.
    """

    def __init__(
        self, order: Order, gate_up: torch.Tensor, down: torch.Tensor, topk_weights: torch.Tensor, *, lag: int = 0
    ) -> None:
        self.order, self._gate_up, self._down = order, gate_up, down
        num_experts, hidden, inner = down.shape
        device = self._device = down.device
        self.tables = _tables(order, topk_weights, num_experts, hidden, inner, lag, device)
        num_tokens, rows = len(order.topk_idx), len(self.tables.token_of)
        options: dict[str, Any] = {"dtype": down.dtype, "device": device}
        self._x, self._y = (torch.empty(num_tokens, hidden, **options) for _ in range(2))
        self._inner_rows, self._results = torch.empty(rows, inner, **options), torch.empty(rows, hidden, **options)
        self._coming, self._leaving = (torch.cuda.Stream(device) for _ in range(2))  # type: ignore[no-untyped-call]

    def __call__(self, x: torch.Tensor, y: torch.Tensor, limit_s: float = 10.0) -> None:
        """Rows of `x` through the experts into `y`, both in pinned host memory; ordered on the current stream."""
        from cuda.bindings import driver

        counters, chunks = self.tables.counters, self.order.num_chunks
        counters.zero_()
        current = torch.cuda.current_stream(self._device)
        for stream in (self._coming, self._leaving):
            stream.wait_stream(current)
        arrived = counters.data_ptr() + 4
        left = arrived + 8 * chunks
        for stream, ends in ((self._coming, self.order.arrival_ends), (self._leaving, self.order.departure_ends)):
            if stream is self._leaving:
                self.launch(limit_s)
            with torch.cuda.stream(stream):
                for chunk, (first, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
                    if stream is self._coming:
                        self._x[first:end].copy_(x[first:end], non_blocking=True)
                        _raise(driver.cuStreamWriteValue32(stream.cuda_stream, arrived + 4 * chunk, 1, 0))
                    else:
                        need = WARPS * -(-(end - first) // 32)
                        _raise(driver.cuStreamWaitValue32(stream.cuda_stream, left + 4 * chunk, need, 0))
                        y[first:end].copy_(self._y[first:end], non_blocking=True)
        for stream in (self._coming, self._leaving):
            current.wait_stream(stream)

    def launch(self, limit_s: float = 10.0) -> None:
        """The experts alone, on the current stream; counters say what has come."""
        launch_experts(
            self.tables,
            self._x,
            self._gate_up,
            self._down,
            outputs=self._y,
            inner_rows=self._inner_rows,
            results=self._results,
            limit_s=limit_s,
        )

    def check(self) -> None:
        """Raise if the last call gave up; waits for it."""
        if int(self.tables.counters[0]):
            raise Stuck("a chunk of tokens did not come, or its experts did not end, within the time limit")


def _raise(result: tuple[Any, ...]) -> None:
    if result[0]:
        raise RuntimeError(f"the driver refused: {result[0]}")


def _tables(
    order: Order,
    topk_weights: torch.Tensor,
    num_experts: int,
    hidden: int,
    inner: int,
    lag: int,
    device: torch.device,
) -> Tables:
    token, choice = np.nonzero(order.topk_idx >= 0)
    group = order.part_of[token] * num_experts + order.topk_idx[token, choice]  # a part's tokens at an expert
    place_in, place_out = np.empty_like(order.arrival), np.empty_like(order.departure)
    place_in[order.arrival] = place_out[order.departure] = np.arange(len(order.arrival))
    by_expert = np.lexsort((place_in[token], group))
    weights = topk_weights.cpu().float().numpy()[token, choice]
    row_of = np.empty_like(by_expert)
    row_of[by_expert] = np.arange(len(by_expert))
    by_output = np.lexsort((choice, place_out[token]))
    counts = np.bincount(place_out[token], minlength=len(order.departure))

    def put(values: NDArray[Any], kind: type = np.int32) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, kind)).to(device)

    row_ends = put(np.cumsum(np.bincount(group, minlength=order.chunk_of.size)))
    tiles = tile_groups(row_ends, len(token))
    chunk_of = put(order.chunk_of.reshape(-1))
    per_kind = []
    for kind, columns in ((GATE_UP, inner // CHANNELS_UP), (DOWN, hidden // CHANNELS_DOWN)):
        items = product_items(kind, columns, tiles)
        items = items[items[:, 0] == kind]
        items[:, 5], items[:, 6] = chunk_of[items[:, 6]], items[:, 6] % num_experts
        per_kind.append([items[items[:, 5] == chunk] for chunk in range(order.num_chunks)])
    starts = [0, *order.departure_ends[:-1].tolist()]
    sums = [
        sum_items(first, end, chunk, device)
        for chunk, (first, end) in enumerate(zip(starts, order.departure_ends.tolist(), strict=True))
    ]
    return Tables(
        token_of=put(place_in[token][by_expert]),
        row_ends=row_ends,
        out_first=put(np.concatenate([[0], np.cumsum(counts)])),
        out_row=put(row_of[by_output]),
        out_weight=put(weights[by_output], np.float32),
        row_output=put(place_out[token][by_expert]),
        row_weight=put(weights[by_expert], np.float32),
        items=torch.cat(_interleave(per_kind[0], per_kind[1], sums, lag)),
        finished_of=put(np.array([len(items) for items in per_kind[1]])),
        counters=torch.zeros(1 + 3 * order.num_chunks + len(tiles.row), dtype=torch.int32, device=device),
    )


def _interleave(
    ups: Sequence[torch.Tensor], downs: Sequence[torch.Tensor], sums: Sequence[torch.Tensor], lag: int
) -> list[torch.Tensor]:
    """Chunk by chunk, with `lag` chunks of gate and up under way before the first chunk's down, and so on."""
    listed = []
    for step in range(len(ups) + 2 * lag):
        for kind, behind in ((ups, 0), (downs, lag), (sums, 2 * lag)):
            if 0 <= step - behind < len(kind):
                listed.append(kind[step - behind])
    return listed
