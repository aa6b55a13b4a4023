"""Where chunks lie in the input and output buffers of formats that know only buffers of equal chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import CollectiveKind
from interlock.errors import InvalidInput
from interlock.interchange.shared.chunks.quantise import Quantised
from interlock.problem import Problem

__all__ = ["Block", "Layout", "lay_out", "pad_to_equal_sums"]


@dataclass(frozen=True, slots=True)
class Block:
    """Chunks that go from one rank's input to one rank's output and belong to no item: own shares and padding."""

    src: int
    dst: int
    input_at: int
    output_at: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Buffers in chunks. An item lies at `input_at` at every contributor and at `output_at` at every destination."""

    collective: str  # all-gather, …, or "all-to-allv", or "items"
    input_chunks: NDArray[np.int64]  # [num_ranks]
    output_chunks: NDArray[np.int64]
    input_at: NDArray[np.int64]  # [num_items]
    output_at: NDArray[np.int64]
    blocks: tuple[Block, ...] = ()
    chunk_matrix: NDArray[np.int64] | None = None  # of an All-to-Allv, padding included


def lay_out(problem: Problem, quantised: Quantised, *, equal_sums: bool) -> Layout:
    """Buffers of a problem; `equal_sums` pads an All-to-Allv until all ranks send and receive the same."""
    if problem.demand is not None:
        return _alltoallv(problem, quantised, equal_sums=equal_sums)
    if problem.collective is None:
        return _items(problem, quantised)
    if problem.collective.group is not None and len(problem.collective.group) != problem.num_ranks:
        raise InvalidInput(
            f"the format names a collective of all its GPUs; this one is over {len(problem.collective.group)} of "
            f"{problem.num_ranks} ranks"
        )
    if problem.collective.kind is CollectiveKind.ALL_TO_ALL:
        return _alltoall(problem, quantised)
    return _shares(problem, quantised)


def _shares(problem: Problem, quantised: Quantised) -> Layout:
    """Collectives whose buffers are all shares in rank order, or one share."""
    assert problem.collective is not None
    kind, ranks = problem.collective.kind, problem.num_ranks
    chunks = quantised.item_chunks
    whole = np.cumsum(chunks) - chunks
    if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        total = np.full(ranks, int(chunks.sum()))
        return Layout(str(kind), total, total, whole, whole)
    owners = (
        problem.items.contributors
        if kind in (CollectiveKind.ALL_GATHER, CollectiveKind.GATHER)
        else problem.items.destinations
    )
    owner = owners.to_ragged().values.astype(np.int64)
    within = _within(owner, chunks)
    share = int(np.bincount(owner, weights=chunks.astype(np.float64), minlength=ranks).max(initial=1))
    small, large = np.full(ranks, share), np.full(ranks, share * ranks)
    if kind in (CollectiveKind.ALL_GATHER, CollectiveKind.GATHER):
        blocks = _own_share(problem, share, at_input=0, at_output=problem.collective.root * share)
        return Layout(str(kind), small, large, within, owner * share + within, blocks)
    blocks = _own_share(problem, share, at_input=problem.collective.root * share, at_output=0)
    return Layout(str(kind), large, small, owner * share + within, within, blocks)


def _own_share(problem: Problem, share: int, at_input: int, at_output: int) -> tuple[Block, ...]:
    """The root's own share of a gather or scatter is no item, yet must be copied."""
    assert problem.collective is not None
    if not problem.collective.is_rooted:
        return ()
    root = problem.collective.root
    return (Block(root, root, at_input, at_output, share),)


def _alltoall(problem: Problem, quantised: Quantised) -> Layout:
    ranks, chunks = problem.num_ranks, quantised.item_chunks
    src = problem.items.origin.astype(np.int64)
    dst = problem.items.destinations.to_ragged().values.astype(np.int64)
    pair = src * ranks + dst
    share = int(np.bincount(pair, weights=chunks.astype(np.float64), minlength=1).max(initial=1))
    within = _within(pair, chunks)
    total = np.full(ranks, share * ranks)
    blocks = tuple(Block(r, r, r * share, r * share, share) for r in range(ranks))
    return Layout("all-to-all", total, total, dst * share + within, src * share + within, blocks)


def _alltoallv(problem: Problem, quantised: Quantised, *, equal_sums: bool) -> Layout:
    assert problem.demand is not None
    ranks, chunks = problem.num_ranks, quantised.item_chunks
    src = problem.items.origin.astype(np.int64)
    dst = problem.items.destinations.to_ragged().values.astype(np.int64)
    true = np.zeros((ranks, ranks), np.int64)
    true[src, dst] = chunks
    np.fill_diagonal(true, -(-np.diag(problem.demand.bytes_matrix) // quantised.chunk_bytes))
    padded = pad_to_equal_sums(true) if equal_sums else true
    input_at = np.cumsum(padded, axis=1) - padded
    output_at = np.cumsum(padded, axis=0) - padded
    blocks = []
    for i, j in zip(*map(np.ndarray.tolist, np.nonzero(padded)), strict=True):
        first = 0 if i == j else int(true[i, j])
        if padded[i, j] > first:
            begin, end = int(input_at[i, j]) + first, int(output_at[i, j]) + first
            blocks.append(Block(i, j, begin, end, int(padded[i, j]) - first))
    return Layout(
        "all-to-allv",
        np.maximum(padded.sum(axis=1), 1),
        np.maximum(padded.sum(axis=0), 1),
        input_at[src, dst],
        output_at[src, dst],
        tuple(blocks),
        padded,
    )


def _items(problem: Problem, quantised: Quantised) -> Layout:
    """Any other items: the same place for an item at all its destinations, so that a switch can multicast to it."""
    ranks, chunks = problem.num_ranks, quantised.item_chunks
    whole = np.cumsum(chunks) - chunks
    total = np.full(ranks, max(1, int(chunks.sum())))
    return Layout("items", total, total, whole, whole)


def pad_to_equal_sums(chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add padding until every row and column has the same sum, a multiple of the number of ranks.

    Padding goes to the diagonal first, where it costs a local copy; what is left is ``sum(|row - column|) / 2``.

    >>> pad_to_equal_sums(np.array([[0, 3], [1, 0]])).tolist()
    [[1, 3], [3, 1]]
    """
    ranks = len(chunks)
    row, col = chunks.sum(axis=1), chunks.sum(axis=0)
    total = -(-int(max(row.max(), col.max(), 1)) // ranks) * ranks
    padded = chunks.copy()
    own = np.minimum(total - row, total - col)
    padded[np.arange(ranks), np.arange(ranks)] += own
    lacks_out, lacks_in = total - row - own, total - col - own
    senders, receivers = np.flatnonzero(lacks_out).tolist(), np.flatnonzero(lacks_in).tolist()
    while senders:
        i, j = senders[-1], receivers[-1]
        moved = min(lacks_out[i], lacks_in[j])
        padded[i, j] += moved
        lacks_out[i] -= moved
        lacks_in[j] -= moved
        if not lacks_out[i]:
            senders.pop()
        if not lacks_in[j]:
            receivers.pop()
    return padded


def _within(group: NDArray[np.int64], chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each item starts within its group, items in order."""
    place = np.argsort(group, kind="stable")
    sorted_chunks = chunks[place]
    running = np.cumsum(sorted_chunks) - sorted_chunks
    starts = np.ones(len(group), np.bool_)
    starts[1:] = group[place][1:] != group[place][:-1]
    base = np.maximum.accumulate(np.where(starts, running, 0)) if len(group) else running
    within = np.empty(len(group), np.int64)
    within[place] = running - base
    return within
