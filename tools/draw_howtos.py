"""Draw the pictures of docs/howto: python tools/draw_howtos.py [NAME ...].

Every length comes from a plan made here (simulated), from a stored result of benchmarks/results (measured), or from a
page's own code. A picture follows the reader's choice of light or dark.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from html import escape
from pathlib import Path

import interlock as il
from interlock.exported import time_after_export
from interlock.planning import Plan
from interlock.traffic.moe_router import moe_routing
from interlock.traffic.routing import Copies
from interlock.units import format_bandwidth, format_bytes, format_seconds

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "images"
WIDTH, LETTER, ROW = 780, 6.6, 26  # a letter of a label is at most so wide on average
STYLE = """<style>
text { fill: #1f2933; font: 13px sans-serif } .title { font-weight: bold; font-size: 15px } .end { text-anchor: end }
.paper { fill: #fff } .bar { fill: #0072b2 } .other { fill: #a7b6c2 } .bad { fill: #d55e00 } .soft { fill: #eef1f4 }
.bound { stroke: #d55e00; stroke-width: 2; stroke-dasharray: 6 4 } .word { fill: #d55e00 }
@media (prefers-color-scheme: dark) { text { fill: #e6eaee } .paper { fill: #0d1117 } .bar { fill: #56b4e9 }
.other { fill: #55636f } .bad { fill: #ff8a3c } .soft { fill: #222a32 }
.bound { stroke: #ff8a3c } .word { fill: #ff8a3c } }
</style>"""


@dataclass(frozen=True)
class Bar:
    """A label, a length in seconds, words behind it; ours are stronger."""

    label: str
    seconds: float
    note: str = ""
    is_ours: bool = False


def main() -> None:
    """Draw all pictures, or those that are named."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        (FOLDER / f"howto-{name}.svg").write_text(PICTURES[name]())


def certificate() -> str:
    """Times of three algorithms and the bound of their problem."""
    cluster = il.cluster("h200", servers=4)
    traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="512 MB", seed=0)
    proofs = {name: il.plan(cluster, traffic, name).certificate() for name in ("direct", "fast", "adaptive")}
    rows = [Bar(n, p.makespan_s, f"gap {100 * p.gap:.1f} %", n == "adaptive") for n, p in proofs.items()]
    return bars("Simulated times and the proven bound, 4x8 H200, Zipf 0.8", rows, proofs["fast"].lower_bound_s)


def export() -> str:
    """One plan before and after export, and sending everything directly."""
    cluster = il.cluster("h200", servers=2)
    plan = il.plan(cluster, il.traffic.hot_expert(cluster, skew=1.0, bytes_per_gpu="64 MB", seed=0))
    rows = [Bar("the plan", plan.simulate().makespan_s, is_ours=True)]
    with tempfile.TemporaryDirectory() as folder:
        for name, words in (("mscclpp-json", "read back from MSCCL++ JSON"), ("msccl-xml", "read back from MSCCL XML")):
            times = time_after_export(plan, plan.export(name, Path(folder) / name))
            assert times is not None
            rows.append(
                Bar(words, times.exported_s, f"{times.exported_s / times.plan_s:.2f} of the plan", is_ours=True)
            )
    rows.append(Bar("direct, without a plan", times.direct_s))
    return bars("Simulated times, 2x8 H200, one hot expert", rows, plan.bound.seconds)


def sweep() -> str:
    """How far three algorithms are from the bound at three sizes."""
    cluster, rows = il.cluster("h200", servers=2), []
    for size in ("1 MB", "16 MB", "512 MB"):
        traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu=size, seed=0)
        for name in ("direct", "fast", "adaptive"):
            over = il.plan(cluster, traffic, name).certificate().gap + 1
            rows.append(Bar(f"{name}, {size}", over, f"{over:.2f}", name == "adaptive"))
    return bars("Simulated time over the bound, 2x8 H200, Zipf 0.8", rows, 1.0, unit="", bound_words="the bound")


def algorithm() -> str:
    """The algorithm of the page beside two of ours, on the page's problem."""
    page = (ROOT / "docs" / "howto" / "add-an-algorithm.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code is not None
    made: dict[str, object] = {}
    with redirect_stdout(io.StringIO()):
        exec(code[1], made)
    problem, shifts = made["problem"], made["shifts"]
    mine = Plan(problem, shifts(problem), "shifts")  # type: ignore[operator,arg-type]
    plans = [mine, *(il.plan(problem.cluster, problem.demand, name) for name in ("direct", "adaptive"))]  # type: ignore[attr-defined]
    rows = [
        Bar("shifts (this page)" if p is mine else p.algorithm, p.simulate().makespan_s, "", p is mine) for p in plans
    ]
    return bars("Simulated times, 4x8 H200, uniform, 64 MB per GPU", rows, mine.bound.seconds)


def lab() -> str:
    """What the lab measured, by what the gain hangs on, and the bound."""
    rows = by_port("torch's own", "adaptive")
    first = stored("lab_queues")["rows"][0]
    bound_s = first["adaptive_ms"] / first["adaptive_over_bound"] / 1e3
    return bars("Over TCP between 4x4 network namespaces, zipf:0.8, measured", rows, bound_s)


def torchrun() -> str:
    """The drop-in against the backend's own call, by what the gain hangs on."""
    return bars("all_to_all_single over TCP in the lab, 4x4, zipf:0.8, measured", by_port("gloo", "interlock.torch"))


def by_port(own: str, ours: str) -> list[Bar]:
    """Both calls at a shallow and at a deep queue of a port, with either congestion control."""
    rows = []
    for row in stored("lab_queues")["rows"]:
        if row["queue kB"] in (24, 150):
            where = f"{row['congestion control']}, ports of {row['queue kB']} kB"
            rows.append(Bar(f"{own}, {where}", row["native_ms"] / 1e3))
            rows.append(Bar(f"{ours}, {where}", row["adaptive_ms"] / 1e3, f"{row['faster']:.2f}x faster", is_ours=True))
    return rows


def gpu() -> str:
    """The executor against what else moves those bytes."""
    found = stored("gpu")
    rows = []
    for row in found["rows"][:3]:
        rows.append(Bar(row["rival"], row["rival_us"] / 1e6))
        rows.append(Bar(f"ours: {row['case']}", row["ours_us"] / 1e6, is_ours=True))
    return bars(f"One launch per plan, measured on {found['device']}", rows)


def experts() -> str:
    """Experts behind the host link: in sequence, and in the best way."""
    found = stored("gpu_moe")
    rows = []
    for shape, case in dict(found["link"]).items():
        ms = dict(case["ms"])
        best = min((label for label in ms if "chunks" in label), key=lambda label: ms[label])
        rows.append(Bar(f"{shape}: sequential torch", ms["sequential torch"] / 1e3))
        rows.append(Bar(f"{shape}: {best}", ms[best] / 1e3, is_ours=True))
    return bars(f"A rank's experts behind the host link, measured on {found['device']}", rows)


def copies() -> str:
    """What a dispatch puts on NICs with a copy per expert, per rank and per server."""
    made = il.cluster("h200", servers=4)
    routing = moe_routing(made, 512, 256, 8, 0.8, seed=0)
    width, rows = made.gpus_per_server, []
    ways: list[tuple[Copies, str]] = [("expert", ""), ("rank", ""), ("server", " (DeepEP, ours)")]
    for kind, mark in ways:
        sent = routing.to_demand(2 * 7168, kind, width).bytes_matrix.reshape(4, width, 4, width).sum(axis=(1, 3))
        outside = float(sent.sum() - sent.trace()) / made.num_ranks
        words = f"{format_bytes(outside)} per GPU"
        rows.append(Bar(f"a copy per {kind}{mark}", outside, words, kind == "server"))
    return bars("Between servers: 512 tokens per GPU of 4x8, 256 experts, top 8, hidden 7168", rows, unit="")


def cluster() -> str:
    """NICs of a cluster whose servers differ, one of them dead."""
    slow = [il.slow_nic(server=2, gpu=g, bandwidth="200 Gb/s") for g in range(8)]
    made = il.cluster("h200", servers=3, faults=[il.dead_nic(server=0, gpu=5), *slow])
    rates = made.nic_bandwidth_bytes_per_s.reshape(3, 8)
    marks, most = [], float(rates.max())
    for server, row in enumerate(rates.tolist()):
        top = 54 + 96 * server
        marks.append(f'<text x="24" y="{top + 24}">server {server}</text>')
        marks.append(f'<rect class="soft" x="110" y="{top}" width="{8 * 74}" height="40" rx="5"/>')
        for gpu_, rate in enumerate(row):
            x, tall = 120 + 74 * gpu_, 36 * rate / most
            marks.append(f'<text x="{x + 6}" y="{top + 25}">GPU {gpu_}</text>')
            kind = "bar" if rate == most else "bad"
            marks.append(f'<rect class="{kind}" x="{x + 16}" y="{top + 44}" width="20" height="{max(tall, 2):.0f}"/>')
    words = (
        f"NICs: full height {format_bandwidth(most)}; server 2 is a slower group, the NIC of GPU 5 in server 0 is dead"
    )
    return svg("Servers that differ: two groups and a fault", marks, 54 + 96 * 3 + 30, words)


def traffic() -> str:
    """A matrix, and what each rank receives."""
    made = il.cluster("h200", servers=2)
    demand = il.traffic.zipf(made, skew=0.8, bytes_per_gpu="64 MB", seed=0).bytes_matrix.copy()
    for rank in range(len(demand)):
        demand[rank, rank] = 0
    most, sums, cell = float(demand.max()), demand.sum(axis=0), 15
    marks = ['<text x="24" y="58">from rank (down) to rank (across)</text>']
    marks.append('<text x="330" y="58">received by each rank</text>')
    for i, row in enumerate(demand.tolist()):
        for j, size in enumerate(row):
            at = f'x="{24 + cell * j}" y="{70 + cell * i}" width="{cell - 1}" height="{cell - 1}"'
            marks.append(f'<rect class="soft" {at}/><rect class="bar" {at} fill-opacity="{size / most:.2f}"/>')
        long = 380 * float(sums[i]) / float(sums.max())
        at = f'x="330" y="{70 + cell * i}" width="{long:.0f}" height="{cell - 2}"'
        marks.append(f'<rect class="bar" {at}/>')
    words = f"zipf:0.8, seed 0: the rank that receives most gets {format_bytes(float(sums.max()))}, the mean is "
    return svg("A demand of 2x8 GPUs", marks, 70 + cell * 16 + 34, words + format_bytes(float(sums.mean())))


def bars(
    title: str, rows: Sequence[Bar], bound: float | None = None, *, unit: str = "s", bound_words: str = "bound"
) -> str:
    """Horizontal bars, a row each; the bound as a dashed line."""
    left = 34 + LETTER * max(len(row.label) for row in rows)
    room = WIDTH - left - 200
    longest = max([*(row.seconds for row in rows), bound or 0.0])
    marks = []
    for place, row in enumerate(rows):
        y, wide = 48 + ROW * place, room * row.seconds / longest
        kind = "bar" if row.is_ours else "other"
        marks.append(f'<text class="end" x="{left - 10:.1f}" y="{y + 14}">{escape(row.label)}</text>')
        marks.append(f'<rect class="{kind}" x="{left:.1f}" y="{y}" width="{max(wide, 1):.1f}" height="{ROW - 7}"/>')
        value = format_seconds(row.seconds) if unit else ""
        words = ", ".join(word for word in (value, row.note) if word)
        marks.append(f'<text x="{left + wide + 8:.1f}" y="{y + 14}">{escape(words)}</text>')
    height = 48 + ROW * len(rows) + 12
    if bound is not None:
        x = left + room * bound / longest
        marks.append(f'<path class="bound" d="M{x:.1f} 42V{height - 4}"/>')
        words = f"{bound_words} {format_seconds(bound)}" if unit else bound_words
        marks.append(f'<text class="word" x="{x + 4:.1f}" y="{height + 12}">{words}</text>')
        height += 24
    return svg(title, marks, height)


def svg(title: str, marks: Sequence[str], height: int, below: str = "") -> str:
    """A whole picture."""
    last = [f'<text x="24" y="{height - 10}">{escape(below)}</text>'] if below else []
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title, quote=True)}">\n{STYLE}\n<rect class="paper" width="100%" height="100%"/>\n'
        f'<text class="title" x="24" y="28">{escape(title)}</text>\n' + "\n".join([*marks, *last]) + "\n</svg>\n"
    )


def stored(name: str) -> dict[str, list[dict[str, float]]]:
    """A result that a benchmark left."""
    found: dict[str, list[dict[str, float]]] = json.loads(
        (ROOT / "benchmarks" / "results" / f"{name}.json").read_text()
    )
    return found


PICTURES: dict[str, Callable[[], str]] = {
    "add-an-algorithm": algorithm,
    "deepep": copies,
    "export": export,
    "gpu": gpu,
    "gpu-experts": experts,
    "lab": lab,
    "my-cluster": cluster,
    "my-traffic": traffic,
    "read-a-certificate": certificate,
    "sweep": sweep,
    "torchrun": torchrun,
}

if __name__ == "__main__":
    main()
