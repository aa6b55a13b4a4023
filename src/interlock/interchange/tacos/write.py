"""Writes TACOS' CSV: for every link, the chunks it carries, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import write_atomically
from interlock.interchange.contract import ExportReport
from interlock.interchange.shared.chunks.quantise import ChunkPolicy, quantise
from interlock.interchange.shared.sequence import sequence_messages
from interlock.interchange.tacos.limits import COPYING, GIB, HEADER, MAX_CHUNKS, MAX_TRANSFERS
from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.topology import Topology

__all__ = ["write_schedule"]


def write_schedule(schedule: Schedule, problem: Problem, path: Path, *, chunk_bytes: int | None = None) -> ExportReport:
    """Write the chunks of every link, in the order in which they are sent."""
    if problem.collective is None or problem.collective.kind not in COPYING:
        raise InvalidInput(f"TACOS' CSV holds {', '.join(COPYING)}; not {problem.name}")
    most = min(max(4096, 8 * len(problem.items)), MAX_CHUNKS)
    quantised = quantise(schedule, problem, ChunkPolicy(chunk_bytes, most))
    first_chunk = np.cumsum(quantised.item_chunks) - quantised.item_chunks
    position = np.empty(schedule.num_messages, np.int64)
    position[sequence_messages(schedule, problem.topology).order] = np.arange(schedule.num_messages)
    ends = _chunk_rows(schedule, quantised.message)
    src, dst, row = ends
    link = src.astype(np.int64) * problem.num_ranks + dst
    order = np.lexsort((row, position[quantised.message[row]], link))
    repeats = quantised.count[row[order]]
    if repeats.sum() > MAX_TRANSFERS:
        raise LimitExceeded(
            f"the schedule moves {repeats.sum()} chunks of {quantised.chunk_bytes} bytes; at most {MAX_TRANSFERS} are "
            "written; use larger chunks"
        )
    start = (first_chunk[quantised.item] + quantised.first)[row[order]]
    chunk = np.repeat(start, repeats) + (
        np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    )
    link_of_chunk = np.repeat(link[order], repeats)
    links, virtual = _links(problem.topology, np.unique(link_of_chunk))
    lines = _lines(problem, links, link_of_chunk, chunk, int(quantised.item_chunks.sum()), quantised.chunk_bytes)
    write_atomically(path, lambda file: file.writelines(lines))
    notes = [f"{virtual} pairs of ranks without a link of their own are written as links"] if virtual else []
    return ExportReport(
        "tacos-csv", (path,), quantised.chunk_bytes, quantised.policy, quantised.inflation, tuple(notes)
    )


def _chunk_rows(
    schedule: Schedule, message: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Sender, receiver and piece row of everything that is moved; a multicast once per receiver."""
    if not schedule.src.is_single:
        raise InvalidInput("TACOS' CSV has no in-switch sums")
    receivers = schedule.dst.take(message)
    row = receivers.row_of_value
    return schedule.src.values[message[row]], receivers.values, row


def _links(topology: Topology, used: NDArray[np.int64]) -> tuple[list[tuple[int, int, float, float]], int]:
    """(source, destination, latency, bandwidth) of every link between ranks, and of every other pair that is used."""
    ranks = topology.num_ranks
    between = np.flatnonzero((topology.link_src < ranks) & (topology.link_dst < ranks))
    pair = topology.link_src[between].astype(np.int64) * ranks + topology.link_dst[between]
    rows = {
        int(p): (topology.latency_s[k], topology.bandwidth_bytes_per_s[k]) for p, k in zip(pair, between, strict=True)
    }
    missing = np.setdiff1d(used, pair)
    if len(missing):
        routes = topology.routes((missing // ranks).astype(np.int32), (missing % ranks).astype(np.int32))
        for p, path in zip(missing.tolist(), routes, strict=True):
            rows[p] = (topology.latency_s[path].sum(), topology.bandwidth_bytes_per_s[path].min())
    return [(p // ranks, p % ranks, float(a), float(b)) for p, (a, b) in sorted(rows.items())], len(missing)


def _lines(
    problem: Problem,
    links: list[tuple[int, int, float, float]],
    link_of_chunk: NDArray[np.int64],
    chunk: NDArray[np.int64],
    num_chunks: int,
    chunk_bytes: int,
) -> Iterator[bytes]:
    head = (
        f"NPUs Count,{problem.num_ranks}\nLinks Count,{len(links)}\nChunks Count,{num_chunks}\n"
        f"Chunk Size,{chunk_bytes},B\n{HEADER}\n"
    )
    yield head.encode()
    for src, dst, latency_s, bandwidth in links:
        pair = src * problem.num_ranks + dst
        first, last = np.searchsorted(link_of_chunk, [pair, pair + 1])
        carried = ",".join(map(str, chunk[first:last].tolist())) or "None"
        yield f"{src},{dst},{latency_s * 1e9:.9g},{bandwidth / GIB:.9g},{carried}\n".encode()
