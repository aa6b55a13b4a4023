"""A topology as an SVG picture: nodes, links coloured by speed, the tightest cut marked."""

from __future__ import annotations

import math
import re
from html import escape

import numpy as np
from numpy.typing import NDArray

from interlock.errors import LimitExceeded
from interlock.topology import NodeKind, Topology
from interlock.topology.graph import DEAD_BANDWIDTH
from interlock.topology.summary import GraphCut
from interlock.units import format_bandwidth

__all__ = ["MAX_DRAWN_LINKS", "node_places", "topology_svg"]

# Okabe-Ito, told apart by colour-blind readers; the cut has vermilion for itself.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
CUT_COLOUR, DEAD_COLOUR = "#D55E00", "#BBBBBB"
MAX_DRAWN_LINKS = 20_000
STEP, MARGIN = 56, 40

Places = NDArray[np.float64]  # [num_nodes, 2], x to the right and y down, in steps


def topology_svg(topology: Topology, cut: GraphCut | None = None) -> str:
    """The picture as one self-contained SVG document."""
    if topology.num_links > MAX_DRAWN_LINKS:
        raise LimitExceeded(f"{topology.num_links} links are too many to draw; at most {MAX_DRAWN_LINKS} are")
    places = node_places(topology) * STEP
    places += (MARGIN, MARGIN + 24) - places.min(axis=0)
    width, height = (places.max(axis=0) + MARGIN).tolist()
    speeds = _speed_classes(topology)
    lines = _lines(topology, places, speeds, cut)
    legend = _legend(speeds, cut, height)
    title = escape(f"{topology.name}: {topology.num_ranks} ranks, {topology.num_links} links")
    width, height = max(width, 420.0), height + 24 * (len(speeds) + (cut is not None)) + 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'font-family="sans-serif" role="img"><title>{title}</title><rect width="100%" height="100%" fill="white"/>'
        f'<text x="12" y="20" font-size="14">{title}</text>\n'
        + "\n".join([*lines, *_nodes(topology, places, cut), *legend])
        + "\n</svg>\n"
    )


def node_places(topology: Topology) -> Places:
    """Where to draw each node: a grid if its name says so, tiers if it has switches, else a circle."""
    dims = _grid_dims(topology)
    if dims is not None:
        return _grid(dims)
    if topology.num_nodes > topology.num_ranks:
        return _tiers(topology)
    angle = 2 * math.pi * np.arange(topology.num_ranks) / topology.num_ranks
    radius = max(1.5, topology.num_ranks / (2 * math.pi))
    return np.stack([radius * np.sin(angle), -radius * np.cos(angle)], axis=1)


def _grid_dims(topology: Topology) -> tuple[int, ...] | None:
    match = re.fullmatch(r"(?:mesh|torus):([0-9]+(?:x[0-9]+)+)", topology.name)
    dims = tuple(int(size) for size in match[1].split("x")) if match else ()
    return dims if dims and math.prod(dims) == topology.num_nodes else None


def _grid(dims: tuple[int, ...]) -> Places:
    """Last dimension to the right, the one before it down, further ones as shifted copies."""
    place = np.indices(dims).reshape(len(dims), -1).T.astype(np.float64)
    x, y = place[:, -1].copy(), place[:, -2].copy()
    across, down = dims[-1] + 1.0, dims[-2] + 1.0
    for axis in range(len(dims) - 3, -1, -1):
        if (len(dims) - 3 - axis) % 2 == 0:
            x += across * place[:, axis]
            across *= dims[axis]
        else:
            y += down * place[:, axis]
            down *= dims[axis]
    return np.stack([x, y], axis=1)


def _tiers(topology: Topology) -> Places:
    """Ranks in a row; switches by their distance from them, those that join neighbours below, the others above."""
    count, ranks = topology.num_nodes, topology.num_ranks
    distance = np.where(np.arange(count) < ranks, 0, count)
    for _ in range(count):
        before = distance.copy()
        np.minimum.at(distance, topology.link_dst, distance[topology.link_src] + 1)
        np.minimum.at(distance, topology.link_src, distance[topology.link_dst] + 1)
        if (distance == before).all():
            break
    x = np.full(count, np.nan)
    x[:ranks] = np.arange(ranks)
    y = np.zeros(count)
    span = np.full(count, float(ranks))
    order = sorted(range(ranks, count), key=lambda node: (distance[node], node))
    for node in order:
        neighbours = np.concatenate(
            [topology.link_src[topology.link_dst == node], topology.link_dst[topology.link_src == node]]
        )
        nearer = x[neighbours[distance[neighbours] < distance[node]]]
        nearer = nearer[~np.isnan(nearer)]
        x[node] = nearer.mean() if len(nearer) else ranks / 2
        span[node] = np.ptp(nearer) if len(nearer) else 0.0
    has_links = np.bincount(np.concatenate([topology.link_src, topology.link_dst]), minlength=count) > 0
    narrow = (distance == 1) & (span < ranks / 2 - 0.5) & (np.arange(count) >= ranks)
    is_mixed = narrow.any() and ((distance == 1) & ~narrow & (np.arange(count) >= ranks)).any()
    for tier in sorted(set(distance[ranks:].tolist())):
        for below in (True, False):
            row = np.flatnonzero((distance == tier) & (np.arange(count) >= ranks) & ((narrow & is_mixed) == below))
            _spread(x, row, ranks)
            y[row] = 2.0 if below else -2.0 * min(tier, 4)
    return np.where(has_links[:, None] | (np.arange(count) < ranks)[:, None], np.stack([x, y], axis=1), 0.0)


def _spread(x: NDArray[np.float64], row: NDArray[np.int64], ranks: int) -> None:
    """Space the nodes of a row evenly, in order of where they would like to be, if they would overlap."""
    if len(row) < 2 or np.diff(np.sort(x[row])).min() >= 0.99:
        return
    order = row[np.argsort(x[row], kind="stable")]
    x[order] = (np.arange(len(row)) + 0.5) * max(ranks, len(row)) / len(row) - 0.5


def _speed_classes(topology: Topology) -> list[float]:
    """Distinct speeds, fastest first; the slowest share the last colour if there are too many."""
    works = topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH
    return sorted(set(topology.bandwidth_bytes_per_s[works].tolist()), reverse=True)[: len(COLOURS)]


def _lines(topology: Topology, places: Places, speeds: list[float], cut: GraphCut | None) -> list[str]:
    """One line per pair of nodes and speed; in a grid those that pass other nodes bend, so that they are seen."""
    in_cut = np.zeros(topology.num_links, np.bool_)
    if cut is not None:
        in_cut[cut.links] = True
    is_grid = _grid_dims(topology) is not None
    drawn: dict[tuple[int, int, float], bool] = {}
    for link in range(topology.num_links):
        a, b = sorted((int(topology.link_src[link]), int(topology.link_dst[link])))
        key = (a, b, float(topology.bandwidth_bytes_per_s[link]))
        drawn[key] = drawn.get(key, False) or bool(in_cut[link])
    lines = []
    for (a, b, rate), is_cut in drawn.items():
        (x1, y1), (x2, y2) = places[a].tolist(), places[b].tolist()
        if rate <= DEAD_BANDWIDTH:
            style = f'stroke="{DEAD_COLOUR}" stroke-width="1" stroke-dasharray="2 4"'
        else:
            shade = speeds.index(rate) if rate in speeds else len(COLOURS) - 1
            thick = 1.0 + 2.0 * math.sqrt(rate / speeds[0])
            colour = CUT_COLOUR if is_cut else COLOURS[shade]
            style = f'stroke="{colour}" stroke-width="{thick:.1f}"' + (' stroke-dasharray="7 3"' if is_cut else "")
        far = math.hypot(x2 - x1, y2 - y1)
        bend = 0.18 if is_grid and far > 1.5 * STEP else 0.0
        middle_x, middle_y = (x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1)
        path = f"M{x1:.1f} {y1:.1f} Q{middle_x:.1f} {middle_y:.1f} {x2:.1f} {y2:.1f}"
        lines.append(f'<path d="{path}" fill="none" {style}/>')
    return lines


def _nodes(topology: Topology, places: Places, cut: GraphCut | None) -> list[str]:
    linked = np.zeros(topology.num_nodes, np.bool_)
    works = topology.bandwidth_bytes_per_s > DEAD_BANDWIDTH
    linked[topology.link_src[works]] = linked[topology.link_dst[works]] = True
    shapes = []
    for node, (x, y) in enumerate(places.tolist()):
        kind = NodeKind(int(topology.node_kinds[node]))
        if not linked[node] and kind is not NodeKind.GPU:
            continue
        fill = "#FFFFFF" if not linked[node] else "#DDEEFF" if cut is None or not cut.is_inside[node] else "#FFE0CC"
        style = f'fill="{fill}" stroke="#333333"' + ("" if linked[node] else ' stroke-dasharray="2 2"')
        if kind is NodeKind.GPU:
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="13" {style}/>')
        else:
            half = 16 if kind is NodeKind.SWITCH else 9
            shapes.append(f'<rect x="{x - half:.1f}" y="{y - 10:.1f}" width="{2 * half}" height="20" rx="2" {style}/>')
        shapes.append(f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="11" text-anchor="middle">{node}</text>')
    return shapes


def _legend(speeds: list[float], cut: GraphCut | None, top: float) -> list[str]:
    entries = [(COLOURS[k], "", format_bandwidth(rate)) for k, rate in enumerate(speeds)]
    if cut is not None:
        rate = format_bandwidth(cut.capacity_bytes_per_s)
        label = f"tightest cut: {rate} from {cut.ranks_inside} of {cut.ranks_inside + cut.ranks_outside} ranks"
        entries.append((CUT_COLOUR, ' stroke-dasharray="7 3"', label))
    shapes = []
    for place, (colour, dash, label) in enumerate(entries):
        y = top + 24 * place + 20
        shapes.append(f'<path d="M12 {y:.0f} h40" stroke="{colour}" stroke-width="3"{dash}/>')
        shapes.append(f'<text x="60" y="{y + 4:.0f}" font-size="12">{label}</text>')
    return shapes
