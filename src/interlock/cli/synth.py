"""`interlock synth`: make a schedule for a collective on any topology."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.certificates import check_schedule_name, print_certificate
from interlock.cli.options import (
    AlgorithmOption,
    BandwidthOption,
    CsvOption,
    GroupOption,
    HtmlOption,
    JsonOption,
    LatencyOption,
    MessageOverheadOption,
    OutputOption,
    RootOption,
    SeedOption,
    WithoutLinkOption,
    build_collective,
    build_topology,
    build_traffic,
    one_format,
)
from interlock.cli.outputs import Outputs
from interlock.cli.show import share_of
from interlock.collectives import Collective
from interlock.errors import InvalidInput
from interlock.interrupts import EXIT_CODE, answered_by_work, interruptions, keep
from interlock.topology import Topology
from interlock.traffic import Demand

__all__ = ["command"]

ALL_TO_ALLV = "all-to-allv"
DEFAULT_SIZE = "1 GiB"


def command(
    topology: Annotated[
        str, typer.Option("--topology", help="SHAPE:DIMS like torus:4x4x4, PRESET:SERVERS, a file, or - for stdin.")
    ],
    collective: Annotated[
        str, typer.Option("--collective", help="all-gather, all-reduce, all-to-all, all-to-allv, ...")
    ],
    size: Annotated[str | None, typer.Option("--size", help="Bytes, as nccl-tests count them; default: 1 GiB.")] = None,
    group: GroupOption = None,
    root: RootOption = None,
    traffic: Annotated[
        str | None, typer.Option("--traffic", help="Of an all-to-allv: a file of bytes, or KIND[:SKEW] like zipf:0.8.")
    ] = None,
    chunks: Annotated[int | None, typer.Option("--chunks", help="Chunks per rank; default: chosen.")] = None,
    bandwidth: BandwidthOption = None,
    latency: LatencyOption = None,
    message_overhead: MessageOverheadOption = None,
    without: WithoutLinkOption = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="File to keep the slot table of a huge All-Gather in, row by row.")
    ] = None,
    seed: SeedOption = 0,
    algorithm: AlgorithmOption = "auto",
    output: OutputOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> int:
    """Synthesize a collective, prove it, and optionally save it.

    Examples:

      interlock synth --topology torus:4x4x4 --collective all-reduce --size '1 GiB'

      interlock synth --topology links.csv --collective all-gather -o gather.ilk

      interlock synth --topology torus:5x5 --without-link 3-4 --collective all-reduce

      interlock synth --topology mesh:4x4 --collective all-to-allv --traffic bytes.txt
    """
    from interlock.algorithms import registry
    from interlock.planning import synthesize

    registry.get(algorithm)
    one_format(as_json, as_csv)
    check_schedule_name(output)
    if table is not None and algorithm not in ("auto", "guided"):
        raise InvalidInput(f"--table {table} needs --algorithm guided or auto, not {algorithm}")
    outputs = Outputs({"-o": output, "--html": page, "--table": table})
    graph = build_topology(topology, bandwidth, latency, message_overhead, without)
    wanted: Collective | Demand
    if collective == ALL_TO_ALLV:
        wanted = _all_to_allv(graph, traffic, size, seed, {"--group": group, "--root": root})
    else:
        wanted = _collective(collective, DEFAULT_SIZE if size is None else size, group, root, traffic)
    parameters: dict[str, object] = {} if table is None else {"table_file": str(table)}
    with answered_by_work(), interruptions() as seen, share_of("synthesizing") as show:
        made = synthesize(graph, wanted, algorithm, chunks=chunks, seed=seed, report=show, align=1, **parameters)
    if table is not None and made.slots is None:
        print(f"interlock: --table {table} is not written: the schedule is no table of equal slots", file=sys.stderr)
    code = print_certificate(made, output, page, as_json=as_json, as_csv=as_csv)
    outputs.say()
    if seen:
        keep("this is the best schedule so far")
        return EXIT_CODE
    return code


def _collective(name: str, size: str, group: str | None, root: int | None, traffic: str | None) -> Collective:
    wanted = build_collective(name, size, group, root)
    if traffic is not None:
        raise InvalidInput(f"--traffic {traffic} goes only with --collective {ALL_TO_ALLV}, not {name}")
    return wanted


def _all_to_allv(
    graph: Topology, traffic: str | None, size: str | None, seed: int, others: dict[str, str | int | None]
) -> Demand:
    for option, given in others.items():
        if given is not None:
            raise InvalidInput(
                f"{option} {given} does not go with --collective {ALL_TO_ALLV}: bytes say who takes part"
            )
    if traffic is None:
        raise InvalidInput(f"--collective {ALL_TO_ALLV} needs --traffic: a file of bytes, or KIND[:SKEW] like zipf:0.8")
    return build_traffic(traffic, graph, size, seed, DEFAULT_SIZE)
