"""Writes Chakra execution traces: one `.et` per rank, and the ASTRA-sim configuration that runs them.

The schedule is a custom collective algorithm (`algorithm.<rank>.et`), sizes in true bytes; `workload.<rank>.et` calls
it once. Each send also names the bytes it carries in an attribute of our own: simulators ignore it, our reader uses it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import CollectiveKind
from interlock.interchange.chakra.encode import (
    BOOL,
    COMM_COLL_NODE,
    INT64,
    SCHEMA_VERSION,
    SIMULATED,
    Encoder,
    attribute,
    framed,
    node_bytes,
)
from interlock.interchange.chakra.graph import SendReceiveGraph, build_graph
from interlock.interchange.chakra.steps import write_step
from interlock.interchange.contract import ExportReport
from interlock.interchange.shared.files import write_folder
from interlock.interchange.shared.protobuf import text_field
from interlock.interchange.shared.regions import regions_of
from interlock.interchange.shared.sequence import sequence_messages, unsaid_by_sends
from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.topology import Cluster, Topology

__all__ = ["AWARE", "Dimension", "UNAWARE", "network_of", "program_of", "write_schedule"]


MAX_INT32 = 2**31 - 1

Writer = Callable[[BinaryIO], None]


def write_schedule(schedule: Schedule, problem: Problem, path: Path) -> ExportReport:
    """Write a folder with the traces of all ranks and configurations for ASTRA-sim; of a step, the traces alone."""
    if problem.step is not None:
        return write_step(schedule, problem, path)
    sequence = sequence_messages(schedule, problem.topology)
    graph = build_graph(schedule, sequence, problem.num_ranks)
    units = _Units(schedule, problem)
    encoder = Encoder(schedule, graph, regions_of(problem), units.unit if units.fits else 0, units.total)
    writers: dict[str, Writer] = {}
    for rank in range(problem.num_ranks):
        writers[f"algorithm.{rank}.et"] = partial(encoder.write_rank, rank)
        writers[f"workload.{rank}.et"] = partial(_write_workload, problem, units)
    for name, text in _configurations(problem).items():
        writers[name] = partial(_write_text, text)
    write_folder(path, writers, owned=_is_ours)
    return ExportReport("chakra", tuple(path / name for name in writers), notes=_notes(schedule, problem, graph))


def _is_ours(name: str) -> bool:
    stem, _, ending = name.partition(".")
    return name in CONFIGURATION_FILES or (stem in ("algorithm", "workload") and ending.endswith("et"))


def _notes(schedule: Schedule, problem: Problem, graph: SendReceiveGraph) -> tuple[str, ...]:
    dimensions, unsaid = network_of(problem)
    builds = "its congestion-aware build takes one dimension and stores whole messages, the other sees no congestion"
    notes = [f"run.sh runs it in {program_of(dimensions)} of ASTRA-sim ({builds}): times differ"]
    notes += unsaid_by_sends(schedule, "Chakra", at="rank")
    if graph.num_dropped:
        notes.append(f"{graph.num_dropped} dependencies join messages that meet at no rank; they are not written")
    if unsaid is not None:
        notes.append(unsaid)
    return tuple(notes)


class _Units:
    """Sizes as multiples of one unit, for ASTRA-sim versions that scale messages by the workload's size."""

    def __init__(self, schedule: Schedule, problem: Problem) -> None:
        sizes = schedule.size_bytes[schedule.size_bytes > 0]
        self.unit = int(np.gcd.reduce(sizes)) if len(sizes) else 1
        largest = int(schedule.size_bytes.max(initial=1))
        wanted = max(1, math.ceil(_rank_bytes(problem) / self.unit / problem.num_ranks))
        self.total = problem.num_ranks * wanted
        self.fits = largest // self.unit <= MAX_INT32 and self.total <= MAX_INT32
        gathers = problem.collective is not None and problem.collective.kind is CollectiveKind.ALL_GATHER
        self.workload_bytes = self.unit * (self.total // problem.num_ranks if gathers else self.total)


def _rank_bytes(problem: Problem) -> int:
    if problem.demand is not None:
        return problem.demand.largest_rank_bytes
    if problem.collective is not None:
        return problem.collective.size_bytes
    return int(problem.items.size_bytes.sum())


def _write_workload(problem: Problem, units: _Units, file: BinaryIO) -> None:
    kind = CollectiveKind.ALL_TO_ALL if problem.collective is None else problem.collective.kind
    attributes = attribute("is_cpu_op", BOOL, 0) + attribute(
        "comm_type", INT64, SIMULATED.get(kind, SIMULATED[CollectiveKind.ALL_TO_ALL])
    )
    attributes += attribute("comm_size", INT64, units.workload_bytes)
    file.write(framed(text_field(1, SCHEMA_VERSION)))
    file.write(framed(node_bytes(0, b"collective", COMM_COLL_NODE, b"", attributes)))


def _write_text(text: str, file: BinaryIO) -> None:
    file.write(text.encode())


CONFIGURATION_FILES = ("system.json", "network.yml", "memory.json", "run.sh")


def _configurations(problem: Problem) -> dict[str, str]:
    """What ASTRA-sim needs beside the traces. Paths are relative: it looks from where it is started."""
    kind = CollectiveKind.ALL_TO_ALL if problem.collective is None else problem.collective.kind
    slot = str(kind if kind in SIMULATED else CollectiveKind.ALL_TO_ALL)
    system: dict[str, object] = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 1,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "all-reduce-implementation": ["ring"],
        "all-gather-implementation": ["ring"],
        "reduce-scatter-implementation": ["ring"],
        "all-to-all-implementation": ["direct"],
        f"{slot}-implementation-custom": ["./algorithm"],
        "collective-optimization": "localBWAware",
        "local-mem-bw": 3350,
        "boost-mode": 0,
    }
    dimensions, _ = network_of(problem)
    columns: dict[str, list[object]] = {
        "topology": [shape for shape, _, _, _ in dimensions],
        "npus_count": [size for _, size, _, _ in dimensions],
        "bandwidth": [round(rate / GIB, 6) for _, _, rate, _ in dimensions],
        "latency": [round(latency_s * 1e9, 3) for _, _, _, latency_s in dimensions],
    }
    yaml = "".join(f"{key}: [ {', '.join(map(str, values))} ]\n" for key, values in columns.items())
    return {
        "system.json": json.dumps(system, indent=2) + "\n",
        "network.yml": yaml,
        "memory.json": json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}) + "\n",
        "run.sh": RUN_SCRIPT.format(program=program_of(dimensions)),
    }


RUN_SCRIPT = """#!/bin/sh
# Runs this collective in ASTRA-sim; set ASTRA_SIM to the path of {program}.
# (Its congestion-aware build takes networks of one dimension, the congestion-unaware build any.)
# ASTRA-sim looks for the algorithm's traces from where it is started, hence the cd.
cd "$(dirname "$0")" && exec "${{ASTRA_SIM:-{program}}}" \\
  --workload-configuration=workload --system-configuration=system.json \\
  --remote-memory-configuration=memory.json --network-configuration=network.yml "$@"
"""


GIB = 2**30  # ASTRA-sim's "GB/s" are 2^30 bytes per second
AWARE = "AstraSim_Analytical_Congestion_Aware"  # takes one dimension
UNAWARE = "AstraSim_Analytical_Congestion_Unaware"
ALIKE = 0.01  # rates that differ by less are the same

Dimension = tuple[str, int, float, float]  # shape, ranks, bytes per second of a link, seconds of a link


def network_of(problem: Problem) -> tuple[list[Dimension], str | None]:
    """Dimensions, the first varying fastest among ranks, and what of the topology they do not say."""
    if problem.cluster is not None:
        return _tiers(problem.cluster), None
    dimensions = _dimensions(problem.topology)
    if dimensions is not None:
        return dimensions, None
    topology = problem.topology
    rate, latency_s = float(topology.bandwidth_bytes_per_s.mean()), float(topology.latency_s.mean())
    said = "network.yml replaces the topology by one switch: the analytical backend has no general graphs"
    return [("Switch", problem.num_ranks, rate, latency_s / 2)], said


def program_of(dimensions: list[Dimension]) -> str:
    """The build of ASTRA-sim's analytical backend that runs a network."""
    return AWARE if len(dimensions) == 1 else UNAWARE


def _tiers(cluster: Cluster) -> list[Dimension]:
    """Scale-up as a switch or a mesh, scale-out as a switch."""
    alive: NDArray[np.float64] = cluster.nic_bandwidth_bytes_per_s[cluster.nic_bandwidth_bytes_per_s > 0]
    width, up = cluster.gpus_per_server, cluster.scale_up_bandwidth_bytes_per_s
    inside: Dimension = ("Switch", width, up, cluster.scale_up_latency_s / 2)
    if cluster.scale_up == "mesh" and width > 1:
        inside = ("FullyConnected", width, up / (width - 1), cluster.scale_up_latency_s)
    outside = float(alive.mean()) if len(alive) else 1.0
    tiers = [inside, ("Switch", cluster.servers, outside, cluster.scale_out_latency_s / 2)]
    return [tier for tier in tiers if tier[1] > 1] or tiers[:1]


def _dimensions(topology: Topology) -> list[Dimension] | None:
    """A ring, a fully connected graph or a product of such, of equal links along each dimension, if it is one."""
    ranks, src, dst = topology.num_ranks, topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
    if topology.num_nodes != ranks or len(np.unique(src * ranks + dst)) != topology.num_links:
        return None
    for sizes in sorted(_products(ranks, 1, set(dst[src == 0].tolist())), key=len):
        places = [np.unravel_index(ends, sizes[::-1])[::-1] for ends in (src, dst)]
        differs = np.stack([a != b for a, b in zip(*places, strict=True)])
        if not (differs.sum(axis=0) == 1).all():
            continue
        steps = [(b - a)[on] % size for a, b, on, size in zip(*places, differs, sizes, strict=True)]
        made = [_dimension(topology, on, step, size) for on, step, size in zip(differs, steps, sizes, strict=True)]
        if all(made):
            return [dimension for dimension in made if dimension is not None]
    return None


def _dimension(topology: Topology, links: NDArray[np.bool_], step: NDArray[np.int64], size: int) -> Dimension | None:
    """A ring or a fully connected graph, if the links along a dimension make one everywhere."""
    rates, latency_s = topology.bandwidth_bytes_per_s[links], topology.latency_s[links]
    if not len(rates) or rates.max() > rates.min() * (1 + ALIKE):
        return None
    facts = size, float(rates.mean()), float(latency_s.mean())
    if len(step) == 2 * topology.num_ranks and np.isin(step, (1, size - 1)).all():
        return "Ring", *facts
    return ("FullyConnected", *facts) if len(step) == topology.num_ranks * (size - 1) else None


def _products(number: int, stride: int, neighbours: set[int]) -> list[tuple[int, ...]]:
    """Sizes that make a number of ranks; along each, rank 0 has a neighbour at the product of those before it."""
    if stride not in neighbours:
        return []
    found: list[tuple[int, ...]] = [(number,)]
    for first in range(2, number // 2 + 1):
        if number % first == 0:
            found += [(first, *rest) for rest in _products(number // first, stride * first, neighbours)]
    return found
