"""Tables of any width, JSON, CSV and progress for the terminal."""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

__all__ = [
    "command_line",
    "print_csv",
    "print_json",
    "print_notes",
    "print_table",
    "progress_of",
    "share_of",
    "table_lines",
]

GAP = "  "  # between columns
LEAST_WORDS = 16  # columns of a terminal that broken words need; with less, a table becomes a list


def command_line() -> str:
    """The command as it was typed, for pages that say how they were made."""
    return shlex.join(["interlock", *sys.argv[1:]])


def print_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    drop: Sequence[str] = (),
    wrap: Sequence[str] = (),
) -> list[str]:
    """A table that fits the terminal; all of it where the output is a pipe. Returns the columns that are shown.

    Parameters
    ----------
    drop
        Columns that go where there is no room, first first. No number and no name is ever cut.
    wrap
        Columns of text, which may be broken between words.
    """
    is_bold = (sys.stdout.isatty() and os.environ.get("TERM") != "dumb") or bool(os.environ.get("FORCE_COLOR"))
    kept, lines = table_lines(header, rows, _width(), drop, wrap)
    print_notes([title])
    for place, line in enumerate(lines):
        print(f"\x1b[1m{line}\x1b[0m" if place == 0 and is_bold and any(header) else line)
    print_notes(notes)
    return kept


def print_notes(notes: Sequence[str]) -> None:
    """Sentences, broken between words where a terminal is narrower."""
    for note in notes:
        for line in _wrapped(note, _width()):
            print(line)


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    drop: Sequence[str] = (),
    wrap: Sequence[str] = (),
) -> tuple[list[str], list[str]]:
    """The columns that fit into `width`, and the lines of the table; a list of facts per row where not even few fit."""
    is_pairs = not any(header)  # names and facts
    kept = list(range(len(header)))
    going = [header.index(name) for name in drop if name in header]
    while width is not None and going and _needs(header, rows, kept) > width:
        kept.remove(going.pop(0))
    widths = [max(len(cell) for cell in _column(header, rows, k)) for k in kept]
    loose = [place for place, k in enumerate(kept) if header[k] in wrap or (is_pairs and place)]
    over = 0 if width is None else sum(widths) + len(GAP) * (len(kept) - 1) - width
    for place in sorted(loose, key=lambda p: -widths[p]):
        less = min(over, max(0, widths[place] - LEAST_WORDS))
        widths[place], over = widths[place] - less, over - less
    if width is not None and over > 0:
        return [header[k] for k in kept], _facts(header, rows, kept, width)
    left = {0, *loose}
    lines = []
    for row in [header, *rows] if not is_pairs else rows:
        cells = [
            textwrap.wrap(row[k], w, break_on_hyphens=False) or [""] if place in loose else [row[k]]
            for place, (k, w) in enumerate(zip(kept, widths, strict=True))
        ]
        for line in range(max(map(len, cells))):
            parts = [cell[line] if line < len(cell) else "" for cell in cells]
            shown = [p.ljust(w) if place in left else p.rjust(w) for place, (p, w) in enumerate(_pairs(parts, widths))]
            lines.append(GAP.join(shown).rstrip())
    return [header[k] for k in kept], lines


def _pairs(parts: list[str], widths: list[int]) -> list[tuple[str, int]]:
    return list(zip(parts, widths, strict=True))


def _column(header: Sequence[str], rows: Sequence[Sequence[str]], k: int) -> list[str]:
    return [header[k], *(row[k] for row in rows)]


def _needs(header: Sequence[str], rows: Sequence[Sequence[str]], kept: list[int]) -> int:
    return sum(max(map(len, _column(header, rows, k))) for k in kept) + len(GAP) * (len(kept) - 1)


def _facts(header: Sequence[str], rows: Sequence[Sequence[str]], kept: list[int], width: int) -> list[str]:
    """A row after the other, a fact per line."""
    lines = ["; ".join(header[k] for k in kept)]
    for row in rows:
        lines += [row[kept[0]], *(f"  {header[k]} {row[k]}" for k in kept[1:])]
    wrapper = textwrap.TextWrapper(width, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    return [part for line in lines for part in wrapper.wrap(line)]


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    return [part for line in text.split("\n") for part in textwrap.wrap(line, width, break_on_hyphens=False) or [""]]


def print_json(values: object) -> None:
    """Strict JSON: numbers that are not finite become null."""
    print(json.dumps(_finite(values), indent=2, allow_nan=False))


def print_csv(rows: Sequence[Mapping[str, object]]) -> None:
    """Rows by column name, numbers as they are."""
    from interlock.comparison import csv_text

    print(csv_text(rows), end="")


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
        begun = 0

        def step(name: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=f"{what}: {name}")
            begun += 1

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


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
