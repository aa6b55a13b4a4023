"""`interlock synth`: make a schedule for a collective on any topology."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli.certificates import print_certificate
from interlock.cli.options import AlgorithmOption, HtmlOption, JsonOption, OutputOption, SeedOption

__all__ = ["command"]


def command(
    topology: Annotated[str, typer.Option("--topology", help="SHAPE:DIMS like torus:4x4x4, or a file.")],
    collective: Annotated[str, typer.Option("--collective", help="all-gather, all-reduce, all-to-all, ...")],
    size: Annotated[str, typer.Option("--size", help="Bytes, as nccl-tests count them.")] = "1 GiB",
    chunks: Annotated[int | None, typer.Option("--chunks", help="Chunks per rank; default: chosen.")] = None,
    bandwidth: Annotated[str, typer.Option("--bandwidth", help="Of each link of a SHAPE.")] = "50 GB/s",
    latency: Annotated[str, typer.Option("--latency", help="Of each link of a SHAPE.")] = "0 us",
    message_overhead: Annotated[
        str, typer.Option("--message-overhead", help="Time a message occupies a link beside its bytes.")
    ] = "0.5 us",
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
    wanted = parse_collective(collective, size)
    made = synthesize(graph, wanted, algorithm, chunks=chunks, seed=seed)
    return print_certificate(made, output, page, as_json=as_json)
