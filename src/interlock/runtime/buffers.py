"""What a program does to its buffers: copies and sums on flat uint8 tensors, and the memory they live in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.runtime.program import Copy, Program, Receive

if TYPE_CHECKING:
    import torch

__all__ = ["Arena", "copy", "start", "unpack"]

Buffers = Sequence["torch.Tensor"]


def start(program: Program, buffers: Buffers) -> None:
    """Give every accumulator its first value."""
    for buffer, begin, length in program.start_zeros:
        buffers[buffer].narrow(0, begin, length).zero_()
    copy(program.start_copies, buffers)


def copy(copies: Sequence[Copy], buffers: Buffers) -> None:
    """Copy runs of bytes between buffers."""
    for source, begin, target, target_begin, length in copies:
        buffers[target].narrow(0, target_begin, length).copy_(buffers[source].narrow(0, begin, length))


def unpack(receive: Receive, buffers: Buffers, element: torch.dtype | None) -> None:
    """Put what has landed where it belongs; `element` is the type to add with where the message adds."""
    if not receive.adds:
        copy(receive.unpacking, buffers)
        return
    assert element is not None
    for source, begin, target, target_begin, length in receive.unpacking:
        total = buffers[target].narrow(0, target_begin, length).view(element)
        total.add_(buffers[source].narrow(0, begin, length).view(element))


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
