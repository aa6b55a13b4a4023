"""The page of `interlock moe --html`: schemes, or algorithms in a training step, as a table, bars and a timeline."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from interlock.report.page import Page, render, table

__all__ = ["moe_page"]

# Okabe-Ito, told apart by colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")


def moe_page(
    title: str,
    honesty: str,
    command: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    seconds: Mapping[str, Sequence[float]],
    picture: str | None = None,
) -> str:
    """HTML of one comparison.

    Parameters
    ----------
    rows
        Cells as the terminal shows them; the first names the scheme.
    seconds
        What the bars show, by name; several are stacked.
    picture
        SVG of a timeline.
    """
    page = Page(f"Interlock: {title}", honesty, command, {})
    names = [row[0] for row in rows][::-1]
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": [1e3 * value for value in values][::-1],
            "marker": {"color": COLOURS[place % len(COLOURS)]},
        }
        for place, (name, values) in enumerate(seconds.items())
    ]
    layout = {"barmode": "stack", "xaxis": {"title": {"text": "ms"}}, "height": 120 + 34 * len(rows)}
    body = f'<p class="note">Times are {html.escape(honesty)}.</p>' + table(header, rows)
    body += page.plot("times", "Time by part, in milliseconds.", {"data": bars, "layout": layout})
    page.section("Results", body)
    if picture is not None:
        page.section("Timeline of GPU 0", f'<div class="scroll">{picture}</div>')
    return render(page)
