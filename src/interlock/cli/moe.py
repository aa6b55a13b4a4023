"""`interlock moe`: a layer scheme by scheme, a training step by algorithm, a layer across servers, or its plan."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from interlock.cli.certificates import check_schedule_name
from interlock.cli.options import (
    ClusterOption,
    CsvOption,
    FaultOption,
    HtmlOption,
    JsonOption,
    OutputOption,
    SeedOption,
    ServersOption,
    SetOption,
    build_cluster,
    complete_algorithm,
    one_format,
    refuse,
)
from interlock.cli.outputs import Outputs
from interlock.cli.show import command_line, print_csv, print_json, print_table, progress_of
from interlock.cli.step import WAYS, WaysOption, compare_ways
from interlock.errors import InvalidInput, named, nearest
from interlock.files import write_text
from interlock.units import format_bytes, format_seconds, parse_whole

if TYPE_CHECKING:
    from interlock.moe import Layer, LayerTraffic, Machine
    from interlock.topology import Cluster
    from interlock.traffic import Routing, Unevenness

__all__ = ["app"]

HONEST = "simulated at tile level; the in-switch hardware does not exist"
STEP_ALGORITHMS = "ecmp,direct,pxn,forward,rails,rails-split,adaptive"

app = typer.Typer(
    help="Mixture-of-Experts: one layer, a training step, a layer across servers, or its plan.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

RoutingOption = Annotated[
    str | None, typer.Option("--routing", metavar="FILE[:ARRAY[:LAYER]]", help="Real top-k choices (npz).")
]
TokensOption = Annotated[int | None, typer.Option("--tokens", help="Per GPU, where drawn; default: 512.")]
ExpertsOption = Annotated[int, typer.Option("--experts", help="Experts of the layer.")]
TopKOption = Annotated[int | None, typer.Option("--top-k", help="Experts of a token, where drawn; default: 6.")]
PictureOption = Annotated[Path | None, typer.Option("--picture", help="Write a timeline as SVG.")]


def complete_model(incomplete: str) -> list[str]:
    """Names of models."""
    from interlock.moe.models import model_names

    return [name for name in model_names() if name.startswith(incomplete)]


@app.command("layer")
def layer(
    name: Annotated[
        str | None,
        typer.Option("--layer", help="Of the paper: small, medium or large, and -8, -16 or -32; default: large-8."),
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", help="GPUs around the switch.")] = 32,
    routing: RoutingOption = None,
    hidden: Annotated[int | None, typer.Option("--hidden", help="With --routing; default: 2048.")] = None,
    ffn: Annotated[int | None, typer.Option("--ffn", help="With --routing; default: 1408.")] = None,
    experts: Annotated[int | None, typer.Option("--experts", help="With --routing; default: 64.")] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", help="Extra expert slots per GPU (EPLB), with --routing; default: 0.")
    ] = None,
    schemes: Annotated[str | None, typer.Option("--schemes", help="Comma-separated; default: all.")] = None,
    backward: Annotated[bool, typer.Option("--backward", help="The backward pass.")] = False,
    dispatch: Annotated[str, typer.Option("--dispatch", help="Precision on the way there: bf16 or fp8.")] = "bf16",
    combine: Annotated[str, typer.Option("--combine", help="Precision on the way back: bf16 or fp8.")] = "bf16",
    gemm: Annotated[
        str, typer.Option("--gemm", help="Expert times: h200 (bf16, measured) or paper (one assumed rate).")
    ] = "h200",
    seed: SeedOption = 0,
    picture: PictureOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> int:
    """Compare schemes on one layer inside one server.

    Examples:

      interlock moe layer --layer large-8 --html layer.html

      interlock moe layer --routing routing.npz:intent:10 --gpus 16 --replicas 2 --schemes dysharp,inswitch

      interlock moe layer --dispatch fp8 --combine bf16 --gemm paper
    """
    from interlock.moe import SCHEMES, compare_schemes
    from interlock.moe.constants import ORIGIN
    from interlock.moe.pictures import timeline_svg
    from interlock.report.moe_page import layer_page

    one_format(as_json, as_csv)
    outputs = Outputs({"--picture": picture, "--html": page})
    machine = _machine(gemm)
    if not 2 <= gpus <= 1024:
        raise InvalidInput(f"--gpus {gpus} must be between 2 and 1024")
    sizes = {"--hidden": hidden, "--ffn": ffn, "--experts": experts, "--replicas": replicas}
    if routing is None:
        refuse(sizes, "a layer of the paper has its own sizes; these go with --routing")
        made, traffic = _drawn("large-8" if name is None else name, gpus, seed)
    else:
        refuse({"--layer": name}, "--routing says which layer it is")
        refuse({"--seed": seed or None}, "--routing leaves nothing to draw")
        made, traffic = _read(routing, gpus, sizes)
    made = replace(made, dispatch_bytes=_value_bytes("--dispatch", dispatch))
    made = replace(made, combine_bytes=_value_bytes("--combine", combine))
    chosen = [word.strip() for word in schemes.split(",")] if schemes is not None else list(SCHEMES)
    with progress_of(len(chosen), "simulating") as step:
        compared = compare_schemes(made, traffic, chosen, machine, backward=backward, progress=step)
    if picture is not None:
        write_text(picture, timeline_svg([time for _, time in compared]))
    results = [row for row, _ in compared]
    rows = [
        [
            row.algorithm,
            format_seconds(row.makespan_s),
            "-" if row.fluid_s is None else format_seconds(row.fluid_s),
            f"{1 + row.gap:.3f}",
            format_bytes(row.up_bytes),
            format_bytes(row.down_bytes),
            format_seconds(row.compute_s),
        ]
        for row in results
    ]
    header = ["scheme", "time", "closed form", "over bound", "busiest uplink", "busiest downlink", "busiest SMs"]
    title = f"{made.name} on {gpus} GPUs"
    which = "backward" if backward else "forward"
    if page is not None:
        made_with = {"seed": str(seed), "pass": which, "GEMMs": machine.gemms.name}
        write_text(
            page, layer_page(title, HONEST, command_line(), made_with, (header, rows), compared, (made, traffic))
        )
    uneven = _unevenness(traffic)
    if as_json:
        facts = {"name": made.name, "gpus": gpus, "backward": backward, "gemms": machine.gemms.name}
        facts["constants"] = {name: str(machine.origin(name) or "given") for name in sorted(ORIGIN)}
        facts |= {"dispatch_bytes": made.dispatch_bytes, "combine_bytes": made.combine_bytes}
        facts |= {"unevenness": asdict(uneven)}
        print_json({"problem": facts, "results": [asdict(row) for row in results], "times_are": HONEST})
    elif as_csv:
        print_csv([asdict(row) for row in results])
    else:
        there, back = (f"{8 * width:g} bits" for width in (made.dispatch_bytes, made.combine_bytes))
        shape = f"hidden {made.hidden}, ffn {made.ffn}, {made.experts} experts, top {made.top_k}"
        notes = [
            f"Times are {HONEST}. GEMMs: {machine.gemms.name}.",
            f"Assumed: {made.tokens_per_gpu} tokens per GPU, {shape}.",
            *_origins(machine),
            f"Dispatch in {there}, combine in {back}; the {which} pass.",
            f"Traffic: {uneven.summary}.",
        ]
        drop = ("busiest SMs", "busiest downlink", "busiest uplink", "closed form")
        print_table(title, header, rows, notes, drop=drop)
    outputs.say()
    return 0


@app.command("step")
def step(
    name: Annotated[
        str, typer.Option("--model", help="A public model's shape.", autocompletion=complete_model)
    ] = "mixtral-8x7b",
    algorithms: Annotated[
        str, typer.Option("--algorithms", help="Comma-separated names.", autocompletion=complete_algorithm)
    ] = STEP_ALGORITHMS,
    skew: Annotated[float, typer.Option("--skew", help="Zipf exponent of expert popularity.")] = 0.8,
    overlap: Annotated[bool, typer.Option("--overlap", help="Hide communication behind experts.")] = False,
    cluster: ClusterOption = "h200",
    servers: ServersOption = None,
    changes: SetOption = None,
    faults: FaultOption = None,
    seed: SeedOption = 0,
    picture: PictureOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> int:
    """Compare algorithms on a whole training step.

    Examples:

      interlock moe step --model deepseek-v3 --servers 8 --html step.html
    """
    from interlock.moe import iteration_times, model
    from interlock.moe.iteration import ACHIEVED_FLOPS_PER_S, expert_demand
    from interlock.moe.pictures import step_svg
    from interlock.report.moe_page import moe_page

    one_format(as_json, as_csv)
    outputs = Outputs({"--picture": picture, "--html": page})
    shape, where = model(name), build_cluster(cluster, servers, changes, faults)
    chosen = [word.strip() for word in algorithms.split(",")]
    made = iteration_times(shape, where, chosen, skew=skew, overlap=overlap, seed=seed)
    uneven = expert_demand(shape, where, shape.sequence, skew, seed)[0].unevenness
    if picture is not None:
        write_text(picture, step_svg(made))
    slowest = made[0].iteration_s
    rows = [
        [
            row.algorithm,
            format_seconds(row.iteration_s),
            f"{100 * (row.iteration_s / slowest - 1):+.1f} %",
            format_seconds(row.attention_s),
            format_seconds(row.experts_s),
            format_seconds(row.communication_s),
        ]
        for row in made
    ]
    header = ["algorithm", "step", f"against {made[0].algorithm}", "attention", "experts", "communication"]
    title = f"{name} on {where.servers}x{where.gpus_per_server} {where.name}"
    if page is not None:
        parts = {
            part: [getattr(row, f"{part}_s") for row in made] for part in ("attention", "experts", "communication")
        }
        seconds = {"step": [row.iteration_s for row in made]} if overlap else parts
        made_with = {"seed": str(seed), "skew": str(skew), "overlap": "yes" if overlap else "no"}
        drawn = step_svg(made, is_alone=False)
        write_text(page, moe_page(title, "modelled", command_line(), header, rows, seconds, made_with, drawn))
    if as_json:
        facts = {"model": name, "cluster": where.name, "servers": where.servers, "skew": skew, "overlap": overlap}
        facts |= {"unevenness": asdict(uneven)}
        print_json({"problem": facts, "results": [asdict(row) for row in made], "times_are": "modelled"})
    elif as_csv:
        print_csv([asdict(row) for row in made])
    else:
        rate = f"{ACHIEVED_FLOPS_PER_S / 1e12:.0f} TFLOP/s"
        hidden = "hidden" if overlap else "not hidden"
        notes = [
            "Modelled: compute at a fixed rate, communication simulated; see docs/reference/moe.md.",
            f"Assumed: {shape.sequence} tokens and {rate} per GPU, bf16 both ways, Zipf popularity {skew:g}.",
            f"Communication is {hidden} behind experts.",
            f"Traffic: {uneven.summary}.",
        ]
        print_table(title, header, rows, notes, drop=("attention", "experts"))
    outputs.say()
    return 0


@app.command("across")
def across(
    routing: RoutingOption = None,
    tokens: TokensOption = None,
    experts: ExpertsOption = 64,
    top_k: TopKOption = None,
    token_bytes: Annotated[str, typer.Option("--token-bytes", help="Bytes of one token.")] = "14336 B",
    algorithm: Annotated[
        str, typer.Option("--algorithm", help="Plans the wire.", autocompletion=complete_algorithm)
    ] = "adaptive",
    cluster: ClusterOption = "h200",
    servers: ServersOption = None,
    changes: SetOption = None,
    seed: SeedOption = 0,
    folder: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for dispatch.ilk, combine.ilk.")] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> int:
    """Dispatch and combine across servers: one copy of a token per server, multicast and sums in the switches.

    Examples:

      interlock moe across --servers 4 --tokens 512 -o layer

      interlock moe across --routing routing.npz:intent:10 --servers 8
    """
    from interlock.comparison import row_of
    from interlock.moe.across import plan_combine, plan_dispatch
    from interlock.units import parse_bytes

    one_format(as_json, as_csv)
    outputs = Outputs({"-o": folder}, folder=True)
    where = build_cluster(cluster, servers, changes)
    size_bytes = parse_bytes(token_bytes, "--token-bytes")
    chosen = _routing(where, routing, tokens, experts, top_k, seed)
    ways = {"dispatch": plan_dispatch, "combine": plan_combine}
    plans = {way: make(where, chosen, size_bytes, algorithm) for way, make in ways.items()}
    made = {way: row_of(plan) for way, plan in plans.items()}
    all_valid = all(row.valid for row in made.values())
    if folder is not None and all_valid:
        folder.mkdir(exist_ok=True)
        for way, plan in plans.items():
            plan.save(folder / f"{way}.ilk")
    if as_json:
        facts = {"routing": chosen.name, "cluster": where.name, "servers": where.servers, "token_bytes": size_bytes}
        facts |= {"unevenness": asdict(_unevenness(chosen))}
        results = [{"way": way, **asdict(row)} for way, row in made.items()]
        print_json({"problem": facts, "results": results, "times_are": "simulated"})
    elif as_csv:
        print_csv([{"way": way, **asdict(row)} for way, row in made.items()])
    else:
        rows = [
            [
                way,
                format_seconds(row.makespan_s),
                f"{1 + row.gap:.3f}",
                format_seconds(row.plan_s),
                "yes" if row.valid else "NO",
            ]
            for way, row in made.items()
        ]
        notes = [
            "Simulated; switches that multicast and add do so.",
            f"Assumed: {chosen.num_tokens // where.num_ranks} tokens per GPU, {format_bytes(size_bytes)} each.",
            f"{experts} experts, top {chosen.top_k}, the wire by {algorithm}.",
            f"Traffic: {_unevenness(chosen).summary}.",
        ]
        title = f"{chosen.name} on {where.servers}x{where.gpus_per_server} {where.name}"
        print_table(title, ["way", "time", "over bound", "planning", "valid"], rows, notes, drop=("planning",))
    outputs.say()
    return 0 if all_valid else 1


@app.command("plan")
def plan(
    routing: RoutingOption = None,
    tokens: TokensOption = None,
    hidden: Annotated[int, typer.Option("--hidden", help="Values of a token, bf16.")] = 7168,
    ffn: Annotated[int, typer.Option("--ffn", help="Inner width of an expert.")] = 2048,
    experts: ExpertsOption = 64,
    top_k: TopKOption = None,
    chunks: Annotated[int, typer.Option("--chunks", help="Parts of the tokens, one behind the other.")] = 2,
    algorithms: WaysOption = WAYS,
    cluster: ClusterOption = "h200",
    servers: ServersOption = None,
    changes: SetOption = None,
    seed: SeedOption = 0,
    output: OutputOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
) -> int:
    """Plan a layer as a step: dispatch, experts and combine of each chunk, proven like any plan.

    Examples:

      interlock moe plan --servers 2 --tokens 1024 --chunks 4 -o layer.ilk
    """
    from interlock.moe import Layer
    from interlock.moe.lowering import layer_step

    check_schedule_name(output)
    _check_widths(hidden, ffn)
    outputs = Outputs({"-o": output, "--html": page})
    where = build_cluster(cluster, servers, changes)
    chosen = _routing(where, routing, tokens, experts, top_k, seed)
    layer = Layer(chosen.name, hidden, ffn, experts, chosen.top_k, chosen.num_tokens // where.num_ranks)
    return compare_ways(layer_step(where, chosen, layer, chunks=chunks), algorithms, outputs, output, page, as_json)


def _routing(
    where: Cluster, text: str | None, tokens: int | None, experts: int, top_k: int | None, seed: int
) -> Routing:
    """Read from a file, or drawn."""
    from interlock.traffic import read_routing
    from interlock.traffic.moe_router import moe_routing

    if text is None:
        return moe_routing(where, 512 if tokens is None else tokens, experts, 6 if top_k is None else top_k, seed=seed)
    refuse({"--tokens": tokens, "--top-k": top_k, "--seed": seed or None}, "--routing leaves nothing to draw")
    path, array, number = _split_routing(text)
    return read_routing(path, where.num_ranks, array, number, experts)


def _unevenness(traffic: LayerTraffic | Routing) -> Unevenness:
    """Of copies between GPUs, one per chosen expert."""
    from interlock.traffic import Routing, Unevenness

    if isinstance(traffic, Routing):
        return traffic.to_demand(1).unevenness
    copies = np.zeros((traffic.num_gpus, traffic.num_gpus), np.int64)
    np.add.at(copies, (traffic.gpu_of_token[:, None], traffic.targets), 1)
    return Unevenness.of(copies)


def _drawn(name: str, gpus: int, seed: int) -> tuple[Layer, LayerTraffic | Routing]:
    from interlock.moe import paper_layers, uniform_traffic

    layer = named({made.name: made for made in paper_layers()}, name, "layer")
    return layer, uniform_traffic(layer, gpus, seed)


def _value_bytes(option: str, precision: str) -> float:
    known = {"bf16": 2.0, "fp8": 1.0}
    if precision not in known:
        raise InvalidInput(f"unknown precision {precision!r} for {option}; {nearest(precision, known)}")
    return known[precision]


def _machine(gemm: str) -> Machine:
    from interlock.moe import H200, PAPER

    return named({"paper": PAPER, "h200": H200}, gemm, "--gemm")


def _origins(machine: Machine) -> list[str]:
    """Where the model's constants come from, a line for each kind."""
    from interlock.moe.constants import ORIGIN

    by_origin: dict[str, list[str]] = {}
    for name in ORIGIN:
        by_origin.setdefault(str(machine.origin(name) or "given"), []).append(name)
    return [f"Constants {origin}: {', '.join(names)}." for origin, names in sorted(by_origin.items())]


def _read(text: str, gpus: int, sizes: dict[str, int | None]) -> tuple[Layer, LayerTraffic | Routing]:
    from interlock.moe import Layer
    from interlock.traffic import eplb_placement, read_routing

    defaults = {"--hidden": 2048, "--ffn": 1408, "--experts": 64, "--replicas": 0}
    said = ((sizes[option], default) for option, default in defaults.items())
    hidden, ffn, experts, replicas = (default if value is None else value for value, default in said)
    path, array, number = _split_routing(text)
    _check_widths(hidden, ffn)
    if replicas < 0:
        raise InvalidInput(f"--replicas {replicas} must be at least 0")
    routing = read_routing(path, gpus, array, number, experts)
    if replicas:
        routing = routing.with_placement(eplb_placement(routing.expert_loads(), gpus, replicas))
    name = f"{Path(path).stem} {text.partition(':')[2]}".strip()
    return Layer(name, hidden, ffn, experts, routing.top_k, routing.num_tokens // gpus), routing


def _check_widths(hidden: int, ffn: int) -> None:
    if min(hidden, ffn) < 1:
        raise InvalidInput(f"--hidden {hidden} and --ffn {ffn} must be at least 1")


def _split_routing(text: str) -> tuple[str, str | None, int]:
    """File, array and layer of FILE[:ARRAY[:LAYER]]."""
    path, _, rest = text.partition(":")
    array, _, number = rest.partition(":")
    return path, array or None, parse_whole(number or "0", f"--routing {text!r}: the layer")
