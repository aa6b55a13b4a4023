"""`interlock step`: several collectives and computation, planned together."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.certificates import check_schedule_name
from interlock.cli.options import (
    ClusterOption,
    HtmlOption,
    JsonOption,
    OutputOption,
    ServersOption,
    SetOption,
    build_cluster,
    refuse,
)
from interlock.cli.outputs import Outputs
from interlock.cli.show import command_line, print_json, print_table, progress_of
from interlock.errors import InvalidInput
from interlock.units import format_seconds

if TYPE_CHECKING:
    from interlock.problem import Step

__all__ = ["WAYS", "WaysOption", "command", "compare_ways"]

WAYS = "serial,concurrent,joint"
WaysOption = Annotated[str, typer.Option("--algorithms", help="Ways to compare: serial, concurrent, joint.")]


def command(
    file: Annotated[
        str,
        typer.Argument(metavar="STEP", help="A TOML file, a preset, or a folder of Chakra traces (with --cluster)."),
    ] = "",
    algorithms: WaysOption = WAYS,
    cluster: ClusterOption = "",
    servers: ServersOption = None,
    changes: SetOption = None,
    output: OutputOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
) -> int:
    """Plan a step in one stream, all at once and jointly, and prove each.

    Examples:

      interlock step deepseek-pair

      interlock step mine.toml --html step.html --json

      interlock step traces/ --cluster h200 --servers 2 -o step.ilk
    """
    from interlock.problem import read_step, step_presets

    if not file:
        said: dict[str, object] = {
            "--algorithms": None if algorithms == WAYS else algorithms,
            "--cluster": cluster or None,
        }
        said |= {"--servers": servers, "--set": changes or None, "-o": output, "--html": page}
        refuse(said, "without a STEP, presets are listed")
        return _list_presets(step_presets(), as_json)
    check_schedule_name(output)
    outputs = Outputs({"-o": output, "--html": page})
    if Path(file).suffix == ".toml" or file in step_presets():
        refuse({"--cluster": cluster or None, "--servers": servers, "--set": changes}, "the file names its cluster")
        step = read_step(file)
    else:
        from interlock.interchange.chakra.steps import read_step_traces

        if not cluster:
            raise InvalidInput(
                f"{file[:64]!r} is no preset and no .toml; Chakra traces need --cluster to say where they run"
            )
        step = read_step_traces(file, build_cluster(cluster, servers, changes))
    return compare_ways(step, algorithms, outputs, output, page, as_json)


def compare_ways(
    step: Step, algorithms: str, outputs: Outputs, output: Path | None, page: Path | None, as_json: bool
) -> int:
    """Plan a step in each way, keep the best, and show all of them."""
    from interlock.comparison import compare_step, describe, unevenness_of

    ways = [name.strip() for name in algorithms.split(",")]
    with progress_of(len(ways), "planning") as show:
        made = compare_step(step, ways, progress=show)
    best = made.plans[0]
    if output is not None and made.results[0].valid:
        best.save(output)
    if page is not None:
        from interlock.report.step_page import save_step_page

        save_step_page(made, page, command_line())
    times = {plan.algorithm: plan.simulate().tasks for plan in made.plans}
    if as_json:
        results = [
            asdict(row)
            | {"reason": plan.reason, "tasks": {name: asdict(each) for name, each in times[plan.algorithm].items()}}
            for row, plan in zip(made.results, made.plans, strict=True)
        ]
        print_json({"problem": describe(made.problem), "results": results, "times_are": "simulated"})
    else:
        rows = [
            [name, *(f"{format_seconds(times[plan.algorithm][name].finish_s)}" for plan in made.plans)]
            for name in times[best.algorithm]
        ]
        over = ["of the bound", *(f"{1 + row.gap:.3f}" for row in made.results)]
        ends = ["the step", *(format_seconds(row.makespan_s) for row in made.results)]
        valid = ["valid", *("yes" if row.valid else "NO" for row in made.results)]
        notes = [f"No plan ends before {format_seconds(best.bound.seconds)}: {best.bound.binds}.", best.reason]
        notes += [f"T{whose[1:]}: {words}." for whose, words in unevenness_of(made.problem).items()]
        header = ["task ends at", *(plan.algorithm for plan in made.plans)]
        print_table(f"{made.problem.name} (simulated)", header, [*rows, ends, over, valid], notes)
    outputs.say()
    return 0 if all(row.valid for row in made.results) else 1


def _list_presets(presets: dict[str, str], as_json: bool) -> int:
    if as_json:
        print_json({"presets": [{"name": name, "what": words} for name, words in presets.items()]})
    else:
        rows = [[name, words] for name, words in presets.items()]
        print_table("Presets of steps; a TOML file of your own does as well", ["step", "what"], rows, wrap=("what",))
    return 0
