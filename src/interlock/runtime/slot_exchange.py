"""Small calls in one go: every rank's row of numbers travels with its bytes, in equal slots of one All-to-All.

An exchange of the demand before the bytes costs as much as small bytes themselves. Where the demand before was small
and not worth a plan, the next one probably is too, and all ranks know it: each sends its row and up to `room` bytes to
every rank. Rows are checked as ever before anything is handed out; bytes that did not fit are moved as if they had not
been sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.runtime.peers import backend_errors

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist
    from torch.distributed import AllToAllOptions

__all__ = ["SlotExchange", "all_to_all_natively", "fits_slots", "room_for"]

LEAST_ROOM_BYTES, MOST_ROOM_BYTES = 256, 8192  # of a slot
NUMBER_BYTES = 8


def fits_slots(width: int) -> bool:
    """Whether rows of `width` numbers are short enough to be sent to every rank with its bytes."""
    return width * NUMBER_BYTES <= MOST_ROOM_BYTES


def room_for(most_bytes: int) -> int:
    """Bytes of a slot for demands like one whose largest part is `most_bytes`; 0 where slots do not pay."""
    if most_bytes > MOST_ROOM_BYTES:
        return 0
    return max(LEAST_ROOM_BYTES, 1 << max(0, most_bytes - 1).bit_length())


class SlotExchange:
    """Slots for rows of `width` numbers and bytes, over one process group whose tensors live in host memory."""

    def __init__(self, group: dist.ProcessGroup, width: int) -> None:
        self._group, self._width = group, width
        self._leaving, self._arrived = (_Slots.empty(group.size(), width, 0) for _ in range(2))

    def share(
        self, row: Sequence[int], sizes: Sequence[int], source: torch.Tensor | None, room_bytes: int
    ) -> NDArray[np.int64]:
        """All rows, ``[num_ranks, width]``, until the next call.

        On the way go bytes of `source`, cut by `sizes`, where all of them fit.
        """
        if self._leaving.room_bytes != room_bytes:
            self._leaving, self._arrived = (_Slots.empty(self._group.size(), self._width, room_bytes) for _ in range(2))
        self._leaving.rows[:] = row
        if source is not None and max(sizes, default=room_bytes + 1) <= room_bytes:
            self._leaving.fill(source, sizes)
        all_to_all_natively(self._group, self._arrived.memory, self._leaving.memory, [], [])
        return self._arrived.rows

    def use(self, group: dist.ProcessGroup) -> None:
        """Go over other connections between the same ranks from now on."""
        self._group = group

    def hand_out(self, sizes: Sequence[int], target: torch.Tensor) -> None:
        """Copy the bytes that came into `target`, end to end."""
        self._arrived.empty_into(target, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class _Slots:
    """Memory of one slot per rank: a row of numbers, then room for bytes."""

    memory: torch.Tensor  # uint8[num_ranks, slot]
    rows: NDArray[np.int64]  # [num_ranks, width], in the same memory
    rooms: torch.Tensor  # uint8[num_ranks, room_bytes], in the same memory
    room_bytes: int

    @classmethod
    def empty(cls, num_ranks: int, width: int, room_bytes: int) -> _Slots:
        """Fresh memory."""
        import torch

        head_bytes = NUMBER_BYTES * width
        memory = torch.zeros((num_ranks, head_bytes + room_bytes), dtype=torch.uint8)
        rows = memory.numpy()[:, :head_bytes].view(np.int64)
        return cls(memory, rows, memory[:, head_bytes:], room_bytes)

    def fill(self, source: torch.Tensor, sizes: Sequence[int]) -> None:
        """Put the bytes of `source`, cut by `sizes`, into the rooms."""
        if min(sizes) == max(sizes):
            self.rooms.narrow(1, 0, sizes[0]).copy_(source.view(len(sizes), sizes[0]))
            return
        for room, part in zip(self.rooms, source.split_with_sizes(list(sizes)), strict=True):
            room.narrow(0, 0, part.numel()).copy_(part)

    def empty_into(self, target: torch.Tensor, sizes: Sequence[int]) -> None:
        """What `fill` did, undone."""
        if min(sizes) == max(sizes):
            target.view(len(sizes), sizes[0]).copy_(self.rooms.narrow(1, 0, sizes[0]))
            return
        for room, part in zip(self.rooms, target.split_with_sizes(list(sizes)), strict=True):
            part.copy_(room.narrow(0, 0, part.numel()))


def all_to_all_natively(
    group: dist.ProcessGroup,
    output: torch.Tensor,
    source: torch.Tensor,
    output_splits: list[int],
    input_splits: list[int],
) -> None:
    """The backend's own call, without the checks and logging around it."""
    with backend_errors():
        work = group.alltoall_base(output, source, output_splits, input_splits, _blocking())
        if work is not None:
            work.wait()


@cache
def _blocking() -> AllToAllOptions:
    """Options of a call that is waited for."""
    from torch.distributed import AllToAllOptions

    options = AllToAllOptions()
    options.asyncOp = False
    return options
