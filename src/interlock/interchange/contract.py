"""What a format promises: how it is named and recognised, what its reader is told and returns, what its writer says.

A format is a module with `write_schedule` and `read_schedule`, and a line in the registry.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from interlock.errors import LimitExceeded
from interlock.memory import check_memory
from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.topology import Cluster, Topology
from interlock.traffic import Demand
from interlock.units import format_bytes

__all__ = ["ExportReport", "ForeignSchedule", "Format", "Intent", "rows_of"]

MOST_WRITTEN_BYTES = 16 << 30  # by one export
MEMORY_PER_BYTE = 4  # that is written: columns as Python's numbers, and their text


@dataclass(frozen=True, slots=True)
class Intent:
    """What the user says about a file that does not say it itself. `collective` is a name like "all-gather"."""

    demand: Demand | None = None
    collective: str | None = None
    chunk_bytes: int | None = None
    cluster: Cluster | None = None  # where it would run
    topology: Topology | None = None  # likewise, where no cluster describes it
    root: int = 0  # of rooted collectives


@dataclass(frozen=True, slots=True, eq=False)
class ForeignSchedule:
    """A schedule in our form, with what was wrong beyond its deliveries and what had to be inferred."""

    format: str
    schedule: Schedule
    problem: Problem
    violations: tuple[str, ...] = ()  # races, deadlocks, misplaced data: anything our form cannot hold
    notes: tuple[str, ...] = field(default=())
    is_inferred: bool = False  # which bytes its messages carry is a guess: what does not add up may be the guess


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Files written, how bytes became chunks (None: they stayed bytes), and what the format could not say."""

    format: str
    files: tuple[Path, ...]
    chunk_bytes: int | None = None
    chunk_policy: str | None = None  # "exact", "fixed" or "padded"
    inflation: float = 0.0  # added bytes over true bytes, rounding to chunks and padding together
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """A file format of another tool."""

    name: str
    module: str  # that reads and writes it, imported when first asked
    summary: str
    recognises: Callable[[Path, str], bool]  # (path, text of the file's start)
    has_chunks: bool = False  # bytes become equal chunks; takes chunk_bytes
    leaves_chunk_bytes_open: bool = False  # its files need not say how large a chunk is
    has_flavors: bool = False  # its readers differ; takes flavor
    is_folder: bool = False
    holds_steps: bool = False  # several collectives with computation between them
    needs_times: bool = False  # takes simulated times
    streams: bool = False  # writes a million messages without holding the text
    most_bytes: Callable[[Schedule, Problem], int] | None = None  # None: it counts the chunks or flows it writes

    def write(self, schedule: Schedule, problem: Problem, path: Path, **options: object) -> ExportReport:
        """Write a schedule; options are the format's own."""
        if self.most_bytes is not None:
            self._check_size(self.most_bytes(schedule, problem), path)
        made = importlib.import_module(self.module).write_schedule(schedule, problem, path, **options)
        assert isinstance(made, ExportReport)
        return made

    def _check_size(self, most_bytes: int, path: Path) -> None:
        """Refuse what would not fit, before anything is made."""
        folder = next((each for each in path.absolute().parents if each.exists()), Path("/"))
        room = min(MOST_WRITTEN_BYTES, shutil.disk_usage(folder).free)
        if most_bytes > room:
            raise LimitExceeded(
                f"{path}: a {self.name} export of this schedule takes up to {format_bytes(most_bytes)}; "
                f"there is room for {format_bytes(room)}"
            )
        check_memory(MEMORY_PER_BYTE * most_bytes, f"a {self.name} export")

    def read(self, path: Path, intent: Intent) -> ForeignSchedule:
        """Read a file."""
        made = importlib.import_module(self.module).read_schedule(path, intent)
        assert isinstance(made, ForeignSchedule)
        return made


def rows_of(schedule: Schedule) -> int:
    """Messages, ends, dependencies and pieces: what formats with one line or record for each of them write."""
    ends = len(schedule.src.values) + len(schedule.dst.values)
    return schedule.num_messages + ends + len(schedule.deps.values) + len(schedule.pieces)
