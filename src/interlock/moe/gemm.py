"""How long an expert's two GEMMs take: at one rate, or by a table measured on a real GPU.

The table (`gemm_h200.json`, written by benchmarks/bench_gemm_tiles.py on an H200) holds bf16 grouped GEMMs by tokens
per expert. With few tokens an expert costs what reading its weights costs, which no single rate says. Another table
(`tile_rates_h200.json`, by benchmarks/bench_tile_rates.py) holds the rates of one kernel by the tokens of a tile.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from interlock.moe.layer import Layer

__all__ = ["FixedRate", "GemmTable", "Gemms", "TileRates", "h200_gemms", "h200_tile_rates"]

STANDARD_TILE = 128  # tokens; other rates than those by tile are of kernels with tiles like this

Seconds = NDArray[np.float64]


class Gemms(Protocol):
    """Anything that knows how long GEMMs take."""

    @property
    def name(self) -> str:
        """What the times are."""
        ...

    def row_s(self, layer: Layer, tokens: NDArray[np.int64]) -> Seconds:
        """Seconds that one token costs an expert that has `tokens` of them, ``[2, len(tokens)]``: GEMM-1 and GEMM-2."""
        ...


@dataclass(frozen=True, slots=True)
class FixedRate:
    """The same rate whatever the tokens, as the paper's analysis assumes."""

    flops_per_s: float

    @property
    def name(self) -> str:
        """The rate."""
        return f"{self.flops_per_s / 1e12:.0f} TFLOP/s, assumed"

    def row_s(self, layer: Layer, tokens: NDArray[np.int64]) -> Seconds:
        """Half of a choice's work each."""
        return np.full((2, len(tokens)), layer.flops_per_choice / 2 / self.flops_per_s)


@dataclass(frozen=True, slots=True, eq=False)
class GemmTable:
    """Measured seconds of one expert's GEMMs by shape and tokens."""

    name: str
    shapes: NDArray[np.int64]  # [num_shapes, 2] hidden and ffn
    tokens: NDArray[np.int64]  # [num_counts] ascending
    expert_s: Seconds  # [num_shapes, 2, num_counts], never falling with tokens

    def row_s(self, layer: Layer, tokens: NDArray[np.int64]) -> Seconds:
        """From the nearest shape, scaled by its work; between counts straight lines, beyond the last its rate."""
        work, nearest = np.prod(self.shapes.astype(np.float64), axis=1), _nearest(self.shapes, layer)
        counts = self.tokens.astype(np.float64)
        inside = np.clip(tokens, counts[0], counts[-1])
        made = [np.interp(inside, counts, seconds) / inside for seconds in self.expert_s[nearest]]
        return np.asarray(np.stack(made) * (layer.hidden * layer.ffn / work[nearest]), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class TileRates:
    """Measured rates of a grouped GEMM by the tokens of its tiles, many tokens per expert."""

    shapes: NDArray[np.int64]  # [num_shapes, 2] hidden and ffn
    tiles: NDArray[np.int64]  # [num_tiles] tokens, ascending
    flops_per_s: NDArray[np.float64]  # [num_shapes, num_tiles]

    def slowdown(self, layer: Layer, tile_tokens: int) -> float:
        """How much longer the same work takes than with a standard tile: short tiles waste rows of the tensor cores,
        read weights more often, and start and end more often. Taller ones gain nothing."""
        rates = self.flops_per_s[_nearest(self.shapes, layer)]
        height = np.log2(self.tiles)
        rate, standard = np.interp(np.log2([max(1, tile_tokens), STANDARD_TILE]), height, rates)
        too_short = min(1.0, tile_tokens / int(self.tiles[0]))  # below the shortest measured, rows are wasted
        return max(1.0, float(standard / rate) / too_short)


def _nearest(shapes: NDArray[np.int64], layer: Layer) -> int:
    """The measured shape whose work is nearest to the layer's."""
    work = np.prod(shapes.astype(np.float64), axis=1)
    return int(np.argmin(np.abs(np.log(work / (layer.hidden * layer.ffn)))))


@cache
def h200_tile_rates() -> TileRates:
    """bf16, a plain kernel, as measured on one H200."""
    rows = json.loads(files("interlock.moe").joinpath("tile_rates_h200.json").read_text())["rows"]
    shapes = list(dict.fromkeys((row["hidden"], row["ffn"]) for row in rows))
    rates = [[row["flops_per_s"] for row in rows if (row["hidden"], row["ffn"]) == shape] for shape in shapes]
    tiles = list(dict.fromkeys(row["tile_tokens"] for row in rows))
    rising = np.maximum.accumulate(np.array(rates), axis=1)  # what falls is too few tiles for all SMs, not their height
    return TileRates(np.array(shapes, np.int64), np.array(tiles, np.int64), rising)


@cache
def h200_gemms() -> GemmTable:
    """bf16 grouped GEMMs as measured on one H200."""
    stored = json.loads(files("interlock.moe").joinpath("gemm_h200.json").read_text())
    rows = stored["rows"]
    names = list(dict.fromkeys(row["shape"] for row in rows))
    of = {name: [row for row in rows if row["shape"] == name] for name in names}
    seconds = [[[row[f"gemm{number}_s"] / row["experts"] for row in of[name]] for number in (1, 2)] for name in names]
    return GemmTable(
        f"bf16, measured on {stored['machine']['gpu']}",
        np.array([(of[name][0]["hidden"], of[name][0]["ffn"]) for name in names], np.int64),
        np.array([row["tokens_per_expert"] for row in of[names[0]]], np.int64),
        np.maximum.accumulate(np.array(seconds), axis=2),  # more tokens never take less: what falls is noise
    )
