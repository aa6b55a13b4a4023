"""The pages of `interlock moe`: schemes on one layer in detail, or algorithms in a training step."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from interlock.moe import Layer, LayerRow, LayerTraffic
from interlock.moe.tiles import PARTS, LayerTime
from interlock.ragged import Ragged
from interlock.report import charts
from interlock.report.detail import detail_html
from interlock.report.drawing import SCALE, loads, ports_svg
from interlock.report.page import COLOURS, Page, render, table
from interlock.report.problem_facts import add_traffic
from interlock.report.timeline import MAX_BARS, BarColumns, BarGroup, View, merged, timeline
from interlock.traffic.routing import Routing
from interlock.units import format_seconds

__all__ = ["layer_page", "moe_page"]

TRACKS = ("uplink", "downlink", "SMs", "SMs, second group")
GROUPS = tuple(
    BarGroup(part, COLOURS[colour], band)
    for part, colour, band in zip(PARTS[:-1], (0, 5, 1, 3, 2, 4), (0, 1, 2, 3, 0, 1), strict=True)
)
CAPTION = "What links and SMs do when (simulated)."

Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # header and rows, as the terminal shows them


def layer_page(
    title: str,
    honesty: str,
    command: str,
    facts: Mapping[str, str],
    cells: Table,
    layers: Sequence[tuple[LayerRow, LayerTime]],
    problem: tuple[Layer, LayerTraffic | Routing],
) -> str:
    """HTML of schemes on one layer; numbers are those of `--json`."""
    page = Page(f"Interlock: {title}", honesty, command, facts)
    best = min((row for row, _ in layers), key=lambda row: row.makespan_s)
    summary = f"{best.algorithm} takes {format_seconds(best.makespan_s)}, {1 + best.gap:.3f} times the least possible "
    summary += f"with its choice of replicas. Times are {honesty}."
    names = [row.algorithm for row, _ in layers]
    body = f'<p class="note">{html.escape(summary)}</p>' + table(*cells, names)
    body += _times([row for row, _ in layers])
    page.section("Results (simulated)", body)
    layer, traffic = problem
    add_traffic(page, dispatch_matrix(layer, traffic))
    gpus = len(layers[0][1].up_busy_s)
    tracks = [f"GPU {gpu} {track}" for track in TRACKS for gpu in range(gpus)]
    page.shared["rows"] = {"gpu": [f"GPU {gpu}" for gpu in range(gpus)], "track": tracks, "link": tracks}
    inner = detail_html(names, _draw(gpus), ("GPU", "link or SMs"), CAPTION, "Scheme", "Parts")
    page.section("One scheme in detail (simulated)", inner)
    for row, time in layers:
        page.choices[row.algorithm] = _choice(row, time, tracks)
    return render(page)


def dispatch_matrix(layer: Layer, traffic: LayerTraffic | Routing) -> NDArray[np.int64]:
    """Bytes of tokens from GPU to GPU, each token once for each GPU it goes to."""
    where = traffic if isinstance(traffic, LayerTraffic) else LayerTraffic.from_routing(traffic)
    token, target, _ = where.copies()
    matrix = np.zeros((where.num_gpus, where.num_gpus), np.int64)
    np.add.at(matrix, (where.gpu_of_token[token], target), int(layer.hidden * layer.dispatch_bytes))
    return matrix


def _times(rows: Sequence[LayerRow]) -> str:
    series = [
        charts.Bars("simulated", [1e3 * row.makespan_s for row in rows], COLOURS[0]),
        charts.Bars("bound", [1e3 * row.lower_bound_s for row in rows], COLOURS[3], is_mark=True),
    ]
    chart = charts.bar_chart([row.algorithm for row in rows], series, "ms, simulated")
    return charts.figure("Simulated time of each scheme, and the bound for its replicas.", chart, "times")


def _choice(row: LayerRow, time: LayerTime, tracks: Sequence[str]) -> dict[str, object]:
    busy = np.concatenate([time.up_busy_s, time.down_busy_s, time.compute_busy_s]) / max(time.makespan_s, 1e-12)
    busy = np.minimum(busy, 1.0)
    gpus = len(time.up_busy_s)
    most = [100 * busy[k * gpus : (k + 1) * gpus].max() for k in range(3)]
    explanation = (
        f"{row.algorithm} takes {format_seconds(time.makespan_s)}. The busiest uplink works {most[0]:.0f} % of it, "
        f"the busiest downlink {most[1]:.0f} %, the busiest SMs {most[2]:.0f} %; what is left is waiting."
    )
    order = np.argsort(-busy, kind="stable")[:8].tolist()
    busiest = table(["busiest", "busy"], [[tracks[k], f"{100 * busy[k]:.1f} %"] for k in order])
    return {
        "explanation": explanation,
        "load": loads(busy),
        "busiest": busiest,
        "stages": _parts(time),
        "timeline": _timeline(time),
        "trace": None,
    }


def _timeline(time: LayerTime) -> dict[str, object]:
    gpus = len(time.up_busy_s)
    kept = np.flatnonzero(time.resource < 4 * gpus)  # all but barriers, which take no time
    resource = time.resource[kept]
    whole = BarColumns(time.start_s[kept], time.finish_s[kept], time.part[kept], {})
    rows = {"GPU": ("gpu", Ragged.single(resource % gpus)), "link or SMs": ("track", Ragged.single(resource))}
    if len(kept) > MAX_BARS:
        note = f"{len(kept)} chunks and tiles; those of a row and part that start about together are one bar."
        return timeline(GROUPS, {name: merged(*row, whole) for name, row in rows.items()}, None, note)
    return timeline(GROUPS, {name: View(*row) for name, row in rows.items()}, whole, "")


def _parts(time: LayerTime) -> str:
    """When each part of the layer begins and ends."""
    rows = []
    for number, part in enumerate(PARTS[:-1]):
        tasks = np.flatnonzero(time.part == number)
        if len(tasks):
            first, last = time.start_s[tasks].min(), time.finish_s[tasks].max()
            rows.append([part, str(len(tasks)), format_seconds(float(first)), format_seconds(float(last))])
    return table(["part", "chunks or tiles", "first start", "last end"], rows)


def _draw(gpus: int) -> str:
    """GPUs around their switch; `data-links` are the rows that `loads` gives."""
    svg = ports_svg("switch", {gpu: ((gpu, gpus + gpu), (2 * gpus + gpu,)) for gpu in range(gpus)})
    caption = "Above each GPU its uplink (left) and downlink (right), below it its SMs."
    body = f'<div class="servers scroll" tabindex="0">{svg}</div>'
    return f"<figure>{body}<figcaption>{SCALE}. {caption}</figcaption></figure>"


def moe_page(
    title: str,
    honesty: str,
    command: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    seconds: Mapping[str, Sequence[float]],
    facts: Mapping[str, str],
    picture: str = "",
) -> str:
    """HTML of algorithms in a training step; numbers are those of `--json`.

    Parameters
    ----------
    rows
        Cells as the terminal shows them; the first names the algorithm.
    seconds
        What the bars show, by name; several are stacked.
    picture
        A timeline as SVG.
    """
    page = Page(f"Interlock: {title}", honesty, command, facts)
    series = [
        charts.Bars(name, [1e3 * value for value in values], COLOURS[place % len(COLOURS)])
        for place, (name, values) in enumerate(seconds.items())
    ]
    chart = charts.bar_chart([row[0] for row in rows], series, f"ms, {honesty}")
    body = f'<p class="note">Times are {html.escape(honesty)}.</p>' + table(header, rows)
    page.section(f"Results ({honesty})", body + charts.figure("Time by part.", chart, "times"))
    if picture:
        caption = "What computes and what communicates when, in one layer with experts."
        drawn = f'<div class="scroll" tabindex="0">{picture}</div>'
        page.section(f"One layer ({honesty})", charts.figure(caption, drawn, "layer"))
    return render(page)
