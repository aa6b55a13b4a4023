"""The page of `interlock lab run --html`: measured times beside prediction and bound, and the plans as predicted."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from interlock.files import write_text
from interlock.planning import Plan
from interlock.report.charts import Bars, bar_chart, figure
from interlock.report.compare_page import save_traces
from interlock.report.detail import add_detail
from interlock.report.page import COLOURS, Page, render, table
from interlock.report.problem_facts import add_traffic
from interlock.traffic import Demand
from interlock.units import format_seconds

__all__ = ["HEADER", "cells", "lab_page", "save_lab_page"]

HEADER = ["algorithm", "measured", "least", "most", "predicted", "bound", "over bound"]
HEADER += ["exchange", "planning", "total", "bytes"]
HONEST = "measured over real sockets on shaped links of one machine; predictions are simulated"


def save_lab_page(
    title: str, rows: Sequence[Mapping[str, object]], demand: Demand, plans: Sequence[Plan], path: Path, command: str
) -> None:
    """Write the page, and beside it the full trace of every timeline that it thins."""
    write_text(path, lab_page(title, rows, demand, plans, command, save_traces(list(plans), path)))


def lab_page(
    title: str,
    rows: Sequence[Mapping[str, object]],
    demand: Demand,
    plans: Sequence[Plan],
    command: str,
    traces: Mapping[str, str] | None = None,
) -> str:
    """HTML of a run.

    Parameters
    ----------
    rows
        The results as `--json` prints them.
    plans
        What the ranks ran, on the network as declared; torch's own call has none.
    """
    facts = {"problem": title, "seed": str(demand.seed), "repetitions": str(rows[0]["repeats"])}
    page = Page(f"Interlock lab: {title}", "measured", command, facts | {"times are": HONEST})
    summary = _summary(rows)
    body = f'<p class="note">{html.escape(summary)}</p>'
    body += table(HEADER, [cells(row) for row in rows], [str(row["algorithm"]) for row in rows])
    body += _bars(rows)
    page.section("Results (measured)", body)
    add_traffic(page, demand.bytes_matrix)
    add_detail(page, plans, "One algorithm as predicted (simulated)", traces or {})
    return render(page)


def _number(row: Mapping[str, object], field: str) -> float:
    return float(str(row[field]))


def _summary(rows: Sequence[Mapping[str, object]]) -> str:
    best = min(rows, key=lambda row: _number(row, "measured_s"))
    bound = format_seconds(_number(best, "lower_bound_s"))
    summary = f"{best['algorithm']} takes {format_seconds(_number(best, 'measured_s'))} (measured, median), "
    summary += f"{1 + _number(best, 'gap'):.2f} times the bound of {bound}. "
    wrong = [str(row["algorithm"]) for row in rows if not row["valid"]]
    summary += f"Wrong bytes arrived with {', '.join(wrong)}." if wrong else "Every byte of every run was right."
    return summary


def cells(row: Mapping[str, object]) -> list[str]:
    """One row under `HEADER`, as the terminal and the page show it."""
    fields = ("measured_s", "measured_least_s", "measured_most_s", "predicted_s", "lower_bound_s")
    seconds = [format_seconds(_number(row, field)) for field in fields]
    rest = [format_seconds(_number(row, field)) for field in ("exchange_s", "plan_s", "total_s")]
    return [
        str(row["algorithm"]),
        *seconds,
        f"{1 + _number(row, 'gap'):.2f}",
        *rest,
        "all right" if row["valid"] else "WRONG",
    ]


def _bars(rows: Sequence[Mapping[str, object]]) -> str:
    measured, least, most, predicted = (
        [1e3 * _number(row, field) for row in rows]
        for field in ("measured_s", "measured_least_s", "measured_most_s", "predicted_s")
    )
    series = [
        Bars("measured, with least and most", measured, COLOURS[0], low_ms=least, high_ms=most),
        Bars("predicted (simulated)", predicted, COLOURS[1], is_mark=True),
    ]
    bound_ms = 1e3 * _number(rows[0], "lower_bound_s")
    chart = bar_chart([str(row["algorithm"]) for row in rows], series, "ms", bound_ms=bound_ms)
    return figure("Measured median of the slowest rank, prediction and bound.", chart, "times")
