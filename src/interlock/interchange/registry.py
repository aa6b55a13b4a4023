"""All formats by name, and how a file is recognised. A new format is a folder and its name in `FOLDERS`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from interlock.errors import InvalidInput, nearest
from interlock.interchange.contract import ExportReport, ForeignSchedule, Format, Intent
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["FORMATS", "export_schedule", "format_of", "get_format", "read_foreign"]

SNIFFED_BYTES = 4096
FOLDERS = ("msccl", "mscclpp", "chakra", "tacos", "htsim", "nccl_tests", "chrome_trace")  # asked in this order
_MADE: list[Format] = [import_module(f"interlock.interchange.{folder}").FORMAT for folder in FOLDERS]
FORMATS: dict[str, Format] = {made.name: made for made in _MADE}


def get_format(name: str) -> Format:
    """The format of that name."""
    if not isinstance(name, str) or name not in FORMATS:
        raise InvalidInput(f"unknown format {name!r}; {nearest(name, FORMATS)}")
    return FORMATS[name]


def export_schedule(
    name: str, schedule: Schedule, problem: Problem, path: str | Path, **options: object
) -> ExportReport:
    """Write a schedule in a format; it is only read, and the file is written whole or not at all.

    Parameters
    ----------
    name
        One of `FORMATS`.
    options
        ``chunk_bytes`` for formats of equal chunks; ``flavor`` ("rccl", "azure", "msccl") for MSCCL XML;
        ``start_s`` and ``finish_s`` for timelines.
    """
    chosen = get_format(name)
    if problem.step is not None and not chosen.holds_steps:
        others = " or ".join(made.name for made in FORMATS.values() if made.holds_steps)
        raise InvalidInput(f"{name} holds one collective, not a step; a step is written as {others}")
    return chosen.write(schedule, problem, Path(path), **options)


def read_foreign(path: str | Path, intent: Intent | None = None, format_name: str | None = None) -> ForeignSchedule:
    """Read another tool's schedule; the format is recognised by its contents unless it is named."""
    file = Path(path)
    chosen = get_format(format_name) if format_name is not None else format_of(file)
    return chosen.read(file, intent or Intent())


def format_of(path: Path) -> Format:
    """The format a file seems to be in."""
    start = ""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(SNIFFED_BYTES).decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    for made in FORMATS.values():
        if made.recognises(path, start):
            return made
    if not path.exists():
        raise InvalidInput(f"{path}: no such file")
    raise InvalidInput(f"{path} is in no format that is known here; name it with --format ({', '.join(FORMATS)})")
