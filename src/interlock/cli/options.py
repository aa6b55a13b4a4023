"""Options that several commands share, and how they become clusters and traffic."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from interlock.collectives import Collective
from interlock.errors import InvalidInput, LimitExceeded
from interlock.topology import Cluster, Topology, cluster_with, preset_names
from interlock.topology import cluster as cluster_preset
from interlock.traffic import Demand, HasRanks
from interlock.units import whole_or_none

__all__ = [
    "AlgorithmOption",
    "AlignOption",
    "AlgorithmsOption",
    "ClusterOption",
    "CsvOption",
    "EffortOption",
    "FaultOption",
    "GroupOption",
    "HtmlOption",
    "JsonOption",
    "OutputOption",
    "RootOption",
    "SeedOption",
    "ServersOption",
    "SetOption",
    "SizeOption",
    "TrafficOption",
    "build_cluster",
    "build_collective",
    "build_traffic",
    "BandwidthOption",
    "LatencyOption",
    "MessageOverheadOption",
    "WithoutLinkOption",
    "build_topology",
    "from_stdin",
    "one_format",
    "refuse",
]

DEFAULT_SIZE = "512 MB"
DEFAULT_MESSAGE_OVERHEAD = "0.5 us"  # with none at all, cutting without end would cost nothing
MAX_STDIN_BYTES = 1 << 30


def complete_algorithm(incomplete: str) -> Iterator[tuple[str, str]]:
    """Names of algorithms, also behind a comma, with what they do."""
    from interlock.algorithms import registry

    done, comma, begun = incomplete.rpartition(",")
    for name in registry.names():
        if name.startswith(begun):
            yield f"{done}{comma}{name}", registry.get(name).summary


def complete_cluster(incomplete: str) -> list[str]:
    """Names of presets and TOML files here."""
    files = sorted(str(file) for file in Path().glob(f"{incomplete}*.toml"))
    return [name for name in preset_names() if name.startswith(incomplete)] + files


def complete_traffic(incomplete: str) -> list[str]:
    """Kinds of traffic."""
    from interlock.traffic.by_name import kinds

    return [kind for kind in kinds() if kind.startswith(incomplete)]


def complete_field(incomplete: str) -> list[str]:
    """Fields of a cluster, and fabrics by name."""
    from interlock.topology.fabric import FABRICS
    from interlock.topology.presets import CLUSTER_KEYS

    known = [f"{key}=" for key in sorted(CLUSTER_KEYS.keys() - {"faults"})] + [f"fabric={name}" for name in FABRICS]
    return [word for word in known if word.startswith(incomplete)]


ClusterOption = Annotated[
    str,
    typer.Option(
        "--cluster",
        help="Preset (see `interlock presets`), TOML file, or - for stdin.",
        autocompletion=complete_cluster,
    ),
]
ServersOption = Annotated[int | None, typer.Option("--servers", help="Number of servers; default: 4.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Change a cluster field; repeatable.", autocompletion=complete_field
    ),
]
FaultOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="KIND:SERVER:GPU",
        help="dead-nic:0:5, slow-nic:0:5:200Gb/s or missing-gpu:0:5; repeatable.",
    ),
]
TrafficOption = Annotated[
    str,
    typer.Option(
        "--traffic",
        help="KIND[:SKEW] (uniform, random, zipf, hot, lognormal, sparse, moe), a file, or - for stdin.",
        autocompletion=complete_traffic,
    ),
]
SizeOption = Annotated[
    str | None, typer.Option("--size", help=f"Bytes each GPU sends on average; default: {DEFAULT_SIZE}.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of whatever is drawn at random.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Also write a report page, one self-contained file.")]
OutputOption = Annotated[Path | None, typer.Option("-o", "--output", help="File to write.")]
GroupOption = Annotated[str | None, typer.Option("--group", help="Ranks that take part, like 0,1,4; default: all.")]
RootOption = Annotated[
    int | None, typer.Option("--root", help="Rank of a broadcast, reduce, gather or scatter; default: 0.")
]
AlgorithmOption = Annotated[
    str,
    typer.Option("--algorithm", help="Algorithm name; see `interlock algorithms`.", autocompletion=complete_algorithm),
]
AlignOption = Annotated[
    int, typer.Option("--align", help="Bytes on whose multiples pairs are cut, like the length of a row; 1: anywhere.")
]
EffortOption = Annotated[
    str,
    typer.Option(
        "--effort", help="How adaptive and auto choose their way: predict in microseconds, or simulate them all."
    ),
]
AlgorithmsOption = Annotated[
    str | None,
    typer.Option(
        "--algorithms",
        help="Comma-separated names; default: all that support the problem.",
        autocompletion=complete_algorithm,
    ),
]


BandwidthOption = Annotated[
    str | None, typer.Option("--bandwidth", help="Of each link, unless the file says it; default: 50 GB/s.")
]
LatencyOption = Annotated[
    str | None, typer.Option("--latency", help="Of each link, unless the file says it; default: 0 us.")
]
MessageOverheadOption = Annotated[
    str | None,
    typer.Option(
        "--message-overhead",
        help="Time a message occupies a link beside its bytes, unless the file says it; default: 0.5 us.",
    ),
]
WithoutLinkOption = Annotated[
    list[str] | None,
    typer.Option("--without-link", metavar="A-B", help="Remove the links between two nodes; repeatable."),
]


def build_topology(
    text: str, bandwidth: str | None, latency: str | None, message_overhead: str | None, without: list[str] | None
) -> Topology:
    """A shape, a preset or a file, less some links."""
    from interlock.topology import parse_topology
    from interlock.topology.parse import DEFAULTS

    unsaid = {**DEFAULTS, "message_overhead": DEFAULT_MESSAGE_OVERHEAD}
    graph = parse_topology(from_stdin(text, "--topology"), bandwidth, latency, message_overhead, unsaid=unsaid)
    for pair in without or []:
        ends = [whole_or_none(end) for end in pair.split("-")]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            raise InvalidInput(f"--without-link {pair!r} must be two nodes, like 3-4")
        graph = graph.without_link(ends[0], ends[1])
    return graph


def build_cluster(
    name: str, servers: int | None, changes: list[str] | None, faults: list[str] | None = None
) -> Cluster:
    """A preset or a TOML file, with `--servers`, `--set` and `--fault` applied."""
    from interlock.topology import parse_fault, read_cluster

    overrides: dict[str, object] = {}
    for change in changes or []:
        field, equals, value = change.partition("=")
        if not equals:
            raise InvalidInput(f"--set {change!r} must have the form FIELD=VALUE")
        overrides[field.strip()] = value.strip()
    if name in preset_names() or not _is_path(name):
        base = cluster_preset(name, servers=4 if servers is None else servers)
    else:
        base = read_cluster(from_stdin(name, "--cluster"))
        if servers is not None:
            overrides["servers"] = servers
    if faults:
        overrides["faults"] = [*base.faults, *(parse_fault(words, "--fault") for words in faults)]
    return cluster_with(base, **overrides)


def build_collective(name: str, size: str, group: str | None, root: int | None) -> Collective:
    """A collective by name, over a group where one is given."""
    from interlock.collectives import collective

    wanted = collective(name, size, None if group is None else _ranks(group), 0 if root is None else root)
    if root is not None and not wanted.is_rooted:
        raise InvalidInput(f"--root {root} does not go with --collective {name}, which has no root")
    return wanted


def _ranks(text: str) -> list[int]:
    ranks = [rank for word in text.split(",") if (rank := whole_or_none(word)) is not None]
    if len(ranks) <= text.count(","):
        raise InvalidInput(f"--group {text!r} must be ranks separated by commas, like 0,1,4")
    return ranks


def build_traffic(text: str, where: HasRanks, size: str | None, seed: int, default_size: str = DEFAULT_SIZE) -> Demand:
    """A generator by name, or a matrix from a file, which brings its own size."""
    from interlock.traffic import parse
    from interlock.traffic.by_name import is_file

    asked = default_size if size is None else size
    if any(ending in text.lower() for ending in (".npz", ".npy", ".parquet", ".pt")):
        from interlock.interchange.routing_traces import parse_trace
        from interlock.units import parse_bytes

        trace = parse_trace(text)
        if trace is not None:
            if trace.token_bytes is not None:
                refuse({"--size": size}, "token= says how large tokens are")
            return trace.demand(where.num_ranks, parse_bytes(asked, "--size"))
    text = from_stdin(text, "--traffic")
    if is_file(text):
        refuse({"--size": size}, "a file of traffic says its own bytes")
    return parse(text, where, asked, seed)


def from_stdin(word: str, option: str) -> str:
    """The word; where it is "-", a file that holds standard input, gone when the command ends."""
    if word != "-":
        return word
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(data) > MAX_STDIN_BYTES:
        raise LimitExceeded(f"{option} -: standard input has more than {MAX_STDIN_BYTES} bytes")
    folder = tempfile.mkdtemp(prefix="interlock-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = Path(folder, "standard-input")
    file.write_bytes(data)
    return str(file)


def one_format(as_json: bool, as_csv: bool) -> None:
    """Refuse two formats for one output."""
    if as_json and as_csv:
        raise InvalidInput("--json and --csv are two formats for one output; give one")


def refuse(given: Mapping[str, object], why: str) -> None:
    """Options that would be ignored."""
    for option, value in given.items():
        if value is not None:
            raise InvalidInput(f"{option} has no effect here: {why}")


def _is_path(name: str) -> bool:
    return name == "-" or "/" in name or name.endswith(".toml") or Path(name).exists()
