"""`interlock moe`: an MoE layer scheme by scheme, or a training step by algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import (
    ClusterOption,
    HtmlOption,
    JsonOption,
    SeedOption,
    ServersOption,
    SetOption,
    build_cluster,
)
from interlock.cli.show import command_line, print_json, print_table, progress_of, write_text
from interlock.errors import InvalidInput, nearest
from interlock.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from interlock.moe import Layer, LayerTraffic, Machine
    from interlock.topology import Cluster
    from interlock.traffic import Routing

__all__ = ["command"]

HONEST = "simulated at tile level; the in-switch hardware does not exist"


def command(
    layer: Annotated[
        str | None,
        typer.Option("--layer", help="Of the paper: small, medium or large, and -8, -16 or -32; default: large-8."),
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="GPUs around the switch; default: 32.")] = None,
    routing: Annotated[
        str | None, typer.Option("--routing", metavar="FILE[:ARRAY[:LAYER]]", help="Real top-k choices (npz).")
    ] = None,
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
        str, typer.Option("--gemm", help="Expert times: paper (one rate) or h200 (bf16, measured table).")
    ] = "paper",
    iteration: Annotated[bool, typer.Option("--iteration", help="A whole training step on a cluster instead.")] = False,
    model: Annotated[str, typer.Option("--model", help="With --iteration.")] = "mixtral-8x7b",
    algorithms: Annotated[
        str, typer.Option("--algorithms", help="With --iteration.")
    ] = "ecmp,direct,pxn,forward,rails,rails-split,adaptive",
    skew: Annotated[float, typer.Option("--skew", help="Zipf exponent of expert popularity, with --iteration.")] = 0.8,
    overlap: Annotated[bool, typer.Option("--overlap", help="Hide communication behind experts.")] = False,
    cluster: ClusterOption = "h200",
    servers: ServersOption = None,
    changes: SetOption = None,
    seed: SeedOption = 0,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Write a timeline (SVG): of GPU 0, or of a step's layer.")
    ] = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare MoE schemes on one layer, or algorithms on a whole training step.

    Examples:

      interlock moe --layer large-8 --html layer.html

      interlock moe --routing routing.npz:intent:10 --gpus 16 --replicas 2 --schemes dysharp,inswitch

      interlock moe --layer large-8 --dispatch fp8 --combine bf16 --gemm h200

      interlock moe --iteration --model deepseek-v3 --servers 8 --html step.html
    """
    sizes = {"--hidden": hidden, "--ffn": ffn, "--experts": experts, "--replicas": replicas}
    if iteration:
        _refuse({"--layer": layer, "--gpus": gpus, "--routing": routing, **sizes}, "--iteration models whole steps")
        where = build_cluster(cluster, servers, changes)
        return _iteration(model, algorithms, where, skew, overlap, seed, picture, page, as_json)
    _refuse({"--servers": servers, "--set": changes or None}, "one layer stays inside a server without --iteration")
    machine, num_gpus = _machine(gemm), _gpus(32 if gpus is None else gpus)
    if routing is None:
        _refuse(sizes, "a layer of the paper has its own sizes; these go with --routing")
        made, traffic = _drawn("large-8" if layer is None else layer, num_gpus, seed)
    else:
        _refuse({"--layer": layer}, "--routing says which layer it is")
        made, traffic = _read(routing, num_gpus, sizes)
    made = replace(made, dispatch_bytes=_value_bytes("--dispatch", dispatch))
    made = replace(made, combine_bytes=_value_bytes("--combine", combine))
    return _layer(made, num_gpus, traffic, schemes, backward, machine, seed, picture, page, as_json)


def _refuse(given: Mapping[str, object], why: str) -> None:
    """Options that would be ignored."""
    for option, value in given.items():
        if value is not None:
            raise InvalidInput(f"{option} has no effect here: {why}")


def _layer(
    layer: Layer,
    gpus: int,
    traffic: LayerTraffic | Routing,
    schemes: str | None,
    backward: bool,
    machine: Machine,
    seed: int,
    picture: Path | None,
    page: Path | None,
    as_json: bool,
) -> int:
    from interlock.moe import SCHEMES, compare_schemes
    from interlock.moe.picture import timeline_svg
    from interlock.report.moe_page import layer_page

    chosen = [word.strip() for word in schemes.split(",")] if schemes is not None else list(SCHEMES)
    with progress_of(len(chosen), "simulating") as step:
        made = compare_schemes(layer, traffic, chosen, machine, backward=backward, progress=step)
    if picture is not None:
        write_text(picture, timeline_svg([time for _, time in made]))
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
        for row, _ in made
    ]
    header = ["scheme", "time", "closed form", "over bound", "busiest uplink", "busiest downlink", "busiest SMs"]
    title = f"{layer.name} on {gpus} GPUs"
    if page is not None:
        made_with = {"seed": str(seed), "pass": "backward" if backward else "forward", "GEMMs": machine.gemms.name}
        write_text(page, layer_page(title, HONEST, command_line(), made_with, (header, rows), made, (layer, traffic)))
    if as_json:
        facts = {"name": layer.name, "gpus": gpus, "backward": backward, "gemms": machine.gemms.name}
        facts |= {"dispatch_bytes": layer.dispatch_bytes, "combine_bytes": layer.combine_bytes}
        print_json({"problem": facts, "results": [asdict(row) for row, _ in made], "times_are": HONEST})
        return 0
    print_table(title, header, rows, [f"Times are {HONEST}. GEMMs: {machine.gemms.name}."])
    return 0


def _drawn(name: str, gpus: int, seed: int) -> tuple[Layer, LayerTraffic | Routing]:
    from interlock.moe import paper_layers, uniform_traffic

    known = {made.name: made for made in paper_layers()}
    if name not in known:
        raise InvalidInput(f"unknown layer {name!r}; {nearest(name, known)}")
    return known[name], uniform_traffic(known[name], gpus, seed)


def _value_bytes(option: str, precision: str) -> float:
    known = {"bf16": 2.0, "fp8": 1.0}
    if precision not in known:
        raise InvalidInput(f"unknown precision {precision!r} for {option}; {nearest(precision, known)}")
    return known[precision]


def _machine(gemm: str) -> Machine:
    from interlock.moe import PAPER, h200_gemms

    known = {"paper": PAPER.gemms, "h200": h200_gemms()}
    if gemm not in known:
        raise InvalidInput(f"unknown --gemm {gemm!r}; {nearest(gemm, known)}")
    return replace(PAPER, gemms=known[gemm])


def _gpus(gpus: int) -> int:
    if not 2 <= gpus <= 1024:
        raise InvalidInput(f"--gpus {gpus} must be between 2 and 1024")
    return gpus


def _read(words: str, gpus: int, sizes: dict[str, int | None]) -> tuple[Layer, LayerTraffic | Routing]:
    from interlock.moe import Layer
    from interlock.traffic import eplb_placement, read_routing

    defaults = {"--hidden": 2048, "--ffn": 1408, "--experts": 64, "--replicas": 0}
    said = ((sizes[option], default) for option, default in defaults.items())
    hidden, ffn, experts, replicas = (default if value is None else value for value, default in said)
    path, _, rest = words.partition(":")
    array, _, number = rest.partition(":")
    if number and not number.isdigit():
        raise InvalidInput(f"--routing {words!r}: the layer {number!r} must be a whole number")
    if min(hidden, ffn) < 1:
        raise InvalidInput(f"--hidden {hidden} and --ffn {ffn} must be at least 1")
    if replicas < 0:
        raise InvalidInput(f"--replicas {replicas} must be at least 0")
    routing = read_routing(path, gpus, array or None, int(number or 0), experts)
    if replicas:
        routing = routing.with_placement(eplb_placement(routing.expert_loads(), gpus, replicas))
    name = f"{Path(path).stem} {rest}".strip()
    return Layer(name, hidden, ffn, experts, routing.top_k, routing.num_tokens // gpus), routing


def _iteration(
    name: str,
    algorithms: str,
    cluster: Cluster,
    skew: float,
    overlap: bool,
    seed: int,
    picture: Path | None,
    page: Path | None,
    as_json: bool,
) -> int:
    from interlock.moe import iteration_times, model
    from interlock.moe.step_picture import step_svg
    from interlock.report.moe_page import moe_page

    chosen = [word.strip() for word in algorithms.split(",")]
    made = iteration_times(model(name), cluster, chosen, skew=skew, overlap=overlap, seed=seed)
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
    notes = ["Modelled: compute at a fixed rate, communication simulated; see docs/reference/moe.md."]
    title = f"{name} on {cluster.servers}x{cluster.gpus_per_server} {cluster.name}"
    if page is not None:
        parts = {
            part: [getattr(row, f"{part}_s") for row in made] for part in ("attention", "experts", "communication")
        }
        seconds = {"step": [row.iteration_s for row in made]} if overlap else parts
        made_with = {"seed": str(seed), "skew": str(skew), "overlap": "yes" if overlap else "no"}
        write_text(
            page,
            moe_page(
                title, "modelled", command_line(), header, rows, seconds, made_with, step_svg(made, is_alone=False)
            ),
        )
    if as_json:
        facts = {"model": name, "cluster": cluster.name, "servers": cluster.servers, "skew": skew, "overlap": overlap}
        print_json({"problem": facts, "results": [asdict(row) for row in made], "times_are": "modelled"})
        return 0
    print_table(title, header, rows, notes)
    return 0
