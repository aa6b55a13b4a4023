"""The page of `interlock compare --sizes --html`: bus bandwidth over size with the bound, and the table."""

from __future__ import annotations

import html
from pathlib import Path

from interlock.comparison import SizeComparison
from interlock.files import write_text
from interlock.report.charts import Line, figure, line_chart, line_legend, style_of
from interlock.report.page import Page, render, table

__all__ = ["save_sizes_page", "sizes_page"]

BOUND_COLOUR = "#000000"


def save_sizes_page(made: SizeComparison, path: Path, command: str) -> None:
    """Write the page."""
    write_text(path, sizes_page(made, command))


def sizes_page(made: SizeComparison, command: str) -> str:
    """HTML of a comparison over sizes; numbers are those of `--json`."""
    page = Page(f"Interlock: {made.name}", "simulated", command, {"problem": made.name})
    lines = []
    for place, (name, points) in enumerate(made.busbw_by_algorithm().items()):
        style = (BOUND_COLOUR, None, "5 3") if name == "bound" else style_of(place)
        lines.append(Line(name, [x for x, _ in points], [y for _, y in points], *style))
    lines.sort(key=lambda line: line.name == "bound")
    chart = line_chart(lines, "size", "bus bandwidth over size", are_sizes=True, are_rates=True)
    words = "Bus bandwidth by size, simulated. No schedule can be above the bound."
    body = figure(words, line_legend(lines) + chart, "busbw")
    page.section("Bus bandwidth (simulated)", body)
    fastest = ", ".join(dict.fromkeys(each.best().algorithm for each in made.comparisons))
    note = f'<p class="note">Fastest from the smallest size to the largest: {html.escape(fastest)}.</p>'
    page.section("All sizes (simulated)", note + table(made.header(), made.cells()))
    return render(page)
