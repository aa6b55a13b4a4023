"""`interlock export`: a schedule in another tool's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.opened import (
    CollectiveOption,
    DemandOption,
    FormatOption,
    RootOption,
    ScheduleArgument,
    open_schedule,
)
from interlock.cli.options import JsonOption
from interlock.cli.show import print_json, print_table
from interlock.errors import InvalidInput
from interlock.interchange import FORMATS, ExportReport, get_format
from interlock.units import format_bytes, parse_bytes

__all__ = ["command"]

_NAMES = ", ".join(FORMATS)


def command(
    file: ScheduleArgument,
    to: Annotated[str, typer.Option("--to", help=f"Format to write: {_NAMES}.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write; a folder for chakra.")],
    chunk_bytes: Annotated[
        str | None,
        typer.Option("--chunk-bytes", help="Size of a chunk where the format needs equal ones; default: chosen."),
    ] = None,
    format_name: FormatOption = None,
    demand: DemandOption = None,
    collective: CollectiveOption = None,
    read_chunk_bytes: Annotated[
        str | None, typer.Option("--read-chunk-bytes", help="Size of a chunk of the file that is read.")
    ] = None,
    root: RootOption = 0,
    as_json: JsonOption = False,
) -> int:
    """Write a schedule for another tool, and say what the format adds or cannot say.

    Examples:

      interlock export plan.ilk --to msccl-xml -o plan.xml

      interlock export plan.ilk --to mscclpp-json --chunk-bytes '64 KiB' -o plan.json

      interlock export plan.ilk --to chakra -o traces
    """
    chosen = get_format(to)
    options: dict[str, object] = {}
    if chunk_bytes is not None:
        if not chosen.has_chunks:
            raise InvalidInput(f"--chunk-bytes: {to} holds bytes, not equal chunks")
        options["chunk_bytes"] = parse_bytes(chunk_bytes, "--chunk-bytes")
    opened = open_schedule(file, format_name, demand, collective, read_chunk_bytes, root)
    report = opened.plan.export(to, output, **options)
    if as_json:
        print_json(_as_dict(report))
    else:
        notes = [f"note: {text}" for text in (*opened.notes, *report.notes)]
        print_table(f"{file} as {to}", ["", ""], _rows(report), notes)
    return 0


def _as_dict(report: ExportReport) -> dict[str, object]:
    return {
        "format": report.format,
        "files": [str(path) for path in report.files],
        "chunk_bytes": report.chunk_bytes,
        "chunk_policy": report.chunk_policy,
        "inflation": report.inflation,
        "notes": list(report.notes),
    }


def _rows(report: ExportReport) -> list[list[str]]:
    rows = [["written to", str(report.files[0] if len(report.files) <= 2 else report.files[0].parent)]]
    if len(report.files) > 1:
        rows.append(["files", str(len(report.files))])
    if report.chunk_bytes is not None:
        how = {"exact": "divides every size", "fixed": "as asked", "padded": "smallest that fits the format"}
        rows.append(["chunk", f"{format_bytes(report.chunk_bytes)} ({how[report.chunk_policy or 'exact']})"])
        rows.append(["added by chunks and padding", f"{100 * report.inflation:.2f} %"])
    return rows
