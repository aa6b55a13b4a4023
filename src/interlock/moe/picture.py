"""A timeline of one GPU's links and SMs during an MoE layer, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from interlock.moe.tiles import PARTS, LayerTime
from interlock.units import format_seconds

__all__ = ["LEFT", "WIDTH", "framed", "timeline_svg"]

# Okabe-Ito, told apart by colour-blind readers.
COLOURS = ("#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#CC79A7")
TRACKS = ("uplink", "downlink", "SMs, GEMM-1", "SMs, GEMM-2")
WIDTH, TRACK_HEIGHT, LEFT = 1000, 40, 110
MAX_MARKS = 20_000


def timeline_svg(times: list[LayerTime], gpu: int = 0) -> str:
    """One block of four tracks per scheme, all on one time axis."""
    longest = max(time.makespan_s for time in times)
    height = (len(TRACKS) * TRACK_HEIGHT + 40) * len(times) + 40
    blocks = [_block(time, gpu, longest, 30 + k * (len(TRACKS) * TRACK_HEIGHT + 40)) for k, time in enumerate(times)]
    title = f"GPU {gpu}; simulated, the hardware does not exist; the axis ends at {format_seconds(longest)}"
    return framed(title, blocks, dict(zip(PARTS, COLOURS, strict=False)), height)


def framed(title: str, blocks: Sequence[str], colours: Mapping[str, str], height: int, *, is_alone: bool = True) -> str:
    """Blocks of tracks under a title, and below them what the colours mean; alone on a white ground."""
    legend = "".join(
        f'<rect x="{LEFT + 150 * k}" y="{height - 24}" width="12" height="12" fill="{colour}"/>'
        f'<text x="{LEFT + 150 * k + 16}" y="{height - 14}" font-size="12">{part}</text>'
        for k, (part, colour) in enumerate(colours.items())
    )
    ground = '<rect width="100%" height="100%" fill="white"/>' if is_alone else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + LEFT + 20} {height}" font-family="sans-serif" '
        f'role="img"><title>{title}</title>{ground}<text x="10" y="18" font-size="14">{title}</text>'
        f"{''.join(blocks)}{legend}</svg>\n"
    )


def _block(time: LayerTime, gpu: int, longest: float, top: int) -> str:
    gpus = len(time.up_busy_s)
    title = f"{time.scheme}: {format_seconds(time.makespan_s)}"
    marks = [f'<text x="10" y="{top + 14}" font-size="14" font-weight="bold">{title}</text>']
    for track, name in enumerate(TRACKS):
        y = top + 20 + track * TRACK_HEIGHT
        marks.append(f'<text x="10" y="{y + 24}" font-size="12">{name}</text>')
        tasks = np.flatnonzero((time.resource == track * gpus + gpu) & (time.part < len(COLOURS)))
        for task in tasks[: MAX_MARKS // len(TRACKS)]:
            x = LEFT + WIDTH * time.start_s[task] / longest
            width = max(0.2, WIDTH * (time.finish_s[task] - time.start_s[task]) / longest)
            colour = COLOURS[time.part[task]]
            marks.append(f'<rect x="{x:.1f}" y="{y + 6}" width="{width:.1f}" height="28" fill="{colour}"/>')
    return "".join(marks)
