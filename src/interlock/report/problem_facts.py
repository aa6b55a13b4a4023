"""The problem on the page: the cluster or graph with every default that applied, what is broken, and the traffic."""

from __future__ import annotations

import html

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.report.charts import Line, figure, line_chart, line_legend
from interlock.report.page import COLOURS, Page, array
from interlock.units import format_bandwidth, format_bytes, format_seconds

__all__ = ["add_problem", "add_traffic", "problem_facts"]

MAX_HEAT_CELLS = 256  # per side; larger matrices are summed into this many


def add_problem(page: Page, problem: Problem) -> None:
    """Append the section."""
    facts = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in problem_facts(problem).items())
    page.section("The problem", f'<dl class="facts">{facts}</dl>')


def problem_facts(problem: Problem) -> dict[str, str]:
    """What is moved, and on what, by name."""
    facts = {}
    if problem.collective is not None:
        group = problem.collective.group
        among = "all ranks" if group is None else f"{len(group)} ranks"
        facts["collective"] = f"{problem.collective.kind} of {format_bytes(problem.collective.size_bytes)}, {among}"
    if problem.demand is not None:
        facts |= problem.demand.facts()
    if problem.cluster is not None:
        return facts | problem.cluster.facts()
    graph = problem.topology
    rates = np.unique(graph.bandwidth_bytes_per_s)
    shown = " to ".join(dict.fromkeys(format_bandwidth(float(rate)) for rate in (rates[0], rates[-1])))
    return facts | {
        "topology": f"{graph.name}: {graph.num_ranks} ranks, {graph.num_nodes} nodes, {graph.num_links} links",
        "link rates": shown,
        "link latency": f"at most {format_seconds(float(graph.latency_s.max(initial=0.0)))}",
        "message overhead": f"at most {format_seconds(float(graph.message_overhead_s.max(initial=0.0)))}",
    }


def add_traffic(page: Page, matrix: NDArray[np.int64]) -> None:
    """Append what ranks owe each other, and how unequal it makes them."""
    others = matrix - np.diag(matrix.diagonal())
    has_symbols = len(matrix) <= 64
    ranks = [float(rank) for rank in range(len(matrix))]
    lines = [
        Line("sent", ranks, others.sum(axis=1).astype(float).tolist(), COLOURS[0], "circle" if has_symbols else None),
        Line(
            "received", ranks, others.sum(axis=0).astype(float).tolist(), COLOURS[3], "diamond" if has_symbols else None
        ),
    ]
    chart = line_legend(lines) + line_chart(lines, "rank", "Bytes sent and received by rank")
    totals = figure("Bytes each rank sends to and receives from others.", chart, "totals")
    page.section("Traffic", f'<div class="pair">{_heat_map(page, matrix)}{totals}</div>')


def _heat_map(page: Page, matrix: NDArray[np.int64]) -> str:
    shown, step = _summed(matrix)
    page.shared["heat"] = {"cells": array(shown.astype(np.float64).ravel()), "side": len(shown), "ranks_per_cell": step}
    caption = "Bytes from rank (down) to rank (across); arrow keys step through the cells."
    if step > 1:
        caption += f" Each cell sums {step} x {step} ranks."
    canvas = f'<canvas id="traffic" tabindex="0" role="img" aria-label="{caption}"></canvas>'
    scale = '<span class="heat-scale"><span>0 B</span><i></i><span id="heat-most"></span></span>'
    return figure(caption, f'{canvas}{scale}<p id="heat-status" class="small" aria-live="polite"></p>')


def _summed(matrix: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    step = -(-len(matrix) // MAX_HEAT_CELLS)
    side = -(-len(matrix) // step)
    padded = np.zeros((side * step, side * step), np.int64)
    padded[: len(matrix), : len(matrix)] = matrix
    return padded.reshape(side, step, side, step).sum(axis=(1, 3)), step
