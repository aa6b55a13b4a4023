"""Bars and lines as HTML and SVG: no script draws them, and they fit any width."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.report.page import COLOURS
from interlock.units import format_bandwidth, format_bytes

__all__ = ["Bars", "Line", "bar_chart", "figure", "legend", "line_chart", "line_legend", "style_of"]

WIDTH, HEIGHT, BOTTOM = 400, 250, 40  # of a line chart, in its own units
LETTER = 7.4  # the width of a letter there, at most
SYMBOLS = {
    "circle": '<circle r="4"/>',
    "square": '<rect x="-3.5" y="-3.5" width="7" height="7"/>',
    "diamond": '<path d="M0-5 5 0 0 5-5 0Z"/>',
    "triangle": '<path d="M0-5 4.5 4-4.5 4Z"/>',
    "cross": '<path d="M-4-1.3h2.7v-2.7h2.6v2.7H4v2.6H1.3v2.7h-2.6V1.3H-4Z"/>',
}


@dataclass(frozen=True, slots=True)
class Bars:
    """One quantity by label, in milliseconds; `is_mark` draws a diamond instead of a bar."""

    name: str
    values_ms: Sequence[float]
    colour: str
    is_mark: bool = False
    low_ms: Sequence[float] | None = None  # ends of a line on each bar that shows the spread
    high_ms: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart; a symbol marks its points where there are few."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    symbol: str | None = None
    dash: str = ""  # as SVG writes it


@dataclass(frozen=True, slots=True)
class _Axis:
    """A scale from values to parts of the length."""

    low: float
    high: float
    is_log: bool = False
    is_whole: bool = False  # ticks at whole numbers only

    def at(self, value: float) -> float:
        if self.is_log:
            value = max(value, self.low)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, about: int) -> list[float]:
        if self.is_log:
            return self._log_ticks(about)
        rough = (self.high - self.low) / about
        power = 10 ** math.floor(math.log10(rough))
        step = power * next(times for times in (1, 2, 5, 10) if times * power >= rough * (1 - 1e-9))
        step = max(step, 1) if self.is_whole else step
        return [k * step for k in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]

    def _log_ticks(self, about: int) -> list[float]:
        """Powers of ten, or as many more as there is room for where few of them are in sight."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for times in ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            ticks = [t * 10.0**k for k in range(first, last + 1) for t in times]
            shown = [t for t in ticks if self.low * (1 - 1e-9) <= t <= self.high * (1 + 1e-9)]
            if len(shown) <= about:
                return shown
        return shown[:: -(-len(shown) // about)]


def figure(caption: str, body: str, name: str = "", *, is_above: bool = False) -> str:
    """A drawing and what it shows."""
    where, caption_html = f' id="{name}"' if name else "", f"<figcaption>{html.escape(caption)}</figcaption>"
    return f"<figure{where}>{caption_html + body if is_above else body + caption_html}</figure>"


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Names beside their swatches, which are HTML."""
    return (
        '<ul class="legend">' + "".join(f"<li>{swatch}{html.escape(name)}</li>" for name, swatch in entries) + "</ul>"
    )


def bar_chart(
    labels: Sequence[str],
    series: Sequence[Bars],
    unit: str,
    *,
    bound_ms: float | None = None,
    notes: Sequence[str] | None = None,
    is_log: bool = False,
) -> str:
    """Horizontal bars, a row per label; several series of bars are stacked. `notes` stand behind each row's bars."""
    stacked = [sum(part) for part in zip(*(s.values_ms for s in series if not s.is_mark), strict=True)]
    ends = [*stacked, *(v for s in series if s.is_mark for v in s.values_ms)]
    ends += [v for s in series for v in s.high_ms or ()] + ([bound_ms] if bound_ms is not None else [])
    axis = _Axis(0.0, 1.12 * max([*ends, 1e-9]))
    if is_log:
        axis = _Axis(min(stacked) / 2, 1.5 * max(stacked), is_log=True) if min(stacked) > 0 else axis
    rows = []
    for place, label in enumerate(labels):
        inner = "" if bound_ms is None else f'<i class="bound" style="left:{_percent(axis.at(bound_ms))}"></i>'
        inner += _row(series, place, label, axis)
        if notes is not None:
            inner += f'<b style="left:{_percent(axis.at(stacked[place]))}">{html.escape(notes[place])}</b>'
        rows.append(f'<span class="label">{html.escape(label)}</span><span class="track">{inner}</span>')
    ticks = "".join(f'<small style="left:{_percent(axis.at(t))}">{_short(t)}</small>' for t in axis.ticks(5))
    rows.append(f'<span class="label"></span><span class="track ticks">{ticks}</span>')
    rows.append(f'<span class="label"></span><span class="unit">{html.escape(unit)}</span>')
    names = [(s.name, f'<i class="{"mark" if s.is_mark else ""}" style="background:{s.colour}"></i>') for s in series]
    if bound_ms is not None:
        names.append(("bound", '<i class="bound"></i>'))
    return legend(names) + f'<div class="bars{" noted" if notes else ""}">{"".join(rows)}</div>'


def _row(series: Sequence[Bars], place: int, label: str, axis: _Axis) -> str:
    made, begin = "", axis.low
    for part in series:
        value = part.values_ms[place]
        title = html.escape(f"{label}: {part.name} {value:.4g} ms", quote=True)
        data = f'title="{title}" data-ms="{value!r}"'
        if part.is_mark:
            made += f'<i class="mark" {data} style="left:{_percent(axis.at(value))};background:{part.colour}"></i>'
            continue
        end = value if begin == axis.low else begin + value
        left, right = axis.at(begin), axis.at(end)
        style = f"left:{_percent(left)};width:{_percent(right - left)};background:{part.colour}"
        made += f'<i class="bar" {data} style="{style}"></i>'
        if part.low_ms is not None and part.high_ms is not None:
            low, high = axis.at(part.low_ms[place]), axis.at(part.high_ms[place])
            made += f'<i class="spread" style="left:{_percent(low)};width:{_percent(high - low)}"></i>'
        begin = end
    return made


def line_legend(lines: Sequence[Line]) -> str:
    """Names beside a bit of each line."""
    return legend([(line.name, _swatch(line)) for line in lines])


def line_chart(
    lines: Sequence[Line], x_label: str, words_for_all: str, *, are_sizes: bool = False, are_rates: bool = False
) -> str:
    """Lines over a common x.

    Parameters
    ----------
    are_sizes
        x is bytes and y a ratio of at least 1, both on logarithmic axes; otherwise x is a rank and y bytes.
    are_rates
        y is bytes per second, from 0.
    """
    xs, ys = [x for line in lines for x in line.x], [y for line in lines for y in line.y]
    if not xs:
        return "<p>Nothing to show.</p>"
    across = _Axis(min(xs), max(xs) if max(xs) > min(xs) else 2 * min(xs) + 1, are_sizes, is_whole=not are_sizes)
    up = _Axis(0.0, 1.08 * max([*ys, 1e-9]))
    x_words, y_words = (format_bytes, _short) if are_sizes else (_short, format_bytes)
    if are_rates:
        y_words = format_bandwidth  # type: ignore[assignment]
    elif are_sizes:
        up = _Axis(1.0, 1.1 * max([*ys, 1.1]), is_log=True)

    left = 12 + LETTER * max(len(y_words(tick)) for tick in up.ticks(5))

    def x_at(x: float) -> float:
        return left + across.at(x) * (WIDTH - left - 14)

    def y_at(y: float) -> float:
        return 10 + (1 - up.at(y)) * (HEIGHT - BOTTOM - 10)

    marks = []
    for tick in up.ticks(5):
        marks.append(f'<path class="grid" d="M{left:.1f} {y_at(tick):.1f}H{WIDTH - 14}"/>')
        marks.append(f'<text x="{left - 6:.1f}" y="{y_at(tick) + 4:.1f}" text-anchor="end">{y_words(tick)}</text>')
    for tick in across.ticks(6):
        shown = x_words(tick)
        marks.append(f'<path class="grid" d="M{x_at(tick):.1f} 10V{HEIGHT - BOTTOM}"/>')
        marks.append(f'<text x="{x_at(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{shown}</text>')
    for line in lines:
        points = [(x_at(x), y_at(y)) for x, y in zip(line.x, line.y, strict=True)]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        marks.append(f'<path d="{path}" fill="none" stroke="{line.colour}" stroke-width="1.8"{dash}/>')
        for (x, y), at, value in zip(points, line.x, line.y, strict=True):
            if line.symbol is None:
                break
            title = f"{line.name} at {x_words(at)}: {y_words(value)}"
            marks.append(
                f'<g transform="translate({x:.1f} {y:.1f})" fill="{line.colour}" data-y="{value!r}">'
                f"<title>{html.escape(title)}</title>{SYMBOLS[line.symbol]}</g>"
            )
    marks.append(
        f'<text x="{(WIDTH + left) / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(x_label)}</text>'
    )
    label = html.escape(words_for_all, quote=True)
    svg = f'<svg class="lines" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
    return svg + "".join(marks) + "</svg>"


def _swatch(line: Line) -> str:
    dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
    symbol = f'<g transform="translate(14 6)" fill="{line.colour}">{SYMBOLS[line.symbol]}</g>' if line.symbol else ""
    stroke = f'<path d="M0 6h28" stroke="{line.colour}" stroke-width="2"{dash}/>'
    return f'<svg class="swatch" width="28" height="12" aria-hidden="true">{stroke}{symbol}</svg>'


def _percent(part: float) -> str:
    return f"{100 * part:.3f}%"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def style_of(place: int) -> tuple[str, str, str]:
    """Colour, symbol and dash of the series at a place; series of one colour differ in symbol and dash."""
    symbols, dashes = list(SYMBOLS), ("", "6 3", "2 3")
    turn = place // len(COLOURS)
    return COLOURS[place % len(COLOURS)], symbols[(place + turn) % len(symbols)], dashes[turn % len(dashes)]
