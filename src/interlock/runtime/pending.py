"""Calls over one process group: in turn, and in the background on a thread, on devices on a stream of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch

if TYPE_CHECKING:
    import torch.distributed as dist

__all__ = ["Calls", "Pending", "Turns", "Worker", "turns_of"]


class Turns:
    """Numbers that are served one after the other. A number that was taken must be served."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._next = self._served = 0

    def take(self) -> int:
        """The place in the order of a call that is made now, whenever it is run."""
        with self._changed:
            self._next += 1
            return self._next - 1

    @contextmanager
    def at(self, number: int) -> Iterator[None]:
        """Wait until everything before `number` is over, then hold the others up."""
        with self._changed:
            while self._served != number:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._served += 1
                self._changed.notify_all()


_turns: WeakKeyDictionary[dist.ProcessGroup, Turns] = WeakKeyDictionary()
_making = threading.Lock()


def turns_of(group: dist.ProcessGroup) -> Turns:
    """The one order of everything that runs over a group: messages of two calls must not meet."""
    with _making:
        return _turns.setdefault(group, Turns())


class Pending:
    """A call that is under way; what comes after `wait` finds its output complete.

    On a device that is what the current stream does next: the host waits only until the call is queued.
    """

    def __init__(self, done: Future[None], queued: torch.cuda.Event | None = None) -> None:
        self._done, self._queued = done, queued

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Block until the output is complete, or the current stream will wait for it; errors are raised here."""
        self._done.result(None if timeout is None else timeout.total_seconds())
        if self._queued is not None:
            torch.cuda.current_stream().wait_event(self._queued)
        return True

    def is_completed(self) -> bool:
        """Whether the output is complete, or the call has failed."""
        if not self._done.done():
            return False
        return self._queued is None or self._done.exception() is not None or self._queued.query()  # type: ignore[no-untyped-call]


class Worker:
    """Runs calls in the background, one after the other; those on CUDA tensors on a stream of their own."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def submit(self, tensors: Sequence[torch.Tensor | None], call: Callable[[], object]) -> Pending:
        """Run a call that uses these tensors, ordered after all that the current stream has been given."""
        device = next((each.device for each in tensors if each is not None and each.is_cuda), None)
        if device is None:
            return Pending(self._pool.submit(_without_result, call))
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side, done = self._streams[device], torch.cuda.Event()  # type: ignore[no-untyped-call]
        before = torch.cuda.current_stream(device).record_event()
        for tensor in tensors:
            if tensor is not None and tensor.is_cuda:  # the allocator must not give it away meanwhile
                tensor.record_stream(side)

        def run() -> None:
            with torch.cuda.stream(side):
                side.wait_event(before)
                call()
                done.record(side)

        return Pending(self._pool.submit(run), done)

    def close(self) -> None:
        """Return when all calls are over."""
        self._pool.shutdown(wait=True)


class Calls:
    """Calls over one process group, in the order in which they are made, whoever makes them."""

    def __init__(self, group: dist.ProcessGroup, name: str) -> None:
        self._turns, self._worker = turns_of(group), Worker(name)

    def now(self) -> AbstractContextManager[None]:
        """The turn of a call that is made and run now, by this thread."""
        return self._turns.at(self._turns.take())

    def later(self, tensors: Sequence[torch.Tensor | None], call: Callable[[], object]) -> Pending:
        """Run a call that uses these tensors in its turn, after all that were made before, without waiting for it."""
        number = self._turns.take()

        def in_turn() -> None:
            with self._turns.at(number):
                call()

        return self._worker.submit(tensors, in_turn)

    def close(self) -> None:
        """Return when all calls in the background are over."""
        self._worker.close()


def _without_result(call: Callable[[], object]) -> None:
    call()
