"""`interlock topology show`: a picture and a table of any topology."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import (
    BandwidthOption,
    JsonOption,
    LatencyOption,
    MessageOverheadOption,
    WithoutLinkOption,
    build_topology,
)
from interlock.cli.outputs import Outputs
from interlock.cli.show import print_json, print_table
from interlock.errors import InvalidInput
from interlock.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    from interlock.topology.summary import GraphCut, TopologySummary

__all__ = ["app"]

app = typer.Typer(help="Look at topologies.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def topology() -> None:
    """Look at topologies."""


@app.command("show")
def show(
    topology: Annotated[
        str, typer.Argument(help="SHAPE:DIMS like torus:4x4x4, PRESET:SERVERS like h200:4, or a file.")
    ],
    bandwidth: BandwidthOption = None,
    latency: LatencyOption = None,
    message_overhead: MessageOverheadOption = None,
    without: WithoutLinkOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a picture (.svg, .html) or the topology (.csv, .toml).")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Show what a topology is made of, where it is narrow, and what it looks like.

    Examples:

      interlock topology show torus:4x4 -o torus.svg

      interlock topology show torus:5x5 --without-link 3-4 -o broken.csv

      interlock topology show h200:4

      interlock topology show links.csv --json
    """
    from interlock.files import write_text
    from interlock.report.topology_picture import topology_svg
    from interlock.topology import write_edges, write_topology
    from interlock.topology.summary import describe

    suffix = None if output is None else output.suffix.lower()
    if suffix not in (None, ".svg", ".html", ".csv", ".toml"):
        raise InvalidInput(f"-o {output} must end in .svg or .html for a picture, .csv or .toml for the topology")
    outputs = Outputs({"-o": output})
    graph = build_topology(topology, bandwidth, latency, message_overhead, without)
    summary = describe(graph)
    if output is not None and suffix in (".csv", ".toml"):
        (write_edges if suffix == ".csv" else write_topology)(graph, output)
    elif output is not None:
        picture = topology_svg(graph, summary.tightest)
        page = f"<!doctype html><meta charset=utf-8><title>{output.stem}</title>\n{picture}"
        write_text(output, picture if suffix == ".svg" else page)
    if as_json:
        print_json(_as_values(summary))
    else:
        _print(summary)
    outputs.say()
    return 0


def _print(summary: TopologySummary) -> None:
    rows = [
        [
            entry.ends,
            str(entry.count),
            format_bandwidth(entry.bandwidth_bytes_per_s),
            format_seconds(entry.latency_s),
            format_seconds(entry.message_overhead_s),
        ]
        for entry in summary.classes
    ]
    if summary.dead_links:
        rows.append(["dead", str(summary.dead_links), "0 B/s", "", ""])
    nics = f", {summary.num_nics} NICs" if summary.num_nics else ""
    title = (
        f"{summary.name}: {summary.num_ranks} ranks{nics}, {summary.num_switches} switches, {summary.num_links} links"
    )
    least_or_most = "at most" if summary.hops_are_proven else "some at least"
    apart = "some cannot reach others" if summary.hops is None else f"{least_or_most} {summary.hops} links apart"
    least = (
        f"{format_bandwidth(summary.least_out_bytes_per_s)} out, {format_bandwidth(summary.least_in_bytes_per_s)} in"
    )
    notes = [f"ranks: {apart}; the weakest has {least}"]
    for name, cut in (("narrowest cut", summary.narrowest), ("tightest cut found for an All-to-All", summary.tightest)):
        if cut is not None:
            sides = f"{cut.ranks_inside} | {cut.ranks_outside} ranks, {len(cut.links)} links"
            notes.append(f"{name}: {sides}, {format_bandwidth(cut.capacity_bytes_per_s)}")
    print_table(
        title,
        ["links", "count", "bandwidth", "latency", "message overhead"],
        rows,
        notes,
        drop=("message overhead", "latency"),
    )


def _as_values(summary: TopologySummary) -> dict[str, object]:
    return {
        "name": summary.name,
        "num_ranks": summary.num_ranks,
        "num_nics": summary.num_nics,
        "num_switches": summary.num_switches,
        "num_links": summary.num_links,
        "dead_links": summary.dead_links,
        "links": [{name: getattr(entry, name) for name in entry.__slots__} for entry in summary.classes],
        "least_out_bytes_per_s": summary.least_out_bytes_per_s,
        "least_in_bytes_per_s": summary.least_in_bytes_per_s,
        "hops": summary.hops,
        "hops_are_proven": summary.hops_are_proven,
        "narrowest_cut": _cut_values(summary.narrowest),
        "tightest_cut": _cut_values(summary.tightest),
    }


def _cut_values(cut: GraphCut | None) -> dict[str, object] | None:
    if cut is None:
        return None
    return {
        "ranks_inside": cut.ranks_inside,
        "ranks_outside": cut.ranks_outside,
        "capacity_bytes_per_s": cut.capacity_bytes_per_s,
        "nodes": [int(node) for node in cut.is_inside.nonzero()[0]],
        "links": cut.links.tolist(),
    }
