"""The part of a page that shows one algorithm at a time: why it takes that long, link load, timeline, stages."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np

from interlock.comparison import tolerance_of
from interlock.planning import Plan
from interlock.report.drawing import busiest_links, draw, link_names, link_shares, loads
from interlock.report.page import Page, table
from interlock.report.timeline import message_timeline, timeline_html
from interlock.schedule import Phase
from interlock.simulate import Result
from interlock.units import format_bytes, format_seconds

__all__ = ["add_detail", "detail_html"]

MAX_STAGES = 40
CAPTION = "When messages are under way (simulated); those of the critical path are outlined."
VIEWS = ("sending rank", "receiving rank", "link")


def add_detail(page: Page, plans: Sequence[Plan], heading: str, traces: Mapping[str, str]) -> None:
    """Append the section; the first plan is shown first.

    Parameters
    ----------
    traces
        Files beside the page, by algorithm, that hold the timelines too large for it.
    """
    if not plans:
        return
    topology = plans[0].problem.topology
    names = link_names(topology)
    page.shared["rows"] = {"rank": [f"rank {rank}" for rank in range(topology.num_ranks)], "link": names}
    page.section(heading, detail_html([plan.algorithm for plan in plans], draw(plans[0].problem), VIEWS, CAPTION))
    for plan in plans:
        result = plan.simulate(tolerance_of(plan))
        shares = link_shares(result)
        page.choices[plan.algorithm] = {
            "explanation": result.explanation(),
            "load": loads(shares, result.link_bytes),
            "busiest": busiest_links(names, shares, result.link_bytes),
            "stages": stage_table(result),
            "timeline": message_timeline(result),
            "trace": traces.get(plan.algorithm),
        }


def detail_html(
    names: Sequence[str],
    drawing: str,
    views: Sequence[str],
    caption: str,
    what: str = "Algorithm",
    parts: str = "Stages",
) -> str:
    """Places for what `page.js` fills in when an algorithm, or `what` else, is chosen."""
    options = "".join(f"<option>{html.escape(name)}</option>" for name in names)
    return (
        f'<p><label for="choice">{what} </label><select id="choice">{options}</select></p>'
        '<p id="explanation" class="note" aria-live="polite"></p>'
        f'<h3>Link load</h3><div class="side"><div id="drawing">{drawing}</div><div id="busiest"></div></div>'
        f"<h3>Timeline</h3>{timeline_html(views, caption)}"
        f'<h3>{parts}</h3><div id="stages"></div>'
    )


def stage_table(result: Result) -> str:
    """Messages, bytes and span of every phase and stage, in order of time."""
    schedule = result.schedule
    if schedule.num_messages == 0:
        return "<p>Nothing to move.</p>"
    num_stages = int(schedule.stage.max()) + 1
    key, place = np.unique(schedule.phase.astype(np.int64) * num_stages + schedule.stage, return_inverse=True)
    first, last = np.full(len(key), np.inf), np.zeros(len(key))
    np.minimum.at(first, place, result.start_s)
    np.maximum.at(last, place, result.finish_s)
    count = np.bincount(place)
    size = np.bincount(place, weights=schedule.size_bytes.astype(np.float64))
    order = np.argsort(first, kind="stable").tolist()
    rows = [
        [
            f"{Phase(int(key[k]) // num_stages).name.lower().replace('_', '-')}, stage {int(key[k]) % num_stages}",
            str(count[k]),
            format_bytes(float(size[k])),
            format_seconds(float(first[k])),
            format_seconds(float(last[k])),
        ]
        for k in order[:MAX_STAGES]
    ]
    note = f"<p>{len(order) - MAX_STAGES} more are not shown.</p>" if len(order) > MAX_STAGES else ""
    return table(["phase and stage", "messages", "bytes", "first start", "last arrival"], rows) + note
