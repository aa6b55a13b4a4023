"""The page of `interlock compare --html`: traffic, times against the bound, link load and timeline per algorithm."""

from __future__ import annotations

import html

import numpy as np
from numpy.typing import NDArray

from interlock.comparison import Comparison, Row, tolerance_of
from interlock.planning import Plan
from interlock.report.drawing import draw_load
from interlock.report.page import Page, array, render, table
from interlock.report.timeline import timeline
from interlock.simulate import Result
from interlock.units import format_bytes, format_seconds

__all__ = ["compare_page", "plan_page"]

MAX_HEAT_CELLS = 256  # per side; larger matrices are summed into this many
MAX_STAGES = 40


def compare_page(made: Comparison, command: str) -> str:
    """HTML of a comparison; numbers are those of `--json`."""
    facts = {"problem": made.problem.name, "seed": str(made.plans[0].seed if made.plans else None)}
    page = Page(f"Interlock: {made.problem.name}", "simulated", command, facts)
    _results(page, made)
    _traffic(page, made)
    _one_algorithm(page, made)
    return render(page)


def plan_page(made: Plan, row: Row, command: str) -> str:
    """HTML of one plan; numbers are those of `--json`."""
    return compare_page(Comparison(made.problem, (row,), (), made.bound.binds, (made,)), command)


def _results(page: Page, made: Comparison) -> None:
    bound_s = made.results[0].lower_bound_s
    best = next((row for row in made.results if row.valid), None)
    words = "No plan here is valid. "
    if best is not None:
        words = f"{best.algorithm} takes {format_seconds(best.makespan_s)}, {1 + best.gap:.3f} times the least possible"
        words += ". " if len(made.results) == 1 else ", and is the fastest. "
    words += f"No schedule can take less than {format_seconds(bound_s)}: {made.binds}."
    body = f'<p class="note">{html.escape(words)}</p>'
    body += table(made.header(), made.cells(), [row.algorithm for row in made.results])
    if made.refused:
        reasons = "".join(f"<li>{html.escape(name)}: {html.escape(why)}.</li>" for name, why in made.refused)
        body += f"<details><summary>{len(made.refused)} algorithms not run</summary><ul>{reasons}</ul></details>"
    body += page.plot(
        "times", "Simulated time of each algorithm, planning time beside it; the line is the bound.", _bars(made)
    )
    page.section("Results (simulated)", body)


def _bars(made: Comparison) -> dict[str, object]:
    rows = made.results[::-1]
    names = [row.algorithm for row in rows]
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": "simulated",
            "y": names,
            "x": [1e3 * r.makespan_s for r in rows],
            "marker": {"color": "#0072B2"},
        },
        {
            "type": "bar",
            "orientation": "h",
            "name": "planning (measured here)",
            "y": names,
            "x": [1e3 * r.plan_s for r in rows],
            "marker": {"color": "#E69F00"},
        },
    ]
    bound_ms = 1e3 * made.results[0].lower_bound_s
    line = {
        "type": "line",
        "x0": bound_ms,
        "x1": bound_ms,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"dash": "dash", "color": "#D55E00", "width": 3},
    }
    layout = {"barmode": "stack", "xaxis": {"title": {"text": "ms"}}, "shapes": [line], "height": 150 + 34 * len(rows)}
    return {"data": bars, "layout": layout}


def _traffic(page: Page, made: Comparison) -> None:
    if made.problem.demand is None:
        return
    matrix = made.problem.demand.bytes_matrix
    shown, step = _summed(matrix)
    caption = "Bytes from rank (down) to rank (across)."
    if step > 1:
        caption += f" Each cell sums {step} x {step} ranks."
    heat = {
        "type": "heatmap",
        "z": array(shown.astype(np.float64)),
        "colorscale": "Viridis",
        "colorbar": {"ticksuffix": "B"},
        "hovertemplate": "from %{y} to %{x}: %{z:.4s}B<extra></extra>",
    }
    axis = {"title": {"text": "to rank" if step == 1 else f"to rank / {step}"}}
    layout = {"xaxis": axis, "yaxis": {"title": {"text": "from"}, "autorange": "reversed"}, "height": 480}
    page.section("Traffic", page.plot("traffic", caption, {"data": [heat], "layout": layout}))


def _summed(matrix: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    step = -(-len(matrix) // MAX_HEAT_CELLS)
    side = -(-len(matrix) // step)
    padded = np.zeros((side * step, side * step), np.int64)
    padded[: len(matrix), : len(matrix)] = matrix
    return padded.reshape(side, step, side, step).sum(axis=(1, 3)), step


def _one_algorithm(page: Page, made: Comparison) -> None:
    options = "".join(f"<option>{html.escape(row.algorithm)}</option>" for row in made.results)
    body = f'<p><label for="choice">Algorithm </label><select id="choice">{options}</select></p>'
    body += '<p id="explanation" class="note" aria-live="polite"></p>'
    body += '<div id="drawing" class="scroll"></div>'
    body += page.plot("timeline", "When messages are under way (simulated); drag to zoom, double-click to go back.")
    body += '<h3>Stages</h3><div id="stages"></div>'
    page.section("One algorithm in detail (simulated)", body)
    for plan in made.plans:
        result = plan.simulate(tolerance_of(plan))
        page.choices[plan.algorithm] = {
            "explanation": result.explanation(),
            "drawing": draw_load(result, plan.problem),
            "stages": _stages(plan, result),
            "timeline": timeline(result),
        }


def _stages(plan: Plan, result: Result) -> str:
    schedule = plan.schedule
    if schedule.num_messages == 0:
        return "<p>Nothing to move.</p>"
    key = schedule.phase.astype(np.int64) * (int(schedule.stage.max()) + 1) + schedule.stage
    distinct, place = np.unique(key, return_inverse=True)
    first, last = np.full(len(distinct), np.inf), np.zeros(len(distinct))
    np.minimum.at(first, place, result.start_s)
    np.maximum.at(last, place, result.finish_s)
    count = np.bincount(place)
    size = np.bincount(place, weights=schedule.size_bytes.astype(np.float64))
    order = np.argsort(first, kind="stable")
    rows = []
    for k in order[:MAX_STAGES]:
        row = int(np.flatnonzero(place == k)[0])
        name = plan.schedule.message(row).phase.name.lower().replace("_", "-")
        moved = format_bytes(float(size[k]))
        times = [format_seconds(float(first[k])), format_seconds(float(last[k]))]
        rows.append([f"{name}, stage {int(schedule.stage[row])}", str(int(count[k])), moved, *times])
    note = f"<p>{len(order) - MAX_STAGES} more are not shown.</p>" if len(order) > MAX_STAGES else ""
    return table(["phase and stage", "messages", "bytes", "first start", "last arrival"], rows) + note
