"""Timelines that a page can zoom: bars in columns, and the rows they lie on by rank and by link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock.ragged import Ragged
from interlock.report.page import COLOURS, array, compact
from interlock.schedule import Phase
from interlock.simulate import Result
from interlock.topology.lowering import TwoTierRoutes

__all__ = [
    "MAX_BARS",
    "BarColumns",
    "BarGroup",
    "View",
    "heat_map",
    "is_thinned",
    "merged",
    "message_timeline",
    "spread_bytes",
    "timeline",
    "timeline_html",
]

MAX_BARS = 6000  # of a view
MAX_ROWS_OF_BARS = 96  # of more ranks, bars are thinner than six pixels: a heat map takes their place
NUM_HEAT_BINS = 96  # of the makespan
MAX_CRITICAL = 4000  # messages of the critical path drawn over a heat map
NUM_SPANS = 256  # of the makespan, at most, into which messages are merged; a power of two
COLOUR_BY_PHASE = {
    Phase.LOCAL: COLOURS[6],
    Phase.BALANCE: COLOURS[1],
    Phase.SCALE_OUT: COLOURS[0],
    Phase.REDISTRIBUTE: COLOURS[2],
    Phase.REDUCE: COLOURS[3],
    Phase.SPREAD: COLOURS[4],
}
KEYS = "Arrow keys move, + and - zoom in time, shift and arrows zoom rows, n and p step through bars, 0 shows all."


@dataclass(frozen=True, slots=True)
class BarGroup:
    """Bars of one colour; where a row has several bands, each gets its part of the height."""

    name: str
    colour: str
    band: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class BarColumns:
    """Bars as columns. `columns` is what hovering tells, by name: encoded numbers or a list of words."""

    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    group: NDArray[np.integer]
    columns: Mapping[str, object]
    is_critical: NDArray[np.bool_] | None = None

    def encoded(self) -> dict[str, object]:
        """As `timeline.js` reads them, in milliseconds."""
        return {
            "start": array(1e3 * self.start_s),
            "end": array(1e3 * self.finish_s),
            "group": array(self.group.astype(np.uint8)),
            "columns": self.columns,
            "critical": None if self.is_critical is None else array(self.is_critical.astype(np.uint8)),
        }


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One way to lay bars out: `rows` names the shared list of row names, `row_by_bar` where each bar lies.

    A view may have bars of its own instead of those of the timeline.
    """

    rows: str
    row_by_bar: Ragged
    bars: BarColumns | None = None
    heat: Mapping[str, object] | None = None  # what is drawn where rows are too many for bars; see `heat_map`

    def encoded(self) -> dict[str, object]:
        """As `timeline.js` reads it."""
        offsets = None if self.row_by_bar.is_single else compact(self.row_by_bar.offsets)
        own = None if self.bars is None else self.bars.encoded()
        return {
            "rows": self.rows,
            "row": compact(self.row_by_bar.values),
            "offsets": offsets,
            "bars": own,
            "heat": self.heat,
        }


def timeline(
    groups: Sequence[BarGroup], views: Mapping[str, View], bars: BarColumns | None, note: str
) -> dict[str, object]:
    """A timeline as `timeline.js` reads it."""
    return {
        "groups": [asdict(made) for made in groups],
        "views": {name: view.encoded() for name, view in views.items()},
        "bars": None if bars is None else bars.encoded(),
        "note": note,
    }


def message_timeline(result: Result) -> dict[str, object]:
    """Messages from start to arrival, by sending rank, receiving rank and link."""
    schedule = result.schedule
    phases = np.unique(schedule.phase).tolist()
    groups = [
        BarGroup(Phase(p).name.lower().replace("_", "-"), COLOUR_BY_PHASE[Phase(p)], int(p == Phase.SCALE_OUT))
        for p in phases
    ]
    critical = np.zeros(schedule.num_messages, np.bool_)
    critical[[step.message for step in result.critical_path()]] = True
    whole = BarColumns(result.start_s, result.finish_s, np.searchsorted(phases, schedule.phase), {}, critical)
    parts = {
        "sending rank": ("rank", schedule.src),
        "receiving rank": ("rank", schedule.dst),
        "link": ("link", result.path),
    }
    heats = {name: heat_map(result, part, whole, groups) for name, (rows, part) in parts.items() if rows == "rank"}
    if is_thinned(result):
        views = {
            name: replace(merged(rows, part, whole, schedule.size_bytes), heat=heats.get(name))
            for name, (rows, part) in parts.items()
        }
        note = f"{schedule.num_messages} messages; those of a row and phase that start about together are one bar."
        return timeline(groups, views, None, note)
    columns = {
        "from": _ends(schedule.src),
        "to": _ends(schedule.dst),
        "stage": compact(schedule.stage),
        "bytes": array(schedule.size_bytes.astype(np.float64)),
        "message": compact(np.arange(schedule.num_messages)),
    }
    views = {name: View(rows, part, heat=heats.get(name)) for name, (rows, part) in parts.items()}
    return timeline(groups, views, replace(whole, columns=columns), "")


def is_thinned(result: Result) -> bool:
    """Whether a page merges messages into fewer bars."""
    return result.schedule.num_messages > MAX_BARS


def heat_map(result: Result, part: Ragged, whole: BarColumns, groups: Sequence[BarGroup]) -> dict[str, object] | None:
    """Part of its port that each rank uses for each phase over time; None where there is room for bars.

    A message's bytes are spread evenly over the time it is under way. Ports are NICs for scale-out, what joins GPUs
    inside a server otherwise, and all links of a rank on a graph. The critical path comes along message by message.
    """
    num_rows = result.topology.num_ranks
    if num_rows <= MAX_ROWS_OF_BARS:
        return None
    message, row = part.row_of_value, part.values.astype(np.int64)
    group = whole.group[message].astype(np.int64)
    size = result.schedule.size_bytes[message].astype(np.float64)
    start_s, finish_s = whole.start_s[message], whole.finish_s[message]
    edges = np.linspace(0.0, max(result.makespan_s, 1e-12), NUM_HEAT_BINS + 1)
    cells = spread_bytes(group * num_rows + row, len(groups) * num_rows, size, start_s, finish_s, edges)
    cells = cells.reshape(NUM_HEAT_BINS, len(groups), num_rows)
    rate = np.stack([_port_rates(result, made.band == 1) for made in groups])
    share = np.clip(cells / (np.maximum(rate, 1.0) * (edges[1] - edges[0])), 0.0, 1.0)
    assert whole.is_critical is not None
    critical = np.flatnonzero(whole.is_critical[message])[:MAX_CRITICAL]
    return {
        "bins": NUM_HEAT_BINS,
        "cells": array(np.rint(255 * share.transpose(1, 2, 0)).astype(np.uint8).ravel()),
        "critical": {
            "start": array(1e3 * start_s[critical]),
            "end": array(1e3 * finish_s[critical]),
            "row": compact(row[critical]),
            "group": compact(group[critical]),
        },
    }


def spread_bytes(
    place: NDArray[np.int64],
    num_places: int,
    size_bytes: NDArray[np.float64],
    start_s: NDArray[np.float64],
    finish_s: NDArray[np.float64],
    edges: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Bytes by span of time and place, ``[spans, num_places]``, those of a message spread evenly over its time."""
    cells = np.zeros((len(edges) - 1, num_places))
    done = np.zeros(len(size_bytes))
    for k, edge in enumerate(edges[1:]):
        until = np.clip((edge - start_s) / np.maximum(finish_s - start_s, 1e-15), 0.0, 1.0)
        cells[k] = np.bincount(place, size_bytes * (until - done), num_places)
        done = until
    return cells


def _port_rates(result: Result, is_scale_out: bool) -> NDArray[np.float64]:
    """Bytes per second of each rank's port, ``[num_ranks]``."""
    topology, routes = result.topology, result.topology.router
    if isinstance(routes, TwoTierRoutes) and is_scale_out:
        return topology.bandwidth_bytes_per_s[routes.nic_out + np.arange(topology.num_ranks)]
    own = topology.link_src < topology.num_ranks
    if isinstance(routes, TwoTierRoutes):
        own = own & (np.arange(topology.num_links) < routes.nic_out)
    rates = np.bincount(topology.link_src[own], topology.bandwidth_bytes_per_s[own], topology.num_ranks)
    return np.asarray(rates, np.float64)


def merged(rows: str, part: Ragged, whole: BarColumns, size_bytes: NDArray[np.int64] | None = None) -> View:
    """Bars of one row and group that start in the same span of time as one; spans as short as `MAX_BARS` allows.

    Parameters
    ----------
    part
        The rows of each bar of `whole`.
    """
    message, num_groups = part.row_of_value, int(whole.group.max()) + 1
    span = max(float(whole.finish_s.max()), 1e-12) / NUM_SPANS
    start_span = np.minimum((whole.start_s / span).astype(np.int64), NUM_SPANS - 1)
    key = (part.values.astype(np.int64) * num_groups + whole.group[message]) * NUM_SPANS + start_span[message]
    finest = np.unique(key)
    halvings = 0
    while NUM_SPANS >> halvings > 1 and len(np.unique(finest >> halvings)) > MAX_BARS:
        halvings += 1
    kept, bar = np.unique(key >> halvings, return_inverse=True)
    first, last = np.full(len(kept), np.inf), np.zeros(len(kept))
    np.minimum.at(first, bar, whole.start_s[message])
    np.maximum.at(last, bar, whole.finish_s[message])
    columns = {"parts": compact(np.bincount(bar))}
    if size_bytes is not None:
        columns["bytes"] = array(np.bincount(bar, weights=size_bytes[message].astype(np.float64)))
    row_and_group = kept // (NUM_SPANS >> halvings)
    critical = None
    if whole.is_critical is not None:
        critical = np.bincount(bar, weights=whole.is_critical[message]) > 0
    bars = BarColumns(first, last, row_and_group % num_groups, columns, critical)
    return View(rows, Ragged.single((row_and_group // num_groups).astype(np.int32)), bars)


def timeline_html(views: Sequence[str], caption: str) -> str:
    """HTML that `timeline.js` brings to life."""
    options = "".join(f"<option>{view}</option>" for view in views)
    buttons = "".join(
        f'<button type="button" data-do="{do}" aria-label="{words}" title="{words}">{sign}</button>'
        for do, sign, words in (
            ("in", "+", "Zoom in"),
            ("out", "\N{MINUS SIGN}", "Zoom out"),
            ("left", "\N{LEFTWARDS ARROW}", "Earlier"),
            ("right", "\N{RIGHTWARDS ARROW}", "Later"),
            ("whole", "All", "Show everything"),
        )
    )
    return (
        '<div id="timeline" class="timeline"><div class="tools">'
        f'<label>Rows by <select id="view">{options}</select></label> '
        '<label>Only <input id="find" type="search" size="14" placeholder="row, e.g. 3" autocomplete="off"></label> '
        f'<span class="buttons">{buttons}</span> <span id="trace"></span></div>'
        '<ul class="legend"></ul>'
        f'<canvas tabindex="0" role="img" aria-label="{caption}" aria-describedby="timeline-keys"></canvas>'
        '<p id="timeline-status" class="small" aria-live="polite"></p>'
        f'<p id="timeline-keys" class="small">{caption} Drag to zoom, double-click to go back, ctrl and wheel to zoom '
        f"in time. {KEYS}</p></div>"
    )


def _ends(ranks: Ragged) -> object:
    """One rank each as numbers; sets as words."""
    if ranks.is_single:
        return compact(ranks.values)
    return ["+".join(map(str, ranks[row].tolist())) for row in range(len(ranks))]
