"""DySHARP's headline table in our model: calibration, speed-ups over every scheme, and the ablation."""

from __future__ import annotations

import math

import numpy as np

from interlock.moe import PAPER, SCHEMES, layer_time, paper_layers, uniform_traffic
from interlock.moe.constants import ORIGIN, Origin
from interlock.moe.fluid import loads, useless_nvls_traffic
from interlock.report.claims import Claim, Constants, Published, judge, judge_together

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


def _constants_of(*schemes: str) -> dict[str, list[str]]:
    """The constants of some schemes, by where they come from."""
    return origins(list(dict.fromkeys(name for scheme in schemes for name in SCHEMES[scheme].constants)))


def _calibration() -> list[Claim]:
    large = next(layer for layer in paper_layers() if layer.name == "large-8")
    part = loads(large, uniform_traffic(large, GPUS), PAPER)
    dispatch_s = max(part.out_s, part.in_s)
    share = 100 * 2 * dispatch_s / (2 * dispatch_s + part.experts_s)
    useless = 100 * useless_nvls_traffic(large, GPUS)
    shares, copies = Published.figure(70.4), Published.figure(340)
    return [
        Claim.judged(
            "dysharp",
            "communication share of an MoE layer, DeepSeek-V3 on 32 GPUs",
            shares,
            share,
            "%",
            judge(share, shares, 0.05, fitted=True),
            0.05,
            CALIBRATED,
            constants=Constants.THIS,
            origins=origins([*SHARE_CONSTANTS]),
        ),
        Claim.judged(
            "dysharp",
            "useless traffic of the NVLS workaround",
            copies,
            useless,
            "%",
            judge(useless, copies, 0.03),
            0.03,
            constants=Constants.COUNTED,
        ),
    ]


def _speedups(times: dict[str, np.ndarray]) -> list[Claim]:
    ratio = {name: times[name] / times["dysharp"] for name in PUBLISHED}
    made = []
    for place, what in enumerate(("max", "geomean")):
        ours = [float(np.exp(np.log(r).mean())) if place else float(r.max()) for r in ratio.values()]
        published = [Published.figure(figures[place]) for figures in PUBLISHED.values()]
        verdicts = judge_together(list(PUBLISHED), ours, published, SLACK, [False] * len(ours), are_leads=True)
        for name, value, theirs, verdict in zip(PUBLISHED, ours, published, verdicts, strict=True):
            notes = ("tile-level model, 9 configurations", CALIBRATED, NOTES.get(name, ""), verdict.why)
            claim = f"MoE layer over {name}, {what}"
            used = _constants_of("dysharp", name)
            row = ("dysharp", claim, theirs, value, "x", verdict, SLACK, *notes)
            made.append(Claim.judged(*row, constants=Constants.MODEL, origins=used))
    return made


def _ablation(times: dict[str, np.ndarray]) -> list[Claim]:
    made = []
    halves = {"dysharp-addressing": "addressing with COMET's overlap", "dysharp-fusion": "fusion alone"}
    for half, words in halves.items():
        ours = float(np.exp(np.log(times["comet"] / times[half]).mean()))
        verdict = judge(ours, NO_SPEEDUP, 0.0)
        claim = f"{words}, over COMET, geomean"
        row = ("dysharp", claim, NO_SPEEDUP, ours, "x", verdict, 0.0, CALIBRATED, verdict.why)
        made.append(Claim.judged(*row, constants=Constants.MODEL, origins=_constants_of("comet", half)))
    return made
