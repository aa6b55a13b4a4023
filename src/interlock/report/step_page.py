"""The page of `interlock step --html`: when each task runs in each way, and the schedules in detail."""

from __future__ import annotations

import html
from pathlib import Path

from interlock.comparison import Comparison
from interlock.files import write_text
from interlock.report.charts import figure
from interlock.report.compare_page import compare_page, save_traces
from interlock.report.page import COLOURS
from interlock.units import format_seconds

__all__ = ["save_step_page", "step_picture"]

LABEL, END = 30.0, 4.0  # per cent of the width that names take, and that stays free behind the last task
ROW, TITLE, KEY = 18, 24, 22  # pixels


def save_step_page(comparison: Comparison, path: Path, command: str) -> None:
    """Write the page, and beside it the full trace of every timeline that it thins."""
    text = compare_page(comparison, command, save_traces(comparison.plans, path))
    words = "When each task runs, from its first message or computation to its last, in each way; simulated."
    picture = figure(words, step_picture(comparison), "tasks")
    place = text.index("<section") if "<section" in text else text.index("</body>")
    write_text(path, text[:place] + f"<section><h2>Tasks (simulated)</h2>{picture}</section>" + text[place:])


def step_picture(comparison: Comparison) -> str:
    """An SVG with a row per task and a block per way, on one axis of time; a line where no plan can end sooner.

    Colours are kinds of tasks. Only the length of bars follows the width of the page, so that names stay legible.
    """
    step, bound_s = comparison.problem.step, comparison.results[0].lower_bound_s
    assert step is not None
    kind_by_task = {task.name: task.kind for task in step.tasks}
    colours = dict(zip(dict.fromkeys(kind_by_task.values()), COLOURS, strict=False))
    times = {plan.algorithm: plan.simulate().tasks for plan in comparison.plans}
    last_s = max(each.finish_s for tasks in times.values() for each in tasks.values())
    scale = (100 - LABEL - END) / max(last_s, bound_s)
    parts, y = [], 0
    for place, (kind, colour) in enumerate(colours.items()):
        parts.append(f'<rect x="{100 * place / len(colours):.1f}%" y="4" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{100 * place / len(colours):.1f}%" dx="15" y="13">{html.escape(kind)}</text>')
    y += KEY
    top = y
    for way, tasks in times.items():
        title = f"{html.escape(way)}: {format_seconds(max(each.finish_s for each in tasks.values()))}"
        parts.append(f'<text x="0" y="{y + 16}" font-weight="bold">{title}</text>')
        y += TITLE
        for name, each in tasks.items():
            x, width = LABEL + scale * each.start_s, max(0.2, scale * (each.finish_s - each.start_s))
            told = f"{html.escape(name)}: {format_seconds(each.start_s)} to {format_seconds(each.finish_s)}"
            parts.append(f'<text x="0" y="{y + 13}">{html.escape(name[:22])}</text>')
            parts.append(
                f'<rect x="{x:.2f}%" y="{y + 3}" width="{width:.2f}%" height="{ROW - 6}" '
                f'fill="{colours[kind_by_task[name]]}"><title>{told}</title></rect>'
            )
            y += ROW
        y += 8
    x = LABEL + scale * bound_s
    line = f'x1="{x:.2f}%" x2="{x:.2f}%" y1="{top}" y2="{y}"'
    parts.append(f'<line {line} stroke="currentColor" stroke-dasharray="3 3"/>')
    parts.append(f'<text x="{x:.2f}%" y="{y + 12}" text-anchor="end">bound {format_seconds(bound_s)}</text>')
    style = 'font-family="sans-serif" font-size="12" fill="currentColor"'
    size = f'width="100%" height="{y + 18}" style="height: {y + 18}px"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img">{"".join(parts)}</svg>'
