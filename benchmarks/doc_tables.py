"""Fill the tables of the docs from stored results: python benchmarks/doc_tables.py [--check].

A page says ``<!-- table: NAME -->``, and the table stands between that line and ``<!-- end -->``.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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


def written(rows: Iterable[Row], formats: dict[str, str]) -> str:
    """Rows under some headings, each cell a format of the row."""
    return markdown(list(formats), [[cell.format_map(row) for cell in formats.values()] for row in rows])


def seconds(value: float | None) -> str:
    """A time in words; nothing where there is none."""
    return f"{value:.3g} s" if value else ""


@dataclass(frozen=True, slots=True)
class Stored:
    """A table that is a list of rows in a result: all their columns; those named; or a format of the row by heading."""

    result: str
    part: str = "rows"
    columns: tuple[str, ...] | dict[str, str] = ()
    digits: str = ".3f"
    beneath: str = ""  # a format of the result

    def __call__(self) -> str:
        result = stored(self.result)
        if isinstance(self.columns, dict):
            made = written(result[self.part], self.columns)
        else:
            made = as_they_are(result[self.part], self.columns, self.digits)
        return made + (f"\n{self.beneath.format_map(result)}\n" if self.beneath else "")


TABLES |= {
    # Time over the bound of every algorithm on rails, by servers and load; a slow rail, a dead one, both.
    "rails": Stored(
        "rails",
        beneath="`rails-split` over `rails` with chunks of 256 kB: {over_chunks[mean]:.3f} on average, "
        "{over_chunks[least]:.3f} to {over_chunks[most]:.3f}; over itself in one slice: {over_one_slice[mean]:.3f}, "
        "{over_one_slice[least]:.3f} to {over_one_slice[most]:.3f}.",
    ),
    "rails_fabrics": Stored("rails", "fabrics"),
    "rails_faults": Stored(
        "rails", "degraded", beneath="One server of 64 plans its own traffic in {one_server_of_64_us:.1f} us."
    ),
    "across": Stored("across"),  # MoE across servers, beside forwarding and FAST
    "across_bound": Stored("across_bound"),  # time between servers over its bound, worst of the seeds
    "sensitivity": Stored("inswitch", "sensitivity"),  # how DySHARP's gain depends on the hardware and on the layer
    "inswitch": Stored("inswitch", beneath="Geometric mean {geomean:.2f}, least {least:.2f}."),  # over DySHARP
    "quality_faults": Stored("quality", "faults"),  # slow and dead NICs, over the bound of the broken cluster
    "quality_corners": Stored("quality", "corners"),  # odd shapes, over the bound
    "mesh": Stored("mesh", columns=("servers", "load", "mean", "worst", "direct, mean")),  # MI300X servers
    # Where adaptive is behind its best rival, of all problems of the grid.
    "grid": Stored(
        "grid",
        columns=("cluster", "fan-in", "load", "size", "way", "ours us", "best", "best us", "ratio"),
        digits=".4g",
        beneath="Of {points} problems {above_1_00} are above 1.00, {above_1_01} above 1.01; the largest is "
        "{largest:.3f}, the median {median:.3f}.",
    ),
    # What the fuzzer fed to every reader.
    "fuzz": Stored(
        "fuzz",
        "readers",
        {"reader": "{reader}", "inputs": "{inputs}", "bytes": "{bytes}", "lines reached": "{lines_reached}"},
        beneath="Findings: {findings}. Most memory: {peak_memory_MiB} MiB.",
    ),
    # Gains on published profiles, traces and Zipf, all sizes.
    "profiles": Stored(
        "profiles",
        columns={
            "servers": "{servers}x8",
            "load": "{load}",
            "ranks receive: Gini": "{received_gini:.2f}",
            "max/mean": "{received_peak:.2f}",
            "pairs: Gini": "{pairs_gini:.2f}",
            "over direct": "{over_direct:.2f} ({over_direct_least:.2f})",
            "over fast": "{over_fast:.2f} ({over_fast_least:.2f})",
            "draws": "{draws}",
        },
    ),
    "ways": Stored("ways", beneath="{problems} problems, seed {seed}."),  # what is lost without each way of `guided`
    # Wall clock in the lab: torch's own call beside ours; by congestion control and queue of a port; small calls.
    "lab": Stored(
        "lab",
        columns={
            "lab": "{shape}",
            "traffic": "{traffic}",
            "torch's own": "{native_ms:.0f} ms ({busiest_nic_over_bound:.2f})",
            "adaptive": "{adaptive_ms:.0f} ms ({least_ms:.0f}-{most_ms:.0f})",
            "times as fast": "{faster:.2f}",
            "over the bound": "{over_bound:.2f}",
            "predicted / measured": "{predicted_over_measured:.2f}",
        },
        beneath="{machine[cpu]}, {machine[cores]} cores, TCP {congestion_control}, seed {seed}, commit "
        "{machine[commit]}.",
    ),
    "lab_queues": Stored(
        "lab_queues",
        columns={
            "TCP": "{congestion control}",
            "queue": "{queue kB} kB ({queue ms:.3g} ms)",
            "torch's own": "{native_ms:.0f} ms",
            "torch's own, over the bound": "{native_over_bound:.2f}",
            "adaptive": "{adaptive_ms:.0f} ms",
            "adaptive, over the bound": "{adaptive_over_bound:.2f}",
            "times as fast": "{faster:.2f}",
        },
    ),
    "lab_small": Stored(
        "lab",
        "small_messages",
        {
            "lab": "{shape}",
            "torch's own": "{native_ms:.1f} ms",
            "handle that holds its demand": "{handle_of_native:.2f}",
            "drop-in": "{drop_in_of_native:.2f}",
        },
    ),
}


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
def quality() -> str:
    """Adaptive over the bound, by fabric, servers and load."""
    result = stored("quality")
    return as_they_are(result["rows"]) + f"\nAbove their limit: {'; '.join(map(str, result['missed'])) or 'none'}.\n"


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
def lab_choice() -> str:
    """Both congestion controls at the lab's own queue and at a deep one: what the gain hangs on."""
    formats = {
        "TCP, queue of a port": "{congestion control}, {queue kB} kB",
        "torch's own": "{native_ms:.0f} ms",
        "adaptive": "{adaptive_ms:.0f} ms",
        "times as fast": "{faster:.2f}",
    }
    return written([row for row in stored("lab_queues")["rows"] if row["queue kB"] in (24, 150)], formats)


@table
def lab_step() -> str:
    """The three ways of a step in the lab, by the rate of NICs."""
    ways = ("serial", "concurrent", "joint")
    formats = {"NICs": "{nic_mbit} Mb/s", "dispatched": "{MB:g} MB", "seed": "{seed}"}
    formats |= {way: f"{{{way}_s:.2f}} s" for way in ways}
    formats |= {f"over {way}": f"{{over_{way}:.2f}}" for way in ways[:2]}
    formats["predicted / measured"] = ", ".join(f"{{{way}_predicted_over_measured:.2f}}" for way in ways)
    return written([{**row, "MB": row["size_bytes"] / 1e6} for row in stored("lab_step")["rows"]], formats)


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
