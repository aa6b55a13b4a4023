"""All formats by name, what each can do, and how a file is recognised. A new format is a line in `FORMATS`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.errors import InvalidInput, nearest
from interlock.interchange.foreign import ForeignSchedule, Intent
from interlock.interchange.report import ExportReport
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["FORMATS", "Format", "export_schedule", "format_of", "get_format", "read_foreign"]

SNIFFED_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Format:
    """A file format of another tool."""

    name: str
    summary: str
    writer: str  # module:function
    reader: str
    has_chunks: bool = False  # bytes become equal chunks; takes chunk_bytes
    is_folder: bool = False
    is_readable: bool = True  # holds schedules that can be read back
    needs_times: bool = False  # takes simulated times
    streams: bool = False  # writes a million messages without holding the text

    def write(self, schedule: Schedule, problem: Problem, path: Path, **options: object) -> ExportReport:
        """Write a schedule; options are the format's own."""
        made = _function(self.writer)(schedule, problem, path, **options)
        assert isinstance(made, ExportReport)
        return made

    def read(self, path: Path, intent: Intent) -> ForeignSchedule:
        """Read a file."""
        made = _function(self.reader)(path, intent)
        assert isinstance(made, ForeignSchedule)
        return made


FORMATS = {
    made.name: made
    for made in (
        Format(
            "msccl-xml",
            "algorithms for RCCL and MSCCL",
            "msccl_write:write_msccl_xml",
            "msccl_read:read_msccl_xml",
            has_chunks=True,
        ),
        Format(
            "mscclpp-json",
            "execution plans for MSCCL++",
            "mscclpp_write:write_mscclpp_json",
            "mscclpp_read:read_mscclpp_json",
            has_chunks=True,
        ),
        Format(
            "chakra",
            "execution traces and ASTRA-sim configurations, in a folder",
            "chakra_write:write_chakra",
            "chakra_read:read_chakra",
            is_folder=True,
            streams=True,
        ),
        Format(
            "tacos-csv",
            "chunks per link, as TACOS 1.1 writes them",
            "tacos_csv:write_tacos_csv",
            "tacos_csv:read_tacos_csv",
            has_chunks=True,
            streams=True,
        ),
        Format("htsim", "connection matrix for htsim", "htsim:write_htsim", "htsim:read_htsim", streams=True),
        Format(
            "nccl-tests",
            "byte matrix for nccl-tests' alltoallv",
            "nccl_matrix:write_nccl_matrix",
            "nccl_matrix:read_nccl_matrix",
            is_readable=False,
            streams=True,
        ),
        Format(
            "chrome-trace",
            "simulated timeline for Perfetto",
            "chrome_trace:write_chrome_trace",
            "chrome_trace:read_chrome_trace",
            is_readable=False,
            needs_times=True,
            streams=True,
        ),
    )
}


def get_format(name: str) -> Format:
    """The format of that name."""
    if name not in FORMATS:
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
        ``chunk_bytes`` for formats of equal chunks; ``start_s`` and ``finish_s`` for timelines.
    """
    return get_format(name).write(schedule, problem, Path(path), **options)


def read_foreign(path: str | Path, intent: Intent | None = None, format_name: str | None = None) -> ForeignSchedule:
    """Read another tool's schedule; the format is recognised by its contents unless it is named."""
    file = Path(path)
    chosen = get_format(format_name) if format_name is not None else format_of(file)
    return chosen.read(file, intent or Intent())


def format_of(path: Path) -> Format:
    """The format a file seems to be in."""
    if path.is_dir() or path.suffix == ".et":
        return FORMATS["chakra"]
    if not path.is_file():
        if path.parent.is_dir() and any(path.parent.glob(f"{path.name}.*.et")):
            return FORMATS["chakra"]
        raise InvalidInput(f"{path}: no such file")
    with path.open("rb") as file:
        start = file.read(SNIFFED_BYTES)
    text = start.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text.startswith("<"):
        return FORMATS["msccl-xml"]
    if text.startswith(("{", "[")):
        return FORMATS["chrome-trace" if '"traceEvents"' in text else "mscclpp-json"]
    if text.startswith("NPUs Count"):
        return FORMATS["tacos-csv"]
    if any(line.startswith("Nodes ") for line in text.splitlines()[:64]):
        return FORMATS["htsim"]
    words = text.split("\n", 1)[0].replace(",", " ").split()
    if words and all(word.isdigit() for word in words):
        return FORMATS["nccl-tests"]
    raise InvalidInput(f"{path} is in no format that is known here; name it with --format ({', '.join(FORMATS)})")


def _function(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(f"interlock.interchange.{module}"), name)
    return found
