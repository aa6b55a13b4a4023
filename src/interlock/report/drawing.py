"""The cluster or graph as SVG, drawn once; the page colours its links by the load of the algorithm chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.report.page import array, scroll, table
from interlock.report.topology_picture import node_places
from interlock.simulate import Result
from interlock.topology import Topology
from interlock.topology.lowering import TwoTierRoutes
from interlock.units import format_bytes

__all__ = ["SCALE", "busiest_links", "draw", "link_names", "link_shares", "loads", "ports_svg"]

MAX_SERVERS, MAX_GRAPH_LINKS = 128, 4000
COLUMN, STEP, MARGIN = 30, 56, 24
MAX_COLUMNS = 18  # GPUs side by side
NUM_BUSIEST = 8
SCALE = '<span class="scale"><i></i> idle to always busy</span>'


def draw(problem: Problem) -> str:
    """HTML of the drawing. Whatever has `data-links` shows the load of those links, the busiest counting."""
    routes = problem.topology.router
    if isinstance(routes, TwoTierRoutes) and not routes.is_mesh and problem.cluster is not None:
        cluster = problem.cluster
        shown = min(cluster.servers, MAX_SERVERS)
        servers = [_server(routes, cluster.num_ranks, cluster.gpus_per_server, server) for server in range(shown)]
        more = f" {cluster.servers - shown} more servers are not drawn." if cluster.servers > shown else ""
        caption = "Above each GPU its scale-up port, below it its NIC: out on the left, in on the right."
        body = f'<div class="servers scroll" tabindex="0">{"".join(servers)}</div>'
    elif problem.topology.num_links <= MAX_GRAPH_LINKS:
        caption, more = "Lines are links; of the two directions, the busier one counts.", ""
        body = scroll(_graph(problem.topology))
    else:
        return ""
    return f"<figure>{body}<figcaption>{SCALE}. {caption}{more}</figcaption></figure>"


def _server(routes: TwoTierRoutes, ranks: int, width: int, server: int) -> str:
    links = {
        rank: ((rank, ranks + rank), (routes.nic_out + rank, routes.nic_in + rank))
        for rank in range(server * width, (server + 1) * width)
    }
    return ports_svg(f"server {server}", links)


def ports_svg(title: str, links: Mapping[int, tuple[Sequence[int], Sequence[int]]]) -> str:
    """GPUs in rows under their switch; by GPU the links drawn above and below it."""
    gpus = list(links)
    rows = [gpus[first : first + MAX_COLUMNS] for first in range(0, len(gpus), MAX_COLUMNS)]
    titles = [title if len(rows) == 1 else f"{title}: {row[0]} to {row[-1]}" for row in rows]
    return "".join(_ports_row(name, {gpu: links[gpu] for gpu in row}) for name, row in zip(titles, rows, strict=True))


def _ports_row(title: str, links: Mapping[int, tuple[Sequence[int], Sequence[int]]]) -> str:
    width = COLUMN * len(links) + 8
    marks = [f'<rect class="part" x="4" y="4" width="{width - 8}" height="18" rx="4"/>']
    marks.append(f'<text x="{width / 2}" y="17" text-anchor="middle">{title}</text>')
    for place, (gpu, sides) in enumerate(links.items()):
        x = 4 + COLUMN * place + COLUMN // 2
        for y, side in zip((22, 66), sides, strict=True):
            for k, link in enumerate(side):
                marks.append(f'<path d="M{x + 10 * k - 5 * (len(side) - 1)} {y}v22" data-links="{link}"/>')
        marks.append(f'<rect class="gpu" x="{x - 11}" y="44" width="22" height="22" rx="3"/>')
        marks.append(f'<text x="{x}" y="59" text-anchor="middle">{gpu}</text>')
    size = f'viewBox="0 0 {width} 92" width="{width}" height="92"'
    return f'<svg {size} role="img" aria-label="Load of {title}">{"".join(marks)}</svg>'


def _graph(topology: Topology) -> str:
    """Nodes as circles, the links between two nodes as one line."""
    places = node_places(topology) * STEP
    places += MARGIN - places.min(axis=0)
    width, height = (places.max(axis=0) + MARGIN).tolist()
    links_by_pair: dict[tuple[int, int], list[int]] = {}
    for link, (src, dst) in enumerate(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True)):
        links_by_pair.setdefault((min(src, dst), max(src, dst)), []).append(link)
    marks = []
    for (a, b), links in links_by_pair.items():
        (x1, y1), (x2, y2) = places[a].tolist(), places[b].tolist()
        # Links around a torus pass behind other nodes: bend them, so that they are seen.
        is_bent = b < topology.num_ranks and np.hypot(x2 - x1, y2 - y1) > 1.5 * STEP
        bend = 0.18 if is_bent else 0.0
        turn = f"{(x1 + x2) / 2 + bend * (y2 - y1):.0f} {(y1 + y2) / 2 - bend * (x2 - x1):.0f}"
        ids = " ".join(map(str, links))
        marks.append(f'<path d="M{x1:.0f} {y1:.0f}Q{turn} {x2:.0f} {y2:.0f}" data-links="{ids}"/>')
    linked = {node for pair in links_by_pair for node in pair}
    for node, (x, y) in enumerate(places.tolist()):
        if node not in linked and node >= topology.num_ranks:
            continue
        marks.append(
            f'<circle class="gpu" cx="{x:.0f}" cy="{y:.0f}" r="12"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">{node}</text>'
        )
    return (
        f'<svg viewBox="{-MARGIN} {-MARGIN} {width + 2 * MARGIN:.0f} {height + 2 * MARGIN:.0f}" '
        f'width="{width + 2 * MARGIN:.0f}" role="img" aria-label="Link load">{"".join(marks)}</svg>'
    )


def link_names(topology: Topology) -> list[str]:
    """Every link as people call it."""
    ends = zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True)
    names = [f"{src} to {dst}" for src, dst in ends]
    routes = topology.router
    if not isinstance(routes, TwoTierRoutes):
        return names
    ranks = topology.num_ranks
    parts = [(routes.nic_out, "NIC out"), (routes.nic_in, "NIC in")]
    parts += [] if routes.is_mesh else [(0, "scale-up out"), (ranks, "scale-up in")]
    for first, what in parts:
        names[first : first + ranks] = [f"rank {rank} {what}" for rank in range(ranks)]
    return names


def link_shares(result: Result) -> NDArray[np.float64]:
    """Part of the makespan each link would need for its bytes alone, ``[num_links]``."""
    if result.makespan_s <= 0:
        return np.zeros(result.topology.num_links)
    capacity = result.topology.bandwidth_bytes_per_s * result.makespan_s
    return np.minimum(1.0, result.link_bytes / capacity)


def loads(busy: NDArray[np.float64], link_bytes: NDArray[np.integer] | None = None) -> dict[str, object]:
    """What colours the drawing."""
    moved = None if link_bytes is None else array(link_bytes.astype(np.float64))
    return {"busy": array(busy.astype(np.float32)), "bytes": moved}


def busiest_links(names: list[str], busy: NDArray[np.float64], link_bytes: NDArray[np.integer]) -> str:
    """The few busiest links as a table; says in words what the drawing shows in colours."""
    order = np.argsort(-busy, kind="stable")[:NUM_BUSIEST].tolist()
    rows = [[names[k], f"{100 * busy[k]:.1f} %", format_bytes(float(link_bytes[k]))] for k in order]
    return table(["busiest links", "busy", "bytes"], rows)
