"""Options that several commands share, and how they become clusters and traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.errors import InvalidInput
from interlock.topology import Cluster, cluster_with, preset_names
from interlock.topology import cluster as cluster_preset
from interlock.traffic import Demand, HasRanks

__all__ = [
    "AlgorithmOption",
    "AlgorithmsOption",
    "ClusterOption",
    "HtmlOption",
    "JsonOption",
    "OutputOption",
    "SeedOption",
    "ServersOption",
    "SetOption",
    "SizeOption",
    "TrafficOption",
    "build_cluster",
    "build_traffic",
]

ClusterOption = Annotated[str, typer.Option("--cluster", help=f"Preset ({', '.join(preset_names())}) or TOML file.")]
ServersOption = Annotated[int | None, typer.Option("--servers", help="Number of servers.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a cluster field; repeatable.")
]
TrafficOption = Annotated[
    str, typer.Option("--traffic", help="KIND[:SKEW] (uniform, random, zipf, hot, lognormal, sparse, moe) or a file.")
]
SizeOption = Annotated[str, typer.Option("--size", help="Bytes per GPU, like '512 MB'.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of whatever is drawn at random.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Also write a report page, one self-contained file.")]
OutputOption = Annotated[Path | None, typer.Option("-o", "--output", help="File to write.")]
AlgorithmOption = Annotated[str, typer.Option("--algorithm", help="Algorithm name.")]
AlgorithmsOption = Annotated[
    str | None, typer.Option("--algorithms", help="Comma-separated names; default: all that support the problem.")
]


def build_cluster(name: str, servers: int | None, changes: list[str] | None) -> Cluster:
    """A preset or a TOML file, with `--servers` and `--set` applied."""
    overrides: dict[str, object] = {}
    for change in changes or []:
        field, equals, value = change.partition("=")
        if not equals:
            raise InvalidInput(f"--set {change!r} must have the form FIELD=VALUE")
        overrides[field.strip()] = value.strip()
    if name in preset_names() or not _is_path(name):
        base = cluster_preset(name, servers=4 if servers is None else servers)
    else:
        from interlock.topology import read_cluster

        base = read_cluster(name)
        if servers is not None:
            overrides["servers"] = servers
    return cluster_with(base, **overrides)


def build_traffic(words: str, where: HasRanks, size: str, seed: int) -> Demand:
    """A generator by name, or a matrix from a file."""
    from interlock.traffic import parse

    if words.endswith((".parquet", ".pt")):
        from interlock.interchange.workloads.routing_traces import demand_of_routing, read_routing_trace
        from interlock.units import parse_bytes

        return demand_of_routing(read_routing_trace(words, where.num_ranks), parse_bytes(size, "--size"))
    return parse(words, where, size, seed)


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith(".toml") or Path(name).exists()
