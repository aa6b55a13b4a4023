"""Fill the tables of the docs from stored results: python benchmarks/doc_tables.py [--check].

A page says ``<!-- table: NAME -->``, and the table stands between that line and ``<!-- end -->``.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
MARKED = re.compile(r"(<!-- table: ([a-z_]+) -->\n).*?(<!-- end -->)", re.S)

Row = dict[str, Any]

TABLES: dict[str, Callable[[], str]] = {}


def table(write: Callable[[], str]) -> Callable[[], str]:
    """Let pages name what a function writes."""
    TABLES[write.__name__] = write
    return write


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def stored(name: str) -> dict[str, Any]:
    """What a benchmark wrote."""
    made: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return made


def made_on(name: str) -> str:
    """Commit and day of a result."""
    machine = stored(name)["machine"]
    return f"`{machine['commit']}`, {str(machine.get('date', 'undated'))[:10]}"


def cells(row: Row, keys: Iterable[str], digits: str = ".3f") -> list[str]:
    """Some columns of a row in words, fractions with so many digits."""
    return [format(v, digits) if isinstance(v := row.get(key, "-"), float) else str(v) for key in keys]


def as_they_are(rows: list[Row], keys: Sequence[str] = (), digits: str = ".3f") -> str:
    """Rows with all their columns, or those named, under their own names."""
    header = keys or list(dict.fromkeys(key for row in rows for key in row))
    return markdown(header, [cells(row, header, digits) for row in rows])


def seconds(value: float | None) -> str:
    """A time in words; nothing where there is none."""
    return f"{value:.3g} s" if value else ""


# Tables that are a list of rows in a result.
AS_STORED = {
    "rails": ("rails", "rows"),  # time over the bound of every algorithm on rails, by servers and load
    "rails_fabrics": ("rails", "fabrics"),
    "across": ("across", "rows"),  # MoE across servers, beside forwarding and FAST
    "across_bound": ("across_bound", "rows"),  # time between servers over its bound, worst of the seeds
    "sensitivity": ("inswitch", "sensitivity"),  # how DySHARP's gain depends on the hardware and on the layer
    "quality_faults": ("quality", "faults"),  # slow and dead NICs, over the bound of the broken cluster
    "quality_corners": ("quality", "corners"),  # odd shapes, over the bound
}
TABLES |= {name: partial(lambda of, part: as_they_are(stored(of)[part]), *where) for name, where in AS_STORED.items()}


@table
def simulator() -> str:
    """Times of the simulator, with the machine they were taken on."""
    result = stored("simulator")
    header = ["instance", "messages", "tolerance", "median", "least", "most", "limit"]
    keys = ("median_s", "least_s", "most_s", "limit_s")
    lines = [
        [row["instance"], str(row["messages"]), str(row["tolerance"] or "exact"), *(seconds(row[k]) for k in keys)]
        for row in result["rows"]
    ]
    machine = result["machine"]
    facts = [f"{key}: {value:.2f}" for key, value in result.items() if key.startswith("exponent")]
    return markdown(header, lines) + f"\n{'; '.join(facts)}. {machine['cpu']}, commit {machine['commit']}.\n"


@table
def profiles() -> str:
    """Gains on published profiles, traces and Zipf, all sizes."""
    header = ["servers", "load", "ranks receive: Gini", "max/mean", "pairs: Gini", "over direct", "over fast", "draws"]
    lines = [
        [
            f"{row['servers']}x8",
            row["load"],
            *(f"{row[key]:.2f}" for key in ("received_gini", "received_peak", "pairs_gini")),
            *(f"{row[key]:.2f} ({row[key + '_least']:.2f})" for key in ("over_direct", "over_fast")),
            str(row["draws"]),
        ]
        for row in stored("profiles")["rows"]
    ]
    return markdown(header, lines)


@table
def gains() -> str:
    """The same in short: a line per load, sizes side by side."""
    rows = stored("profiles")["rows"]
    sizes = list(dict.fromkeys(row["servers"] for row in rows))
    header = ["routing", *(f"{size}x8: over direct / fast" for size in sizes)]
    lines = []
    for load in dict.fromkeys(row["load"] for row in rows):
        found = {row["servers"]: row for row in rows if row["load"] == load}
        lines.append(
            [load, *(f"{found[size]['over_direct']:.2f}x / {found[size]['over_fast']:.2f}x" for size in sizes)]
        )
    return markdown(header, lines)


@table
def packets() -> str:
    """Completion over the bound per fabric: packet level beside ours, a range over the loads."""
    result = stored("fabrics_packets")
    lines = []
    for name, (title, *figures) in result["packet_level"].items():
        rows = [row for row in result["rows"] if row["fabric"] == name]
        line = [f"{name}: {title}"]
        for figure, key in zip(figures, ("all at once", "Birkhoff", "shift"), strict=True):
            skewed = sorted(row[key] for row in rows if row["load"] != "equal")
            equal = next(row[key] for row in rows if row["load"] == "equal")
            line += [figure, f"{skewed[0]:.2f}-{skewed[-1]:.2f} (equal {equal:.2f})"]
        lines.append(line)
    header = ["all at once, packets", "ours", "Birkhoff stages, packets", "ours", "shift stages, packets", "ours"]
    return markdown(["fabric", *header], lines)


@table
def amd() -> str:
    """AlgoBW, published beside ours."""
    result = stored("fabrics_amd")
    names = ["FAST", "RCCL", "no-stage", "SpreadOut"]
    lines = []
    for row in result["rows"]:
        pairs = [(row[f"{name} published"], row[f"{name} ours"]) for name in names]
        figures = [f"{published:.2f} / {ours:.2f} ({ours / published:.2f}x)" for published, ours in pairs]
        lines.append([row["load"], str(row["MB per GPU"]), *figures])
    order = f"\nThe order of two algorithms is the published one in {result['ordering']}.\n"
    return markdown(["load", "MB per GPU", *names], lines) + order


@table
def dcqcn() -> str:
    """The fit of roce-dcqcn in a sentence."""
    parts = ", ".join(f"{value:.2f} for {name}" for name, value in stored("fit_dcqcn")["typical_factor"].items())
    return f"Typical factor between ours and published (root mean square of the logarithm): {parts}.\n"


@table
def rails_faults() -> str:
    """A slow rail, a dead one, both; and how long one server plans."""
    result = stored("rails")
    alone = f"\nOne server of 64 plans its own traffic in {result['one_server_of_64_us']:.1f} us.\n"
    return as_they_are(result["degraded"]) + alone


@table
def inswitch() -> str:
    """Ours over DySHARP on real routing."""
    result = stored("inswitch")
    return as_they_are(result["rows"]) + f"\nGeometric mean {result['geomean']:.2f}, least {result['least']:.2f}.\n"


@table
def link_model() -> str:
    """What the model says of experts behind the host link, beside what was measured; the fastest predicted ways."""
    rows, lines, seen = stored("link_model")["rows"], [], Counter[str]()
    for row in rows:
        is_ours = row["way"].startswith("token-centric")
        seen[row["hidden/inner"]] += is_ours
        if not is_ours or seen[row["hidden/inner"]] <= 2:
            figures = [f"{row[key]:.2f}" for key in ("predicted_ms", "measured_ms", "predicted over measured")]
            lines.append([row["hidden/inner"], row["way"], *figures])
    off = [abs(row["predicted over measured"] - 1) for row in rows]
    words = (
        f"{sum(part <= 0.1 for part in off)} of {len(off)} runs are within 10 %, the farthest is {max(off):.2f} off."
    )
    header = ["hidden/inner", "way", "predicted, ms", "measured, ms", "predicted over measured"]
    return markdown(header, lines) + f"\n{words}\n"


@table
def export() -> str:
    """Seconds to export a million messages, in each format that streams."""
    lines = [
        [*cells(row, ("schedule", "messages", "format")), f"{row['MB']:.0f} MB"]
        + [seconds(row[key]) for key in ("cpu_s", "wall_s")]
        for row in stored("export")["rows"]
    ]
    return markdown(["schedule", "messages", "format", "written", "processor time", "elapsed"], lines)


@table
def imported() -> str:
    """Fields of the shared topology files, stated or guessed; or what is asked."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in stored("imported")["rows"]:
        of = found.setdefault(row["file"], {"stated": [], "guessed": []})
        if "asked" in row:
            of["guessed"].append(f"nothing; it asks: {row['asked']}")
        else:
            of["stated" if row["stated"] else "guessed"].append(f"{row['field']} {row['value']}")
    lines = [[f"`{file}`", "; ".join(of["stated"]), "; ".join(of["guessed"])] for file, of in found.items()]
    return markdown(["file", "stated", "guessed"], lines)


@table
def fuzz() -> str:
    """What the fuzzer fed to every reader."""
    result = stored("fuzz")
    lines = [cells(row, ("reader", "inputs", "bytes", "lines_reached")) for row in result["readers"]]
    found = f"\nFindings: {result['findings']}. Most memory: {result['peak_memory_MiB']} MiB.\n"
    return markdown(["reader", "inputs", "bytes", "lines reached"], lines) + found


@table
def quality() -> str:
    """Adaptive over the bound, by fabric, servers and load."""
    result = stored("quality")
    return as_they_are(result["rows"]) + f"\nAbove their limit: {'; '.join(map(str, result['missed'])) or 'none'}.\n"


@table
def mesh() -> str:
    """Adaptive over the bound on MI300X servers."""
    return as_they_are(stored("mesh")["rows"], ("servers", "load", "mean", "worst", "direct, mean"))


@table
def draws() -> str:
    """Adaptive over the bound on many draws of the loads that differ most."""
    keys = ("fabric", "servers", "load", "limit", "mean", "worst", "above limit")
    result = stored("draws")
    return markdown([*keys[:-1], f"above it, of {result['draws']}"], [cells(row, keys) for row in result["rows"]])


@table
def regret() -> str:
    """Adaptive over the best of everything there is, kind by kind, and the worst cases by name."""
    result = stored("regret")
    keys = ("kind", "problems", "regret mean", "regret worst", "over bound mean", "over bound worst")
    lines = [[*cells(row, keys), f"{row['predicted least']:.2f}-{row['predicted most']:.2f}"] for row in result["rows"]]
    near, seed = result["predicted_within"], result["seed"]
    return (
        markdown([*keys, "predicted / simulated"], lines)
        + f"\nPredicted within 10 % of what is simulated: {near:.0%}. Seed {seed}, {made_on('regret')}.\n"
        + "\nThe worst by name:\n\n"
        + markdown(["problem", "regret, and to what"], [[name, str(words)] for name, words in result["worst"].items()])
    )


@table
def grid() -> str:
    """Where adaptive is behind its best rival, of all problems of the grid."""
    result = stored("grid")
    keys = ("cluster", "fan-in", "load", "size", "way", "ours us", "best", "best us", "ratio")
    words = (
        f"\nOf {result['points']} problems {result['above_1_00']} are above 1.00, {result['above_1_01']} above 1.01; "
        f"the largest is {result['largest']:.3f}, the median {result['median']:.3f}.\n"
    )
    return as_they_are(result["rows"], keys, ".4g") + words


@table
def synthesis() -> str:
    """The table of synthesis: what public TACOS takes, what we take."""
    lines = []
    for row in stored("synthesis")["rows"]:
        units = {"most_s": "s", "most_us": "us", "most_slots": "slots"}
        limits = [f"{row[key]} {unit}" for key, unit in units.items() if row[key]]
        figures = [seconds(row["cpu_s"]), seconds(row["wall_s"]), f"{row['makespan_us']:.5g} us"]
        figures += [f"{row['of bound']:.3f}", str(row["slots"])]
        lines.append([row["case"], str(row["TACOS"]), *figures, ", ".join(limits), "yes" if row["met"] else "no"])
    header = ["case", "public TACOS", "CPU", "wall", "time", "of bound", "stages", "limit", "met (by CPU time)"]
    return markdown(header, lines)


@table
def synthesis_growth() -> str:
    """Synthesis of general meshes by size, and the exponent fitted to all but the last."""
    result = stored("synthesis_growth")
    keys = ("mesh", "ranks", "cpu_s", "wall_s", "slots", "least slots", "peak_gib", "valid")
    words = f"\nCPU time grows with the number of ranks to the power of {result['exponent']:.2f}.\n"
    return as_they_are([*result["rows"], *stored("synthesis_200")["rows"]], keys, ".3g") + words


@table
def synthesis_quality() -> str:
    """How far from the optimum or the bound on random graphs, by collective and size."""
    result = stored("synthesis_quality")
    rows = [{**row, "most s": f"{row['most_s']:.3g}"} for row in result["rows"]]
    keys = ("collective", "ranks", "size", "joined by", "over", "graphs", "median", "worst", "worst family")
    keys += ("limit", "above limit", "valid", "most s")
    return as_they_are(rows, keys) + f"\nSeeds from {result['seed']} on, which nothing was tuned on.\n"


@table
def ways() -> str:
    """What is lost without each way of `guided`."""
    result = stored("ways")
    return as_they_are(result["rows"]) + f"\n{result['problems']} problems, seed {result['seed']}.\n"


@table
def lab() -> str:
    """Wall clock in the lab: torch's own call beside ours."""
    result = stored("lab")
    header = ["lab", "traffic", "torch's own", "adaptive", "times as fast", "over the bound", "predicted / measured"]
    lines = [
        [
            row["shape"],
            row["traffic"],
            f"{row['native_ms']:.0f} ms ({row['busiest_nic_over_bound']:.2f})",
            f"{row['adaptive_ms']:.0f} ms ({row['least_ms']:.0f}-{row['most_ms']:.0f})",
            *(f"{row[key]:.2f}" for key in ("faster", "over_bound", "predicted_over_measured")),
        ]
        for row in result["rows"]
    ]
    machine = result["machine"]
    facts = f"{machine['cpu']}, {machine['cores']} cores, TCP {result['congestion_control']}, seed {result['seed']}"
    return markdown(header, lines) + f"\n{facts}, commit {machine['commit']}.\n"


@table
def lab_queues() -> str:
    """Torch's own call beside ours, by congestion control and queue of a switch port."""
    header = ["TCP", "queue", "torch's own", "over the bound", "adaptive", "over the bound", "times as fast"]
    lines = [
        [
            row["congestion control"],
            f"{row['queue kB']} kB ({row['queue ms']:.3g} ms)",
            *(f"{row['native_ms']:.0f} ms", f"{row['native_over_bound']:.2f}"),
            *(f"{row['adaptive_ms']:.0f} ms", f"{row['adaptive_over_bound']:.2f}"),
            f"{row['faster']:.2f}",
        ]
        for row in stored("lab_queues")["rows"]
    ]
    return markdown(header, lines)


@table
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
        for row in stored("lab_queues")["rows"]
        if row["queue kB"] in (24, 150)
    ]
    return markdown(header, lines)


@table
def lab_step() -> str:
    """The three ways of a step in the lab, by the rate of NICs."""
    ways = ("serial", "concurrent", "joint")
    header = ["NICs", "dispatched", "seed", *ways, "over serial", "over concurrent", "predicted / measured"]
    result = stored("lab_step")
    lines = [
        [
            f"{row['nic_mbit']} Mb/s",
            f"{row['size_bytes'] / 1e6:g} MB",
            str(row["seed"]),
            *(f"{row[f'{way}_s']:.2f} s" for way in ways),
            *(f"{row[key]:.2f}" for key in ("over_serial", "over_concurrent")),
            ", ".join(f"{row[f'{way}_predicted_over_measured']:.2f}" for way in ways),
        ]
        for row in result["rows"]
    ]
    return markdown(header, lines)


@table
def lab_small() -> str:
    """Small calls in the lab, as a part of torch's own speed."""
    lines = [
        [
            row["shape"],
            f"{row['native_ms']:.1f} ms",
            f"{row['handle_of_native']:.2f}",
            f"{row['drop_in_of_native']:.2f}",
        ]
        for row in stored("lab")["small_messages"]
    ]
    return markdown(["lab", "torch's own", "handle that holds its demand", "drop-in"], lines)


@table
def results() -> str:
    """What is stored, and from when."""
    lines = [[path.stem, *made_on(path.stem).split(", ")] for path in sorted(RESULTS.glob("*.json"))]
    return markdown(["result", "commit", "day"], lines)


@table
def clusters() -> str:
    """Collectives on clusters over the bound, beside the best baseline."""
    header = ["cluster", "collective", "size", "over the bound", "synthesis", "messages per rank", "best baseline"]
    lines = []
    for row in stored("clusters")["rows"]:
        beside = "" if row["baseline"] is None else f"{row['baseline']} {row['baseline_over_bound']:.2f}"
        figures = [f"{row['over_bound']:.3f}", f"{row['synthesis_s']:.2f} s", f"{row['messages_per_rank']:.0f}"]
        lines.append([*cells(row, ("cluster", "collective", "size")), *figures, beside])
    return markdown(header, lines)


@table
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


@table
def step() -> str:
    """Steps by family, presets by name, and the worst by name."""
    rows = stored("step")["rows"]
    header = ["step", "count", "gain, mean", "least", "of the bound, mean", "worst"]
    lines = []
    for family in ("layer", "pair", "fsdp"):
        mine = [row for row in rows if row["family"] == family]
        gains, over = ([row[key] for row in mine] for key in ("gain", "over_bound"))
        figures = [sum(gains) / len(mine), min(gains), sum(over) / len(mine), max(over)]
        lines.append([family, str(len(mine)), *(f"{figure:.3f}" for figure in figures)])
    for row in rows:
        if row["family"] == "preset":
            gain, over_bound = cells(row, ("gain", "over_bound"))
            lines.append([row["step"], "1", gain, gain, over_bound, over_bound])
    drawn = [row for row in rows if row["family"] != "preset"]
    worst = sorted(drawn, key=lambda row: -row["over_bound"])[:3]
    told = ", ".join(f"{row['step']} ({row['cluster']}) {row['over_bound']:.3f}" for row in worst)
    return markdown(header, lines) + f"\nFarthest from the bound: {told}. Commit and day: {made_on('step')}.\n"


@table
def gpu() -> str:
    """A device's times beside what CUDA itself does."""
    result = stored("gpu")
    lines = [
        [
            row["case"],
            str(row["messages"]),
            f"{row['ours_us']:.0f} us",
            row["rival"],
            f"{row['rival_us']:.0f} us",
            f"{row['rival_over_ours']:.2f}",
        ]
        for row in result["rows"]
    ]
    hop = result["rows"][-1]
    facts = (
        f"{result['device']}, torch {result['torch']}; a dependent hop takes {hop['hop_us']:.2f} us, queueing a launch "
    )
    header = ["plan", "messages", "ours", "beside it", "takes", "its time over ours"]
    return markdown(header, lines) + f"\n{facts}{hop['host_us']:.0f} us of the host.\n{_costs(result)}"


def _costs(result: dict[str, Any]) -> str:
    """What `measure_costs` found, in a sentence."""
    if "costs" not in result:
        return ""
    launch, hop, message = (result["costs"][f"gpu_{name}_s"] for name in ("launch", "hop", "message"))
    rate = result["costs"]["gpu_copy_bandwidth_bytes_per_s"]
    return (
        f"As `calibrate` measures them in the same run: launch {1e6 * launch:.0f} us, hop {1e6 * hop:.2f} us, "
        f"independent message {1e9 * message:.1f} ns, copies {rate / 1e12:.2f} TB/s"
        f"{' (' + str(result['note']) + ')' if 'note' in result else ''}.\n"
    )


@table
def gpu_checks() -> str:
    """What the last run of tools/gpu_check found."""
    result = stored("gpu")
    if "checks" not in result:
        return "No run of `tools/gpu_check` is stored yet.\n"
    lines = [[one["check"], one["result"], f"{one['seconds']} s", one["said"].strip("= ")] for one in result["checks"]]
    machine = result["machine"]
    took = f"All of it in {result['checks_s']} s, at commit {machine['commit']} on {machine['date']}."
    if "checks_note" in result:
        took += f" {result['checks_note']}"
    return markdown(["check", "result", "took", "said"], lines) + f"\n{took}\n"


@table
def mutation() -> str:
    """How many small faults the tests notice, by folder."""
    lines = []
    for row in stored("mutation")["rows"]:
        tried, killed, alike = (row[key] for key in ("tried", "killed", "equivalent"))
        shares = [f"{100 * killed / count:.0f} %" if count else "-" for count in (tried, tried - alike)]
        counts = cells(row, ("sampled", "tried", "killed", "not reached", "equivalent"))
        lines.append([row["folder"], f"{row['seed']}, `{row['commit']}`", *counts, *shares])
    header = ["folder", "seed, commit", "sampled", "tried", "noticed", "reached by no test", "cannot be noticed"]
    return markdown([*header, "noticed of those tried", "of those that can be"], lines)


@table
def gpu_experts() -> str:
    """The experts of a layer beside torch's."""
    result = stored("gpu_moe")
    lines = []
    for name, case in result["forth"].items():
        ms, back = case["ms"], result["back"].get(name, {}).get("ms")
        who = ("eager", "strong", "triton", "ours", "ours, atomic")
        lines.append(
            [
                name,
                *(f"{ms[each]:.2f}" if each in ms else "" for each in who),
                *(f"{ms[base] / ms['ours']:.2f}" if base in ms else "" for base in who[:3]),
                f"{back['strong'] / back['ours']:.2f}" if back else "",
                f"{case['error']['strong']:.4f} / {case['error']['ours']:.4f}",
            ]
        )
    header = ["hidden/inner/experts/tokens", "eager, ms", "strong, ms", "Triton, ms", "ours, ms"]
    header += ["ours with atomics, ms", "over eager", "over strong", "over Triton", "way back over strong"]
    (beside,) = result["beside"].values()
    facts = (
        f"{result['device']}, torch {result['torch']}. On {beside['multiprocessors']} multiprocessors beside "
        f"{beside['copying']} that copy, the second shape takes "
        f"{beside['beside_ms'] / beside['alone_ms']:.3f} of its time alone.\n"
    )
    return markdown([*header, "error, strong / ours"], lines) + "\n" + facts


@table
def gpu_link() -> str:
    """A rank's experts behind the host link, predicted and measured."""
    lines = []
    for name, case in stored("gpu_moe")["link"].items():
        predicted, measured = case["predicted_ms"], case["ms"]
        ways = [label for label in measured if "chunks" in label and not label.startswith("1 ")]
        planned, best = min(ways, key=predicted.__getitem__), min(ways, key=measured.__getitem__)
        sequential = measured["sequential torch"]
        for label in dict.fromkeys((planned, best)):
            role = "planned, and the best" if planned == best else "planned" if label == planned else "the best"
            figures = (sequential, predicted[label], measured[label], sequential / measured[label])
            lines.append([name, f"{label} ({role})", *(f"{figure:.2f}" for figure in figures)])
    header = ["hidden/inner", "way", "sequential torch, ms", "predicted, ms", "measured, ms", "over sequential"]
    return markdown(header, lines)


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
