"""The pages of `interlock compare --html`: times against the bound and algorithms in detail, or bandwidth over size."""

from __future__ import annotations

import gzip
import html
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from interlock.comparison import BANDWIDTHS, Comparison, Row, SizeComparison, choice_in, tolerance_of
from interlock.files import check_target, traces_folder, write_atomically, write_text
from interlock.planning import Plan
from interlock.report.charts import Bars, Line, bar_chart, figure, line_chart, line_legend, style_of
from interlock.report.detail import add_detail
from interlock.report.page import COLOURS, Page, render, table
from interlock.report.problem_facts import add_problem, add_traffic
from interlock.report.side_by_side import add_side_by_side, cause
from interlock.report.timeline import is_thinned
from interlock.schedule import chrome_trace_lines
from interlock.simulate import Result
from interlock.units import format_seconds

__all__ = [
    "compare_page",
    "plan_page",
    "save_compare_page",
    "save_plan_page",
    "save_sizes_page",
    "save_traces",
    "sizes_page",
    "timeline_page",
]

MAX_TRACED = 1_000_000  # messages; Perfetto does not open more
LINES_AT_ONCE = 10_000
BOUND_COLOUR = "#000000"


def save_compare_page(comparison: Comparison, path: Path, command: str) -> None:
    """Write the page, and beside it the full trace of every timeline that it thins."""
    write_text(path, compare_page(comparison, command, save_traces(comparison.plans, path)))


def save_plan_page(plan: Plan, row: Row, path: Path, command: str) -> None:
    """The same for one plan."""
    write_text(path, plan_page(plan, row, command, save_traces([plan], path)))


def compare_page(comparison: Comparison, command: str, traces: Mapping[str, str] | None = None) -> str:
    """HTML of a comparison; numbers are those of `--json`."""
    facts = {"problem": comparison.problem.name, "seed": str(comparison.plans[0].seed if comparison.plans else None)}
    page = Page(f"Interlock: {comparison.problem.name}", "simulated", command, facts)
    _results(page, comparison)
    add_side_by_side(page, comparison)
    add_problem(page, comparison.problem)
    if comparison.problem.demand is not None:
        add_traffic(page, comparison.problem.demand.bytes_matrix)
    add_detail(page, comparison.plans, "One algorithm in detail (simulated)", traces or {})
    return render(page)


def plan_page(plan: Plan, row: Row, command: str, traces: Mapping[str, str] | None = None) -> str:
    """HTML of one plan; numbers are those of `--json`."""
    alone = Comparison(plan.problem, (row,), (), plan.bound.binds, (plan,), auto=choice_in(plan))
    return compare_page(alone, command, traces)


def timeline_page(plan: Plan, command: str) -> str:
    """HTML of one plan's timeline, whatever is known of how good it is."""
    facts = {"problem": plan.problem.name, "schedule": plan.algorithm}
    page = Page(f"Interlock: {plan.problem.name}", "simulated", command, facts)
    add_detail(page, [plan], "Timeline (simulated)", {})
    add_problem(page, plan.problem)
    return render(page)


def save_traces(plans: tuple[Plan, ...] | list[Plan], page: Path) -> dict[str, str]:
    """Write Perfetto traces of the plans whose timelines are thinned; their addresses as the page links to them."""
    links = {}
    folder = traces_folder(check_target(page))
    for plan in plans:
        result = plan.simulate(tolerance_of(plan))
        if is_thinned(result) and result.schedule.num_messages <= MAX_TRACED:
            folder.mkdir(exist_ok=True)
            _save_trace(result, folder / f"{plan.algorithm}.json.gz")
            links[plan.algorithm] = f"{folder.name}/{plan.algorithm}.json.gz"
    return links


def _save_trace(result: Result, path: Path) -> None:
    def write(file: BinaryIO) -> None:
        # No time stamp: the same plan gives the same file.
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0, filename="") as packed:
            lines = chrome_trace_lines(result.schedule, result.topology.num_ranks, result.start_s, result.finish_s)
            while block := "".join(islice(lines, LINES_AT_ONCE)):
                packed.write(block.encode())

    write_atomically(path, write)


def _results(page: Page, comparison: Comparison) -> None:
    bound_s = comparison.results[0].lower_bound_s
    best = next((row for row in comparison.results if row.valid), None)
    told = "No plan here is valid. "
    if best is not None:
        told = f"{best.algorithm} takes {format_seconds(best.makespan_s)}, {1 + best.gap:.3f} times the least possible"
        told += ". " if len(comparison.results) == 1 else ", and is the fastest. "
    told += f"No schedule can take less than {format_seconds(bound_s)}: {comparison.binds}."
    chosen = "" if comparison.auto is None else f"{comparison.auto} "
    body = f'<p class="note">{html.escape(chosen + told)} {html.escape(_gain(comparison))}</p>'
    body += table(comparison.header(), comparison.cells(), [row.algorithm for row in comparison.results])
    body += f'<p class="small">{html.escape(" ".join([BANDWIDTHS, *comparison.remarks()]))}</p>'
    if comparison.refused:
        reasons = "".join(f"<li>{html.escape(name)}: {html.escape(why)}.</li>" for name, why in comparison.refused)
        body += f"<details><summary>Not run: {len(comparison.refused)}</summary><ul>{reasons}</ul></details>"
    page.section("Results (simulated)", body + f'<div class="pair">{_times(comparison)}{_planning(comparison)}</div>')


def _gain(comparison: Comparison) -> str:
    """What the fastest gains over the baseline, and why."""
    names = [row.algorithm for row in comparison.results]
    other = comparison.baseline or "direct"
    if other not in names[1:] or not comparison.results[0].valid:
        return ""
    best, against = comparison.plans[0], comparison.plans[names.index(other)]
    return cause(against.simulate(tolerance_of(against)), best.simulate(tolerance_of(best)), other, names[0])


def _times(comparison: Comparison) -> str:
    rows = comparison.results
    shown = Bars("simulated", [1e3 * row.makespan_s for row in rows], COLOURS[0])
    over = [f"{1 + row.gap:.2f}x" for row in rows]
    bound_ms = 1e3 * rows[0].lower_bound_s
    chart = bar_chart([row.algorithm for row in rows], [shown], "ms, simulated", bound_ms=bound_ms, notes=over)
    return figure("Simulated time of each algorithm, and how many times the bound it is.", chart, "times")


def _planning(comparison: Comparison) -> str:
    rows = comparison.results
    shown = Bars("planning", [1e3 * row.plan_s for row in rows], COLOURS[1])
    notes = [format_seconds(row.plan_s) for row in rows]
    chart = bar_chart([row.algorithm for row in rows], [shown], "ms to plan, measured", notes=notes, is_log=True)
    return figure("Time to plan, measured on the machine that made this page.", chart, "planning")


def save_sizes_page(comparison: SizeComparison, path: Path, command: str) -> None:
    """Write the page."""
    write_text(path, sizes_page(comparison, command))


def sizes_page(comparison: SizeComparison, command: str) -> str:
    """HTML of a comparison over sizes; numbers are those of `--json`."""
    page = Page(f"Interlock: {comparison.name}", "simulated", command, {"problem": comparison.name})
    lines = []
    for place, (name, points) in enumerate(comparison.busbw_by_algorithm().items()):
        style = (BOUND_COLOUR, None, "5 3") if name == "bound" else style_of(place)
        lines.append(Line(name, [x for x, _ in points], [y for _, y in points], *style))
    lines.sort(key=lambda line: line.name == "bound")
    chart = line_chart(lines, "size", "bus bandwidth over size", are_sizes=True, are_rates=True)
    caption = "Bus bandwidth by size, simulated. No schedule can be above the bound."
    body = figure(caption, line_legend(lines) + chart, "busbw")
    page.section("Bus bandwidth (simulated)", body)
    fastest = ", ".join(dict.fromkeys(each.best().algorithm for each in comparison.comparisons))
    note = f'<p class="note">Fastest from the smallest size to the largest: {html.escape(fastest)}.</p>'
    page.section("All sizes (simulated)", note + table(comparison.header(), comparison.cells()))
    return render(page)
