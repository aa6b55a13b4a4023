"""A Gantt picture of a simulated schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.errors import MissingDependency
from interlock.schedule import Phase
from interlock.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from interlock.simulate.result import Result

__all__ = ["gantt"]

# One colour per phase, told apart by people who see red and green alike.
COLOURS = {
    Phase.LOCAL: "#999999",
    Phase.BALANCE: "#56b4e9",
    Phase.SCALE_OUT: "#0072b2",
    Phase.REDISTRIBUTE: "#e69f00",
    Phase.REDUCE: "#cc79a7",
    Phase.SPREAD: "#009e73",
}


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """What is drawn, one entry per bar."""

    rank: NDArray[np.int64]
    phase: NDArray[np.int64]
    stage: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]

    def of_phase(self, phase: Phase) -> Bars:
        """Those of one phase."""
        rows = np.flatnonzero(self.phase == phase)
        return Bars(
            self.rank[rows],
            self.phase[rows],
            self.stage[rows],
            self.size_bytes[rows],
            self.start_s[rows],
            self.finish_s[rows],
        )

    def labels(self) -> list[str]:
        """What the pointer shows."""
        columns = (self.stage.tolist(), self.size_bytes.tolist(), (self.finish_s - self.start_s).tolist())
        return [f"stage {s}, {format_bytes(b)}, {format_seconds(t)}" for s, b, t in zip(*columns, strict=True)]


def gantt(result: Result, max_bars: int) -> Figure:
    """One row per sending rank; above `max_bars` messages, one bar per rank, phase and stage."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise MissingDependency("the Gantt picture needs plotly; install interlock with its dependencies") from None
    figure = go.Figure()
    bars = _message_bars(result) if len(result.start_s) <= max_bars else _stage_bars(result)
    for phase in Phase:
        drawn = bars.of_phase(phase)
        if not len(drawn.rank):
            continue
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=drawn.rank,
                base=drawn.start_s * 1e6,
                x=(drawn.finish_s - drawn.start_s) * 1e6,
                name=phase.name.lower().replace("_", "-"),
                marker={"color": COLOURS[phase], "line": {"width": 0.3, "color": "white"}},
                opacity=0.75,
                hovertext=drawn.labels(),
                hoverinfo="text",
            )
        )
    figure.update_layout(
        barmode="overlay",
        title=f"{format_seconds(result.makespan_s)} (simulated)",
        xaxis_title="time, us",
        yaxis={"title": "sending rank", "autorange": "reversed", "dtick": max(1, result.topology.num_ranks // 32)},
        legend_title="phase",
    )
    return figure


def _message_bars(result: Result) -> Bars:
    schedule = result.schedule
    return Bars(
        rank=schedule.src.values[schedule.src.offsets[:-1]].astype(np.int64),
        phase=schedule.phase.astype(np.int64),
        stage=schedule.stage.astype(np.int64),
        size_bytes=schedule.size_bytes,
        start_s=result.start_s,
        finish_s=result.finish_s,
    )


def _stage_bars(result: Result) -> Bars:
    """From the first start to the last arrival of what a rank sends in a stage."""
    each = _message_bars(result)
    groups, group = np.unique(np.stack([each.rank, each.phase, each.stage]), axis=1, return_inverse=True)
    group = group.reshape(-1)
    start_s = np.full(groups.shape[1], np.inf)
    finish_s = np.zeros(groups.shape[1])
    size_bytes = np.zeros(groups.shape[1], np.int64)
    np.minimum.at(start_s, group, each.start_s)
    np.maximum.at(finish_s, group, each.finish_s)
    np.add.at(size_bytes, group, each.size_bytes)
    return Bars(groups[0], groups[1], groups[2], size_bytes, start_s, finish_s)
