"""`interlock import-topology`: other tools' descriptions of machines and networks as a cluster or graph of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.options import JsonOption
from interlock.cli.outputs import Outputs
from interlock.cli.show import print_json, print_table
from interlock.errors import InvalidInput
from interlock.interchange import import_topology
from interlock.interchange.machines.join import ImportedTopology
from interlock.interchange.machines.server import Server
from interlock.units import format_bandwidth, format_seconds, parse_bandwidth

__all__ = ["command"]


def command(
    files: Annotated[list[Path], typer.Argument(help="NCCL XML, nvidia-smi topo -m, ASTRA-sim, SimAI or htsim files.")],
    servers: Annotated[int, typer.Option("--servers", help="How many equal servers one server's file stands for.")] = 1,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="What the GPUs are, where the file does not say it: a100, h100, a10g, …")
    ] = None,
    nic: Annotated[
        str | None, typer.Option("--nic", help="Rate of a NIC, where the file does not say it, like '100 Gb/s'.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="TOML file to write.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Read topologies of other tools; several files of servers make one cluster. Says what was guessed.

    Examples:

      interlock import-topology /var/run/nvidia-topologyd/virtualTopology.xml --servers 4 -o cluster.toml

      interlock import-topology node0.xml node1.xml

      nvidia-smi topo -m > topo.txt && interlock import-topology topo.txt

      interlock import-topology g5.48xl-topo.xml --gpu a10g --nic '100 Gb/s' --servers 4
    """
    if output is not None and output.suffix != ".toml":
        raise InvalidInput(f"-o {output}: clusters and topologies are saved as .toml")
    outputs = Outputs({"-o": output})
    found = import_topology(files, servers, gpu, None if nic is None else parse_bandwidth(nic, "--nic"))
    if output is not None:
        _save(found, output)
    if as_json:
        print_json(_as_dict(found, output))
        outputs.say()
        return 0
    for line in _picture(found):
        print(line)
    rows = _rows(found)
    notes = [f"guessed: {text}" for text in found.guesses]
    print_table(
        f"\n{found.source}: {_title(found)}",
        _HEADER if found.servers else ["", ""],
        rows,
        notes,
        drop=("PCI", "nearest"),
    )
    rows = [[field.name, field.value, "stated" if field.is_stated else "guessed", field.why] for field in found.fields]
    print_table("\nfields", ["field", "value", "", "why"], rows, [], drop=("why",))
    outputs.say()
    return 0


_HEADER = ["rank", "GPU", "PCI", "scale-up", "NICs", "nearest", "NIC rate"]


def _save(imported: ImportedTopology, output: Path) -> None:
    from interlock.topology import write_cluster, write_topology

    if imported.cluster is not None:
        write_cluster(imported.cluster, output)
    else:
        write_topology(imported.topology, output)


def _title(imported: ImportedTopology) -> str:
    if imported.cluster is None:
        graph = imported.topology
        return f"a graph of {graph.num_ranks} ranks, {graph.num_nodes} nodes and {graph.num_links} links"
    cluster = imported.cluster
    return f"{cluster.servers} x {cluster.gpus_per_server} GPUs, {cluster.scale_up} inside, {cluster.scale_out} between"


def _picture(imported: ImportedTopology) -> list[str]:
    """A drawing: scale-up on the left, GPUs in the middle, their NICs on the right. Equal servers are drawn once."""
    lines: list[str] = []
    drawn: dict[int, int] = {}
    for number, server in enumerate(imported.servers):
        if id(server) in drawn:
            continue
        drawn[id(server)] = number
        copies = sum(1 for other in imported.servers if other is server)
        lines += [f"server {number}: {server.source}" + (f" (and {copies - 1} more like it)" if copies > 1 else "")]
        lines += _server_picture(server)
    return lines


def _server_picture(server: Server) -> list[str]:
    lines = []
    last = len(server.gpus) - 1
    for k, gpu in enumerate(server.gpus):
        stem = "─" if last == 0 else "┬" if k == 0 else "┴" if k == last else "┼"
        label = "switch " if k == last // 2 else "       "
        if not gpu.switch_bytes_per_s:
            label = f"{len(gpu.peers)} links" if gpu.peers else "PCIe   "
        nics = ", ".join(
            f"{server.nics[part.nic].name} ({part.distance.name}"
            + (f", {part.share:.0%} of it)" if part.share < 1 else ")")
            for part in server.nics_of_gpu[k]
        )
        lines.append(f"  {label:8}{stem}── {gpu.name:8} ── {nics or 'no NIC'}")
    return lines


def _rows(imported: ImportedTopology) -> list[list[str]]:
    if not imported.servers:
        graph = imported.topology
        rates = sorted(set(graph.bandwidth_bytes_per_s.tolist()), reverse=True)
        rows = [
            ["ranks", str(graph.num_ranks)],
            ["switches", str(graph.num_nodes - graph.num_ranks)],
            ["links", str(graph.num_links)],
            ["rates", ", ".join(format_bandwidth(rate) for rate in rates[:6])],
        ]
        return [*rows, ["latency of a link, at most", format_seconds(float(graph.latency_s.max()))]]
    rows = []
    rank = 0
    for server in imported.servers:
        for k, gpu in enumerate(server.gpus):
            shares = server.nics_of_gpu[k]
            up = gpu.switch_bytes_per_s or sum(rate for _, rate in gpu.peers) or gpu.pcie_bytes_per_s
            rows.append(
                [
                    str(rank),
                    gpu.name,
                    gpu.busid,
                    format_bandwidth(up),
                    str(len(shares)),
                    min((part.distance.name for part in shares), default="-"),
                    format_bandwidth(server.nic_bytes_per_s(k)),
                ]
            )
            rank += 1
    return rows if len(rows) <= 64 else [*rows[:64], [f"… {len(rows) - 64} more"] + [""] * 6]


def _as_dict(imported: ImportedTopology, output: Path | None) -> dict[str, object]:
    made: dict[str, object] = {
        "source": imported.source,
        "num_ranks": imported.topology.num_ranks,
        "num_nodes": imported.topology.num_nodes,
        "num_links": imported.topology.num_links,
        "guesses": list(imported.guesses),
        "fields": [
            {"name": field.name, "value": field.value, "stated": field.is_stated, "why": field.why}
            for field in imported.fields
        ],
        "written_to": None if output is None else str(output),
    }
    if imported.cluster is not None:
        cluster = imported.cluster
        made |= {
            "servers": cluster.servers,
            "gpus_per_server": cluster.gpus_per_server,
            "scale_up": cluster.scale_up,
            "scale_up_bandwidth_bytes_per_s": cluster.scale_up_bandwidth_bytes_per_s,
            "scale_out": cluster.scale_out,
            "nic_bandwidth_bytes_per_s": cluster.nic_bandwidth_bytes_per_s.tolist(),
        }
    made["affinity"] = [
        [
            {"nic": server.nics[part.nic].name, "share": part.share, "distance": part.distance.name}
            for part in server.nics_of_gpu[gpu]
        ]
        for server in imported.servers
        for gpu in range(len(server.gpus))
    ]
    return made
