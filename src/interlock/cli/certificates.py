"""Prints what is proven of a plan, and saves it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from interlock.cli.show import command_line, print_csv, print_json, print_table
from interlock.comparison import BANDWIDTHS, describe, row_of, tolerance_of, unevenness_of
from interlock.errors import InvalidInput
from interlock.planning import Plan
from interlock.units import format_bandwidth, format_bytes, format_seconds

__all__ = ["check_schedule_name", "head_facts", "head_rows", "print_certificate"]


def head_rows(plan: Plan) -> list[list[str]]:
    """What every table on one plan begins with: what was chosen and why, and how uneven the bytes are."""
    return [*([["chosen", plan.reason]] if plan.reason else []), *map(list, unevenness_of(plan.problem).items())]


def head_facts(plan: Plan) -> dict[str, object]:
    """The same, and the rest of the problem, for `--json`."""
    return {"algorithm": plan.algorithm, **({"reason": plan.reason} if plan.reason else {})} | {
        "problem": describe(plan.problem)
    }


def check_schedule_name(output: Path | None) -> None:
    """Refuse names of other formats, before the work is done."""
    if output is not None and output.suffix != ".ilk":
        raise InvalidInput(f"-o {output}: schedules are saved as .ilk; use `interlock export` for other formats")


def print_certificate(
    plan: Plan, output: Path | None, page: Path | None = None, *, as_json: bool, as_csv: bool = False
) -> int:
    """Table, JSON or CSV; exit code 1 where the plan is not valid (it is not saved then)."""
    row = row_of(plan)
    proof = plan.certificate(tolerance_of(plan))
    if row.valid and output is not None:
        plan.save(output)
    if page is not None and plan.is_huge:
        print(f"interlock: --html {page} is not written: a page cannot show that many messages", file=sys.stderr)
    elif page is not None:
        from interlock.report.compare_page import save_plan_page

        save_plan_page(plan, row, page, command_line())
    if as_csv:
        print_csv([asdict(row) | {"reason": plan.reason}])
        return 0 if row.valid else 1
    if as_json:
        extra = {"binds": proof.binds, "violations": list(proof.violations), "contributions": proof.method}
        extra |= {"reason": plan.reason} if plan.reason else {}
        print_json({"problem": describe(plan.problem), "results": [asdict(row) | extra], "times_are": "simulated"})
        return 0 if row.valid else 1
    rows = [
        *head_rows(plan),
        ["valid", "yes" if row.valid else "NO"],
        ["simulated time", format_seconds(row.makespan_s)],
        ["lower bound", f"{format_seconds(row.lower_bound_s)} ({proof.binds})"],
        ["gap", f"{100 * row.gap:z.2f} %"],
        ["algbw / busbw", f"{format_bandwidth(row.algbw_bytes_per_s)} / {format_bandwidth(row.busbw_bytes_per_s)}"],
        ["messages", str(plan.compact.num_messages)],
        ["stages", str(row.stages)],
        ["planning time", format_seconds(row.plan_s)],
        ["scratch, worst rank", format_bytes(row.scratch_bytes)],
    ]
    notes = [BANDWIDTHS, *(f"violation: {text}" for text in proof.violations[:10])]
    print_table(f"{plan.algorithm}: {plan.problem.name}", ["", ""], rows, notes)
    return 0 if row.valid else 1
