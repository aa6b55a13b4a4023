"""A slow, obvious interpreter of work lists: what `kernels/executor.cu` does, warp by warp, on NumPy arrays."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from interlock.gpu.rows import NUM_BUFFERS, ChunkAction
from interlock.gpu.work import WorkList

Bytes = NDArray[np.uint8]


@dataclass
class Machine:
    """Buffers and flags of all ranks, kept between launches."""

    spaces: list[Bytes]  # [ranks * 3]
    flags: Mapping[int, NDArray[np.uint32]]  # by rank
    epoch: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    def launch(self, works: Sequence[WorkList], num_warps: int) -> None:
        """Run the lists at once, each on `num_warps` warps that go on in a random order; fails if they get stuck."""
        self.epoch += 1
        queues = [queue for work in works for queue in _queues(work, num_warps)]
        while queues:
            self.rng.shuffle(queues)
            able = [queue for queue in queues if self._may_go(*queue[-1])]
            assert able, "every warp waits: " + queues[0][-1][0].describe(queues[0][-1][1], 0)
            # Those that go on at the same time all read before any of them writes.
            going = [queue.pop() for queue in able[: max(1, len(able) // 2)]]
            read = [self._read(*step) for step in going]
            for step, values in zip(going, read, strict=True):
                self._write(*step, values)
            queues = [queue for queue in queues if queue]

    def _may_go(self, work: WorkList, number: int) -> bool:
        chunk = work.chunks[number]
        waits = work.waits[chunk["first_wait"] : chunk["end_wait"]]
        flags = self.flags[int(chunk["rank"])]
        return all(int(flags[wait["flag"]]) >= int(wait["needed"]) * self.epoch for wait in waits)

    def _read(self, work: WorkList, number: int) -> Bytes:
        chunk = work.chunks[number]
        size = int(chunk["bytes"])
        if chunk["kind"] in (ChunkAction.NOTHING, ChunkAction.ZERO):
            return np.zeros(size, np.uint8)
        source = self.spaces[chunk["source_space"]][int(chunk["source"]) :][:size]
        assert len(source) == size
        if chunk["kind"] == ChunkAction.COPY:
            return source.copy()
        return source + self.spaces[chunk["target_space"]][int(chunk["target"]) :][:size]

    def _write(self, work: WorkList, number: int, values: Bytes) -> None:
        chunk = work.chunks[number]
        if chunk["kind"] != ChunkAction.NOTHING:
            self.spaces[chunk["target_space"]][int(chunk["target"]) :][: len(values)] = values
        if chunk["signal"] >= 0:
            self.flags[int(chunk["rank"])][chunk["signal"]] += 1
        if chunk["arrival"] >= 0:
            self.flags[int(chunk["arrival_rank"])][chunk["arrival"]] += 1


def _queues(work: WorkList, num_warps: int) -> list[list[tuple[WorkList, int]]]:
    """Chunks of each warp, the next one last."""
    dealt = [range(len(work.chunks))[warp::num_warps] for warp in range(num_warps)]
    return [[(work, number) for number in reversed(chunks)] for chunks in dealt if len(chunks)]


def buffers(input_bytes: int, output_bytes: int, scratch_bytes: int, rng: np.random.Generator) -> list[Bytes]:
    """A rank's input, output and scratch, all filled with noise."""
    sizes = (input_bytes, output_bytes, scratch_bytes)
    assert len(sizes) == NUM_BUFFERS
    return [rng.integers(0, 256, size, np.uint8) for size in sizes]
