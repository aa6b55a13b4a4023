"""Talks to a store from a thread of its own, so that a store that stalls holds nobody up.

A client of torch's store waits for an answer for ever where the process that hosts the store is stopped.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["Keeper"]

T = TypeVar("T")


class Keeper:
    """Asks a store what it is told to ask, and calls `beat` every `interval_s` in between.

    Whoever asks waits for `patience_s` and then gets a RuntimeError, as where the store is gone.
    """

    def __init__(
        self, store: Any, beat: Callable[[Any], None], interval_s: float, patience_s: float, thread_name: str
    ) -> None:
        self._store, self._beat, self._interval_s, self._patience_s = store, beat, interval_s, patience_s
        self._questions: queue.SimpleQueue[tuple[Callable[[], object], Future[Any]] | None] = queue.SimpleQueue()
        self._is_stuck = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=thread_name, daemon=True)
        self._thread.start()

    def stop(self, patience_s: float) -> None:
        """End the thread, unless the store holds it up for longer than this."""
        self._stop.set()
        self._questions.put(None)
        self._thread.join(patience_s)

    def set(self, key: str, value: str) -> None:
        """Write."""
        self._ask(lambda: self._store.set(key, value))

    def get(self, key: str) -> bytes:
        """Read what has been written."""
        return self._ask(lambda: bytes(self._store.get(key)))

    def add(self, key: str, amount: int) -> int:
        """Count."""
        return self._ask(lambda: int(self._store.add(key, amount)))

    def check(self, key: str) -> bool:
        """Whether anything has been written."""
        return self._ask(lambda: bool(self._store.check([key])))

    def compare_set(self, key: str, value: str) -> bytes:
        """Write unless somebody has; what is there afterwards."""
        return self._ask(lambda: bytes(self._store.compare_set(key, "", value)))

    def _ask(self, question: Callable[[], T]) -> T:
        if self._is_stuck or self._stop.is_set():
            raise RuntimeError("the store does not answer")
        answer: Future[T] = Future()
        self._questions.put((question, answer))
        try:
            return answer.result(self._patience_s)
        except NoAnswer:
            self._is_stuck = True
            raise RuntimeError(f"the store did not answer within {self._patience_s:g} s") from None

    def _work(self) -> None:
        beat_s = time.monotonic()
        while not self._stop.is_set():
            try:
                asked = self._questions.get(timeout=max(0.0, beat_s - time.monotonic()))
            except queue.Empty:
                with suppress(RuntimeError):
                    self._beat(self._store)
                beat_s = time.monotonic() + self._interval_s
                self._is_stuck = False
                continue
            if asked is not None:
                question, answer = asked
                try:
                    answer.set_result(question())
                except Exception as error:  # whoever asked is told
                    answer.set_exception(error)
                self._is_stuck = False
        self._store = None
