"""Draw docs/images/overview.svg: demand, schedule and timeline of one plan. Every mark comes from the plan itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import interlock as il
from interlock.schedule import Phase
from interlock.units import format_seconds

TARGET = Path(__file__).parent.parent / "docs" / "images" / "overview.svg"
INK, PAPER = "#1f2933", "#ffffff"
# Okabe-Ito, told apart by colour-blind readers.
COLOUR_BY_PHASE = {
    Phase.LOCAL: "#999999",
    Phase.BALANCE: "#E69F00",
    Phase.SCALE_OUT: "#0072B2",
    Phase.REDISTRIBUTE: "#009E73",
}


def main() -> None:
    """A skewed All-to-Allv on 4x4 GPUs, one sender per receiver."""
    cluster = il.cluster("h200", servers=4, gpus_per_server=4, fan_in=1)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="64 MB", seed=0)
    plan = il.plan(cluster, demand, algorithm="adaptive")
    parts = [_heat_map(demand), _wires(plan, cluster), _timeline(plan, cluster)]
    proof = plan.certificate()
    caption = (
        f"Skewed All-to-Allv on 4x4 GPUs. Simulated: {format_seconds(proof.makespan_s)}; "
        f"no schedule can be faster than {format_seconds(proof.lower_bound_s)}."
    )
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1180 330" font-family="sans-serif" role="img" '
        f'aria-label="{caption}">\n<rect width="1180" height="330" fill="{PAPER}"/>\n'
        + "\n".join(parts)
        + f"\n{_text(20, 318, caption, size=14)}\n</svg>\n"
    )


def _heat_map(demand: il.Demand) -> str:
    ranks = demand.num_ranks
    cell = 240 / ranks
    shade = np.sqrt(demand.bytes_matrix / demand.bytes_matrix.max())
    marks = [
        f'<rect x="{20 + cell * j:.1f}" y="{50 + cell * i:.1f}" width="{cell:.1f}" height="{cell:.1f}" '
        f'fill="#0072B2" fill-opacity="{shade[i, j]:.2f}"/>'
        for i in range(ranks)
        for j in range(ranks)
    ]
    frame = f'<rect x="20" y="50" width="240" height="240" fill="none" stroke="{INK}"/>'
    return "\n".join([_text(20, 30, "1. demand: bytes from rank to rank"), *marks, frame])


def _wires(plan: il.Plan, cluster: il.Cluster) -> str:
    """One row per stage, one arc per pair of servers that talk in it."""
    schedule, server = plan.schedule, cluster.gpus_per_server
    stages = np.unique(schedule.stage[schedule.phase == Phase.SCALE_OUT])
    tip = '<path d="M0 0L8 4L0 8z" fill="#0072B2"/>'
    marks = [
        _text(310, 30, "2. schedule: one-to-one stages"),
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" orient="auto">{tip}</marker></defs>',
    ]
    height = 240 / max(1, len(stages))
    for row, stage in enumerate(stages):
        y = 50 + height * (row + 0.5)
        for s, d in _pairs(schedule, int(stage), server):
            x1, x2 = 340 + 60 * s, 340 + 60 * d
            bend = y - 0.35 * height * np.sign(x2 - x1)
            arc = f"M{x1} {y:.1f} Q{(x1 + x2) / 2} {bend:.1f} {x2} {y:.1f}"
            marks.append(f'<path d="{arc}" fill="none" stroke="#0072B2" stroke-width="2" marker-end="url(#tip)"/>')
        marks += [f'<circle cx="{340 + 60 * s}" cy="{y:.1f}" r="3" fill="{INK}"/>' for s in range(cluster.servers)]
    return "\n".join(marks)


def _pairs(schedule: il.Schedule, stage: int, server: int) -> list[tuple[int, int]]:
    chosen = (schedule.phase == Phase.SCALE_OUT) & (schedule.stage == stage)
    return sorted(
        set(
            zip(
                (schedule.src.values[chosen] // server).tolist(),
                (schedule.dst.values[chosen] // server).tolist(),
                strict=True,
            )
        )
    )


def _timeline(plan: il.Plan, cluster: il.Cluster) -> str:
    """One line per rank: what it sends, when."""
    schedule, result = plan.schedule, plan.simulate()
    scale = 560 / result.makespan_s
    height = 240 / cluster.num_ranks
    marks = [_text(600, 30, "3. timeline: what each rank sends")]
    for phase, colour in COLOUR_BY_PHASE.items():
        for m in np.flatnonzero(schedule.phase == phase):
            x, y = 600 + scale * result.start_s[m], 50 + height * int(schedule.src.values[m])
            width = max(0.3, scale * (result.finish_s[m] - result.start_s[m]))
            lane = {Phase.SCALE_OUT: 0.0}.get(phase, 0.5)
            box = f'x="{x:.2f}" y="{y + lane * height:.2f}" width="{width:.2f}" height="{height * 0.45:.2f}"'
            marks.append(f'<rect {box} fill="{colour}"/>')
    x = 600.0
    for phase, colour in COLOUR_BY_PHASE.items():
        marks.append(f'<rect x="{x}" y="296" width="12" height="12" fill="{colour}"/>')
        marks.append(_text(x + 16, 306, phase.name.lower().replace("_", "-"), size=12))
        x += 110
    return "\n".join(marks)


def _text(x: float, y: float, words: str, size: int = 16) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{INK}">{words}</text>'


if __name__ == "__main__":
    main()
