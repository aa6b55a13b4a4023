"""`interlock verify`: is a schedule file right?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.options import JsonOption
from interlock.cli.show import print_json, print_table
from interlock.errors import InvalidInput
from interlock.units import format_bytes

__all__ = ["command"]


def command(
    file: Annotated[Path, typer.Argument(help="A schedule, ours or another tool's.")],
    as_json: JsonOption = False,
) -> int:
    """Execute a schedule symbolically and say whether every byte arrives exactly once.

    Examples:

      interlock verify plan.ilk

      interlock verify plan.ilk --json
    """
    from interlock.schedule import read_schedule
    from interlock.validate import check

    if not file.exists():
        raise InvalidInput(f"{file}: no such file")
    saved = read_schedule(file)
    report = check(saved.schedule, saved.problem)
    if as_json:
        print_json(
            {
                "file": str(file),
                "algorithm": saved.algorithm,
                "valid": report.valid,
                "violations": [str(violation) for violation in report.violations],
                "scratch_bytes": int(report.scratch_bytes.max(initial=0)),
                "contributions": report.method,
            }
        )
        return 0 if report.valid else 1
    rows = [
        ["valid", "yes" if report.valid else "NO"],
        ["messages", str(saved.schedule.num_messages)],
        ["pieces", str(saved.schedule.num_pieces)],
        ["scratch, worst rank", format_bytes(int(report.scratch_bytes.max(initial=0)))],
        ["contributions told apart by", report.method],
    ]
    print_table(f"{file}: {saved.problem.name}", ["", ""], rows, [f"violation: {v}" for v in report.violations[:10]])
    return 0 if report.valid else 1
