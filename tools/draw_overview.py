"""Draw docs/images/overview-light.svg and -dark.svg: one skewed All-to-Allv, sent at once and as planned.

Every mark comes from the two plans: what each NIC sends, how busy it is over time, and the bound as a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import interlock as il
from interlock.report.side_by_side import port_loads, port_use
from interlock.units import format_bytes, format_seconds

FOLDER = Path(__file__).parent.parent / "docs" / "images"
WIDTH, HEIGHT = 960, 470
LEFT, BARS, GAP = 24, 170, 24  # of the loads; the time axis takes the rest
TOP, PANEL = 84, 160
BINS = 160


@dataclass(frozen=True)
class Theme:
    """Colours of one scheme."""

    ink: str
    paper: str
    soft: str
    blue: str
    bound: str


THEMES = {
    "light": Theme("#1f2933", "#ffffff", "#eef1f4", "#0072b2", "#d55e00"),
    "dark": Theme("#e6eaee", "#0d1117", "#222a32", "#56b4e9", "#ff8a3c"),
}


def main() -> None:
    """4x8 GPUs, 512 MB each, skew 0.8: what README's table begins and ends with."""
    cluster = il.cluster("h200", servers=4)
    traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="512 MB", seed=0)
    plans = [il.plan(cluster, traffic, name) for name in ("direct", "adaptive")]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, theme in THEMES.items():
        (FOLDER / f"overview-{name}.svg").write_text(draw(plans, theme))


def draw(plans: list[il.Plan], theme: Theme) -> str:
    """The whole picture."""
    results = [plan.simulate() for plan in plans]
    last_s = 1.03 * max(result.makespan_s for result in results)
    most = max(float(port_loads(result).max()) for result in results)
    bound_s = plans[0].bound.seconds
    x0, across = LEFT + BARS + GAP, WIDTH - LEFT - BARS - 2 * GAP
    ratio = results[0].makespan_s / results[1].makespan_s
    gap = 100 * (results[1].makespan_s / bound_s - 1)
    title = f"One skewed All-to-Allv on 4x8 GPUs: {ratio:.2f}x faster, {gap:.1f} % above the least time possible"
    marks = [
        text(LEFT, 30, title, theme, 18, weight="bold"),
        text(LEFT, 62, "bytes per NIC", theme, 13),
        text(x0, 62, "how busy each NIC is over time (simulated)", theme, 13),
    ]
    words = ("sent all at once", "planned by Interlock")
    for place, (plan, result, word) in enumerate(zip(plans, results, words, strict=True)):
        top = TOP + place * (PANEL + 34)
        loads, use = port_loads(result), port_use(result, BINS)
        row = PANEL / len(loads)
        wide = across * result.makespan_s / last_s
        marks.append(f'<rect x="{x0}" y="{top}" width="{wide:.1f}" height="{PANEL}" fill="{theme.soft}"/>')
        for rank, load in enumerate(loads.tolist()):
            y = top + rank * row
            size = f'width="{BARS * load / most:.1f}" height="{row - 0.8:.2f}"'
            marks.append(f'<rect x="{LEFT}" y="{y:.2f}" {size} fill="{theme.blue}"/>')
            cell, begin = wide / BINS, 0
            levels = [round(10 * float(value)) for value in use[rank]]
            for k in range(1, BINS + 1):  # spans of one shade are one mark
                if k < BINS and levels[k] == levels[begin]:
                    continue
                if levels[begin]:
                    at = f'x="{x0 + begin * cell:.1f}" y="{y:.2f}" width="{(k - begin) * cell:.1f}"'
                    shade = f'fill="{theme.blue}" fill-opacity="{levels[begin] / 10:.1f}"'
                    marks.append(f'<rect {at} height="{row - 0.8:.2f}" {shade}/>')
                begin = k
        most_here = format_bytes(float(loads.max()))
        name = f"{word} ({plan.algorithm}): {format_seconds(result.makespan_s)}"
        marks.append(text(x0, top + PANEL + 17, name, theme, 14, weight="bold"))
        marks.append(text(LEFT, top + PANEL + 17, f"at most {most_here}", theme, 13))
    at = x0 + across * bound_s / last_s
    bottom = TOP + 2 * PANEL + 34 + 6
    marks.append(
        f'<path d="M{at:.1f} {TOP - 6}V{bottom}" stroke="{theme.bound}" stroke-width="2" stroke-dasharray="6 4"/>'
    )
    label = f"proven bound {format_seconds(bound_s)}"
    marks.append(text(at + 6, bottom + 20, label, theme, 13, colour=theme.bound))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" role="img" '
        f'aria-label="{title}">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="{theme.paper}"/>\n'
        + "\n".join(marks)
        + "\n</svg>\n"
    )


def text(
    x: float, y: float, words: str, theme: Theme, size: int, *, weight: str = "normal", colour: str | None = None
) -> str:
    """One line of words."""
    fill = colour or theme.ink
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" font-weight="{weight}" fill="{fill}">{words}</text>'


if __name__ == "__main__":
    main()
