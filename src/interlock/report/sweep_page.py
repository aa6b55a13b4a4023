"""The page of a sweep: time over the bound by size, and where which algorithm wins."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

from interlock.report.charts import Line, figure, line_chart, line_legend, style_of
from interlock.report.page import Page, render, table
from interlock.traffic import Unevenness
from interlock.units import format_bytes

__all__ = ["Summary", "summarise", "sweep_page"]

MAX_MULTIPLES = 24

Place = tuple[str, str]  # cluster, traffic


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over seeds: how far each algorithm is from the bound, by place and size."""

    places: tuple[Place, ...]
    sizes_bytes: tuple[int, ...]
    algorithms: tuple[str, ...]
    over_bound: dict[tuple[Place, int, str], float]  # geometric mean of makespan / bound; absent: refused or invalid
    unevenness: dict[Place, Unevenness]  # mean of all draws; absent: all were refused

    def winner(self, place: Place, size_bytes: int) -> str | None:
        """The algorithm nearest to the bound; the first in the grid where several are."""
        known = [name for name in self.algorithms if (place, size_bytes, name) in self.over_bound]
        return min(known, key=lambda name: self.over_bound[place, size_bytes, name], default=None)


def summarise(rows: Sequence[dict[str, object]]) -> Summary:
    """Geometric means over the seeds; an algorithm counts where it was valid for every seed."""
    ratios: dict[tuple[Place, int, str], list[float]] = {}
    drawn: dict[Place, list[list[float]]] = {}
    names = [field.name for field in fields(Unevenness)]
    for row in rows:
        key = ((str(row["cluster"]), str(row["traffic"])), int(str(row["size_bytes"])), str(row["algorithm"]))
        if row.keys() >= set(names):
            drawn.setdefault(key[0], []).append([float(str(row[name])) for name in names])
        is_good = bool(row.get("valid")) and float(str(row["lower_bound_s"])) > 0
        ratios.setdefault(key, []).append(1 + float(str(row["gap"])) if is_good else math.inf)
    means = {key: math.exp(sum(map(math.log, held)) / len(held)) for key, held in ratios.items()}
    return Summary(
        places=tuple(dict.fromkeys(place for place, _, _ in ratios)),
        sizes_bytes=tuple(sorted({size for _, size, _ in ratios})),
        algorithms=tuple(dict.fromkeys(name for _, _, name in ratios)),
        over_bound={key: mean for key, mean in means.items() if math.isfinite(mean)},
        unevenness={
            place: Unevenness(*(statistics.fmean(each) for each in zip(*held, strict=True)))
            for place, held in drawn.items()
        },
    )


def sweep_page(rows: Sequence[dict[str, object]], title: str, command: str) -> str:
    """HTML of a finished sweep; numbers are those of `table.json`."""
    page = Page(f"Interlock sweep: {title}", "simulated", command, {"points": str(len(rows))})
    summary = summarise(rows)
    page.section("Where does which algorithm win? (simulated)", _winners(summary))
    shown = summary.places[:MAX_MULTIPLES]
    plots = [_multiple(summary, place) for place in shown]
    note = ""
    if len(shown) < len(summary.places):
        note = f"<p>{len(summary.places) - len(shown)} more are in table.json.</p>"
    axes = "<p>Time over the bound, which is 1, by bytes per GPU; both axes are logarithmic.</p>"
    key = line_legend(_lines(summary, shown[0])) if shown else ""
    page.section(
        "Time over bound by size (simulated)", f'{axes}{key}<div class="multiples">{"".join(plots)}</div>{note}'
    )
    return render(page)


def _winners(summary: Summary) -> str:
    wins: Counter[str] = Counter()
    cells = []
    for place in summary.places:
        uneven = summary.unevenness.get(place)
        line = [f"{place[1]} on {place[0]}", "-" if uneven is None else uneven.summary]
        for size_bytes in summary.sizes_bytes:
            name = summary.winner(place, size_bytes)
            if name is None:
                line.append("-")
                continue
            wins[name] += 1
            line.append(f"{name} {summary.over_bound[place, size_bytes, name]:.3f}")
        cells.append(line)
    total = sum(wins.values())
    tally = ", ".join(f"{name} in {count} of {total}" for name, count in wins.most_common()) or "none"
    header = ["traffic and cluster", "how uneven", *(format_bytes(size) for size in summary.sizes_bytes)]
    note = "Each cell: the fastest algorithm and its time over the bound, geometric mean over the seeds."
    return f'<p class="note">Fastest: {tally}.</p>{table(header, cells)}<p>{note}</p>'


def _lines(summary: Summary, place: Place) -> list[Line]:
    """One line for each algorithm, also where it has no point."""
    lines = []
    for number, name in enumerate(summary.algorithms):
        sizes = [size for size in summary.sizes_bytes if (place, size, name) in summary.over_bound]
        colour, symbol, dash = style_of(number)
        over = [summary.over_bound[place, size, name] for size in sizes]
        lines.append(Line(name, [float(size) for size in sizes], over, colour, symbol, dash))
    return lines


def _multiple(summary: Summary, place: Place) -> str:
    lines = [line for line in _lines(summary, place) if line.x]
    chart = line_chart(lines, "bytes per GPU", "Time over bound by bytes per GPU", are_sizes=True)
    return figure(f"{place[1]} on {place[0]}", chart, is_above=True)
