"""`interlock export`: a schedule in another tool's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.certificates import head_facts, head_rows
from interlock.cli.options import JsonOption
from interlock.cli.outputs import Outputs, say_written
from interlock.cli.schedule_files import (
    CollectiveOption,
    DemandOption,
    FormatOption,
    RootOption,
    ScheduleArgument,
    open_schedule,
)
from interlock.cli.show import print_json, print_table
from interlock.errors import InvalidInput
from interlock.exported import ExportedTime, time_after_export
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
    flavor: Annotated[
        str | None, typer.Option("--flavor", help="Reader of msccl-xml: rccl (default), azure or msccl.")
    ] = None,
    format_name: FormatOption = None,
    demand: DemandOption = None,
    collective: CollectiveOption = None,
    read_chunk_bytes: Annotated[
        str | None, typer.Option("--read-chunk-bytes", help="Size of a chunk of the file that is read.")
    ] = None,
    root: RootOption = None,
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
    if flavor is not None:
        if not chosen.has_flavors:
            raise InvalidInput(f"--flavor: {to} has one reader; flavors are for msccl-xml")
        options["flavor"] = flavor
    outputs = Outputs({"-o": output}, folder=chosen.is_folder)
    opened = open_schedule(file, format_name, demand, collective, read_chunk_bytes, root)
    report = opened.plan.export(to, output, **options)
    times = time_after_export(opened.plan, report)
    if as_json:
        print_json(head_facts(opened.plan) | _as_dict(report, times))
    else:
        notes = [f"note: {text}" for text in (*opened.notes, *report.notes)]
        notes += [] if times is None else [str(times)]
        print_table(f"{file} as {to}", ["", ""], [*head_rows(opened.plan), *_rows(report)], notes)
    outputs.say()
    say_written(*(path for path in report.files if path != output and output not in path.parents))
    return 0


def _as_dict(report: ExportReport, times: ExportedTime | None) -> dict[str, object]:
    return {
        "format": report.format,
        "files": [str(path) for path in report.files],
        "chunk_bytes": report.chunk_bytes,
        "chunk_policy": report.chunk_policy,
        "inflation": report.inflation,
        "notes": list(report.notes),
        "simulated_s": None
        if times is None
        else {"plan": times.plan_s, "exported": times.exported_s, "direct": times.direct_s},
        "pays": None if times is None else times.pays,
    }


def _rows(report: ExportReport) -> list[list[str]]:
    rows = [["written to", str(report.files[0] if len(report.files) <= 2 else report.files[0].parent)]]
    if len(report.files) > 1:
        rows.append(["files", str(len(report.files))])
    if report.chunk_bytes is not None:
        how = {"exact": "divides every size", "fixed": "as asked", "padded": "sizes are rounded up to it"}
        rows.append(["chunk", f"{format_bytes(report.chunk_bytes)} ({how[report.chunk_policy or 'exact']})"])
        rows.append(["added by rounding to chunks", f"{100 * report.inflation:.2f} %"])
    return rows
