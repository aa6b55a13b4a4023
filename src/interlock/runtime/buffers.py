"""What a program does to its buffers: copies and sums on flat uint8 tensors, and the memory they live in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from interlock.schedule import Buffer

if TYPE_CHECKING:
    import torch

__all__ = ["Arena", "Combine", "combining", "copy_own", "joined", "pack", "ranges", "start", "unpack"]

Buffers = Sequence["torch.Tensor"]
Combine = Callable[["torch.Tensor", "torch.Tensor"], None]  # a sum so far and what joins it, both flat uint8
Columns = Mapping[str, list[int]]  # of a program, as lists


def start(columns: Columns, buffers: Buffers) -> None:
    """Give every accumulator its first value."""
    for buffer, begin, length in zip(columns["zero_buffer"], columns["zero_start"], columns["zero_bytes"], strict=True):
        buffers[buffer].narrow(0, begin, length).zero_()
    moves = (columns[f"start_{name}"] for name in ("from", "buffer", "to", "bytes"))
    for begin, target, target_begin, length in zip(*moves, strict=True):
        _copy(buffers[Buffer.INPUT], begin, buffers[target], target_begin, length)


def copy_own(columns: Columns, buffers: Buffers) -> None:
    """Copy the bytes that stay at this rank."""
    for begin, target_begin, length in zip(*(columns[f"own_{name}"] for name in ("from", "to", "bytes")), strict=True):
        _copy(buffers[Buffer.INPUT], begin, buffers[Buffer.OUTPUT], target_begin, length)


def pack(columns: Columns, send: int, buffers: Buffers) -> None:
    """Bring the bytes of a send together."""
    for move in range(columns["pack_offsets"][send], columns["pack_offsets"][send + 1]):
        source, begin = buffers[columns["pack_buffer"][move]], columns["pack_start"][move]
        _copy(source, begin, buffers[Buffer.SCRATCH], columns["pack_to"][move], columns["pack_bytes"][move])


def combining(element: torch.dtype, operation: str = "sum") -> Combine:
    """Elements of a type summed, or their largest ("max") or smallest ("min") kept."""
    import torch

    def combine(total: torch.Tensor, landed: torch.Tensor) -> None:
        held, more = total.view(element), landed.view(element)
        if operation == "sum":
            held.add_(more)
        else:
            (torch.maximum if operation == "max" else torch.minimum)(held, more, out=held)

    return combine


def unpack(columns: Columns, receive: int, buffers: Buffers, combine: Combine | None) -> None:
    """Put what has landed where it belongs; `combine` is how it joins what is there where the message adds."""
    landed, adds = buffers[columns["receive_buffer"][receive]], columns["receive_adds"][receive]
    for move in range(columns["unpack_offsets"][receive], columns["unpack_offsets"][receive + 1]):
        begin, length = columns["unpack_start"][move], columns["unpack_bytes"][move]
        target, target_begin = buffers[columns["unpack_buffer"][move]], columns["unpack_to"][move]
        if not adds:
            _copy(landed, begin, target, target_begin, length)
            continue
        assert combine is not None
        combine(target.narrow(0, target_begin, length), landed.narrow(0, begin, length))


def ranges(columns: Columns, end: str, place: int, buffer: Buffer) -> Iterator[tuple[int, int]]:
    """First byte and length of what a send reads of a buffer, or a receive leaves in one."""
    if columns[f"{end}_buffer"][place] == buffer:
        yield columns[f"{end}_start"][place], columns[f"{end}_bytes"][place]
    moves, start = ("pack", "pack_start") if end == "send" else ("unpack", "unpack_to")
    for move in range(columns[f"{moves}_offsets"][place], columns[f"{moves}_offsets"][place + 1]):
        if columns[f"{moves}_buffer"][move] == buffer:
            yield columns[start][move], columns[f"{moves}_bytes"][move]


def joined(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """First bytes and lengths, those that touch the one before as one with it."""
    runs: list[tuple[int, int]] = []
    for begin, length in places:
        if runs and sum(runs[-1]) == begin:
            runs[-1] = runs[-1][0], runs[-1][1] + length
        else:
            runs.append((begin, length))
    return runs


def _copy(source: torch.Tensor, begin: int, target: torch.Tensor, target_begin: int, length: int) -> None:
    target.narrow(0, target_begin, length).copy_(source.narrow(0, begin, length))


class Arena:
    """Memory that is kept between calls and grows when a call needs more."""

    def __init__(self) -> None:
        self._held: dict[str, torch.Tensor] = {}

    def take(self, name: str, size_bytes: int, device: torch.device, *, pinned: bool = False) -> torch.Tensor:
        """A flat uint8 tensor of at least one byte; the same memory every time unless it must grow."""
        import torch

        held = self._held.get(name)
        if held is None or held.numel() < size_bytes or held.device != device:
            # Half as much again, so that sizes that creep up do not reallocate at every step.
            room = max(64, size_bytes + size_bytes // 2)
            held = self._held[name] = torch.empty(room, dtype=torch.uint8, device=device, pin_memory=pinned)
        return held.narrow(0, 0, max(1, size_bytes))

    @property
    def size_bytes(self) -> int:
        """Bytes held."""
        return sum(held.numel() for held in self._held.values())
