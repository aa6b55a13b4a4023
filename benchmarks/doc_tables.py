"""Fill the tables of the docs from stored results: python benchmarks/doc_tables.py [--check].

A page says ``<!-- table: NAME -->``, and the table stands between that line and ``<!-- end -->``.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
MARKED = re.compile(r"(<!-- table: ([a-z_]+) -->\n).*?(<!-- end -->)", re.S)

Row = dict[str, object]


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def stored(name: str) -> dict[str, object]:
    """What a benchmark wrote."""
    made: dict[str, object] = json.loads((RESULTS / f"{name}.json").read_text())
    return made


def made_on(name: str) -> str:
    """Commit and day of a result."""
    machine = stored(name)["machine"]
    assert isinstance(machine, dict)
    return f"`{machine['commit']}`, {str(machine.get('date', 'undated'))[:10]}"


def rows_of(result: dict[str, object]) -> list[Row]:
    """Its rows."""
    rows = result["rows"]
    assert isinstance(rows, list)
    return rows


def simulator() -> str:
    """Times of the simulator, with the machine they were taken on."""
    result = stored("simulator")
    header = ["instance", "messages", "tolerance", "median", "least", "most", "limit"]
    keys = ("median_s", "least_s", "most_s", "limit_s")
    lines = [
        [
            str(row["instance"]),
            str(row["messages"]),
            str(row["tolerance"] or "exact"),
            *(_seconds(row[k]) for k in keys),
        ]
        for row in rows_of(result)
    ]
    machine = result["machine"]
    assert isinstance(machine, dict)
    facts = [
        f"{key}: {value:.2f}"
        for key, value in result.items()
        if key.startswith("exponent") and isinstance(value, float)
    ]
    return markdown(header, lines) + f"\n{'; '.join(facts)}. {machine['cpu']}, commit {machine['commit']}.\n"


def profiles() -> str:
    """Gains on published profiles, traces and Zipf, all sizes."""
    header = ["servers", "load", "ranks receive: Gini", "max/mean", "pairs: Gini", "over direct", "over fast", "draws"]
    lines = [
        [
            f"{row['servers']}x8",
            str(row["load"]),
            *(f"{row[key]:.2f}" for key in ("received_gini", "received_peak", "pairs_gini")),
            *(f"{row[key]:.2f} ({row[key + '_least']:.2f})" for key in ("over_direct", "over_fast")),
            str(row["draws"]),
        ]
        for row in rows_of(stored("profiles"))
    ]
    return markdown(header, lines)


def gains() -> str:
    """The same in short: a line per load, sizes side by side."""
    rows = rows_of(stored("profiles"))
    sizes = list(dict.fromkeys(row["servers"] for row in rows))
    header = ["routing", *(f"{size}x8: over direct / fast" for size in sizes)]
    lines = []
    for load in dict.fromkeys(str(row["load"]) for row in rows):
        found = {row["servers"]: row for row in rows if row["load"] == load}
        lines.append(
            [load, *(f"{found[size]['over_direct']:.2f}x / {found[size]['over_fast']:.2f}x" for size in sizes)]
        )
    return markdown(header, lines)


def packets() -> str:
    """Completion over the bound per fabric: packet level beside ours, a range over the loads."""
    result = stored("fabrics_packets")
    published = result["packet_level"]
    assert isinstance(published, dict)
    lines = []
    for name, (title, *figures) in published.items():
        rows = [row for row in rows_of(result) if row["fabric"] == name]
        cells = [f"{name}: {title}"]
        for figure, key in zip(figures, ("all at once", "Birkhoff", "shift"), strict=True):
            skewed = sorted(float(str(row[key])) for row in rows if row["load"] != "equal")
            equal = next(row[key] for row in rows if row["load"] == "equal")
            cells += [figure, f"{skewed[0]:.2f}-{skewed[-1]:.2f} (equal {equal:.2f})"]
        lines.append(cells)
    header = [
        "fabric",
        "all at once, packets",
        "ours",
        "Birkhoff stages, packets",
        "ours",
        "shift stages, packets",
        "ours",
    ]
    return markdown(header, lines)


def amd() -> str:
    """AlgoBW, published beside ours."""
    result = stored("fabrics_amd")
    names = ["FAST", "RCCL", "no-stage", "SpreadOut"]
    lines = []
    for row in rows_of(result):
        cells = [str(row["load"]), str(row["MB per GPU"])]
        for name in names:
            published, ours = float(str(row[f"{name} published"])), float(str(row[f"{name} ours"]))
            cells.append(f"{published:.2f} / {ours:.2f} ({ours / published:.2f}x)")
        lines.append(cells)
    order = f"\nThe order of two algorithms is the published one in {result['ordering']}.\n"
    return markdown(["load", "MB per GPU", *names], lines) + order


def dcqcn() -> str:
    """The fit of roce-dcqcn in a sentence."""
    result = stored("fit_dcqcn")
    factors = result["typical_factor"]
    assert isinstance(factors, dict)
    parts = ", ".join(f"{value:.2f} for {name}" for name, value in factors.items())
    return f"Typical factor between ours and published (root mean square of the logarithm): {parts}.\n"


def rails() -> str:
    """Time over the bound of every algorithm on rails, by servers and load."""
    return _ratios(rows_of(stored("rails")))


def rails_fabrics() -> str:
    """The same on other fabrics."""
    rows = stored("rails")["fabrics"]
    assert isinstance(rows, list)
    return _ratios(rows)


def rails_faults() -> str:
    """A slow rail, a dead one, both; and how long one server plans."""
    result = stored("rails")
    rows = result["degraded"]
    assert isinstance(rows, list)
    alone = f"\nOne server of 64 plans its own traffic in {float(str(result['one_server_of_64_us'])):.1f} us.\n"
    return _ratios(rows) + alone


def across() -> str:
    """MoE across servers, beside forwarding and FAST."""
    return _ratios(rows_of(stored("across")))


def across_bound() -> str:
    """Time between servers over its bound, worst of the seeds."""
    return _ratios(rows_of(stored("across_bound")))


def inswitch() -> str:
    """Ours over DySHARP on real routing."""
    result = stored("inswitch")
    mean, least = (float(str(result[key])) for key in ("geomean", "least"))
    return _ratios(rows_of(result)) + f"\nGeometric mean {mean:.2f}, least {least:.2f}.\n"


def sensitivity() -> str:
    """How DySHARP's gain depends on the hardware and on the layer."""
    rows = stored("inswitch")["sensitivity"]
    assert isinstance(rows, list)
    return _ratios(rows)


def link_model() -> str:
    """What the model says of experts behind the host link, beside what was measured; the fastest predicted ways."""
    rows, lines, seen = rows_of(stored("link_model")), [], Counter[str]()
    for row in rows:
        is_ours = str(row["way"]).startswith("token-centric")
        seen[str(row["hidden/inner"])] += is_ours
        if not is_ours or seen[str(row["hidden/inner"])] <= 2:
            figures = [f"{float(str(row[key])):.2f}" for key in ("predicted_ms", "measured_ms")]
            lines.append([str(row["hidden/inner"]), str(row["way"]), *figures, f"{row['predicted over measured']:.2f}"])
    off = [abs(float(str(row["predicted over measured"])) - 1) for row in rows]
    words = (
        f"{sum(part <= 0.1 for part in off)} of {len(off)} runs are within 10 %, the farthest is {max(off):.2f} off."
    )
    header = ["hidden/inner", "way", "predicted, ms", "measured, ms", "predicted over measured"]
    return markdown(header, lines) + f"\n{words}\n"


def export() -> str:
    """Seconds to export a million messages, in each format that streams."""
    lines = [
        [str(row["schedule"]), str(row["messages"]), str(row["format"]), f"{float(str(row['MB'])):.0f} MB"]
        + [_seconds(row[key]) for key in ("cpu_s", "wall_s")]
        for row in rows_of(stored("export"))
    ]
    return markdown(["schedule", "messages", "format", "written", "processor time", "elapsed"], lines)


def imported() -> str:
    """Fields of the shared topology files, stated or guessed; or what is asked."""
    cells: dict[str, dict[str, list[str]]] = {}
    for row in rows_of(stored("imported")):
        of = cells.setdefault(str(row["file"]), {"stated": [], "guessed": []})
        if "asked" in row:
            of["guessed"].append(f"nothing; it asks: {row['asked']}")
        else:
            of["stated" if row["stated"] else "guessed"].append(f"{row['field']} {row['value']}")
    lines = [[f"`{file}`", "; ".join(of["stated"]), "; ".join(of["guessed"])] for file, of in cells.items()]
    return markdown(["file", "stated", "guessed"], lines)


def fuzz() -> str:
    """What the fuzzer fed to every reader."""
    result = stored("fuzz")
    readers = result["readers"]
    assert isinstance(readers, list)
    lines = [[str(row[key]) for key in ("reader", "inputs", "bytes", "lines_reached")] for row in readers]
    found = f"\nFindings: {result['findings']}. Most memory: {result['peak_memory_MiB']} MiB.\n"
    return markdown(["reader", "inputs", "bytes", "lines reached"], lines) + found


def quality() -> str:
    """Adaptive over the bound, by fabric, servers and load."""
    result = stored("quality")
    missed = result["missed"]
    assert isinstance(missed, list)
    words = "; ".join(str(point) for point in missed) or "none"
    return _ratios(rows_of(result)) + f"\nAbove their limit: {words}.\n"


def quality_faults() -> str:
    """Slow and dead NICs, over the bound of the broken cluster."""
    rows = stored("quality")["faults"]
    assert isinstance(rows, list)
    return _ratios(rows)


def quality_corners() -> str:
    """Odd shapes, over the bound."""
    rows = stored("quality")["corners"]
    assert isinstance(rows, list)
    return _ratios(rows)


def mesh() -> str:
    """Adaptive over the bound on MI300X servers."""
    keys = ("servers", "load", "mean", "worst", "direct, mean")
    lines = [
        [f"{v:.3f}" if isinstance(v := row[key], float) else str(v) for key in keys] for row in rows_of(stored("mesh"))
    ]
    return markdown([*keys], lines)


def draws() -> str:
    """Adaptive over the bound on many draws of the loads that differ most."""
    keys = ("fabric", "servers", "load", "limit", "mean", "worst", "above limit")
    result = stored("draws")
    lines = [[f"{v:.3f}" if isinstance(v := row[key], float) else str(v) for key in keys] for row in rows_of(result)]
    return markdown([*keys[:-1], f"above it, of {result['draws']}"], lines)


def regret() -> str:
    """Adaptive over the best of everything there is, kind by kind, and the worst cases by name."""
    result = stored("regret")
    keys = ("kind", "problems", "regret mean", "regret worst", "over bound mean", "over bound worst")
    lines = [
        [
            *(f"{v:.3f}" if isinstance(v := row[key], float) else str(v) for key in keys),
            f"{row['predicted least']:.2f}-{row['predicted most']:.2f}",
        ]
        for row in rows_of(result)
    ]
    worst = result["worst"]
    assert isinstance(worst, dict)
    near = float(str(result["predicted_within"]))
    return (
        markdown([*keys, "predicted / simulated"], lines)
        + f"\nPredicted within 10 % of what is simulated: {near:.0%}. Seed {result['seed']}, {made_on('regret')}.\n"
        + "\nThe worst by name:\n\n"
        + markdown(["problem", "regret, and to what"], [[name, str(words)] for name, words in worst.items()])
    )


def grid() -> str:
    """Where adaptive is behind its best rival, of all problems of the grid."""
    result = stored("grid")
    keys = ("cluster", "fan-in", "load", "size", "way", "ours us", "best", "best us", "ratio")
    lines = [[f"{v:.4g}" if isinstance(v := row[key], float) else str(v) for key in keys] for row in rows_of(result)]
    largest, median = float(str(result["largest"])), float(str(result["median"]))
    words = (
        f"\nOf {result['points']} problems {result['above_1_00']} are above 1.00, {result['above_1_01']} above 1.01; "
        f"the largest is {largest:.3f}, the median {median:.3f}.\n"
    )
    return markdown(list(keys), lines) + words


def synthesis() -> str:
    """The table of synthesis: what public TACOS takes, what we take."""
    lines = []
    for row in rows_of(stored("synthesis")):
        limits = [f"{row['most_s']} s"] * bool(row["most_s"]) + [f"{row['most_us']} us"] * bool(row["most_us"])
        limits += [f"{row['most_slots']} slots"] * bool(row["most_slots"])
        lines.append(
            [
                str(row["case"]),
                str(row["TACOS"]),
                _seconds(row["cpu_s"]),
                _seconds(row["wall_s"]),
                f"{float(str(row['makespan_us'])):.5g} us",
                f"{float(str(row['of bound'])):.3f}",
                str(row["slots"]),
                ", ".join(limits),
                "yes" if row["met"] else "no",
            ]
        )
    header = ["case", "public TACOS", "CPU", "wall", "time", "of bound", "stages", "limit", "met (by CPU time)"]
    return markdown(header, lines)


def synthesis_growth() -> str:
    """Synthesis of general meshes by size, and the exponent fitted to all but the last."""
    result = stored("synthesis_growth")
    keys = ("mesh", "ranks", "cpu_s", "wall_s", "slots", "least slots", "peak_gib", "valid")
    rows = [*rows_of(result), *rows_of(stored("synthesis_200"))]
    lines = [[f"{v:.3g}" if isinstance(v := row[key], float) else str(v) for key in keys] for row in rows]
    exponent = float(str(result["exponent"]))
    return markdown(list(keys), lines) + f"\nCPU time grows with the number of ranks to the power of {exponent:.2f}.\n"


def lab() -> str:
    """Wall clock in the lab: torch's own call beside ours."""
    result = stored("lab")
    header = ["lab", "traffic", "torch's own", "adaptive", "times as fast", "over the bound", "predicted / measured"]
    lines = [
        [
            f"{row['shape']}",
            f"{row['traffic']}",
            f"{row['native_ms']:.0f} ms ({row['busiest_nic_over_bound']:.2f})",
            f"{row['adaptive_ms']:.0f} ms ({row['least_ms']:.0f}-{row['most_ms']:.0f})",
            *(f"{row[key]:.2f}" for key in ("faster", "over_bound", "predicted_over_measured")),
        ]
        for row in rows_of(result)
    ]
    machine = result["machine"]
    assert isinstance(machine, dict)
    facts = f"{machine['cpu']}, {machine['cores']} cores, TCP {result['congestion_control']}, seed {result['seed']}"
    return markdown(header, lines) + f"\n{facts}, commit {machine['commit']}.\n"


def lab_queues() -> str:
    """Torch's own call beside ours, by congestion control and queue of a switch port."""
    header = ["TCP", "queue", "torch's own", "over the bound", "adaptive", "over the bound", "times as fast"]
    lines = [
        [
            f"{row['congestion control']}",
            f"{row['queue kB']} kB ({row['queue ms']:.3g} ms)",
            f"{row['native_ms']:.0f} ms",
            f"{row['native_over_bound']:.2f}",
            f"{row['adaptive_ms']:.0f} ms",
            f"{row['adaptive_over_bound']:.2f}",
            f"{row['faster']:.2f}",
        ]
        for row in rows_of(stored("lab_queues"))
    ]
    return markdown(header, lines)


def lab_choice() -> str:
    """Both congestion controls at the lab's own queue and at a deep one: what the gain hangs on."""
    header = ["TCP, queue of a port", "torch's own", "adaptive", "times as fast"]
    lines = [
        [
            f"{row['congestion control']}, {row['queue kB']} kB",
            f"{row['native_ms']:.0f} ms",
            f"{row['adaptive_ms']:.0f} ms",
            f"{row['faster']:.2f}",
        ]
        for row in rows_of(stored("lab_queues"))
        if row["queue kB"] in (24, 150)
    ]
    return markdown(header, lines)


def results() -> str:
    """What is stored, and from when."""
    lines = [[path.stem, *made_on(path.stem).split(", ")] for path in sorted(RESULTS.glob("*.json"))]
    return markdown(["result", "commit", "day"], lines)


def lab_small() -> str:
    """Small calls in the lab, as a part of torch's own speed."""
    small = stored("lab")["small_messages"]
    assert isinstance(small, list)
    lines = [
        [
            row["shape"],
            f"{row['native_ms']:.1f} ms",
            f"{row['handle_of_native']:.2f}",
            f"{row['drop_in_of_native']:.2f}",
        ]
        for row in small
    ]
    return markdown(["lab", "torch's own", "handle that holds its demand", "drop-in"], lines)


def synthesis_quality() -> str:
    """How far from the optimum or the bound on random graphs, by collective and size."""
    result = stored("synthesis_quality")
    rows = [{**row, "most s": f"{row['most_s']:.3g}"} for row in rows_of(result)]
    keys = ("collective", "ranks", "size", "joined by", "over", "graphs", "median", "worst", "worst family")
    keys += ("limit", "above limit", "valid", "most s")
    cells = [[f"{v:.3f}" if isinstance(v := row[key], float) else str(v) for key in keys] for row in rows]
    return markdown(list(keys), cells) + f"\nSeeds from {result['seed']} on, which nothing was tuned on.\n"


def ways() -> str:
    """What is lost without each way of `guided`."""
    result = stored("ways")
    return _ratios(rows_of(result)) + f"\n{result['problems']} problems, seed {result['seed']}.\n"


def _ratios(rows: list[Row]) -> str:
    """Rows as they are, ratios with three digits after the point."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[f"{v:.3f}" if isinstance(v := row.get(key, "-"), float) else str(v) for key in header] for row in rows]
    return markdown(header, cells)


def _seconds(value: object) -> str:
    return f"{float(str(value)):.3g} s" if value else ""


FAST = (quality, quality_faults, quality_corners, draws, mesh, grid, regret)
LAB = (lab, lab_queues, lab_choice, lab_small)
MOE = (across, across_bound, inswitch, sensitivity, link_model)


def clusters() -> str:
    """Collectives on clusters over the bound, beside the best baseline."""
    header = ["cluster", "collective", "size", "over the bound", "synthesis", "messages per rank", "best baseline"]
    lines = []
    for row in rows_of(stored("clusters")):
        best, ratio = row["baseline"], row["baseline_over_bound"]
        beside = "" if best is None else f"{best} {ratio:.2f}"
        figures = [f"{row['over_bound']:.3f}", f"{row['synthesis_s']:.2f} s", f"{row['messages_per_rank']:.0f}"]
        lines.append([str(row["cluster"]), str(row["collective"]), str(row["size"]), *figures, beside])
    return markdown(header, lines)


def switched() -> str:
    """`auto` on random switched fabrics."""
    result = stored("clusters")
    names = {
        "fabrics_mean_over_bound": "over the bound, mean",
        "fabrics_worst_over_bound": "over the bound, worst",
        "fabrics_worst_behind_baseline": "over the best of direct, ring and hierarchical, worst",
        "fabrics_most_synthesis_s": "synthesis, most seconds",
    }
    return markdown(["all problems", ""], [[words, f"{result[key]:.3f}"] for key, words in names.items()])


def step() -> str:
    """Steps by family, presets by name, and the worst by name."""
    result = stored("step")
    rows = rows_of(result)
    header = ["step", "count", "gain, mean", "least", "of the bound, mean", "worst"]
    lines = []
    for family in ("layer", "pair", "fsdp"):
        mine = [row for row in rows if row["family"] == family]
        gains, over = ([float(str(row[key])) for row in mine] for key in ("gain", "over_bound"))
        cells = [sum(gains) / len(mine), min(gains), sum(over) / len(mine), max(over)]
        lines.append([family, str(len(mine)), *(f"{cell:.3f}" for cell in cells)])
    for row in rows:
        if row["family"] == "preset":
            gain, over_bound = (f"{float(str(row[key])):.3f}" for key in ("gain", "over_bound"))
            lines.append([str(row["step"]), "1", gain, gain, over_bound, over_bound])
    drawn = [row for row in rows if row["family"] != "preset"]
    worst = sorted(drawn, key=lambda row: -float(str(row["over_bound"])))[:3]
    told = ", ".join(f"{row['step']} ({row['cluster']}) {float(str(row['over_bound'])):.3f}" for row in worst)
    return markdown(header, lines) + f"\nFarthest from the bound: {told}. Commit and day: {made_on('step')}.\n"


def gpu() -> str:
    """A device's times beside what CUDA itself does."""
    result = stored("gpu")
    lines = [
        [
            str(row["case"]),
            str(row["messages"]),
            f"{row['ours_us']:.0f} us",
            str(row["rival"]),
            f"{row['rival_us']:.0f} us",
            f"{row['rival_over_ours']:.2f}",
        ]
        for row in rows_of(result)
    ]
    hop = rows_of(result)[-1]
    facts = (
        f"{result['device']}, torch {result['torch']}; a dependent hop takes {hop['hop_us']:.2f} us, queueing a launch "
    )
    header = ["plan", "messages", "ours", "beside it", "takes", "its time over ours"]
    return markdown(header, lines) + f"\n{facts}{hop['host_us']:.0f} us of the host.\n{_costs(result)}"


def _costs(result: dict[str, object]) -> str:
    """What `measure_costs` found, in a sentence."""
    if "costs" not in result:
        return ""
    costs = cast(dict[str, float], result["costs"])
    launch, hop, message = (costs[f"gpu_{name}_s"] for name in ("launch", "hop", "message"))
    rate = costs["gpu_copy_bandwidth_bytes_per_s"]
    return (
        f"As `calibrate` measures them in the same run: launch {1e6 * launch:.0f} us, hop {1e6 * hop:.2f} us, "
        f"independent message {1e9 * message:.1f} ns, copies {rate / 1e12:.2f} TB/s"
        f"{' (' + str(result['note']) + ')' if 'note' in result else ''}.\n"
    )


def gpu_checks() -> str:
    """What the last run of tools/gpu_check found."""
    result = stored("gpu")
    if "checks" not in result:
        return "No run of `tools/gpu_check` is stored yet.\n"
    checks = cast(list[dict[str, str]], result["checks"])
    lines = [[one["check"], one["result"], f"{one['seconds']} s", one["said"].strip("= ")] for one in checks]
    machine = cast(dict[str, str], result["machine"])
    took = f"All of it in {result['checks_s']} s, at commit {machine['commit']} on {machine['date']}."
    if "checks_note" in result:
        took += f" {result['checks_note']}"
    return markdown(["check", "result", "took", "said"], lines) + f"\n{took}\n"


def mutation() -> str:
    """How many small faults the tests notice, by folder."""
    lines = []
    for row in rows_of(stored("mutation")):
        tried, killed, alike = (int(str(row[key])) for key in ("tried", "killed", "equivalent"))
        shares = [f"{100 * killed / count:.0f} %" if count else "-" for count in (tried, tried - alike)]
        counts = [str(row[key]) for key in ("sampled", "tried", "killed", "not reached", "equivalent")]
        lines.append([str(row["folder"]), f"{row['seed']}, `{row['commit']}`", *counts, *shares])
    header = ["folder", "seed, commit", "sampled", "tried", "noticed", "reached by no test", "cannot be noticed"]
    return markdown([*header, "noticed of those tried", "of those that can be"], lines)


def gpu_experts() -> str:
    """The experts of a layer beside torch's."""
    result = stored("gpu_moe")
    lines = []
    for name, case in result["forth"].items():
        ms = case["ms"]
        back = result["back"].get(name, {}).get("ms")
        lines.append(
            [
                name,
                *(
                    f"{ms[who]:.2f}" if who in ms else ""
                    for who in ("eager", "strong", "triton", "ours", "ours, atomic")
                ),
                *(f"{ms[base] / ms['ours']:.2f}" if base in ms else "" for base in ("eager", "strong", "triton")),
                f"{back['strong'] / back['ours']:.2f}" if back else "",
                f"{case['error']['strong']:.4f} / {case['error']['ours']:.4f}",
            ]
        )
    header = [
        "hidden/inner/experts/tokens",
        "eager, ms",
        "strong, ms",
        "Triton, ms",
        "ours, ms",
        "ours with atomics, ms",
    ]
    header += ["over eager", "over strong", "over Triton", "way back over strong", "error, strong / ours"]
    (beside,) = result["beside"].values()
    facts = (
        f"{result['device']}, torch {result['torch']}. On {beside['multiprocessors']} multiprocessors beside "
        f"{beside['copying']} that copy, the second shape takes "
        f"{beside['beside_ms'] / beside['alone_ms']:.3f} of its time alone.\n"
    )
    return markdown(header, lines) + "\n" + facts


def gpu_link() -> str:
    """A rank's experts behind the host link, predicted and measured."""
    lines = []
    for name, case in stored("gpu_moe")["link"].items():
        ways = [label for label in case["ms"] if "chunks" in label and not label.startswith("1 ")]
        planned = min(ways, key=lambda label: case["predicted_ms"][label])
        best = min(ways, key=lambda label: case["ms"][label])
        sequential = case["ms"]["sequential torch"]
        for label in dict.fromkeys((planned, best)):
            ms, foretold = case["ms"][label], case["predicted_ms"][label]
            role = "planned, and the best" if planned == best else "planned" if label == planned else "the best"
            lines.append(
                [
                    name,
                    f"{label} ({role})",
                    f"{sequential:.2f}",
                    f"{foretold:.2f}",
                    f"{ms:.2f}",
                    f"{sequential / ms:.2f}",
                ]
            )
    header = ["hidden/inner", "way", "sequential torch, ms", "predicted, ms", "measured, ms", "over sequential"]
    return markdown(header, lines)


WRITERS = (
    mutation,
    gpu_experts,
    gpu_link,
    clusters,
    switched,
    results,
    simulator,
    profiles,
    gains,
    packets,
    amd,
    dcqcn,
    rails,
    rails_fabrics,
    rails_faults,
    export,
    imported,
    fuzz,
    gpu,
    gpu_checks,
    step,
    *MOE,
    *FAST,
    *LAB,
)
SYNTHESIS = (synthesis, synthesis_growth, synthesis_quality, ways)
TABLES: dict[str, Callable[[], str]] = {table.__name__: table for table in (*WRITERS, *SYNTHESIS)}


def main() -> None:
    """Rewrite the pages, or with --check say which are out of date."""
    stale = []
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))):
        text = page.read_text()
        made = MARKED.sub(lambda m: m[1] + TABLES[m[2]]() + m[3] if m[2] in TABLES else m[0], text)
        if made != text:
            stale.append(str(page))
            if "--check" not in sys.argv:
                page.write_text(made)
    print("\n".join(stale) or "all tables are those of the stored results")
    sys.exit(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    main()
