"""Calls over one process group, one at a time, in the order in which they were made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import torch.distributed as dist

__all__ = ["Turns", "turns_of"]


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

    def next(self) -> AbstractContextManager[None]:
        """A call that is made and run now, by this thread."""
        return self.at(self.take())


_turns: WeakKeyDictionary[dist.ProcessGroup, Turns] = WeakKeyDictionary()
_making = threading.Lock()


def turns_of(group: dist.ProcessGroup) -> Turns:
    """The one order of everything that runs over a group: messages of two calls must not meet."""
    with _making:
        return _turns.setdefault(group, Turns())
