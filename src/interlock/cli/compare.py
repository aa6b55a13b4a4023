"""`interlock compare`: every algorithm on one problem."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli.options import (
    AlgorithmsOption,
    ClusterOption,
    CsvOption,
    FaultOption,
    HtmlOption,
    JsonOption,
    SeedOption,
    ServersOption,
    SetOption,
    SizeOption,
    TrafficOption,
    build_cluster,
    build_traffic,
    complete_algorithm,
    one_format,
)
from interlock.cli.outputs import Outputs
from interlock.cli.show import command_line, print_json, print_notes, print_table, progress_of
from interlock.comparison import BANDWIDTHS, Comparison
from interlock.units import format_seconds

__all__ = ["command", "print_comparison"]

DROP = ("algbw", "stages", "scratch", "busbw", "planning", "valid")  # where a terminal is narrow, first first


def command(
    cluster: ClusterOption = "h200",
    servers: ServersOption = None,
    changes: SetOption = None,
    faults: FaultOption = None,
    traffic: TrafficOption = "zipf:0.8",
    size: SizeOption = None,
    seed: SeedOption = 0,
    algorithms: AlgorithmsOption = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", help="Say how much faster than this one.", autocompletion=complete_algorithm),
    ] = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> int:
    """Every algorithm on one problem, fastest first, each with its proof and its distance from the bound.

    Examples:

      interlock compare

      interlock compare --baseline direct --html report.html

      interlock compare --servers 8 --traffic hot:1.2 --size '64 MB' --fault dead-nic:0:5

      interlock compare --set scale_out_bandwidth='800 Gb/s' --set fan_in=1 --json
    """
    from interlock.comparison import candidates, compare_problem
    from interlock.problem import demand_problem

    one_format(as_json, as_csv)
    outputs = Outputs({"--html": page})
    where = build_cluster(cluster, servers, changes, faults)
    problem = demand_problem(where, build_traffic(traffic, where, size, seed))
    names = None if algorithms is None else [name.strip() for name in algorithms.split(",")]
    with progress_of(len(candidates(problem, names)[0]), "comparing") as step:
        made = compare_problem(problem, names, seed=seed, baseline=baseline, progress=step)
    if page is not None:
        from interlock.report.compare_page import save_compare_page

        save_compare_page(made, page, command_line())
    if as_json:
        print_json(made.to_dict())
    elif as_csv:
        print(made.to_csv(), end="")
    else:
        print_comparison(made)
    outputs.say()
    return 0 if all(row.valid for row in made.results) else 1


def print_comparison(made: Comparison) -> None:
    """The table, and below it what its columns mean and what was not run."""
    shown = print_table(made.problem.name, made.header(), made.cells(), drop=DROP)
    bound = made.results[0].lower_bound_s if made.results else 0.0
    notes = [f"Simulated times. No schedule can take less than {format_seconds(bound)}: {made.binds}."]
    if "valid" not in shown:
        wrong = [row.algorithm for row in made.results if not row.valid]
        notes.append(f"NOT VALID: {', '.join(wrong)}." if wrong else "All are valid.")
    if "algbw" in shown or "busbw" in shown:
        notes.append(BANDWIDTHS)
    notes += [f"{name}: not run; {reason}." for name, reason in made.refused]
    print_notes([*notes, *made.remarks()])
