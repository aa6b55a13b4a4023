"""The tile-level timing model: an MoE layer as tasks on links and SMs, run by the native task simulator.

Tokens leave in chunks, token-major. A chunk crosses its GPU's uplink, then the downlink of each GPU it goes to; expert
tiles start when their tokens are there; a chunk's results go back when all of its tiles at a GPU are done. Links serve
one chunk at a time, in chunk order, so a switch port holds at most a chunk: store and forward at chunk size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.moe.constants import list_flits
from interlock.moe.layer import LayerTraffic
from interlock.ragged import Ragged, before_in_group, ranges, run_starts

__all__ = ["TokenChunks", "Ints", "Seconds", "LayerTime", "TaskRun", "cut_chunks", "cut_tiles"]

Ints = NDArray[np.int64]
Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LayerTime:
    """What the tile-level model found. Simulated; the hardware does not exist."""

    scheme: str
    makespan_s: float
    up_busy_s: NDArray[np.float64]  # [num_gpus]
    down_busy_s: NDArray[np.float64]
    compute_busy_s: NDArray[np.float64]
    start_s: NDArray[np.float64]  # [num_tasks]
    finish_s: NDArray[np.float64]
    resource: NDArray[np.int32]
    part: NDArray[np.uint8]  # of each task: index into PARTS


PARTS = ("dispatch up", "dispatch down", "gemm-1", "gemm-2", "combine up", "combine down", "barrier")


@dataclass(slots=True)
class TaskRun:
    """Collects tasks block by block, then runs them."""

    num_gpus: int
    resource: list[Ints] = field(default_factory=list)
    duration_s: list[NDArray[np.float64]] = field(default_factory=list)
    delay_s: list[NDArray[np.float64]] = field(default_factory=list)
    priority: list[Ints] = field(default_factory=list)
    part: list[Ints] = field(default_factory=list)
    deps: list[Ragged] = field(default_factory=list)
    count: int = 0

    def add(
        self,
        part: str,
        resource: Ints,
        duration_s: NDArray[np.float64],
        priority: Ints,
        deps: Ragged | None = None,
        delay_s: float = 0.0,
    ) -> int:
        """Append a block; returns the number of its first task."""
        first, size = self.count, len(resource)
        self.resource.append(resource)
        self.duration_s.append(duration_s)
        self.delay_s.append(np.full(size, delay_s))
        self.priority.append(priority)
        self.part.append(np.full(size, PARTS.index(part)))
        self.deps.append(Ragged.empty(size) if deps is None else deps)
        self.count += size
        return first

    def run(self, scheme: str) -> LayerTime:
        """Times of all tasks. Resources: uplinks, downlinks, two SM groups, one for barriers that never waits."""
        gpus = self.num_gpus
        deps = Ragged.concatenate(self.deps)
        resource = np.concatenate(self.resource).astype(np.int32)
        capacity = np.ones(4 * gpus + 1, np.int32)
        capacity[-1] = max(1, self.count)
        start_s, finish_s, busy_s, makespan_s = _core.run_tasks(
            resource,
            np.concatenate(self.duration_s),
            np.concatenate(self.delay_s),
            np.concatenate(self.priority).astype(np.int64),
            deps.offsets,
            deps.values,
            capacity,
        )
        compute = busy_s[2 * gpus : 3 * gpus] + busy_s[3 * gpus : 4 * gpus]
        part = np.concatenate(self.part).astype(np.uint8)
        return LayerTime(
            scheme, makespan_s, busy_s[:gpus], busy_s[gpus : 2 * gpus], compute, start_s, finish_s, resource, part
        )


@dataclass(frozen=True, slots=True, eq=False)
class TokenChunks:
    """Tokens gathered into chunks, and what each chunk owes each GPU and each expert slot."""

    num_gpus: int
    per_gpu: int  # chunks of one GPU
    size: Ints  # [num_chunks] tokens; chunk number is gpu * per_gpu + place
    leaving: Ints  # [num_chunks] tokens that go to any other GPU
    leaving_lists: Ints  # [num_chunks] flits of their lists of targets: the experts they go to elsewhere
    copy_chunk: Ints  # [num_copies] (chunk, other GPU) pairs
    copy_gpu: Ints
    copy_tokens: Ints
    copy_lists: Ints  # [num_copies] flits of their lists, of the experts at that GPU alone
    piece_slot: Ints  # [num_pieces] (slot, chunk) pairs, in arrival order within a slot
    piece_chunk: Ints
    piece_tokens: Ints
    piece_gpu: Ints

    @property
    def gpu(self) -> Ints:
        """GPU of each chunk."""
        return np.arange(len(self.size)) // self.per_gpu

    @property
    def place(self) -> Ints:
        """Place of each chunk on its GPU."""
        return np.arange(len(self.size)) % self.per_gpu


def cut_chunks(traffic: LayerTraffic, chunk_tokens: int) -> TokenChunks:
    """Gather tokens into chunks of `chunk_tokens`, in the order in which each GPU holds them."""
    return traffic.keep((cut_chunks, chunk_tokens), lambda: _cut_chunks(traffic, chunk_tokens))


def _cut_chunks(traffic: LayerTraffic, chunk_tokens: int) -> TokenChunks:
    gpus = traffic.num_gpus
    held = np.bincount(traffic.gpu_of_token, minlength=gpus)
    per_gpu = max(1, -(-int(held.max(initial=1)) // chunk_tokens))
    place = before_in_group(traffic.gpu_of_token)
    chunk = traffic.gpu_of_token.astype(np.int64) * per_gpu + place // chunk_tokens
    num_chunks = gpus * per_gpu
    token, other, named = traffic.copies()
    leaves = np.zeros(traffic.num_tokens, np.bool_)
    leaves[token] = True
    copy, copy_tokens, copy_lists = count_keys(chunk[token] * gpus + other, num_chunks * gpus, list_flits(named))
    elsewhere = np.bincount(token, named, traffic.num_tokens).astype(np.int64)
    # Arrival order within a slot: by place, then by source GPU.
    arrival = (chunk % per_gpu) * gpus + chunk // per_gpu
    num_slots = int(traffic.slots.max(initial=0)) + 1
    key = traffic.slots.astype(np.int64) * num_chunks + arrival[:, None]
    piece, piece_tokens, _ = count_keys(key.reshape(-1), num_slots * num_chunks)
    piece_arrival = piece % num_chunks
    slot = piece // num_chunks
    gpu_of_slot = np.zeros(num_slots, np.int64)
    gpu_of_slot[traffic.slots.reshape(-1)] = traffic.targets.reshape(-1)
    return TokenChunks(
        num_gpus=gpus,
        per_gpu=per_gpu,
        size=np.bincount(chunk, minlength=num_chunks),
        leaving=np.bincount(chunk[leaves], minlength=num_chunks),
        leaving_lists=np.bincount(chunk, list_flits(elsewhere), num_chunks).astype(np.int64),
        copy_chunk=copy // gpus,
        copy_gpu=copy % gpus,
        copy_tokens=copy_tokens,
        copy_lists=copy_lists.astype(np.int64),
        piece_slot=slot,
        piece_chunk=piece_arrival % gpus * per_gpu + piece_arrival // gpus,
        piece_tokens=piece_tokens,
        piece_gpu=gpu_of_slot[slot],
    )


def count_keys(keys: Ints, limit: int, values: Ints | None = None) -> tuple[Ints, Ints, Ints]:
    """The distinct keys, ascending, how often each occurs and the sum of its values; keys are below `limit`."""
    if limit > 4 * len(keys):
        found, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return found, counts, _sums(place, values, len(found))
    counts = np.bincount(keys, minlength=limit)
    found = np.flatnonzero(counts)
    return found, counts[found], _sums(keys, values, limit)[found]


def _sums(keys: Ints, values: Ints | None, limit: int) -> Ints:
    return np.bincount(keys, values, limit).astype(np.int64) if values is not None else np.zeros(limit, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ExpertTiles:
    """Expert tiles, and which pieces each one holds tokens of."""

    slot_gpu: Ints  # [num_tiles]
    tokens: Ints  # [num_tiles]
    slot_tokens: Ints  # [num_tiles] tokens of its expert slot in all
    wave_tokens: Ints  # [num_tiles] of these, the tokens of its wave
    wave: Ints  # [num_tiles] pipeline wave of its last piece
    tile: Ints  # [num_parts] a part is a (tile, piece) pair
    piece: Ints


def cut_tiles(chunks: TokenChunks, tile_tokens: int, wave_of_place: Ints) -> ExpertTiles:
    """Fill tiles of `tile_tokens` in arrival order; a new wave of chunks starts a new tile."""
    wave = wave_of_place[chunks.piece_chunk % chunks.per_gpu]
    key = chunks.piece_slot * (int(wave_of_place.max(initial=0)) + 1) + wave
    starts_run = run_starts(key)
    run = np.cumsum(starts_run) - 1
    first_of_run = np.flatnonzero(starts_run)
    ends = np.cumsum(chunks.piece_tokens)
    begins = ends - chunks.piece_tokens
    within = begins - begins[first_of_run][run]
    first_tile = within // tile_tokens
    last_tile = (within + chunks.piece_tokens - 1) // tile_tokens
    tiles_of_run = np.zeros(len(first_of_run), np.int64)
    np.maximum.at(tiles_of_run, run, last_tile + 1)
    base = np.cumsum(tiles_of_run) - tiles_of_run
    counts = last_tile - first_tile + 1
    piece = np.repeat(np.arange(len(counts)), counts)
    tile_in_run = ranges(first_tile, counts)
    tile = base[run[piece]] + tile_in_run
    low = np.maximum(within[piece], tile_in_run * tile_tokens)
    high = np.minimum(within[piece] + chunks.piece_tokens[piece], (tile_in_run + 1) * tile_tokens)
    num_tiles = int(tiles_of_run.sum())
    run_of_tile = np.repeat(np.arange(len(first_of_run)), tiles_of_run)
    tokens = np.bincount(tile, weights=high - low, minlength=num_tiles).astype(np.int64)
    lead = first_of_run[run_of_tile]
    of_slot = np.bincount(chunks.piece_slot, weights=chunks.piece_tokens).astype(np.int64)
    slot_tokens = of_slot[chunks.piece_slot[lead]]
    wave_tokens = np.bincount(run, weights=chunks.piece_tokens).astype(np.int64)[run_of_tile]
    return ExpertTiles(chunks.piece_gpu[lead], tokens, slot_tokens, wave_tokens, wave[lead], tile, piece)
