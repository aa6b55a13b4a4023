"""The schemes: who multicasts, who reduces in the switch, what overlaps with what.

| scheme | dispatch | combine | overlap |
|---|---|---|---|
| deepep | a copy per GPU | a partial per GPU | none: dispatch, experts, combine |
| nvls | multicast to everyone | everyone reduces in the switch | none |
| tutel | a copy per GPU | a partial per GPU | pipelined waves of tokens, the best of 1, 2, 4 and 8 |
| comet | a copy per GPU | a partial per GPU | tiles: dispatch with GEMM-1, then GEMM-2 with combine |
| dysharp-addressing | in-switch multicast | in-switch reduction | as comet |
| dysharp-fusion | a copy per GPU | a partial per GPU | all four at once, by tile |
| dysharp | in-switch multicast | in-switch reduction, pulled | all four at once, by tile, fixed SM groups |
| inswitch (ours) | in-switch multicast | in-switch reduction, pushed | the same, SMs steal work, tiles flushed |

`tutel` is Tutel's adaptive degree of pipelining and nothing else of it. FasterMoE and CCFuser, whose published gains
come from shadowed experts and from kernels, are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from interlock.errors import named
from interlock.moe.constants import PAPER, Machine
from interlock.moe.fluid import loads
from interlock.moe.layer import Layer, LayerTraffic
from interlock.moe.tiles import ExpertTiles, Ints, LayerTime, Seconds, TaskRun, TokenChunks, cut_chunks, cut_tiles
from interlock.ragged import Ragged

__all__ = ["SCHEMES", "Scheme", "layer_time", "scheme"]


MOST_PADDING = 1.5  # flushing cannot pay where it makes the SMs this much busier than the links


@dataclass(frozen=True, slots=True)
class Scheme:
    """Which mechanisms a scheme has."""

    name: str
    multicast: bool = False  # a token crosses its uplink once
    to_everyone: bool = False  # static groups: every token goes to every GPU
    reduces: bool = False  # partials are added in the switch
    pulls: bool = False  # the reader asks for each reduction
    waves: int | None = None  # whole waves of tokens pass from phase to phase; None: tiles do
    degrees: tuple[int, ...] = ()  # numbers of waves of which the fastest is taken
    splits_gemms: bool = False  # GEMM-2 starts when all of GEMM-1 is done (two kernels)
    fixed_groups: bool = False  # half of the SMs per GEMM
    foreign: bool = False  # GEMMs of a library, not kernels that know of the copies
    flushes: bool = False  # chunks sized so that tiles fill, partial ones run at chunk end

    @property
    def overlaps(self) -> bool:
        """Whether communication and experts run at the same time, so that some SMs send instead of computing."""
        return self.waves != 1

    @property
    def names_targets(self) -> bool:
        """Whether packets carry a list of the experts they are for; static groups have one address everywhere."""
        return self.multicast and not self.to_everyone

    @property
    def constants(self) -> list[str]:
        """The constants that its time depends on, named as in `ORIGIN`."""
        used = ["FLIT_BYTES", "link_bytes_per_s", "link_efficiency", "payload_flits", "hop_latency_s"]
        used += ["gemms", "tile_tokens", "tile_rows"]
        used += ["sms", "communication_sms"] if self.overlaps else []
        used += ["foreign_slowdown" if self.foreign else "beside_slowdown"] if self.overlaps else []
        used += ["flag_s" if self.waves is None and not self.degrees else "launch_s"]
        used += ["launch_s"] if self.splits_gemms else []
        used += ["IDS_PER_FLIT", "communication_sms", "tlb_entries", "tlb_miss_packets"] if self.names_targets else []
        used += ["switches", "reduction_buffer_bytes"] if self.reduces else []
        used += ["bytes_per_request"] if self.pulls else []
        return list(dict.fromkeys(used))


SCHEMES = {
    made.name: made
    for made in (
        Scheme("deepep", waves=1),
        Scheme("nvls", multicast=True, to_everyone=True, reduces=True, waves=1),
        Scheme("tutel", degrees=(1, 2, 4, 8), foreign=True),
        Scheme("comet", splits_gemms=True),
        Scheme("dysharp-addressing", multicast=True, reduces=True, splits_gemms=True),
        Scheme("dysharp-fusion", fixed_groups=True),
        Scheme("dysharp", multicast=True, reduces=True, pulls=True, fixed_groups=True),
        Scheme("inswitch", multicast=True, reduces=True, flushes=True),
    )
}


def scheme(name: str) -> Scheme:
    """A scheme by name."""
    return named(SCHEMES, name, "MoE scheme")


def layer_time(
    name: str, layer: Layer, traffic: LayerTraffic, machine: Machine = PAPER, *, backward: bool = False
) -> LayerTime:
    """Simulate one layer under a scheme at token-tile granularity."""
    how = scheme(name)
    if how.degrees:
        ways = [replace(how, waves=degree, degrees=()) for degree in how.degrees]
        return min((_Build.of(way, layer, traffic, machine, backward).run() for way in ways), key=_makespan_s)
    build = _Build.of(how, layer, traffic, machine, backward)
    if not how.flushes:
        return build.run()
    # Flushed tiles start sooner but compute padding: try filled ones too where that could cost more than it brings.
    tries = [build.run()] if build.compute_s() < MOST_PADDING * _wire_s(layer, traffic, machine) else []
    if build.compute_s() > _wire_s(layer, traffic, machine):
        tries.append(_Build.of(replace(how, flushes=False), layer, traffic, machine, backward).run())
    return min(tries, key=_makespan_s)


def _makespan_s(layer_time: LayerTime) -> float:
    return layer_time.makespan_s


def _wire_s(layer: Layer, traffic: LayerTraffic, machine: Machine) -> float:
    part = loads(layer, traffic, machine)
    return max(part.pushed_up_s, part.pushed_down_s)


def _chunk_tokens(how: Scheme, layer: Layer, num_gpus: int, machine: Machine) -> int:
    """Tokens that leave together. Ours fills a tile per expert and wave of chunks; the others take a tile's worth."""
    if how.flushes:
        filling = machine.tile_tokens * layer.experts // (num_gpus * layer.top_k)
        return max(machine.tile_tokens, filling)
    return machine.tile_tokens


def _waves(how: Scheme, chunks: TokenChunks) -> Ints:
    """Wave of each chunk place: tiles do not span waves."""
    place = np.arange(chunks.per_gpu)
    if how.waves is not None:
        return place * how.waves // chunks.per_gpu
    return place if how.flushes else np.zeros(chunks.per_gpu, np.int64)


def _to_everyone(chunks: TokenChunks) -> TokenChunks:
    """Every chunk goes whole to every other GPU."""
    num_chunks, gpus = len(chunks.size), chunks.num_gpus
    chunk = np.repeat(np.arange(num_chunks), gpus)
    gpu = np.tile(np.arange(gpus), num_chunks)
    away = gpu != chunk // chunks.per_gpu
    chunk, gpu = chunk[away], gpu[away]
    return TokenChunks(
        gpus,
        chunks.per_gpu,
        chunks.size,
        chunks.size,
        np.zeros_like(chunks.size),
        chunk,
        gpu,
        chunks.size[chunk],
        np.zeros_like(chunk),
        chunks.piece_slot,
        chunks.piece_chunk,
        chunks.piece_tokens,
        chunks.piece_gpu,
    )


@dataclass(slots=True)
class _Build:
    """Writes the tasks of one layer: dispatch, GEMMs, combine."""

    how: Scheme
    layer: Layer
    machine: Machine
    chunks: TokenChunks
    tiles: ExpertTiles
    tasks: TaskRun
    backward: bool

    @classmethod
    def of(cls, how: Scheme, layer: Layer, traffic: LayerTraffic, machine: Machine, backward: bool) -> _Build:
        """Chunks and tiles of a layer, no tasks yet."""
        chunks = cut_chunks(traffic, _chunk_tokens(how, layer, traffic.num_gpus, machine))
        if how.to_everyone:
            chunks = _to_everyone(chunks)
        tiles = cut_tiles(chunks, machine.tile_tokens, _waves(how, chunks))
        return cls(how, layer, machine, chunks, tiles, TaskRun(traffic.num_gpus), backward)

    def tile_s(self) -> Seconds:
        """Time of the two GEMMs of each tile on all SMs that compute, [2, num_tiles]; partial tiles cost whole rows."""
        # A library's kernel has the tokens of one wave, and reads weights again for the next.
        read_together = self.tiles.wave_tokens if self.how.foreign else self.tiles.slot_tokens
        rows, of_slot = (self.whole_rows(tokens) for tokens in (self.tiles.tokens, read_together))
        passes = 2 if self.backward else 1
        slowdown = passes * self.machine.tile_slowdown(self.layer)
        if self.how.overlaps:
            beside = self.machine.foreign_slowdown if self.how.foreign else self.machine.beside_slowdown
            slowdown *= beside / self.machine.compute_share
        return np.asarray(slowdown * rows * self.machine.gemms.row_s(self.layer, of_slot), np.float64)

    def whole_rows(self, tokens: Ints) -> Ints:
        """Rows that so many tokens occupy on the tensor cores."""
        step = min(self.machine.tile_rows, self.machine.tile_tokens)
        return -(-tokens // step) * step

    def compute_s(self) -> float:
        """What the busiest GPU computes."""
        per_gpu = np.bincount(self.tiles.slot_gpu, weights=self.tile_s().sum(axis=0), minlength=self.chunks.num_gpus)
        return float(per_gpu.max(initial=0.0))

    def run(self) -> LayerTime:
        """The four parts in order."""
        arrived = self.dispatch()
        done = self.experts(arrived)
        self.combine(done)
        made = self.tasks.run(self.how.name)
        # A group that has half of the SMs is busy for half of the GPU.
        return replace(made, compute_busy_s=made.compute_busy_s / 2) if self.how.fixed_groups else made

    def dispatch(self) -> int:
        """Chunks over uplinks, copies over downlinks; returns the first copy's task."""
        c = self.chunks
        lists = c.copy_lists if self.how.names_targets else 0
        copies_s = self.machine.wire_s(self.layer, self.layer.dispatch_bytes, c.copy_tokens, lists)
        if self.how.names_targets:
            arriving_s = copies_s * self.machine.multicast_factor(self.layer.top_k)
        else:
            arriving_s = copies_s
        if self.how.multicast:
            once_s = self.machine.wire_s(self.layer, self.layer.dispatch_bytes, c.leaving, c.leaving_lists)
            first = self.tasks.add("dispatch up", c.gpu, once_s, c.place * c.num_gpus)
            deps = first + c.copy_chunk
        else:
            first = self.tasks.add("dispatch up", c.gpu[c.copy_chunk], copies_s, self.copy_priority())
            deps = first + np.arange(len(c.copy_chunk))
        return self.tasks.add(
            "dispatch down",
            c.num_gpus + c.copy_gpu,
            arriving_s,
            self.copy_priority(),
            Ragged.single(deps.astype(np.int32)),
            delay_s=self.machine.one_way_s + self.flag_s,
        )

    @property
    def flag_s(self) -> float:
        """What passes from a copy's end to those that wait for it, where tiles are passed on by flags."""
        return self.machine.flag_s if self.how.waves is None else 0.0

    def copy_of(self, chunk: Ints, gpu: Ints) -> Ints:
        """The copy of each chunk for each GPU; copies are in ascending order of both."""
        c = self.chunks
        return np.searchsorted(c.copy_chunk * c.num_gpus + c.copy_gpu, chunk * c.num_gpus + gpu)

    def copy_priority(self) -> Ints:
        """Chunk order, the same on every link, and within a chunk destinations in rotation from the sender."""
        c = self.chunks
        turn = (c.copy_gpu - c.gpu[c.copy_chunk]) % c.num_gpus
        return c.place[c.copy_chunk] * c.num_gpus + turn

    def experts(self, arrived: int) -> int:
        """GEMM-1 and GEMM-2 of every tile; returns the first GEMM-2's task."""
        t, gpus = self.tiles, self.chunks.num_gpus
        seconds = self.tile_s() * (2.0 if self.how.fixed_groups else 1.0)
        order = self.tile_priority()
        ready = self.tile_deps(arrived)
        first = self.tasks.add("gemm-1", 2 * gpus + t.slot_gpu, seconds[0], order, ready)
        number = np.arange(len(t.tokens))
        after = Ragged.single((first + number).astype(np.int32))
        if self.how.splits_gemms or self.how.waves is not None:
            after = self.barrier(first + number, t.slot_gpu, t.wave, t.slot_gpu, t.wave)
        group = 3 if self.how.fixed_groups else 2
        return self.tasks.add("gemm-2", group * gpus + t.slot_gpu, seconds[1], order, after)

    def tile_priority(self) -> Ints:
        """Tiles whose last token arrives first run first."""
        c, t = self.chunks, self.tiles
        last = np.zeros(len(t.tokens), np.int64)
        np.maximum.at(last, t.tile, c.place[c.piece_chunk[t.piece]])
        return last

    def tile_deps(self, arrived: int) -> Ragged:
        """The copies that bring a tile's tokens; whole waves where a scheme passes waves on."""
        c, t = self.chunks, self.tiles
        if self.how.waves is None:
            tile, copies = self.copies_of_tiles()
            return Ragged.from_pairs(tile, arrived + copies, len(t.tokens))
        wave = c.place[c.copy_chunk] * self.how.waves // c.per_gpu
        return self.barrier(arrived + np.arange(len(c.copy_chunk)), c.copy_gpu, wave, t.slot_gpu, t.wave)

    def barrier(self, on: Ints, on_gpu: Ints, on_wave: Ints, of_gpu: Ints, of_wave: Ints) -> Ragged:
        """All tasks `on` of a GPU and wave before every task `of` of the same: one task in between."""
        waves = int(max(on_wave.max(initial=0), of_wave.max(initial=0))) + 1
        size = self.chunks.num_gpus * waves
        deps = Ragged.from_pairs(on_gpu * waves + on_wave, on, size)
        never_waits = np.full(size, 4 * self.chunks.num_gpus)
        zero = np.zeros(size, np.int64)
        launch_s = np.full(size, self.machine.launch_s)  # what waits is another kernel
        first = self.tasks.add("barrier", never_waits, launch_s, zero, deps)
        return Ragged.single((first + of_gpu * waves + of_wave).astype(np.int32))

    def combine(self, done: int) -> None:
        """Partials over uplinks, sums over downlinks."""
        c = self.chunks
        copies_s = self.machine.wire_s(self.layer, self.layer.combine_bytes, c.copy_tokens)
        copies_s = copies_s * (self.machine.reduction_factor if self.how.reduces else 1.0)
        deps = self.partial_deps(done)
        priority = self.copy_priority()
        if self.how.pulls:
            deps = self.requests(deps, priority)
        first = self.tasks.add("combine up", c.copy_gpu, copies_s, priority, deps, self.machine.one_way_s)
        copies = first + np.arange(len(c.copy_chunk))
        if self.how.reduces:
            copies_of_chunk = Ragged.from_pairs(c.copy_chunk, copies, len(c.size))
            sums_s = self.machine.wire_s(self.layer, self.layer.combine_bytes, c.leaving)
            self.tasks.add("combine down", c.num_gpus + c.gpu, sums_s, c.place * c.num_gpus, copies_of_chunk)
        else:
            down = c.num_gpus + c.gpu[c.copy_chunk]
            after = Ragged.single(copies.astype(np.int32))
            self.tasks.add("combine down", down, copies_s, priority, after)

    def requests(self, ready: Ragged, priority: Ints) -> Ragged:
        """A token's home asks with the whole list over its uplink, the switch with a trimmed one over the downlink of
        every GPU that holds a partial, when that is ready. Returns what each partial waits for.

        When the home learns that partials are ready is not modelled: it asks in time, which favours who pulls.
        """
        c, machine = self.chunks, self.machine
        asking_s = machine.request_s(self.layer, c.leaving, c.leaving_lists)
        turn = (c.place + 1) * c.num_gpus - 1
        first = self.tasks.add("combine up", c.gpu, asking_s, turn, delay_s=machine.one_way_s)
        copy = np.arange(len(c.copy_chunk))
        rows = np.concatenate([copy, ready.row_of_value])
        asked = self.tasks.add(
            "combine down",
            c.num_gpus + c.copy_gpu,
            machine.request_s(self.layer, c.copy_tokens, c.copy_lists),
            priority,
            Ragged.from_pairs(rows, np.concatenate([first + c.copy_chunk, ready.values]), len(copy)),
        )
        return Ragged.single((asked + copy).astype(np.int32))

    def partial_deps(self, done: int) -> Ragged:
        """What a copy's way back waits for: the tiles that hold its tokens, or its GPU's whole wave."""
        c, t = self.chunks, self.tiles
        number = np.arange(len(t.tokens))
        if self.how.waves is not None:
            wave = c.place[c.copy_chunk] * self.how.waves // c.per_gpu
            return self.barrier(done + number, t.slot_gpu, t.wave, c.copy_gpu, wave)
        tile, copies = self.copies_of_tiles()
        return Ragged.from_pairs(copies, done + tile, len(c.copy_chunk))

    def copies_of_tiles(self) -> tuple[Ints, Ints]:
        """Tiles, each with a copy that brought tokens to it from another GPU."""
        c, t = self.chunks, self.tiles
        gpu, chunk = c.piece_gpu[t.piece], c.piece_chunk[t.piece]
        is_remote = c.gpu[chunk] != gpu
        return t.tile[is_remote], self.copy_of(chunk[is_remote], gpu[is_remote])
