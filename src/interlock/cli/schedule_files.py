"""Opens schedule files for commands: ours, and other tools', with what the user says about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from interlock.errors import InvalidInput
from interlock.planning import Plan
from interlock.topology import Cluster, Topology

__all__ = [
    "ChunkBytesOption",
    "CollectiveOption",
    "DemandOption",
    "FormatOption",
    "OpenedSchedule",
    "RootOption",
    "ScheduleArgument",
    "open_schedule",
]

ScheduleArgument = Annotated[Path, typer.Argument(help="A schedule, ours or another tool's.")]
FormatOption = Annotated[str | None, typer.Option("--format", help="Format of the file; default: recognised.")]
DemandOption = Annotated[Path | None, typer.Option("--demand", help="Byte matrix that the file is meant to move.")]
CollectiveOption = Annotated[str | None, typer.Option("--collective", help="Collective that the file is meant to do.")]
ChunkBytesOption = Annotated[str | None, typer.Option("--chunk-bytes", help="Size of a chunk, like '64 KiB'.")]
RootOption = Annotated[int | None, typer.Option("--root", help="Root of a rooted collective; default: 0.")]


@dataclass(frozen=True, slots=True)
class OpenedSchedule:
    """A plan from a file, and what its reader found beside it."""

    plan: Plan
    format: str
    violations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_inferred: bool = False  # contents of messages are a guess

    def verdict(self, valid: bool) -> tuple[str, int]:
        """Whether it is right, in words and as an exit code."""
        if valid and not self.violations:
            return "yes", 0
        return ("cannot tell", 3) if self.is_inferred else ("NO", 1)

    def cannot_tell(self, valid: bool) -> list[str]:
        """Why there is no verdict, where there is none."""
        if self.verdict(valid)[1] != 3:
            return []
        why = "the contents that were inferred do not add up, which proves nothing against the file"
        return [f"cannot tell: {self.format} does not say which bytes a message carries; {why}"]


def open_schedule(
    file: Path,
    format_name: str | None = None,
    demand: Path | None = None,
    collective: str | None = None,
    chunk_bytes: str | None = None,
    root: int | None = None,
    where: Cluster | Topology | None = None,
) -> OpenedSchedule:
    """Open any schedule file."""
    from interlock.interchange import Intent, get_format, read_foreign
    from interlock.planning import load
    from interlock.schedule import is_schedule_file
    from interlock.traffic import read_demand
    from interlock.units import parse_bytes

    if demand is not None and collective is not None:
        raise InvalidInput("--demand and --collective cannot both be what the file is meant to do")
    if not file.exists() and not file.parent.is_dir():
        raise InvalidInput(f"{file}: no such file")
    is_ours = format_name in (None, "ilk") and file.is_file() and (file.suffix == ".ilk" or is_schedule_file(file))
    if is_ours:
        given = {"--demand": demand, "--collective": collective, "--chunk-bytes": chunk_bytes, "--root": root}
        for option, value in (given | {"--cluster or --topology": where}).items():
            if value is not None:
                raise InvalidInput(f"{option}: {file} names its own problem; this option is for other tools' files")
        return OpenedSchedule(load(file), "ilk")
    intent = Intent(
        demand=None if demand is None else read_demand(demand),
        collective=collective,
        chunk_bytes=None if chunk_bytes is None else parse_bytes(chunk_bytes, "--chunk-bytes"),
        cluster=where if isinstance(where, Cluster) else None,
        topology=where if isinstance(where, Topology) else None,
        root=root or 0,
    )
    found = read_foreign(file, intent, format_name)
    if chunk_bytes is not None and not get_format(found.format).leaves_chunk_bytes_open:
        raise InvalidInput(f"--chunk-bytes {chunk_bytes} has no effect here: {found.format} says its own bytes")
    if root is not None and not (found.problem.collective and found.problem.collective.is_rooted):
        raise InvalidInput(f"--root {root} has no effect here: {file} holds no collective with a root")
    plan = Plan(found.problem, found.schedule, found.format)
    return OpenedSchedule(plan, found.format, found.violations, found.notes, found.is_inferred)
