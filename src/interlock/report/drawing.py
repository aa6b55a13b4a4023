"""The cluster or graph as SVG, links coloured by how busy they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.simulate import Result
from interlock.units import format_bytes

__all__ = ["draw_load"]

# Viridis, from idle to always busy.
SCALE = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")
CELL, GAP, ROW = 16, 10, 62
MAX_SERVERS = 64


def draw_load(result: Result, problem: Problem) -> str:
    """Each GPU's four ports by how much of the time they were busy; a table of words for other graphs."""
    busy = _busy(result)
    if problem.cluster is None or problem.cluster.scale_up != "switch":
        worst = int(np.argmax(busy)) if len(busy) else 0
        ends = f"{problem.topology.link_src[worst]} to {problem.topology.link_dst[worst]}" if len(busy) else "none"
        return f"<p>Busiest link: {ends}, busy {100 * busy.max(initial=0):.0f} % of the time.</p>"
    cluster = problem.cluster
    ranks, width = cluster.num_ranks, cluster.gpus_per_server
    shown = min(cluster.servers, MAX_SERVERS)
    names = ("scale-up out", "scale-up in", "NIC out", "NIC in")
    marks = []
    for server in range(shown):
        top = 24 + server * ROW
        marks.append(f'<text x="0" y="{top + 12}" font-size="12">server {server}</text>')
        for gpu in range(width):
            rank = server * width + gpu
            left = 70 + gpu * (2 * CELL + GAP)
            for place, name in enumerate(names):
                share = float(busy[place * ranks + rank])
                x, y = left + CELL * (place % 2), top - 8 + CELL * (place // 2)
                moved = format_bytes(float(result.link_bytes[place * ranks + rank]))
                title = f"rank {rank}, {name}: busy {100 * share:.0f} %, {moved}"
                marks.append(
                    f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" fill="{_colour(share)}">'
                    f"<title>{title}</title></rect>"
                )
    height, across = 24 + shown * ROW, 80 + width * (2 * CELL + GAP)
    legend = "Per GPU: scale-up out and in above, NIC out and in below; dark is idle, yellow always busy."
    more = f" {cluster.servers - shown} more servers are not drawn." if cluster.servers > shown else ""
    return (
        f'<figure><svg viewBox="0 0 {across} {height}" width="{across}" height="{height}" role="img" '
        f'aria-label="Link load by GPU">{"".join(marks)}</svg><figcaption>{legend}{more}</figcaption></figure>'
    )


def _busy(result: Result) -> NDArray[np.float64]:
    if result.makespan_s <= 0:
        return np.zeros(result.topology.num_links)
    capacity = result.topology.bandwidth_bytes_per_s * result.makespan_s
    return np.minimum(1.0, result.link_bytes / capacity)


def _colour(share: float) -> str:
    return SCALE[min(len(SCALE) - 1, int(share * len(SCALE)))]
