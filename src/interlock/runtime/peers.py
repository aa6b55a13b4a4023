"""What goes wrong with peers: the backend's errors under one name, and how to let go of everybody."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch.distributed as dist

__all__ = ["FIRST_TAG", "MoveFailed", "backend_errors", "gather_bytes", "poison"]

FIRST_TAG = 1 << 28  # of our messages: away from tags a program uses for its own


class MoveFailed(Exception):
    """The backend gave up on a peer; `waiting_on` are the ranks whose messages never came."""

    def __init__(self, message: str, waiting_on: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.waiting_on = tuple(waiting_on)


class backend_errors:  # noqa: N801
    """Turns what a backend raises about a peer into MoveFailed.

    A class and not a generator, because it is entered for every message.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RuntimeError):
            raise MoveFailed(str(error)) from error


def poison(group: dist.ProcessGroup) -> None:
    """Close every connection of the group, so that no peer waits for this rank any longer.

    gloo has no call for it, but a wait that times out does exactly that.
    """
    import torch

    if group.size() == 1 or group.name() != "gloo":
        return
    empty = torch.zeros(1, dtype=torch.uint8)
    try:
        group.recv([empty], (group.rank() + 1) % group.size(), FIRST_TAG - 1).wait(timedelta(milliseconds=1))
    except RuntimeError:
        return


def gather_bytes(group: dist.ProcessGroup, own: bytes) -> list[bytes]:
    """A few bytes of every rank, for every rank; also a barrier.

    As plain numbers, lengths first: torch's own call for objects would unpickle, and so run, what a peer sends.
    """
    import torch
    import torch.distributed as dist

    device = "cpu" if group.name() == "gloo" else "cuda"
    length = torch.tensor([len(own)], device=device)
    lengths = [torch.zeros_like(length) for _ in range(group.size())]
    dist.all_gather(lengths, length, group=group)
    sizes = [int(told.item()) for told in lengths]
    padded = torch.tensor(list(own.ljust(max(sizes), b"\0")), dtype=torch.uint8, device=device)
    told = [torch.zeros_like(padded) for _ in sizes]
    dist.all_gather(told, padded, group=group)
    return [bytes(part.cpu().tolist())[:size] for part, size in zip(told, sizes, strict=True)]
