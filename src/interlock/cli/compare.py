"""`interlock compare`: every algorithm on one problem."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import (
    AlgorithmsOption,
    BandwidthOption,
    ClusterOption,
    CsvOption,
    EffortOption,
    FaultOption,
    GroupOption,
    HtmlOption,
    JsonOption,
    LatencyOption,
    MessageOverheadOption,
    RootOption,
    SeedOption,
    ServersOption,
    SetOption,
    TrafficOption,
    build_cluster,
    build_collective,
    build_topology,
    build_traffic,
    complete_algorithm,
    one_format,
    refuse,
)
from interlock.cli.outputs import Outputs
from interlock.cli.show import command_line, print_json, print_notes, print_table, progress_of
from interlock.comparison import BANDWIDTHS, Comparison, SizeComparison
from interlock.errors import InvalidInput
from interlock.units import format_seconds, parse_bytes, parse_whole

if TYPE_CHECKING:
    from interlock.collectives import Collective
    from interlock.topology import Cluster, Topology

__all__ = ["command", "print_comparison", "size_range"]

DEFAULT_CLUSTER, DEFAULT_TRAFFIC, DEFAULT_COLLECTIVE_SIZE = "h200", "zipf:0.8", "1 GiB"

DROP = ("algbw", "stages", "scratch", "busbw", "planning", "valid")  # where a terminal is narrow, first first


def command(
    cluster: ClusterOption = DEFAULT_CLUSTER,
    servers: ServersOption = None,
    changes: SetOption = None,
    faults: FaultOption = None,
    topology: Annotated[
        str | None, typer.Option("--topology", help="Instead of a cluster: SHAPE:DIMS like torus:4x4x4, or a file.")
    ] = None,
    bandwidth: BandwidthOption = None,
    latency: LatencyOption = None,
    message_overhead: MessageOverheadOption = None,
    traffic: TrafficOption = DEFAULT_TRAFFIC,
    collective: Annotated[
        str | None, typer.Option("--collective", help="Instead of traffic: all-gather, all-reduce, broadcast, ...")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", help="Bytes each GPU sends (512 MB), or a collective's as nccl-tests count (1 GiB)."),
    ] = None,
    sizes: Annotated[
        str | None, typer.Option("--sizes", metavar="FROM:TO[:FACTOR]", help="Of a collective, like 1KiB:8GiB.")
    ] = None,
    group: GroupOption = None,
    root: RootOption = None,
    seed: SeedOption = 0,
    algorithms: AlgorithmsOption = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", help="Say how much faster than this one.", autocompletion=complete_algorithm),
    ] = None,
    effort: EffortOption = "predict",
    page: HtmlOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> int:
    """Every algorithm on one problem, fastest first, each with its proof and its distance from the bound.

    With --sizes, the table of nccl-tests: size, time, algbw and busbw of every algorithm that does not search long.

    Examples:

      interlock compare

      interlock compare --baseline direct --html report.html

      interlock compare --servers 8 --traffic hot:1.2 --size '64 MB' --fault dead-nic:0:5

      interlock compare --set scale_out_bandwidth='800 Gb/s' --set fan_in=1 --json

      interlock compare --collective all-reduce --size '1 GiB'

      interlock compare --collective all-gather --sizes 1KiB:8GiB --html busbw.html

      interlock compare --topology torus:4x4 --collective all-reduce --size '64 MiB'
    """
    from interlock.comparison import candidates, compare_problem, problem_of

    one_format(as_json, as_csv)
    outputs = Outputs({"--html": page})
    rates = {"--bandwidth": bandwidth, "--latency": latency, "--message-overhead": message_overhead}
    where = _network(cluster, servers, changes, faults, topology, rates)
    names = None if algorithms is None else [name.strip() for name in algorithms.split(",")]
    if collective is None:
        refuse({"--sizes": sizes, "--group": group, "--root": root}, "it is for a --collective")
        problem = problem_of(where, build_traffic(traffic, where, size, seed))
    else:
        refuse({"--effort": None if effort == "predict" else effort}, "it is for --traffic")
        refuse({"--traffic": None if traffic == DEFAULT_TRAFFIC else traffic}, f"--collective {collective} has its own")
        wanted = build_collective(collective, size or DEFAULT_COLLECTIVE_SIZE, group, root)
        if sizes is not None:
            refuse({"--size": size, "--baseline": baseline}, "--sizes asks for several sizes")
            return _deliver(
                _over_sizes(where, wanted, sizes, names, seed), outputs, page, as_json=as_json, as_csv=as_csv
            )
        problem = problem_of(where, wanted)
    with progress_of(2 * len(candidates(problem, names)[0]), "comparing") as step:  # planned, then proven
        made = compare_problem(problem, names, seed=seed, baseline=baseline, effort=effort, progress=step)
    return _deliver(made, outputs, page, as_json=as_json, as_csv=as_csv)


def _network(
    cluster: str,
    servers: int | None,
    changes: list[str] | None,
    faults: list[str] | None,
    topology: str | None,
    rates: dict[str, str | None],
) -> Cluster | Topology:
    """A cluster, or the graph asked for instead."""
    if topology is None:
        refuse(rates, "a cluster has its own; see --set")
        return build_cluster(cluster, servers, changes, faults)
    given = {"--cluster": None if cluster == DEFAULT_CLUSTER else cluster, "--servers": servers}
    refuse({**given, "--set": changes or None, "--fault": faults or None}, f"--topology {topology} is no cluster")
    bandwidth, latency, message_overhead = rates.values()
    return build_topology(topology, bandwidth, latency, message_overhead, None)


def _over_sizes(
    where: Cluster | Topology, collective: Collective, sizes: str, names: list[str] | None, seed: int
) -> SizeComparison:
    from interlock.comparison import compare_sizes

    asked = size_range(sizes)
    with progress_of(len(asked), "comparing") as step:
        return compare_sizes(where, collective, asked, names, seed=seed, progress=step)


def _deliver(
    comparison: Comparison | SizeComparison, outputs: Outputs, page: Path | None, *, as_json: bool, as_csv: bool
) -> int:
    """The page, the answer in the form asked for, and whether everything is valid."""
    if page is not None:
        _save_page(comparison, page)
    if as_json:
        print_json(comparison.to_dict())
    elif as_csv:
        print(comparison.to_csv(), end="")
    elif isinstance(comparison, Comparison):
        print_comparison(comparison)
    else:
        print_table(comparison.name, comparison.header(), comparison.cells())
        print_notes(["Simulated times, fastest first. algbw and busbw as nccl-tests define them."])
    outputs.say()
    compared = [comparison] if isinstance(comparison, Comparison) else comparison.comparisons
    return 0 if all(row.valid for one in compared for row in one.results) else 1


def _save_page(comparison: Comparison | SizeComparison, page: Path) -> None:
    from interlock.report.compare_page import save_compare_page, save_sizes_page

    if isinstance(comparison, Comparison):
        save_compare_page(comparison, page, command_line())
    else:
        save_sizes_page(comparison, page, command_line())


def size_range(text: str) -> list[int]:
    """Sizes from the first to the last, each `FACTOR` (2) times the one before, as nccl-tests step."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 3:
        raise InvalidInput(f"--sizes {text!r} must have the form FROM:TO or FROM:TO:FACTOR, like 1KiB:8GiB:4")
    first, last = (parse_bytes(part, "--sizes") for part in parts[:2])
    factor = parse_whole(parts[2], f"--sizes {text!r}: the factor", 2, 1024) if len(parts) == 3 else 2
    if first < 1 or last < first:
        raise InvalidInput(f"--sizes {text!r} must rise from at least one byte to at least as many")
    made = [first]
    while made[-1] * factor <= last:
        made.append(made[-1] * factor)
    return made


def print_comparison(comparison: Comparison) -> None:
    """What `auto` takes, the table, and below it what its columns mean and what was not run."""
    if comparison.auto is not None:
        print_notes([str(comparison.auto)])
    shown = print_table(comparison.problem.name, comparison.header(), comparison.cells(), drop=DROP)
    bound = comparison.results[0].lower_bound_s if comparison.results else 0.0
    notes = [f"Simulated times. No schedule can take less than {format_seconds(bound)}: {comparison.binds}."]
    if "valid" not in shown:
        wrong = [row.algorithm for row in comparison.results if not row.valid]
        notes.append(f"NOT VALID: {', '.join(wrong)}." if wrong else "All are valid.")
    if "algbw" in shown or "busbw" in shown:
        notes.append(BANDWIDTHS)
    notes += [f"{name}: not run; {reason}." for name, reason in comparison.refused]
    print_notes([*notes, *comparison.remarks()])
