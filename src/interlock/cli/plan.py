"""`interlock plan`: make a schedule for an All-to-Allv, print its certificate, save it."""

from __future__ import annotations

from interlock.cli.certificates import check_schedule_name, print_certificate
from interlock.cli.options import (
    AlgorithmOption,
    AlignOption,
    ClusterOption,
    CsvOption,
    EffortOption,
    FaultOption,
    HtmlOption,
    JsonOption,
    OutputOption,
    SeedOption,
    ServersOption,
    SetOption,
    SizeOption,
    TrafficOption,
    build_cluster,
    build_traffic,
    one_format,
)
from interlock.cli.outputs import Outputs

__all__ = ["command"]


def command(
    cluster: ClusterOption = "h200",
    servers: ServersOption = None,
    changes: SetOption = None,
    faults: FaultOption = None,
    traffic: TrafficOption = "zipf:0.8",
    size: SizeOption = None,
    seed: SeedOption = 0,
    algorithm: AlgorithmOption = "auto",
    effort: EffortOption = "predict",
    align: AlignOption = 1,
    output: OutputOption = None,
    page: HtmlOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> int:
    """Plan one All-to-Allv, prove it, and optionally save it.

    Examples:

      interlock plan --servers 8 --traffic zipf:0.8 -o plan.ilk

      interlock plan --cluster my-cluster.toml --traffic bytes.txt --algorithm adaptive

      interlock plan --traffic hot:1.2 --size '4 MB' --effort simulate
    """
    from interlock.algorithms import registry
    from interlock.planning import plan

    registry.get(algorithm)
    one_format(as_json, as_csv)
    check_schedule_name(output)
    outputs = Outputs({"-o": output, "--html": page})
    where = build_cluster(cluster, servers, changes, faults)
    made = plan(where, build_traffic(traffic, where, size, seed), algorithm, seed=seed, effort=effort, align=align)
    code = print_certificate(made, output, page, as_json=as_json, as_csv=as_csv)
    outputs.say()
    return code
