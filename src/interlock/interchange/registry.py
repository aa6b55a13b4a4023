"""All formats by name, and how a file is recognised. A new format is a module and its entry in the table."""

from __future__ import annotations

from pathlib import Path

from interlock.errors import InvalidInput, named
from interlock.interchange.contract import ExportReport, ForeignSchedule, Format, Intent, rows_of
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["FORMATS", "export_schedule", "format_of", "get_format", "read_foreign"]

SNIFFED_BYTES = 4096
HERE = "interlock.interchange"


def _is_chakra(path: Path, start: str) -> bool:
    """A folder, a trace, or the name that traces of ranks share."""
    if path.is_dir() or path.suffix == ".et":
        return True
    return not path.exists() and path.parent.is_dir() and any(path.parent.glob(f"{path.name}.*.et"))


def _is_matrix(path: Path, start: str) -> bool:
    words = start.split("\n", 1)[0].replace(",", " ").split()
    return bool(words) and all(word.isdigit() for word in words)


_ALL = (  # asked in this order whether a file is theirs
    Format(
        "msccl-xml",
        f"{HERE}.msccl",
        "algorithms for RCCL and MSCCL",
        lambda path, start: start.startswith("<"),
        has_chunks=True,
        leaves_chunk_bytes_open=True,
        has_flavors=True,
    ),
    Format(
        "mscclpp-json",
        f"{HERE}.mscclpp",
        "execution plans for MSCCL++",
        lambda path, start: start.startswith(("{", "[")) and '"traceEvents"' not in start,
        has_chunks=True,
        leaves_chunk_bytes_open=True,
    ),
    Format(
        "chakra",
        f"{HERE}.chakra",
        "execution traces and ASTRA-sim configurations, in a folder",
        _is_chakra,
        is_folder=True,
        holds_steps=True,
        streams=True,
        most_bytes=lambda schedule, problem: 2048 * problem.num_ranks + 128 * rows_of(schedule),
    ),
    Format(
        "tacos-csv",
        f"{HERE}.tacos",
        "chunks per link, as TACOS 1.1 writes them",
        lambda path, start: start.startswith("NPUs Count"),
        has_chunks=True,
        streams=True,
    ),
    Format(
        "htsim",
        f"{HERE}.htsim",
        "connection matrix for htsim",
        lambda path, start: any(line.startswith("Nodes ") for line in start.splitlines()[:64]),
        streams=True,
    ),
    Format(
        "nccl-tests",
        f"{HERE}.nccl_tests",
        "byte matrix for nccl-tests' alltoallv",
        _is_matrix,
        streams=True,
        most_bytes=lambda schedule, problem: 20 * problem.num_ranks**2,
    ),
    Format(
        "chrome-trace",
        f"{HERE}.chrome_trace",
        "simulated timeline for Perfetto",
        lambda path, start: start.startswith(("{", "[")) and '"traceEvents"' in start,
        needs_times=True,
        holds_steps=True,
        streams=True,
        most_bytes=lambda schedule, problem: 512 * problem.num_ranks + 128 * rows_of(schedule),
    ),
)
FORMATS: dict[str, Format] = {made.name: made for made in _ALL}


def get_format(name: str) -> Format:
    """The format of that name."""
    return named(FORMATS, name, "format")


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
