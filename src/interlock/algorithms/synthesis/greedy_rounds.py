"""All-Gather on equal links, round by round: every link takes the rarest of a few chunks that its end lacks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.synthesis.answers import Answer, SlotAnswer
from interlock.algorithms.synthesis.budget import FAIR_EFFORT, Budget
from interlock.algorithms.synthesis.goal import TreeGoal, cut
from interlock.algorithms.synthesis.graph import Graph
from interlock.files import write_atomically

__all__ = ["can_go_in_rounds", "greedy_rounds", "is_as_good_as_it_gets", "keep_table"]

MAPPED_ABOVE_BYTES = 1 << 30  # a larger table is kept in a file
TRANSFERS_PER_CALL = 8_000_000  # between two reports, where Ctrl-C is noticed: some tenths of a second
MANY_TRANSFERS = 2_000_000  # from there on one table is all that is tried: a cap on time and memory
CANDIDATES = (1, 6, 12, 12, 12, 12)  # chunks compared per link and round, attempt by attempt

Table = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class RoundsOptions:
    """`candidates` are compared per link and round; the result does not depend on `threads`."""

    candidates: int
    seed: int = 0
    threads: int = 1
    table_file: Path | None = None  # where a large table is kept; None: a temporary file
    report: Callable[[float], None] = field(default=lambda share: None)  # share of the rounds done


def can_go_in_rounds(goal: TreeGoal, graph: Graph) -> bool:
    """Whether everything goes to all, in chunks of one size over links of one speed."""
    return graph.arcs.is_uniform and goal.spans_all and goal.has_equal_items


def is_as_good_as_it_gets(goal: TreeGoal, graph: Graph, best: Answer) -> bool:
    """Whether trees would take too long to lay, or could not save more than a slot."""
    is_tight = isinstance(best, SlotAnswer) and len(best.table) <= best.least_slots + 1
    return goal.num_moves >= MANY_TRANSFERS or (is_tight and goal.parts is not None)


def greedy_rounds(goal: TreeGoal, graph: Graph, budget: Budget) -> Iterator[Answer]:
    """With more candidates and other seeds, while there are more rounds than must be."""
    arcs = graph.arcs
    chunks = cut(goal.size_bytes, goal.parts or 1)
    origin = np.ascontiguousarray(goal.root[chunks.item])
    slot_s = float(arcs.overhead_s[0] + chunks.length.max() * arcs.seconds_per_byte[0] + arcs.latency_s[0])
    least = _least_rounds(arcs.dst, origin, goal.num_ranks)
    is_only = goal.num_moves >= MANY_TRANSFERS  # otherwise several tables are compared, in memory
    options = RoundsOptions(CANDIDATES[0], report=budget.report)
    if is_only:
        options = replace(options, threads=budget.threads, table_file=budget.table_file)
    for attempt, candidates in enumerate(CANDIDATES):
        options = replace(options, candidates=candidates, seed=budget.seed + attempt)
        table = _gather_in_rounds(arcs.src, arcs.dst, origin, goal.num_ranks, options)
        budget.spend(len(chunks) * goal.num_ranks // 4)
        yield SlotAnswer(chunks, arcs, table, slot_s, least)
        if len(table) == least or is_only:
            return
        if len(table) <= least + 1 and budget.spent_before + budget.spent >= FAIR_EFFORT:
            return


def _least_rounds(link_dst: NDArray[np.int32], origin: NDArray[np.int32], num_ranks: int) -> int:
    """No rank can take in what it lacks in fewer rounds."""
    links_in = np.bincount(link_dst, minlength=num_ranks)
    lacks = len(origin) - np.bincount(origin, minlength=num_ranks)
    if (links_in[lacks > 0] == 0).any():
        return len(origin)
    return int(np.max(-(-lacks // np.maximum(1, links_in)), initial=0))


def _gather_in_rounds(
    link_src: NDArray[np.int32],
    link_dst: NDArray[np.int32],
    origin: NDArray[np.int32],
    num_ranks: int,
    options: RoundsOptions,
) -> Table:
    """A slot table ``[rounds, links]`` after which every rank holds every chunk; a memory map where it is large.

    A file of the caller's gets its name when the table is whole.
    """
    file = options.table_file
    part = None if file is None else file.with_name(f"{file.name}.part")
    try:
        table = _matched(link_src, link_dst, origin, num_ranks, options, part)
        if file is not None and part is not None:
            os.truncate(part, table.nbytes)
            part.replace(file)
    except BaseException:
        if part is not None:
            part.unlink(missing_ok=True)
        raise
    return table


def keep_table(table: Table, file: Path) -> None:
    """Write a table to a file, whole or not at all, unless it is one that was kept there from the beginning."""

    def write(handle: BinaryIO) -> None:
        handle.write(np.ascontiguousarray(table).data)

    if getattr(table, "filename", None) is None:
        write_atomically(file, write)


def _matched(
    link_src: NDArray[np.int32],
    link_dst: NDArray[np.int32],
    origin: NDArray[np.int32],
    num_ranks: int,
    options: RoundsOptions,
    file: Path | None,
) -> Table:
    num_chunks, num_links = len(origin), len(link_src)
    held = np.zeros((num_ranks, -(-num_chunks // 64)), np.uint64)
    chunk = np.arange(num_chunks)
    np.bitwise_or.at(held, (origin, chunk // 64), np.uint64(1) << (chunk % 64).astype(np.uint64))
    holders = np.ones(num_chunks, np.uint32)
    missing = (num_chunks - np.bincount(origin, minlength=num_ranks)).astype(np.int32)
    expected = max(1, _least_rounds(link_dst, origin, num_ranks))
    dtype = np.uint16 if num_chunks < np.iinfo(np.uint16).max else np.uint32
    table = _blank(expected + expected // 16 + 16, num_links, dtype, file)
    block = max(1, TRANSFERS_PER_CALL // num_links)
    done = 0
    while True:
        rows = table[done : done + block]
        filled = _core.match_rounds(
            link_src,
            link_dst,
            held,
            holders,
            missing,
            rows,
            options.candidates,
            done,
            options.seed,
            options.threads,
        )
        done += filled
        options.report(min(1.0, done / expected))
        if filled < len(rows) or not missing.any():
            return table[:done]
        if done == len(table):
            table = _grown(table, file)


def _blank(num_rounds: int, num_links: int, dtype: type[np.unsignedinteger[Any]], file: Path | None) -> Table:
    shape = (num_rounds, num_links)
    if file is not None:
        return np.memmap(file, dtype, "w+", shape=shape)
    if math.prod(shape) * np.dtype(dtype).itemsize <= MAPPED_ABOVE_BYTES:
        return np.empty(shape, dtype)
    import tempfile  # slow to import, and seldom used

    with tempfile.NamedTemporaryFile(prefix="interlock-slots-") as unnamed:
        return np.memmap(unnamed, dtype, "w+", shape=shape)


def _grown(table: Table, file: Path | None) -> Table:
    """Half as many rows again; a file of the caller's is made longer in place."""
    rows = len(table) + max(16, len(table) // 2)
    if file is not None:
        return np.memmap(file, table.dtype.type, "r+", shape=(rows, table.shape[1]))
    longer = _blank(rows, table.shape[1], table.dtype.type, None)
    longer[: len(table)] = table
    return longer
