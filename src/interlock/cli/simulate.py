"""`interlock simulate`: how long does a schedule file take, and why?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.certificates import head_facts, head_rows
from interlock.cli.options import JsonOption, ServersOption, SetOption, build_cluster, build_topology
from interlock.cli.outputs import Outputs
from interlock.cli.schedule_files import (
    ChunkBytesOption,
    CollectiveOption,
    DemandOption,
    FormatOption,
    OpenedSchedule,
    RootOption,
    ScheduleArgument,
    open_schedule,
)
from interlock.cli.show import command_line, print_json, print_table
from interlock.comparison import bandwidths
from interlock.errors import InvalidInput
from interlock.files import write_text
from interlock.planning import Certificate
from interlock.simulate import Result
from interlock.topology import Cluster, Topology
from interlock.units import format_bandwidth, format_seconds

__all__ = ["command"]

MAX_STEPS = 1000  # of the critical path in --json


def command(
    file: ScheduleArgument,
    format_name: FormatOption = None,
    demand: DemandOption = None,
    collective: CollectiveOption = None,
    chunk_bytes: ChunkBytesOption = None,
    root: RootOption = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Where another tool's schedule would run: a preset or TOML file.")
    ] = None,
    servers: ServersOption = None,
    changes: SetOption = None,
    topology: Annotated[
        str | None, typer.Option("--topology", help="Likewise a graph: SHAPE:DIMS like torus:4x4, or a file.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option("--tolerance", help="Trade exactness for speed, e.g. 0.001.")
    ] = None,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Count what a program on the devices costs: launch, hops, messages, packing.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write the timeline as Chrome trace JSON, for Perfetto.")
    ] = None,
    gantt: Annotated[Path | None, typer.Option("--gantt", help="Write the timeline as an HTML page.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Simulate a schedule, say why it takes that long, and compare its time with the bound.

    Examples:

      interlock simulate plan.ilk

      interlock simulate plan.ilk --trace timeline.json --gantt timeline.html

      interlock simulate allreduce.xml --chunk-bytes '1 MiB' --cluster h100 --servers 1

      interlock simulate gather.xml --chunk-bytes '1 MiB' --topology torus:4x4
    """
    if cluster is None and (servers is not None or changes):
        raise InvalidInput("--servers and --set change the cluster that --cluster names; none was named")
    if cluster is not None and topology is not None:
        raise InvalidInput("--cluster and --topology cannot both be where the schedule runs")
    where: Cluster | Topology | None = None if cluster is None else build_cluster(cluster, servers, changes)
    if topology is not None:
        where = build_topology(topology, None, None, None, None)
    outputs = Outputs({"--trace": trace, "--gantt": gantt})
    opened = open_schedule(file, format_name, demand, collective, chunk_bytes, root, where)
    proof = opened.plan.certificate(tolerance)
    notes = _notes(opened, where is not None)
    if gpu and opened.plan.is_huge:
        raise InvalidInput("--gpu is for schedules whose messages can be written out")
    result = None if opened.plan.is_huge else opened.plan.simulate(tolerance, gpu=gpu)
    if gpu and result is not None:
        where_from = opened.plan.problem.cluster
        said = "" if where_from is None else where_from.gpu_costs
        notes.append(f"with what the program costs on GPUs ({said}): {format_seconds(result.makespan_s)}")
    if result is None:
        notes.append("there are too many messages to explain or draw their timeline")
    else:
        _write_pictures(opened, result, trace, gantt)
    if as_json:
        counted = {"gpu_makespan_s": result.makespan_s} if gpu and result is not None else {}
        print_json(_facts(file, opened, proof, result, notes) | counted)
    else:
        _show(file, opened, proof, result, notes)
    outputs.say()
    return opened.verdict(proof.valid)[1]


def _notes(schedule_file: OpenedSchedule, is_cluster_named: bool) -> list[str]:
    notes = list(schedule_file.notes)
    if schedule_file.format != "ilk" and not is_cluster_named and schedule_file.plan.problem.cluster is not None:
        name = format_bandwidth(schedule_file.plan.problem.cluster.scale_up_bandwidth_bytes_per_s)
        notes.append(f"the file names no network: simulated on one switch of {name} per GPU (say --cluster)")
    return notes


def _facts(
    file: Path, schedule_file: OpenedSchedule, proof: Certificate, result: Result | None, notes: list[str]
) -> dict[str, object]:
    algbw, busbw = bandwidths(schedule_file.plan.problem, proof.makespan_s)
    return {
        "file": str(file),
        "format": schedule_file.format,
        **head_facts(schedule_file.plan),
        "valid": None if schedule_file.cannot_tell(proof.valid) else proof.valid and not schedule_file.violations,
        "violations": [*schedule_file.violations, *proof.violations],
        "makespan_s": proof.makespan_s,
        "lower_bound_s": proof.lower_bound_s,
        "gap": proof.gap,
        "algbw_bytes_per_s": algbw,
        "busbw_bytes_per_s": busbw,
        "binds": proof.binds,
        **({} if result is None else _explained(result)),
        "notes": notes,
        "times_are": "simulated",
    }


def _explained(result: Result) -> dict[str, object]:
    return {
        "explanation": result.explanation(),
        "critical_path": [
            {"message": step.message, "reason": step.reason.name.lower(), "end_s": step.end_s}
            for step in result.critical_path()[-MAX_STEPS:]
        ],
        "peak_fan_in": int(result.peak_fan_in.max(initial=0)),
        "error_bound_s": result.error_bound_s,
    }


def _show(
    file: Path, schedule_file: OpenedSchedule, proof: Certificate, result: Result | None, notes: list[str]
) -> None:
    algbw, busbw = bandwidths(schedule_file.plan.problem, proof.makespan_s)
    rows = [
        *head_rows(schedule_file.plan),
        ["valid", schedule_file.verdict(proof.valid)[0]],
        ["simulated time", format_seconds(proof.makespan_s)],
        ["lower bound", f"{format_seconds(proof.lower_bound_s)} ({proof.binds})"],
        ["gap", f"{100 * proof.gap:z.2f} %"],
        ["algbw / busbw", f"{format_bandwidth(algbw)} / {format_bandwidth(busbw)}"],
    ]
    lines = [
        *([] if result is None else [result.explanation()]),
        *(f"note: {text}" for text in notes),
        *(f"violation: {text}" for text in [*schedule_file.violations, *proof.violations][:10]),
    ]
    print_table(f"{file}: {schedule_file.plan.problem.name}", ["", ""], rows, lines)


def _write_pictures(schedule_file: OpenedSchedule, result: Result, trace: Path | None, gantt: Path | None) -> None:
    """Write the timeline where asked to."""
    if trace is not None:
        write_text(trace, result.to_chrome_trace())
    if gantt is not None:
        from interlock.report.compare_page import timeline_page

        write_text(gantt, timeline_page(schedule_file.plan, command_line()))
