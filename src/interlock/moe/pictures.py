"""Timelines as SVG: links and SMs of one GPU during an MoE layer, or a layer in a training step, forward and backward.

One block per scheme or algorithm, all on one time axis.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from interlock.moe.iteration import BACKWARD, Iteration
from interlock.moe.tiles import PARTS, LayerTime
from interlock.units import format_seconds

__all__ = ["Span", "layer_spans", "step_svg", "timeline_svg"]

# Okabe-Ito, told apart by colour-blind readers.
TILE_COLOURS = dict(zip(PARTS, ("#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#CC79A7"), strict=False))
STEP_COLOURS = {"attention": "#999999", "dispatch": "#0072B2", "experts": "#E69F00", "combine": "#009E73"}
TILE_TRACKS = ("uplink", "downlink", "SMs, GEMM-1", "SMs, GEMM-2")
STEP_TRACKS = ("compute", "network")
WIDTH, LEFT, TOP, TITLE = 1000, 110, 30, 20
TRACK, GAP = 24, 4
MAX_MARKS = 20_000  # of one scheme


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a layer and when it runs."""

    part: str
    track: str
    start_s: float
    end_s: float


def timeline_svg(times: Sequence[LayerTime]) -> str:
    """GPU 0 under every scheme."""
    longest = max(time.makespan_s for time in times)
    title = f"GPU 0; simulated, the hardware does not exist; the axis ends at {format_seconds(longest)}"
    blocks = [(f"{time.scheme}: {format_seconds(time.makespan_s)}", tile_spans(time)) for time in times]
    return _svg(title, blocks, TILE_TRACKS, TILE_COLOURS, longest)


def tile_spans(time: LayerTime) -> list[Span]:
    """What the links and SMs of GPU 0 do, chunk by chunk and tile by tile."""
    gpus, made = len(time.up_busy_s), list[Span]()
    for number, track in enumerate(TILE_TRACKS):
        tasks = np.flatnonzero((time.resource == number * gpus) & (time.part < len(TILE_COLOURS)))
        for task in tasks[: MAX_MARKS // len(TILE_TRACKS)].tolist():
            made.append(Span(PARTS[time.part[task]], track, float(time.start_s[task]), float(time.finish_s[task])))
    return made


def layer_spans(row: Iteration) -> list[Span]:
    """One average layer with experts: its share of attention, then experts and communication, forward and backward.

    Backward, combine has dispatch's shape and dispatch has combine's. With overlap both tracks start together.
    """
    attention_s, experts_s = (seconds / row.moe_layers / (1 + BACKWARD) for seconds in (row.attention_s, row.experts_s))
    forward = [
        ("attention", attention_s),
        ("dispatch", row.dispatch_s),
        ("experts", experts_s),
        ("combine", row.combine_s),
    ]
    backward = [
        ("combine", row.dispatch_s),
        ("experts", BACKWARD * experts_s),
        ("dispatch", row.combine_s),
        ("attention", BACKWARD * attention_s),
    ]
    spans = []
    free_s = dict.fromkeys(STEP_TRACKS, 0.0)
    for part, seconds in [*forward, *backward]:
        track = STEP_TRACKS[0] if part in ("attention", "experts") else STEP_TRACKS[1]
        alone = part == "attention" or not row.overlap
        start_s = max(free_s.values()) if alone else free_s[track]
        spans.append(Span(part, track, start_s, start_s + seconds))
        free_s[track] = start_s + seconds
        if alone:
            free_s = dict.fromkeys(STEP_TRACKS, start_s + seconds)
    return spans


def step_svg(rows: Sequence[Iteration], *, is_alone: bool = True) -> str:
    """A layer under every algorithm; alone it has a white ground, in a page the page's."""
    made = [(row.algorithm, layer_spans(row)) for row in rows]
    ends = [max(span.end_s for span in spans) for _, spans in made]
    longest = max(ends) or 1.0
    title = f"one layer, forward and backward; modelled; the axis ends at {format_seconds(longest)}"
    blocks = [(f"{name}: {format_seconds(end)}", spans) for (name, spans), end in zip(made, ends, strict=True)]
    return _svg(title, blocks, STEP_TRACKS, STEP_COLOURS, longest, is_alone=is_alone)


def _svg(
    title: str,
    blocks: Sequence[tuple[str, Sequence[Span]]],
    tracks: Sequence[str],
    colours: Mapping[str, str],
    longest_s: float,
    *,
    is_alone: bool = True,
) -> str:
    """Blocks of tracks under a title, and below them what the colours mean."""
    pitch = TITLE + len(tracks) * (TRACK + GAP) + 8
    height = TOP + pitch * len(blocks) + 34
    marks = ['<rect width="100%" height="100%" fill="white"/>' if is_alone else ""]
    marks.append(f'<text x="10" y="18" font-size="14">{title}</text>')
    for number, (name, spans) in enumerate(blocks):
        top = TOP + pitch * number
        marks.append(f'<text x="10" y="{top + 14}" font-size="14" font-weight="bold">{html.escape(name)}</text>')
        y_of = {track: top + TITLE + place * (TRACK + GAP) for place, track in enumerate(tracks)}
        marks += [f'<text x="10" y="{y + 17}" font-size="12">{track}</text>' for track, y in y_of.items()]
        for span in spans:
            took_s = span.end_s - span.start_s
            if took_s <= 0:
                continue
            x, width = LEFT + WIDTH * span.start_s / longest_s, max(0.2, WIDTH * took_s / longest_s)
            marks.append(
                f'<rect x="{x:.1f}" y="{y_of[span.track]}" width="{width:.1f}" height="{TRACK}" '
                f'fill="{colours[span.part]}"><title>{span.part}: {format_seconds(took_s)}</title></rect>'
            )
    for number, (part, colour) in enumerate(colours.items()):
        x = LEFT + 150 * number
        marks.append(f'<rect x="{x}" y="{height - 24}" width="12" height="12" fill="{colour}"/>')
        marks.append(f'<text x="{x + 16}" y="{height - 14}" font-size="12">{part}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + LEFT + 20} {height}" font-family="sans-serif" '
        f'role="img"><title>{title}</title>{"".join(marks)}</svg>\n'
    )
