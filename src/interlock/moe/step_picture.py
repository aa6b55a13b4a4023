"""A timeline of one layer in a training step, forward and backward, one block of two tracks per algorithm, as SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.moe.iteration import BACKWARD, Iteration
from interlock.moe.picture import LEFT, WIDTH, framed
from interlock.units import format_seconds

__all__ = ["Span", "layer_spans", "step_svg"]

# Okabe-Ito, told apart by colour-blind readers.
COLOURS = {"attention": "#999999", "dispatch": "#0072B2", "experts": "#E69F00", "combine": "#009E73"}
TRACKS = ("compute", "network")
TRACK_HEIGHT, BLOCK = 24, 84


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a layer and when it runs."""

    part: str
    track: str
    start_s: float
    end_s: float


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
    free_s = dict.fromkeys(TRACKS, 0.0)
    for part, seconds in [*forward, *backward]:
        track = TRACKS[0] if part in ("attention", "experts") else TRACKS[1]
        alone = part == "attention" or not row.overlap
        start_s = max(free_s.values()) if alone else free_s[track]
        spans.append(Span(part, track, start_s, start_s + seconds))
        free_s[track] = start_s + seconds
        if alone:
            free_s = dict.fromkeys(TRACKS, start_s + seconds)
    return spans


def step_svg(rows: Sequence[Iteration], *, is_alone: bool = True) -> str:
    """All algorithms on one time axis; alone it has a white ground, in a page the page's."""
    made = [layer_spans(row) for row in rows]
    longest = max(max(span.end_s for span in spans) for spans in made) or 1.0
    height = 36 + BLOCK * len(rows) + 28
    blocks = [
        _block(row, spans, longest, 30 + BLOCK * k) for k, (row, spans) in enumerate(zip(rows, made, strict=True))
    ]
    title = f"one layer, forward and backward; modelled; the axis ends at {format_seconds(longest)}"
    return framed(title, blocks, COLOURS, height, is_alone=is_alone)


def _block(row: Iteration, spans: Sequence[Span], longest: float, top: int) -> str:
    words = f"{row.algorithm}: {format_seconds(max(span.end_s for span in spans))}"
    marks = [f'<text x="10" y="{top + 14}" font-size="14" font-weight="bold">{html.escape(words)}</text>']
    for place, track in enumerate(TRACKS):
        y = top + 20 + place * (TRACK_HEIGHT + 4)
        marks.append(f'<text x="10" y="{y + 17}" font-size="12">{track}</text>')
        for span in spans:
            if span.track != track or span.end_s <= span.start_s:
                continue
            x, width = LEFT + WIDTH * span.start_s / longest, WIDTH * (span.end_s - span.start_s) / longest
            words = f"<title>{span.part}: {format_seconds(span.end_s - span.start_s)}</title>"
            marks.append(
                f'<rect x="{x:.1f}" y="{y}" width="{max(0.2, width):.1f}" height="{TRACK_HEIGHT}" '
                f'fill="{COLOURS[span.part]}">{words}</rect>'
            )
    return "".join(marks)
