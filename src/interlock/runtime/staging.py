"""Device tensors on a backend that reads host memory: staged through pinned memory, part by part, beside the network.

One copy engine brings the input down in order while the first messages are already on their way; another takes up what
has landed while the rest still comes. The host waits only for bytes that it must send.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from interlock.runtime.buffers import joined

if TYPE_CHECKING:
    import torch

__all__ = ["Landed", "Stager", "Staging"]

PART_BYTES = 4 << 20  # that the input comes down in: some 80 us of a copy engine, well above what starting one takes
LEAST_BYTES = 64 * 1024  # of a copy upwards before the end: smaller runs wait for their neighbours

Range = tuple[int, int]  # first byte and length


class Staging(Protocol):
    """What a flow tells of the bytes that it is about to read and has written."""

    def ready(self, begin: int, length: int) -> None:
        """Return when these bytes of the input are in host memory."""
        ...

    def landed(self, begin: int, length: int) -> None:
        """These bytes of the output are in host memory, for good."""
        ...

    def keep(self, begin: int, target_begin: int, length: int) -> None:
        """These bytes of the input belong into the output of the same rank."""
        ...


class Landed:
    """Runs of bytes that have landed, joined where they touch, handed on once there is enough."""

    def __init__(self, copy: Callable[[int, int], None], flush_bytes: int = PART_BYTES) -> None:
        self._copy, self._flush_bytes = copy, flush_bytes
        self._waiting: list[Range] = []
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, begin: int, length: int) -> None:
        """More has landed; any thread may say so."""
        with self._lock:
            self._waiting.append((begin, length))
            self._bytes += length
            if self._bytes >= self._flush_bytes:
                self._flush(LEAST_BYTES)

    def finish(self) -> None:
        """Hand on the rest."""
        with self._lock:
            self._flush(0)

    def _flush(self, least_bytes: int) -> None:
        runs = joined(sorted(self._waiting))
        for begin, length in runs:
            if length >= least_bytes:
                self._copy(begin, length)
        self._waiting = [run for run in runs if run[1] < least_bytes]
        self._bytes = 0


class Stager:
    """Stages one call at a time; `host_memory` gives pinned memory that is kept."""

    def __init__(self, host_memory: Callable[[str, int], torch.Tensor], device: torch.device) -> None:
        import torch

        self._host_memory = host_memory
        self._down, self._up = torch.cuda.Stream(device), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def begin(self, sent: torch.Tensor, received: torch.Tensor) -> Staged:
        """Start to bring down the input (flat uint8, as the output); ordered after the current stream."""
        import torch

        self._up.synchronize()  # nobody reads the host memory of the call before
        here = torch.cuda.current_stream(sent.device)
        for stream in (self._down, self._up):
            stream.wait_stream(here)
        for tensor in (sent, received):  # the allocator must not give them away meanwhile
            tensor.record_stream(self._down)
            tensor.record_stream(self._up)
        source = self._host_memory("input", sent.numel())
        target = self._host_memory("output", received.numel())
        arrivals = []
        with torch.cuda.stream(self._down):
            for begin in range(0, sent.numel(), PART_BYTES):
                length = min(PART_BYTES, sent.numel() - begin)
                source.narrow(0, begin, length).copy_(sent.narrow(0, begin, length), non_blocking=True)
                arrivals.append(self._down.record_event())
        return Staged(sent, received, source, target, arrivals, self._up)


class Staged:
    """A call that is staged: `source` and `target` are host memory."""

    def __init__(
        self,
        sent: torch.Tensor,
        received: torch.Tensor,
        source: torch.Tensor,
        target: torch.Tensor,
        arrivals: Sequence[torch.cuda.Event],
        up: torch.cuda.Stream,
    ) -> None:
        self.source, self.target = source, target
        self._sent, self._received, self._arrivals, self._up = sent, received, arrivals, up
        self._landed = Landed(self._copy_up)

    def ready(self, begin: int, length: int) -> None:
        """As `Staging` says; parts come down in order, so the last one says all."""
        if length > 0:
            self._arrivals[(begin + length - 1) // PART_BYTES].synchronize()

    def landed(self, begin: int, length: int) -> None:
        """As `Staging` says."""
        self._landed.add(begin, length)

    def keep(self, begin: int, target_begin: int, length: int) -> None:
        """As `Staging` says: they never leave the device."""
        import torch

        with torch.cuda.stream(self._up):
            self._received.narrow(0, target_begin, length).copy_(self._sent.narrow(0, begin, length))

    def finish(self) -> None:
        """Everything has landed: the current stream goes on once it is on the device. The host does not wait."""
        import torch

        self._landed.finish()
        torch.cuda.current_stream(self._sent.device).wait_stream(self._up)

    def _copy_up(self, begin: int, length: int) -> None:
        import torch

        with torch.cuda.stream(self._up):
            self._received.narrow(0, begin, length).copy_(self.target.narrow(0, begin, length), non_blocking=True)
