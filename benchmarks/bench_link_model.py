"""What does the model say of experts behind the host link, beside what was measured there?

Every prediction is made of constants in `interlock.moe.constants` and of the table of measured GEMMs, none of them
taken from the runs it stands beside but the cost of a chunk, which the first shape gave. Where tokens go in parts, each
part reads all weights: its GEMMs are those of so many rows. Measured: sequential torch and our pipeline from
results/gpu_moe.json; two overlapped phases from a prototype, on the same machine.
"""

from __future__ import annotations

import json

import numpy as np

from common import RESULTS, arguments, report
from interlock.gpu.moe.pipeline import Rates, plan_chunks, predict
from interlock.moe import H200, Layer

TOP_K, RANKS = 8, 8
# The host link of one H200 as a slow link of a rank, and what our kernel pays for chunks; all measured.
ONE_WAY_BYTES_PER_S = 55e9  # copy engines, which slow GEMMs by 1.00
BOTH_WAYS_BYTES_PER_S = 51e9  # each way
MEMORY_BYTES_PER_S = 2 * 1.88e12  # read and written, as a copy does: benchmarks/results/gpu.json
CHUNK_S = 10e-6  # beyond a chunk's rows, of 4096/1536 in 32 chunks
CHUNK_START_S = 49e-6  # the same where the experts had to wait for it
CASES = {  # hidden, inner, all experts, tokens that come to one rank of eight; two phases in how many chunks, ms
    "4096/1536": (4096, 1536, 128, 16384, 8, 5.45),
    "7168/2048": (7168, 2048, 256, 8192, 4, 5.4),
    "4096/4096": (4096, 4096, 64, 16384, 8, 5.8),
}
WAYS = ((4, 1), (8, 1), (8, 2), (16, 1), (16, 2), (16, 4), (32, 4))  # chunks and parts that were run


def routing(experts: int, tokens: int, seed: int) -> np.ndarray:
    """Experts of this rank that each token chose, -1 elsewhere; every token has one here."""
    rng = np.random.default_rng(seed)
    chosen = np.argpartition(rng.random((int(tokens * 2.5), experts)), TOP_K, axis=1)[:, :TOP_K]
    chosen = np.where(chosen < experts // RANKS, chosen, -1)
    return chosen[(chosen >= 0).any(axis=1)][:tokens]


def experts_s(layer: Layer, rows: np.ndarray, *, fused: bool) -> float:
    """Gate, up and down by the measured table; where not fused, rows are gathered, passed through SwiGLU and summed."""
    first, second = H200.gemms.row_s(layer, rows)
    products_s = float((rows * (2 * first + second)).sum())
    if fused:
        return products_s
    values = rows.sum() * (2 * layer.hidden + 3 * layer.ffn + layer.hidden) + layer.tokens_per_gpu * layer.hidden
    return products_s + float(2 * values / MEMORY_BYTES_PER_S) + 5 * H200.launch_s


def main() -> None:
    """One row per shape and way."""
    options = arguments(__doc__ or "")
    measured = json.loads((RESULTS / "gpu_moe.json").read_text())["link"]
    made = []
    for name, (hidden, inner, experts, tokens, phases_in, two_phase_ms) in CASES.items():
        chosen = routing(experts, tokens, options.seed)
        rows = np.bincount(chosen[chosen >= 0], minlength=experts // RANKS)
        layer = Layer(name, hidden, inner, experts, TOP_K, tokens)
        moved, found = tokens * hidden * 2, measured[name]["ms"]
        one_s = moved / ONE_WAY_BYTES_PER_S
        stock_s = experts_s(layer, rows, fused=False)
        half_s = stock_s / 2 + phases_in * H200.launch_s
        two_s = 2 * (max(one_s, half_s) + min(one_s, half_s) / phases_in)
        made.append(row(name, "sequential", 2 * one_s + stock_s, found["sequential torch"]))
        made.append(row(name, f"two phases, {phases_in} chunks", two_s, two_phase_ms))
        times = {}
        for chunks, parts in WAYS:
            for lag in (0, 1):
                label = f"{chunks} chunks, {parts} parts, lag {lag}"
                if label in found:
                    link = BOTH_WAYS_BYTES_PER_S
                    beyond_s = (CHUNK_S if lag else CHUNK_START_S), CHUNK_START_S
                    own_s = parts * experts_s(layer, rows // parts, fused=True)
                    rates = Rates(link, link, own_s / rows.sum(), *beyond_s)
                    order = plan_chunks(chosen, experts // RANKS, chunks, parts)
                    times[label] = predict(order, 2 * hidden, rates, lag)
        for label in sorted(times, key=lambda label: times[label]):
            made.append(row(name, f"token-centric, {label}", times[label], found[label]))
    report("link_model", made, options, note=(__doc__ or "").split("\n\n")[1].replace("\n", " "))


def row(shape: str, way: str, predicted_s: float, measured_ms: float) -> dict[str, object]:
    """Predicted beside measured."""
    predicted_ms = predicted_s * 1e3
    return {
        "hidden/inner": shape,
        "way": way,
        "predicted_ms": predicted_ms,
        "measured_ms": measured_ms,
        "predicted over measured": predicted_ms / measured_ms,
    }


if __name__ == "__main__":
    main()
