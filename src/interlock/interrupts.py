"""Ctrl-C: noted while some work answers it itself, and a hard end where work does not answer it in time."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from interlock.files import remove_unfinished

__all__ = [
    "EXIT_CODE",
    "answered_by_work",
    "cleaned_up",
    "interruption_message",
    "interruptions",
    "keep",
    "starting_processes",
    "watch",
]

EXIT_CODE = 130  # 128 + SIGINT, as shells count
GRACE_S = 0.6  # for the stack to unwind; then the process ends, whatever native code it is in

_answering: list[int] = []  # one entry per `answered_by_work` that is open: how many Ctrl-C it still answers
_cleaning: list[tuple[str, Callable[[], None]]] = []  # what must be removed even at a hard end, and what to print then
_kept = ["what was not yet whole is not written"]


def keep(what: str) -> None:
    """From now on, this is what an interruption leaves behind."""
    _kept[:] = [what]


def interruption_message() -> str:
    """What a command says when it is interrupted."""
    return f"interlock: interrupted; {_kept[0]}"


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """A list that grows with every Ctrl-C meanwhile, also with those that the work itself answers."""
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def answered_by_work(times: int = 1) -> Iterator[None]:
    """The first Ctrl-C, or the first few, may take as long as the work needs: to hand out what it has, to clean up."""
    _answering.append(times)
    try:
        yield
    finally:
        _answering.pop()


@contextmanager
def cleaned_up(message: str, clean: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C prints the message at once; where the process ends hard, `clean` is called first, from another thread."""
    _cleaning.append((message, clean))
    try:
        yield
    finally:
        _cleaning.pop()


@contextmanager
def starting_processes() -> Iterator[None]:
    """Ctrl-C waits meanwhile: it would end a new process in the middle of its imports, or leave a pool half started.

    Processes come with the signal blocked, until they let it through themselves.
    """
    from multiprocessing import resource_tracker  # here, for it takes 10 ms that most commands can spare

    resource_tracker.ensure_running()  # before: where it starts it lets Ctrl-C through again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        with _put_off():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _put_off() -> Iterator[None]:
    """Ctrl-C is answered at the end: a thread that does not block it, as those of numpy, may hear it meanwhile."""
    answer = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(answer):
        yield
        return
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, answer)
        if heard:
            signal.raise_signal(signal.SIGINT)  # pending until the mask lets it through


def watch() -> None:
    """From now on Ctrl-C ends this process within a second, even where nothing looks at it. Called by `main` only.

    Signals reach Python code between two of its instructions, which native code may put off for minutes, and a search
    may answer them by going on. A thread hears of them at once, waits a moment, and ends the process.
    """
    out, into = os.pipe()
    os.set_blocking(into, False)
    signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(out,), daemon=True).start()


def _listen(out: int) -> None:
    while numbers := os.read(out, 64):
        for number in numbers:
            if number != signal.SIGINT:
                continue
            if _answering and _answering[-1] > 0:
                _answering[-1] -= 1
                continue
            for said, _ in _cleaning:
                _write(said)
            time.sleep(GRACE_S)
            remove_unfinished()
            for _, clean in reversed(_cleaning):
                clean()
            _write(interruption_message())
            os._exit(EXIT_CODE)


def _write(line: str) -> None:
    if sys.stderr.isatty():
        os.write(2, b"\r\x1b[2K\x1b[?25h")  # the progress bar's line, and the cursor that it hid
    os.write(2, f"{line}\n".encode())
