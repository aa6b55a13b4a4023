"""`interlock compare`: every algorithm on one problem."""

from __future__ import annotations

from interlock.cli.options import (
    AlgorithmsOption,
    ClusterOption,
    HtmlOption,
    JsonOption,
    SeedOption,
    ServersOption,
    SetOption,
    SizeOption,
    TrafficOption,
    build_cluster,
    build_traffic,
)
from interlock.cli.show import command_line, print_json, print_table, progress_of
from interlock.units import format_seconds

__all__ = ["command"]


def command(
    cluster: ClusterOption = "h200",
    servers: ServersOption = None,
    changes: SetOption = None,
    traffic: TrafficOption = "zipf:0.8",
    size: SizeOption = "512 MB",
    seed: SeedOption = 0,
    algorithms: AlgorithmsOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
) -> int:
    """Every algorithm on one problem, fastest first, each with its proof and its distance from the bound.

    Examples:

      interlock compare

      interlock compare --html report.html

      interlock compare --servers 8 --traffic hot:1.2 --size '64 MB'

      interlock compare --set scale_out_bandwidth='800 Gb/s' --set fan_in=1 --json
    """
    from interlock.algorithms import registry
    from interlock.comparison import compare

    where = build_cluster(cluster, servers, changes)
    what = build_traffic(traffic, where, size, seed)
    names = None if algorithms is None else [name.strip() for name in algorithms.split(",")]
    with progress_of(len(names or registry.names()), "comparing") as step:
        made = compare(where, what, names, seed=seed, progress=step)
    if page is not None:
        from interlock.report.compare_page import save_compare_page

        save_compare_page(made, page, command_line())
    if as_json:
        print_json(made.to_dict())
    else:
        bound = made.results[0].lower_bound_s if made.results else 0.0
        notes = [
            f"Simulated times. No schedule can take less than {format_seconds(bound)}: {made.binds}.",
            *(f"{name}: not run; {reason}." for name, reason in made.refused),
        ]
        print_table(made.problem.name, made.header(), made.cells(), notes)
    return 0 if all(row.valid for row in made.results) else 1
