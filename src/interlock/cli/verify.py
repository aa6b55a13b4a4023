"""`interlock verify`: is a schedule file right?"""

from __future__ import annotations

from interlock.cli.certificates import head_facts, head_rows
from interlock.cli.options import JsonOption
from interlock.cli.schedule_files import (
    ChunkBytesOption,
    CollectiveOption,
    DemandOption,
    FormatOption,
    RootOption,
    ScheduleArgument,
    open_schedule,
)
from interlock.cli.show import print_json, print_table
from interlock.comparison import nccl_size
from interlock.units import format_bytes

__all__ = ["command"]


def command(
    file: ScheduleArgument,
    format_name: FormatOption = None,
    demand: DemandOption = None,
    collective: CollectiveOption = None,
    chunk_bytes: ChunkBytesOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Execute a schedule symbolically and say whether every byte arrives exactly once.

    Exit code 3 is "cannot tell": the file does not say which bytes its messages carry, and what was inferred does not
    add up.

    Examples:

      interlock verify plan.ilk

      interlock verify allreduce.xml

      interlock verify traces/ --format chakra --demand bytes.txt
    """
    opened = open_schedule(file, format_name, demand, collective, chunk_bytes, root)
    report, schedule = opened.plan.report, opened.plan.compact
    violations = [*opened.violations, *(str(violation) for violation in report.violations)]
    verdict, code = opened.verdict(report.valid)
    size_bytes, _ = nccl_size(opened.plan.problem)
    if as_json:
        print_json(
            {
                "file": str(file),
                "format": opened.format,
                **head_facts(opened.plan),
                "valid": None if code == 3 else code == 0,
                "violations": violations,
                "size_bytes": size_bytes,
                "notes": [*opened.notes, *opened.cannot_tell(report.valid)],
                "scratch_bytes": int(report.scratch_bytes.max(initial=0)),
                "contributions": report.method,
            }
        )
        return code
    rows = [
        *head_rows(opened.plan),
        ["valid", verdict],
        ["format", opened.format],
        ["messages", str(schedule.num_messages)],
        ["pieces", str(schedule.num_pieces)],
        ["size, as nccl-tests count it", format_bytes(size_bytes)],
        ["scratch, worst rank", format_bytes(int(report.scratch_bytes.max(initial=0)))],
        ["contributions told apart by", report.method],
    ]
    what = "guessed contents" if code == 3 else "violation"
    notes = [*(f"note: {text}" for text in opened.notes), *(f"{what}: {text}" for text in violations[:10])]
    notes += opened.cannot_tell(report.valid)
    print_table(f"{file}: {opened.plan.problem.name}", ["", ""], rows, notes)
    return code
