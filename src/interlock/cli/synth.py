"""`interlock synth`: make a schedule for a collective on any topology."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.certificates import print_certificate
from interlock.cli.options import AlgorithmOption, HtmlOption, JsonOption, OutputOption, SeedOption
from interlock.cli.show import share_of
from interlock.errors import InvalidInput

__all__ = ["command"]


def command(
    topology: Annotated[str, typer.Option("--topology", help="SHAPE:DIMS like torus:4x4x4, or a file.")],
    collective: Annotated[str, typer.Option("--collective", help="all-gather, all-reduce, all-to-all, ...")],
    size: Annotated[str, typer.Option("--size", help="Bytes, as nccl-tests count them.")] = "1 GiB",
    group: Annotated[
        str | None, typer.Option("--group", help="Ranks that take part, like 0,1,4; default: all.")
    ] = None,
    chunks: Annotated[int | None, typer.Option("--chunks", help="Chunks per rank; default: chosen.")] = None,
    bandwidth: Annotated[str, typer.Option("--bandwidth", help="Of each link of a SHAPE.")] = "50 GB/s",
    latency: Annotated[str, typer.Option("--latency", help="Of each link of a SHAPE.")] = "0 us",
    message_overhead: Annotated[
        str, typer.Option("--message-overhead", help="Time a message occupies a link beside its bytes.")
    ] = "0.5 us",
    table: Annotated[
        Path | None, typer.Option("--table", help="File to keep the slot table of a huge All-Gather in (guided).")
    ] = None,
    seed: SeedOption = 0,
    algorithm: AlgorithmOption = "auto",
    output: OutputOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
) -> int:
    """Synthesize a collective, prove it, and optionally save it.

    Examples:

      interlock synth --topology torus:4x4x4 --collective all-reduce --size '1 GiB'

      interlock synth --topology links.csv --collective all-gather -o gather.ilk
    """
    from interlock.algorithms import registry
    from interlock.collectives import collective as parse_collective
    from interlock.planning import synthesize
    from interlock.topology import parse_topology

    registry.get(algorithm)
    graph = parse_topology(topology, bandwidth=bandwidth, latency=latency, message_overhead=message_overhead)
    wanted = parse_collective(collective, size, None if group is None else _ranks(group))
    parameters: dict[str, object] = {} if table is None else {"table_file": str(table)}
    if table is not None and algorithm != "guided":
        raise InvalidInput(f"--table {table} needs --algorithm guided, not {algorithm}")
    with share_of("synthesizing") as show:
        made = synthesize(graph, wanted, algorithm, chunks=chunks, seed=seed, report=show, **parameters)
    return print_certificate(made, output, page, as_json=as_json)


def _ranks(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdigit() for word in words):
        raise InvalidInput(f"--group {text!r} must be ranks separated by commas, like 0,1,4")
    return [int(word) for word in words]
