"""Bytes that stay at their rank, copied beside something that waits for others."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["Stays"]

LEAST_BYTES = 1 << 18  # to hand over to a thread takes as long as to copy about this many


class Stays:
    """One thread that copies; it is started when it is first needed."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None

    def begin(self, source: torch.Tensor, target: torch.Tensor) -> Callable[[], float] | None:
        """Start to copy; what is returned waits for the end and gives the seconds it took. None where it is too little.

        On a device the copy is queued before what comes later, and nothing waits here.
        """
        if source.numel() < LEAST_BYTES:
            return None
        if source.is_cuda:
            target.copy_(source, non_blocking=True)
            return lambda: 0.0
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interlock-stays")
        copying: Future[float] = self._thread.submit(_copy, source, target)
        return copying.result

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)


def _copy(source: torch.Tensor, target: torch.Tensor) -> float:
    start_s = time.perf_counter()
    target.copy_(source)
    return time.perf_counter() - start_s
