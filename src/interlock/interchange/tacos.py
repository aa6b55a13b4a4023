"""TACOS' CSV (v1.1): for every link, the chunks it carries, in order. Holds collectives that only copy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective, CollectiveKind, collective
from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import lines_of, read_text, write_atomically
from interlock.interchange.contract import ExportReport, ForeignSchedule, Intent
from interlock.interchange.shared.chunks.goal import network_of
from interlock.interchange.shared.chunks.quantise import ChunkPolicy, quantise
from interlock.interchange.shared.files import MAX_FILE_BYTES
from interlock.interchange.shared.sequence import sequence_messages
from interlock.problem import Items, Problem, RankSets
from interlock.ragged import Ragged, ranges
from interlock.schedule import Batch, Phase, Schedule, assemble, make_pieces
from interlock.topology import Topology, from_edges
from interlock.units import parse_whole

__all__ = [
    "COPYING",
    "GIB",
    "HEADER",
    "MAX_CHUNKS",
    "MAX_RANKS",
    "MAX_TRANSFERS",
    "MAX_TRANSFERS_READ",
    "read_schedule",
    "write_schedule",
]

GIB = 2**30  # TACOS' "GB/s" are 2^30 bytes per second
MAX_RANKS = 65_536
MAX_CHUNKS = 1 << 22
MAX_TRANSFERS = 10_000_000  # written
MAX_TRANSFERS_READ = 4_000_000  # commas in rows of links: some 600 MB
HEADER = "SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks"
COPYING = (CollectiveKind.ALL_GATHER, CollectiveKind.BROADCAST, CollectiveKind.GATHER)


@dataclass(frozen=True)
class _Table:
    num_ranks: int
    num_chunks: int
    chunk_bytes: int
    links: list[tuple[int, int, float, float]]
    chunks: list[NDArray[np.int64]]  # per link

    @cached_property
    def moves(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Sender, receiver and chunk of every transfer, in the file's order."""
        counts = [len(row) for row in self.chunks]
        ends = np.array([link[:2] for link in self.links], np.int64).reshape(-1, 2).repeat(counts, axis=0)
        return ends[:, 0], ends[:, 1], np.concatenate([np.zeros(0, np.int64), *self.chunks])


def read_schedule(path: Path, intent: Intent) -> ForeignSchedule:
    """The schedule in a TACOS CSV; All-Gather unless the user says otherwise."""
    table = _parse(path)
    kind = collective(intent.collective or "all-gather", 0).kind
    if kind not in COPYING:
        raise InvalidInput(f"{path}: TACOS' CSV only copies; it cannot be a {kind}")
    if intent.demand is not None:
        raise InvalidInput(f"{path}: TACOS' CSV does not say where a chunk is meant to end; use --collective")
    violations: list[str] = []
    topology, link_of_row = _network(table, path, intent)
    owner = _owners(table, kind, intent.root, violations)
    everyone = np.arange(table.num_ranks, dtype=np.int32)
    ends = everyone if kind is not CollectiveKind.GATHER else np.array([intent.root], np.int32)
    items = Items(
        np.full(table.num_chunks, table.chunk_bytes, np.int64),
        RankSets.one(owner),
        RankSets.same(ends, table.num_chunks),
    )
    named = Collective(kind, table.num_chunks * table.chunk_bytes, None, intent.root)
    problem = Problem(topology, items, collective=named)
    return ForeignSchedule("tacos-csv", _schedule(table, link_of_row), problem, tuple(violations))


def _network(table: _Table, path: Path, intent: Intent) -> tuple[Topology, NDArray[np.int32]]:
    """The file's own links, or the graph that the user names, and which of its links each row of the file is."""
    if intent.cluster is not None:
        raise InvalidInput(f"{path} is a schedule of links between ranks: say --topology, not --cluster")
    if intent.topology is None:
        own = from_edges(
            [link[0] for link in table.links],
            [link[1] for link in table.links],
            [max(link[3] * GIB, 1e-9) for link in table.links],
            [link[2] * 1e-9 for link in table.links],
            num_ranks=table.num_ranks,
            name=path.stem,
        )
        return own, np.arange(len(table.links), dtype=np.int32)
    graph = network_of(intent, table.num_ranks, str(path)).topology
    links = {pair: k for k, pair in enumerate(zip(graph.link_src.tolist(), graph.link_dst.tolist(), strict=True))}
    for (src, dst, _, _), row in zip(table.links, table.chunks, strict=True):
        if len(row) and (src, dst) not in links:
            raise InvalidInput(f"{path} sends from rank {src} to rank {dst}; {graph.name} has no such link")
    return graph, np.array([links.get((src, dst), -1) for src, dst, _, _ in table.links], np.int32)


def _owners(table: _Table, kind: CollectiveKind, root: int, violations: list[str]) -> NDArray[np.int32]:
    """The rank that sends each chunk without receiving it; chunks nobody sends are shared out in order."""
    src, dst, chunk = table.moves
    received = np.unique(dst * table.num_chunks + chunk)
    sent = src * table.num_chunks + chunk
    place = np.minimum(np.searchsorted(received, sent), max(0, len(received) - 1))
    own = np.flatnonzero(received[place] != sent)
    own = own[np.sort(np.unique(sent[own], return_index=True)[1])]  # each rank and chunk once, in the file's order
    owner = np.full(table.num_chunks, -1, np.int64)
    owner[chunk[own]] = src[own]
    for row in own[owner[chunk[own]] != src[own]].tolist():
        violations.append(f"ranks {src[row]} and {owner[chunk[row]]} both send chunk {chunk[row]} without receiving it")
    unsent = np.flatnonzero(owner < 0)
    if len(unsent):
        violations.append(f"chunk {unsent[0]} has no owner: nobody sends it, or only ranks that also receive it")
    owner[unsent] = unsent * table.num_ranks // table.num_chunks
    if kind is CollectiveKind.BROADCAST:
        strange = np.flatnonzero(owner != root)
        if len(strange):
            violations.append(f"chunk {strange[0]} starts at rank {owner[strange[0]]}; a broadcast starts at {root}")
    elif kind is CollectiveKind.ALL_GATHER:
        idle = np.flatnonzero(np.bincount(owner, minlength=table.num_ranks) == 0)
        if len(idle):
            violations.append(f"rank {idle[0]} owns no chunk; in an all-gather every rank gives one")
    return owner.astype(np.int32)


def _schedule(table: _Table, link_of_row: NDArray[np.int32]) -> Schedule:
    """One message per chunk and link, each alone on its link, after the message that brought the chunk."""
    counts = np.array([len(row) for row in table.chunks], np.int64)
    link = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    src, dst, chunk = table.moves
    brought, message = np.unique(dst * table.num_chunks + chunk, return_index=True)
    needed = src * table.num_chunks + chunk
    place = np.minimum(np.searchsorted(brought, needed), max(0, len(brought) - 1))
    is_fed = brought[place] == needed
    count = len(chunk)
    turn = ranges(0, counts)
    transfers = Batch(
        src.astype(np.int32),
        dst.astype(np.int32),
        make_pieces(np.arange(count + 1), chunk, length=np.full(count, table.chunk_bytes)),
        Phase.SPREAD,
        stage=turn.astype(np.int32),
        path=Ragged.single(link_of_row[link]),
        order=turn,
        deps=Ragged.from_counts(is_fed, message[place[is_fed]].astype(np.int32)),
    )
    return assemble([transfers])


def _parse(path: Path) -> _Table:
    lines = lines_of(read_text(path, MAX_FILE_BYTES), path)
    numbers: dict[str, int] = {}
    body = 0
    for place, line in enumerate(lines):
        cells = line.strip().split(",", 2)
        if cells[0] == "SrcID":
            body = place + 1
            break
        if cells[0] in ("NPUs Count", "Links Count", "Chunks Count", "Chunk Size") and len(cells) > 1:
            limit = {"NPUs Count": MAX_RANKS, "Chunks Count": MAX_CHUNKS, "Links Count": 1 << 26}.get(cells[0], 2**50)
            numbers[cells[0]] = parse_whole(cells[1], f"{path}, line {place + 1}: {cells[0]}", 1, limit)
    missing = [name for name in ("NPUs Count", "Links Count", "Chunks Count", "Chunk Size") if name not in numbers]
    if missing or not body:
        raise InvalidInput(f"{path} is no TACOS CSV: it lacks {missing[0] if missing else 'the row of column names'!r}")
    ranks, num_chunks = numbers["NPUs Count"], numbers["Chunks Count"]
    links: dict[tuple[int, int], tuple[float, float]] = {}
    chunks: list[NDArray[np.int64]] = []
    total = 0
    for place, line in enumerate(lines[body:], body + 1):
        if not line.strip():
            continue
        where = f"{path}, line {place}"
        total += line.count(",")
        if total > MAX_TRANSFERS_READ:
            raise LimitExceeded(f"{where}: more than {MAX_TRANSFERS_READ} transfers")
        cells = line.strip().split(",", 4)
        if len(cells) < 5:
            raise InvalidInput(f"{where} has {len(cells)} cells; a link needs at least 5")
        src, dst = (parse_whole(cell, f"{where}: rank", 0, ranks - 1) for cell in cells[:2])
        if src == dst or (src, dst) in links:
            raise InvalidInput(f"{where}: the link from {src} to {dst} joins a rank to itself or is given twice")
        links[src, dst] = (_fraction(cells[2], f"{where}: latency"), _fraction(cells[3], f"{where}: bandwidth"))
        chunks.append(_chunks(cells[4], f"{where}: chunk", num_chunks))
    if len(links) != numbers["Links Count"]:
        raise InvalidInput(f"{path} says {numbers['Links Count']} links but lists {len(links)}")
    rows = [(src, dst, latency, bandwidth) for (src, dst), (latency, bandwidth) in links.items()]
    return _Table(ranks, num_chunks, numbers["Chunk Size"], rows, chunks)


def _chunks(text: str, where: str, num_chunks: int) -> NDArray[np.int64]:
    """The chunks of one link. Later versions write id:end:start; a row's order is the order on the link in all."""
    if text.strip() == "None":
        return np.zeros(0, np.int64)
    text = re.sub(r":[^,]*", "", text)
    words = re.sub(r",[\s,]*(?=,|$)", "", text.strip(" \t,"))  # empty cells are passed over
    if not words:
        return np.zeros(0, np.int64)
    is_plain = words.isascii() and words.replace(",", "").isdigit() and re.search(r"\d{19}", words) is None
    if not is_plain:  # with blanks, or wrong
        return np.array([parse_whole(word, where, 0, num_chunks - 1) for word in words.split(",")], np.int64)
    chunks = np.fromstring(words, np.int64, sep=",")
    strange = np.flatnonzero(chunks >= num_chunks)
    if len(strange):
        raise InvalidInput(f"{where}: {chunks[strange[0]]} must be between 0 and {num_chunks - 1}")
    return chunks


def _fraction(text: str, where: str) -> float:
    try:
        value = float(text) if len(text) < 40 else float("nan")
    except ValueError:
        value = float("nan")
    if not 0 <= value < 1e15:
        raise InvalidInput(f"{where}: {text[:40]!r} is not a number of at least 0")
    return value


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
    chunk = ranges(start, repeats)
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
