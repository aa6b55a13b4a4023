"""`interlock synth`: make a schedule for a collective on any topology."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.certificates import check_targets, print_certificate
from interlock.cli.options import (
    AlgorithmOption,
    HtmlOption,
    JsonOption,
    OutputOption,
    SeedOption,
    build_traffic,
)
from interlock.cli.show import interruptions, share_of
from interlock.collectives import Collective
from interlock.errors import InvalidInput
from interlock.files import check_target
from interlock.topology import Topology
from interlock.traffic import Demand

__all__ = ["command"]

ALL_TO_ALLV = "all-to-allv"


def command(
    topology: Annotated[str, typer.Option("--topology", help="SHAPE:DIMS like torus:4x4x4, or a file.")],
    collective: Annotated[
        str, typer.Option("--collective", help="all-gather, all-reduce, all-to-all, all-to-allv, ...")
    ],
    size: Annotated[str, typer.Option("--size", help="Bytes, as nccl-tests count them.")] = "1 GiB",
    group: Annotated[
        str | None, typer.Option("--group", help="Ranks that take part, like 0,1,4; default: all.")
    ] = None,
    root: Annotated[
        int | None, typer.Option("--root", help="Rank of a broadcast, reduce, gather or scatter; default: 0.")
    ] = None,
    traffic: Annotated[
        str | None, typer.Option("--traffic", help="Of an all-to-allv: a file of bytes, or KIND[:SKEW] like zipf:0.8.")
    ] = None,
    chunks: Annotated[int | None, typer.Option("--chunks", help="Chunks per rank; default: chosen.")] = None,
    bandwidth: Annotated[str, typer.Option("--bandwidth", help="Of each link of a SHAPE.")] = "50 GB/s",
    latency: Annotated[str, typer.Option("--latency", help="Of each link of a SHAPE.")] = "0 us",
    message_overhead: Annotated[
        str, typer.Option("--message-overhead", help="Time a message occupies a link beside its bytes.")
    ] = "0.5 us",
    table: Annotated[
        Path | None, typer.Option("--table", help="File to keep the slot table of a huge All-Gather in, row by row.")
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

      interlock synth --topology mesh:4x4 --collective all-to-allv --traffic bytes.txt
    """
    from interlock.algorithms import registry
    from interlock.planning import synthesize
    from interlock.topology import parse_topology

    registry.get(algorithm)
    check_targets(output, page)
    graph = parse_topology(topology, bandwidth=bandwidth, latency=latency, message_overhead=message_overhead)
    wanted: Collective | Demand
    if collective == ALL_TO_ALLV:
        wanted = _all_to_allv(graph, traffic, size, seed, {"--group": group, "--root": root})
    else:
        wanted = _collective(collective, size, group, root, traffic)
    parameters: dict[str, object] = {} if table is None else {"table_file": str(_table(table, algorithm))}
    with interruptions() as seen, share_of("synthesizing") as show:
        made = synthesize(graph, wanted, algorithm, chunks=chunks, seed=seed, report=show, **parameters)
    if seen:
        print("interlock: interrupted; this is the best schedule so far", file=sys.stderr)
    if table is not None and made.slots is None:
        print(f"interlock: --table {table} is not written: the schedule is no table of equal slots", file=sys.stderr)
    return print_certificate(made, output, page, as_json=as_json)


def _table(file: Path, algorithm: str) -> Path:
    if algorithm not in ("auto", "guided"):
        raise InvalidInput(f"--table {file} needs --algorithm guided or auto, not {algorithm}")
    if not check_target(file).parent.is_dir():
        raise InvalidInput(f"--table {file}: there is no folder {file.parent}")
    return file


def _collective(name: str, size: str, group: str | None, root: int | None, traffic: str | None) -> Collective:
    from interlock.collectives import collective

    wanted = collective(name, size, None if group is None else _ranks(group), 0 if root is None else root)
    if root is not None and not wanted.is_rooted:
        raise InvalidInput(f"--root {root} does not go with --collective {name}, which has no root")
    if traffic is not None:
        raise InvalidInput(f"--traffic {traffic} goes only with --collective {ALL_TO_ALLV}, not {name}")
    return wanted


def _all_to_allv(
    graph: Topology, traffic: str | None, size: str, seed: int, others: dict[str, str | int | None]
) -> Demand:
    for option, given in others.items():
        if given is not None:
            raise InvalidInput(
                f"{option} {given} does not go with --collective {ALL_TO_ALLV}: bytes say who takes part"
            )
    if traffic is None:
        raise InvalidInput(f"--collective {ALL_TO_ALLV} needs --traffic: a file of bytes, or KIND[:SKEW] like zipf:0.8")
    return build_traffic(traffic, graph, size, seed)


def _ranks(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdigit() for word in words):
        raise InvalidInput(f"--group {text!r} must be ranks separated by commas, like 0,1,4")
    return [int(word) for word in words]
