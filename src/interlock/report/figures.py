"""Plotly figures that several pages share, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from interlock.report.page import COLOURS, Page, array

__all__ = ["Trace", "add_traffic", "bars", "bound_line", "diamonds"]

MAX_HEAT_CELLS = 256  # per side; larger matrices are summed into this many

Trace = dict[str, object]


def bars(name: str, labels: Sequence[str], seconds: Sequence[float], colour: str, **more: object) -> Trace:
    """Horizontal bars in milliseconds."""
    made: Trace = {"type": "bar", "orientation": "h", "name": name, "y": list(labels), "marker": {"color": colour}}
    return made | _milliseconds(name, seconds) | more


def diamonds(name: str, labels: Sequence[str], seconds: Sequence[float], colour: str) -> Trace:
    """One diamond on each of the bars."""
    marker = {"color": colour, "symbol": "diamond", "size": 11, "line": {"width": 1}}
    made: Trace = {"type": "scatter", "mode": "markers", "name": name, "y": list(labels), "marker": marker}
    return made | _milliseconds(name, seconds)


def bound_line(bound_s: float) -> Trace:
    """A dashed line across horizontal bars."""
    line = {"dash": "dash", "color": COLOURS[3], "width": 3}
    return {"type": "line", "x0": 1e3 * bound_s, "x1": 1e3 * bound_s, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _milliseconds(name: str, seconds: Sequence[float]) -> Trace:
    return {"x": [1e3 * value for value in seconds], "hovertemplate": f"%{{y}}: {name} %{{x:.4g}} ms<extra></extra>"}


def add_traffic(page: Page, matrix: NDArray[np.int64]) -> None:
    """Append what ranks owe each other, and how unequal it makes them."""
    others = matrix - np.diag(matrix.diagonal())
    totals = [
        _line("sent", others.sum(axis=1), COLOURS[0], "circle"),
        _line("received", others.sum(axis=0), COLOURS[3], "diamond"),
    ]
    layout = {
        "xaxis": {"title": {"text": "rank"}, **_ticks(len(matrix))},
        "yaxis": {"ticksuffix": "B", "rangemode": "tozero"},
        "height": 420,
        "showlegend": True,
    }
    caption = "Bytes each rank sends to and receives from others."
    shown = page.plot("totals", caption, {"data": totals, "layout": layout})
    page.section("Traffic", f'<div class="pair">{_heat_map(page, matrix)}{shown}</div>')


def _line(name: str, total_bytes: NDArray[np.int64], colour: str, symbol: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(total_bytes) <= 64 else "lines",
        "name": name,
        "y": array(total_bytes.astype(np.float64)),
        "line": {"color": colour, "width": 1.5},
        "marker": {"symbol": symbol},
        "hovertemplate": f"rank %{{x}} {name} %{{y:.4s}}B<extra></extra>",
    }


def _heat_map(page: Page, matrix: NDArray[np.int64]) -> str:
    shown, step = _summed(matrix)
    caption = "Bytes from rank (down) to rank (across)."
    if step > 1:
        caption += f" Each cell sums {step} x {step} ranks."
    heat = {
        "type": "heatmap",
        "z": array(shown.astype(np.float64)),
        "colorscale": "Cividis",
        "colorbar": {"ticksuffix": "B", "thickness": 14},
        "hovertemplate": "from %{y} to %{x}: %{z:.4s}B<extra></extra>",
    }
    axis: dict[str, object] = {"constrain": "domain", **_ticks(len(shown))}
    across = axis | {"title": {"text": "to rank" if step == 1 else f"to rank / {step}"}}
    down = axis | {"title": {"text": "from"}, "autorange": "reversed", "scaleanchor": "x"}
    layout: Mapping[str, object] = {"xaxis": across, "yaxis": down, "height": 420}
    return page.plot("traffic", caption, {"data": [heat], "layout": layout})


def _ticks(count: int) -> dict[str, object]:
    """Whole numbers only, where there are so few that Plotly would put ticks between them."""
    return {"dtick": 1} if count <= 10 else {}


def _summed(matrix: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    step = -(-len(matrix) // MAX_HEAT_CELLS)
    side = -(-len(matrix) // step)
    padded = np.zeros((side * step, side * step), np.int64)
    padded[: len(matrix), : len(matrix)] = matrix
    return padded.reshape(side, step, side, step).sum(axis=(1, 3)), step
