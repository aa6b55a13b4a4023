"""Two algorithms on one time axis: how busy each port is over time, and what it carries in all."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from interlock.comparison import Comparison, tolerance_of
from interlock.report.page import Page, array
from interlock.report.timeline import spread_bytes
from interlock.simulate import Result
from interlock.simulate.explain import explain_against
from interlock.topology.lowering import TwoTierRoutes

__all__ = ["add_side_by_side", "cause", "port_loads", "port_use"]

NUM_BINS = 200  # of the makespan
MAX_EXACT = 20_000  # messages; of more, bytes are spread evenly over the time of each message
MAX_ROWS = 128  # more ports are drawn as means of neighbours


def add_side_by_side(page: Page, comparison: Comparison) -> None:
    """Append the section: the fastest against another that the reader chooses."""
    if len(comparison.plans) < 2:
        return
    results = [plan.simulate(tolerance_of(plan)) for plan in comparison.plans]
    names = [plan.algorithm for plan in comparison.plans]
    other = comparison.baseline if comparison.baseline in names[1:] else "direct" if "direct" in names[1:] else names[1]
    order = [other, *(name for name in names[1:] if name != other)]
    page.shared["sides"] = {
        "best": names[0],
        "bound": 1e3 * comparison.results[0].lower_bound_s,
        "by_name": {
            name: {
                "makespan": 1e3 * result.makespan_s,
                **_packed(result),
                "cause": cause(result, results[0], name, names[0]),
            }
            for name, result in zip(names, results, strict=True)
        },
    }
    what = "NIC" if isinstance(results[0].topology.router, TwoTierRoutes) else "rank"
    options = "".join(f"<option>{html.escape(name)}</option>" for name in order)
    caption = (
        f"Every {what} a row: on the left what it sends, on the right how busy it is over time, a stronger colour for "
        f"busier; both on one time axis, the bound as a dashed line."
    )
    page.section(
        "Side by side (simulated)",
        f'<p><label for="other">{html.escape(names[0])} and </label><select id="other">{options}</select></p>'
        '<p id="cause" class="note" aria-live="polite"></p>'
        f'<canvas id="sides" role="img" aria-label="{caption}"></canvas><p class="small">{caption}</p>',
    )


def cause(slower: Result, faster: Result, name: str, best: str) -> str:
    """Why the fastest is faster than another."""
    return "" if name == best else explain_against(faster, slower, best, name)


def port_use(result: Result, num_bins: int = NUM_BINS) -> NDArray[np.float64]:
    """Part of each rank's sending port in use over time, ``[num_ranks, num_bins]``: its NIC, or all its links."""
    groups = _ports(result)
    if result.schedule.num_messages <= MAX_EXACT:
        use = result.utilisation(num_bins)
    else:  # from messages as they are: to follow every rate again would take as long as simulating
        links, message = result.path.values.astype(np.int64), result.path.row_of_value
        edges = np.linspace(0.0, max(result.makespan_s, 1e-12), num_bins + 1)
        size = result.schedule.size_bytes[message].astype(np.float64)
        num_links = result.topology.num_links
        moved = spread_bytes(links, num_links, size, result.start_s[message], result.finish_s[message], edges)
        use = np.clip(moved.T / (result.topology.bandwidth_bytes_per_s[:, None] * (edges[1] - edges[0])), 0.0, 1.0)
    return np.stack([use[links].mean(axis=0) if len(links) else np.zeros(num_bins) for links in groups])


def port_loads(result: Result) -> NDArray[np.float64]:
    """Bytes through each rank's sending port, ``[num_ranks]``."""
    return np.array([float(result.link_bytes[links].sum()) for links in _ports(result)])


def _ports(result: Result) -> Sequence[NDArray[np.int64]]:
    topology = result.topology
    routes = topology.router
    if isinstance(routes, TwoTierRoutes) and result.link_bytes[routes.nic_out : routes.nic_in].any():
        return [np.array([routes.nic_out + rank]) for rank in range(topology.num_ranks)]
    return [np.flatnonzero(topology.link_src == rank) for rank in range(topology.num_ranks)]


def _packed(result: Result) -> dict[str, object]:
    use, loads = port_use(result), port_loads(result)
    step = -(-len(use) // MAX_ROWS)
    starts = np.arange(0, len(use), step)
    counts = np.diff(np.append(starts, len(use)))
    means = np.add.reduceat(use, starts, axis=0) / counts[:, None]
    cells = np.rint(255 * np.clip(means, 0, 1)).astype(np.uint8)
    return {
        "rows": len(means),
        "bins": NUM_BINS,
        "use": array(cells.ravel()),
        "loads": array((np.add.reduceat(loads, starts) / counts).astype(np.float32)),
    }
