"""DySHARP's headline table in our model: calibration, speed-ups over every scheme, and the ablation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from interlock.moe import PAPER, SCHEMES, layer_time, paper_layers, uniform_traffic
from interlock.moe.constants import ORIGIN, Origin
from interlock.moe.fluid import loads, useless_nvls_traffic
from interlock.report.claims import Claim, Constants, Published, Status, judge, judge_together

__all__ = ["claims"]

GPUS = 32
# Speed-up of the MoE layer over each scheme: maximum and geometric mean over nine configurations.
PUBLISHED = {
    "deepep": (2.77, 2.26),
    "nvls": (6.93, 4.25),
    "tutel": (2.32, 1.96),
    "comet": (1.94, 1.78),
}
NO_SPEEDUP = Published(-math.inf, 1.0)
SLACK = 0.15
SHARE_CONSTANTS = ("FLIT_BYTES", "link_bytes_per_s", "link_efficiency", "payload_flits", "gemms")
CALIBRATED = "link efficiency and GEMM rate are fitted to the 70.4 % share and to nothing else"
NOTES = {
    "nvls": "our NVLS workaround overlaps nothing (the paper does not say whether its own does)",
    "tutel": "its adaptive degree of pipelining alone: best of 1, 2, 4 and 8 waves",
}


def claims(quick: bool = True) -> list[Claim]:
    """All rows, on all nine configurations; there is nothing smaller to take."""
    layers = paper_layers()
    halves = ("dysharp-addressing", "dysharp-fusion")
    times = {
        name: np.array([layer_time(name, layer, uniform_traffic(layer, GPUS)).makespan_s for layer in layers])
        for name in ("dysharp", *PUBLISHED, *halves)
    }
    return [*_calibration(), *_speedups(times), *_ablation(times)]


def origins(names: list[str]) -> dict[str, list[str]]:
    """Constants by where they come from: published, fitted, measured, assumed."""
    kinds = {origin: [name for name in names if ORIGIN[name] is origin] for origin in Origin}
    return {str(origin): found for origin, found in kinds.items() if found}


def _claim(claim: str, theirs: Published, ours: float, status: Status, slack: float, note: str, other: str) -> Claim:
    """A row on two schemes: its constants are those of both."""
    first = "comet" if other.startswith("dysharp-") else "dysharp"
    used = list(dict.fromkeys([*SCHEMES[first].constants, *SCHEMES[other].constants]))
    made = Claim("dysharp", claim, theirs.text, ours, "x", status, slack, Constants.MODEL, note=note)
    return replace(made, origins=origins(used))


def _calibration() -> list[Claim]:
    large = next(layer for layer in paper_layers() if layer.name == "large-8")
    part = loads(large, uniform_traffic(large, GPUS), PAPER)
    dispatch_s = max(part.out_s, part.in_s)
    share = 100 * 2 * dispatch_s / (2 * dispatch_s + part.experts_s)
    useless = 100 * useless_nvls_traffic(large, GPUS)
    return [
        Claim(
            "dysharp",
            "communication share of an MoE layer, DeepSeek-V3 on 32 GPUs",
            "70.4",
            share,
            "%",
            judge(share, Published.figure(70.4), 0.05, fitted=True).status,
            0.05,
            Constants.THIS,
            note=CALIBRATED,
            origins=origins([*SHARE_CONSTANTS]),
        ),
        Claim(
            "dysharp",
            "useless traffic of the NVLS workaround",
            "340",
            useless,
            "%",
            judge(useless, Published.figure(340), 0.03).status,
            0.03,
            Constants.COUNTED,
        ),
    ]


def _speedups(times: dict[str, np.ndarray]) -> list[Claim]:
    ratio = {name: times[name] / times["dysharp"] for name in PUBLISHED}
    made = []
    for place, what in enumerate(("max", "geomean")):
        ours = [float(np.exp(np.log(r).mean())) if place else float(r.max()) for r in ratio.values()]
        published = [Published.figure(figures[place]) for figures in PUBLISHED.values()]
        verdicts = judge_together(list(PUBLISHED), ours, published, SLACK, [False] * len(ours))
        for name, value, theirs, verdict in zip(PUBLISHED, ours, published, verdicts, strict=True):
            note = "; ".join(
                filter(None, ("tile-level model, 9 configurations", CALIBRATED, NOTES.get(name), verdict.why))
            )
            claim = f"MoE layer over {name}, {what}"
            made.append(_claim(claim, theirs, value, verdict.status, SLACK, note, name))
    return made


def _ablation(times: dict[str, np.ndarray]) -> list[Claim]:
    made = []
    for half in ("dysharp-addressing", "dysharp-fusion"):
        ours = float(np.exp(np.log(times["comet"] / times[half]).mean()))
        verdict = judge(ours, NO_SPEEDUP, 0.05)
        claim = f"{half.removeprefix('dysharp-')} alone over COMET, geomean"
        note = "; ".join(filter(None, (CALIBRATED, verdict.why)))
        made.append(_claim(claim, NO_SPEEDUP, ours, verdict.status, 0.05, note, half))
    return made
