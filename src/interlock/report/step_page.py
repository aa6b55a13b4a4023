"""The page of `interlock step --html`: when each task runs in each way, and the schedules in detail."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path

from interlock.comparison import Comparison
from interlock.files import write_text
from interlock.report.charts import figure
from interlock.report.compare_page import compare_page, save_traces
from interlock.report.page import COLOURS
from interlock.simulate.result import TaskTimes
from interlock.units import format_seconds

__all__ = ["save_step_page", "step_picture"]

WIDTH, LABEL, ROW, TITLE = 760, 150, 18, 24  # pixels


def save_step_page(made: Comparison, path: Path, command: str) -> None:
    """Write the page, and beside it the full trace of every timeline that it thins."""
    text = compare_page(made, command, save_traces(made.plans, path))
    times = {plan.algorithm: plan.simulate().tasks for plan in made.plans}
    words = "When each task runs, from its first message or computation to its last, in each way; simulated."
    picture = figure(words, step_picture(times, made.results[0].lower_bound_s), "tasks")
    place = text.index("<section") if "<section" in text else text.index("</body>")
    write_text(path, text[:place] + f"<section><h2>Tasks (simulated)</h2>{picture}</section>" + text[place:])


def step_picture(times: Mapping[str, Mapping[str, TaskTimes]], bound_s: float) -> str:
    """An SVG with a row per task and a block per way, on one axis of time; a line where no plan can end sooner."""
    last_s = max(each.finish_s for tasks in times.values() for each in tasks.values())
    scale = (WIDTH - LABEL - 80) / last_s
    parts, y = [], 0
    for way, tasks in times.items():
        end_s = max(each.finish_s for each in tasks.values())
        title = f"{html.escape(way)}: {format_seconds(end_s)}"
        parts.append(f'<text x="0" y="{y + 16}" font-weight="bold">{title}</text>')
        y += TITLE
        for number, (name, each) in enumerate(tasks.items()):
            x, width = LABEL + scale * each.start_s, max(1.0, scale * (each.finish_s - each.start_s))
            colour = COLOURS[number % len(COLOURS)]
            told = f"{html.escape(name)}: {format_seconds(each.start_s)} to {format_seconds(each.finish_s)}"
            parts.append(f'<text x="0" y="{y + 13}">{html.escape(name[:22])}</text>')
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" fill="{colour}">'
                f"<title>{told}</title></rect>"
            )
            y += ROW
        y += 8
    x = LABEL + scale * bound_s
    parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{y}" stroke="currentColor" stroke-dasharray="3 3"/>')
    parts.append(f'<text x="{x + 4:.1f}" y="{y + 12}">bound {format_seconds(bound_s)}</text>')
    size = f'viewBox="0 0 {WIDTH} {y + 18}" width="100%"'
    style = 'font-family="sans-serif" font-size="12" fill="currentColor"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img">{"".join(parts)}</svg>'
