"""Where chunks lie in the input and output buffers of formats that know only buffers of equal chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import CollectiveKind
from interlock.errors import InvalidInput
from interlock.interchange.shared.chunks.quantise import Quantised
from interlock.problem import Problem
from interlock.ragged import before_in_group

__all__ = ["OwnShare", "ChunkLayout", "lay_out"]


@dataclass(frozen=True, slots=True)
class OwnShare:
    """Chunks that go from a rank's input to its own output and belong to no item."""

    rank: int
    input_at: int
    output_at: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class ChunkLayout:
    """Buffers in chunks. An item lies at `input_at` at every contributor and at `output_at` at every destination."""

    collective: str  # all-gather, …, or "all-to-allv", or "items"
    input_chunks: NDArray[np.int64]  # [num_ranks]
    output_chunks: NDArray[np.int64]
    input_at: NDArray[np.int64]  # [num_items]
    output_at: NDArray[np.int64]
    own_shares: tuple[OwnShare, ...] = ()
    chunk_matrix: NDArray[np.int64] | None = None  # of an All-to-Allv


def lay_out(problem: Problem, quantised: Quantised, *, equal_buffers: bool) -> ChunkLayout:
    """Buffers of a problem; `equal_buffers` gives every rank of an All-to-Allv the largest one, filled or not."""
    if problem.demand is not None:
        return _alltoallv(problem, quantised, equal_buffers=equal_buffers)
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


def _shares(problem: Problem, quantised: Quantised) -> ChunkLayout:
    """Collectives whose buffers are all shares in rank order, or one share."""
    assert problem.collective is not None
    kind, ranks = problem.collective.kind, problem.num_ranks
    chunks = quantised.item_chunks
    whole = np.cumsum(chunks) - chunks
    if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        total = np.full(ranks, int(chunks.sum()))
        return ChunkLayout(str(kind), total, total, whole, whole)
    owners = (
        problem.items.contributors
        if kind in (CollectiveKind.ALL_GATHER, CollectiveKind.GATHER)
        else problem.items.destinations
    )
    owner = owners.to_ragged().values.astype(np.int64)
    within = before_in_group(owner, chunks)
    share = int(np.bincount(owner, weights=chunks.astype(np.float64), minlength=ranks).max(initial=1))
    small, large = np.full(ranks, share), np.full(ranks, share * ranks)
    if kind in (CollectiveKind.ALL_GATHER, CollectiveKind.GATHER):
        own = _own_share(problem, share, at_input=0, at_output=problem.collective.root * share)
        return ChunkLayout(str(kind), small, large, within, owner * share + within, own)
    own = _own_share(problem, share, at_input=problem.collective.root * share, at_output=0)
    return ChunkLayout(str(kind), large, small, owner * share + within, within, own)


def _own_share(problem: Problem, share: int, at_input: int, at_output: int) -> tuple[OwnShare, ...]:
    """The root's own share of a gather or scatter is no item, yet must be copied."""
    assert problem.collective is not None
    if not problem.collective.is_rooted:
        return ()
    root = problem.collective.root
    return (OwnShare(root, at_input, at_output, share),)


def _alltoall(problem: Problem, quantised: Quantised) -> ChunkLayout:
    ranks, chunks = problem.num_ranks, quantised.item_chunks
    src = problem.items.origin.astype(np.int64)
    dst = problem.items.destinations.to_ragged().values.astype(np.int64)
    pair = src * ranks + dst
    share = int(np.bincount(pair, weights=chunks.astype(np.float64), minlength=1).max(initial=1))
    within = before_in_group(pair, chunks)
    total = np.full(ranks, share * ranks)
    blocks = tuple(OwnShare(r, r * share, r * share, share) for r in range(ranks))
    return ChunkLayout("all-to-all", total, total, dst * share + within, src * share + within, blocks)


def _alltoallv(problem: Problem, quantised: Quantised, *, equal_buffers: bool) -> ChunkLayout:
    assert problem.demand is not None
    ranks = problem.num_ranks
    src = problem.items.origin.astype(np.int64)
    dst = problem.items.destinations.to_ragged().values.astype(np.int64)
    chunks = np.zeros((ranks, ranks), np.int64)
    chunks[src, dst] = quantised.item_chunks
    own = -(-np.diag(problem.demand.bytes_matrix) // quantised.chunk_bytes)
    np.fill_diagonal(chunks, own)
    input_at = np.cumsum(chunks, axis=1) - chunks
    output_at = np.cumsum(chunks, axis=0) - chunks
    blocks = tuple(
        OwnShare(rank, int(input_at[rank, rank]), int(output_at[rank, rank]), int(own[rank]))
        for rank in np.flatnonzero(own).tolist()
    )
    sent, received = np.maximum(chunks.sum(axis=1), 1), np.maximum(chunks.sum(axis=0), 1)
    if equal_buffers:
        sent = received = np.full(ranks, max(sent.max(), received.max()))
    return ChunkLayout("all-to-allv", sent, received, input_at[src, dst], output_at[src, dst], blocks, chunks)


def _items(problem: Problem, quantised: Quantised) -> ChunkLayout:
    """Any other items: the same place for an item at all its destinations, so that a switch can multicast to it."""
    ranks, chunks = problem.num_ranks, quantised.item_chunks
    whole = np.cumsum(chunks) - chunks
    total = np.full(ranks, max(1, int(chunks.sum())))
    return ChunkLayout("items", total, total, whole, whole)
