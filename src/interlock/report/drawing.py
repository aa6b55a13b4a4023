"""The cluster or graph as SVG, links coloured by how busy they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.report.topology_picture import node_places
from interlock.simulate import Result
from interlock.topology import Topology
from interlock.units import format_bytes

__all__ = ["draw_load"]

# Viridis, from idle to always busy.
SCALE = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")
CELL, GAP, ROW = 16, 10, 62
MAX_SERVERS = 64
MAX_GRAPH_LINKS = 2000
STEP, MARGIN = 56, 24


def draw_load(result: Result, problem: Problem) -> str:
    """Each GPU's four ports by how much of the time they were busy; other graphs link by link."""
    busy = _busy(result)
    if problem.cluster is None or problem.cluster.scale_up != "switch":
        worst = int(np.argmax(busy)) if len(busy) else 0
        ends = f"{problem.topology.link_src[worst]} to {problem.topology.link_dst[worst]}" if len(busy) else "none"
        words = f"<p>Busiest link: {ends}, busy {100 * busy.max(initial=0):.0f} % of the time.</p>"
        return words + (_draw_graph(problem.topology, busy) if len(busy) <= MAX_GRAPH_LINKS else "")
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


def _draw_graph(topology: Topology, busy: NDArray[np.float64]) -> str:
    """Nodes as circles; the links between two nodes as one line, coloured by the busier direction."""
    places = node_places(topology) * STEP
    places += MARGIN - places.min(axis=0)
    width, height = (places.max(axis=0) + MARGIN).tolist()
    share_by_pair: dict[tuple[int, int], float] = {}
    for src, dst, share in zip(topology.link_src.tolist(), topology.link_dst.tolist(), busy.tolist(), strict=True):
        pair = (min(src, dst), max(src, dst))
        share_by_pair[pair] = max(share, share_by_pair.get(pair, 0.0))
    marks = []
    for (a, b), share in share_by_pair.items():
        (x1, y1), (x2, y2) = places[a].tolist(), places[b].tolist()
        # Links around a torus pass behind other nodes: bend them, so that they are seen.
        bend = 0.18 if np.hypot(x2 - x1, y2 - y1) > 1.5 * STEP else 0.0
        turn = f"{(x1 + x2) / 2 + bend * (y2 - y1):.0f} {(y1 + y2) / 2 - bend * (x2 - x1):.0f}"
        marks.append(
            f'<path d="M{x1:.0f} {y1:.0f} Q{turn} {x2:.0f} {y2:.0f}" fill="none" stroke="{_colour(share)}" '
            f'stroke-width="5"><title>{a} and {b}: busy {100 * share:.0f} %</title></path>'
        )
    for node, (x, y) in enumerate(places.tolist()):
        marks.append(
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="12" fill="#ddeeff" stroke="#333333"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" font-size="11" text-anchor="middle" style="fill:#1f2933">{node}</text>'
        )
    legend = "Links by how busy their busier direction is; dark is idle, yellow always busy."
    return (
        f'<figure><svg viewBox="{-MARGIN} {-MARGIN} {width + 2 * MARGIN:.0f} {height + 2 * MARGIN:.0f}" '
        f'width="{width + 2 * MARGIN:.0f}" role="img" aria-label="Link load">{"".join(marks)}</svg>'
        f"<figcaption>{legend}</figcaption></figure>"
    )


def _busy(result: Result) -> NDArray[np.float64]:
    if result.makespan_s <= 0:
        return np.zeros(result.topology.num_links)
    capacity = result.topology.bandwidth_bytes_per_s * result.makespan_s
    return np.minimum(1.0, result.link_bytes / capacity)


def _colour(share: float) -> str:
    return SCALE[min(len(SCALE) - 1, int(share * len(SCALE)))]
