"""Tables, JSON and progress for the terminal."""

from __future__ import annotations

import json
import math
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import BinaryIO

__all__ = ["command_line", "interruptions", "print_json", "print_table", "progress_of", "share_of", "write_text"]


def command_line() -> str:
    """The command as it was typed, for pages that say how they were made."""
    return shlex.join(["interlock", *sys.argv[1:]])


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
    """A table on a terminal; plain text where the output is a pipe."""
    from rich.console import Console
    from rich.table import Table

    is_terminal = sys.stdout.isatty()
    console = Console(soft_wrap=not is_terminal, width=None if is_terminal else 200, emoji=False, markup=False)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(header):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for note in notes:
        console.print(note, highlight=False, markup=False)


def print_json(values: object) -> None:
    """Strict JSON: numbers that are not finite become null."""
    print(json.dumps(_finite(values), indent=2, allow_nan=False))


@contextmanager
def progress_of(total: int, what: str) -> Iterator[Callable[[str], None]]:
    """A callback that shows the step now under way; silent unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def step(name: str) -> None:
            bar.update(task, advance=1, description=f"{what}: {name}")

        yield step


@contextmanager
def share_of(what: str) -> Iterator[Callable[[float], None]]:
    """A callback that shows the share of the work done, 0 to 1; silent unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{what} (Ctrl-C ends it with the best so far)", total=1.0)
        yield lambda share: bar.update(task, completed=share)


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


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    from interlock.schedule import write_atomically

    def write(file: BinaryIO) -> None:
        file.write(text.encode())

    write_atomically(path, write)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
