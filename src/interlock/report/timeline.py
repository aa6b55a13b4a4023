"""Timelines as Plotly figures: one line per sender, thinned where there are too many messages."""

from __future__ import annotations

import numpy as np

from interlock.report.page import array
from interlock.schedule import Phase, Schedule
from interlock.simulate import Result

__all__ = ["COLOUR_BY_PHASE", "timeline"]

# Okabe-Ito, told apart by colour-blind readers.
COLOUR_BY_PHASE = {
    Phase.LOCAL: "#999999",
    Phase.BALANCE: "#E69F00",
    Phase.SCALE_OUT: "#0072B2",
    Phase.REDISTRIBUTE: "#009E73",
    Phase.REDUCE: "#D55E00",
    Phase.SPREAD: "#CC79A7",
}
MAX_BARS = 4000


def timeline(result: Result) -> dict[str, object]:
    """Bars from start to arrival by sending rank; the largest messages are kept where all would be too many."""
    schedule = result.schedule
    count = schedule.num_messages
    kept = np.arange(count)
    if count > MAX_BARS:
        kept = np.sort(np.argsort(-schedule.size_bytes, kind="stable")[:MAX_BARS])
    sender = schedule.src.values[schedule.src.offsets[:-1]]
    bars = []
    for phase, colour in COLOUR_BY_PHASE.items():
        rows = kept[schedule.phase[kept] == phase]
        if len(rows) == 0:
            continue
        lane = 0.2 if phase is Phase.SCALE_OUT else -0.2
        texts = [_words(schedule, m) for m in rows.tolist()]
        bars.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": phase.name.lower().replace("_", "-"),
                "base": array(1e3 * result.start_s[rows]),
                "x": array(1e3 * (result.finish_s[rows] - result.start_s[rows])),
                "y": array(sender[rows] + lane),
                "width": 0.36,
                "marker": {"color": colour},
                "text": texts,
                "textposition": "none",
                "hovertemplate": "%{text}<br>from %{base:.4f} ms, %{x:.4f} ms long<extra></extra>",
            }
        )
    note = "" if count <= MAX_BARS else f"; the {MAX_BARS} largest of {count} messages"
    layout = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": "ms"}},
        "yaxis": {"title": {"text": f"sending rank{note}"}, "autorange": "reversed"},
        "height": 520,
    }
    return {"data": bars, "layout": layout}


def _words(schedule: Schedule, message: int) -> str:
    src, dst = ("+".join(map(str, side[message].tolist())) for side in (schedule.src, schedule.dst))
    return f"{src} to {dst}, stage {schedule.stage[message]}, {schedule.size_bytes[message]} B"
