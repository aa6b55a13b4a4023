"""The problem on the page: the cluster or graph with every default that applied, what is broken, and the traffic."""

from __future__ import annotations

import html

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.report.page import Page
from interlock.topology import Cluster
from interlock.topology.faults import MissingGpu
from interlock.units import format_bandwidth, format_bytes, format_seconds

__all__ = ["add_problem", "problem_facts"]

MAX_FAULTS = 12  # named; of more, the number is told


def add_problem(page: Page, problem: Problem) -> None:
    """Append the section."""
    facts = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in problem_facts(problem).items())
    page.section("The problem", f'<dl class="facts">{facts}</dl>')


def problem_facts(problem: Problem) -> dict[str, str]:
    """What is moved, and on what, by name."""
    facts = {}
    if problem.collective is not None:
        group = problem.collective.group
        among = "all ranks" if group is None else f"{len(group)} ranks"
        facts["collective"] = f"{problem.collective.kind} of {format_bytes(problem.collective.size_bytes)}, {among}"
    if problem.demand is not None:
        facts |= _traffic(problem.demand.bytes_matrix, problem.demand.name, problem.demand.seed)
    if problem.cluster is not None:
        return facts | _cluster(problem.cluster)
    graph = problem.topology
    rates = np.unique(graph.bandwidth_bytes_per_s)
    shown = " to ".join(dict.fromkeys(format_bandwidth(float(rate)) for rate in (rates[0], rates[-1])))
    return facts | {
        "topology": f"{graph.name}: {graph.num_ranks} ranks, {graph.num_nodes} nodes, {graph.num_links} links",
        "link rates": shown,
        "link latency": f"at most {format_seconds(float(graph.latency_s.max(initial=0.0)))}",
        "message overhead": f"at most {format_seconds(float(graph.message_overhead_s.max(initial=0.0)))}",
    }


def _traffic(matrix: NDArray[np.int64], name: str, seed: int | None) -> dict[str, str]:
    sent, received = matrix.sum(axis=1), matrix.sum(axis=0)
    mean = max(float(sent.mean()), 1e-9)
    drawn = "" if seed is None else f", seed {seed}"
    total = format_bytes(float(matrix.sum()))
    return {
        "traffic": f"{name}{drawn}: {total} in all, {format_bytes(mean)} per GPU on average",
        "most and least": (
            f"a GPU sends at most {float(sent.max()) / mean:.2f} and receives at most "
            f"{float(received.max()) / mean:.2f} times the mean; {100 * float((matrix > 0).mean()):.0f} % of pairs talk"
        ),
    }


def _cluster(cluster: Cluster) -> dict[str, str]:
    up, out = cluster.scale_up_bandwidth_bytes_per_s, cluster.scale_out_bandwidth_bytes_per_s
    able = [word for word, can in (("multicasts", cluster.multicasts), ("adds", cluster.reduces)) if can]
    nics = f"{cluster.nics_per_gpu} x {format_bandwidth(out)} per GPU"
    if cluster.nic_rates_bytes_per_s:
        nics = f"by GPU: {', '.join(format_bandwidth(sum(rates)) for rates in cluster.nic_rates_bytes_per_s)}"
    fabric = cluster.fabric
    tolerates = "any number of" if fabric.fan_in is None else str(fabric.fan_in)
    return {
        "cluster": f"{cluster.name}: {cluster.servers} servers of {cluster.gpus_per_server} GPUs",
        "inside a server": (
            f"{cluster.scale_up}, {format_bandwidth(up)} per GPU, latency {format_seconds(cluster.scale_up_latency_s)}"
            + (f"; the switch {' and '.join(able)}" if able else "")
        ),
        "NICs": f"{nics}, latency {format_seconds(cluster.scale_out_latency_s)}",
        "between servers": (
            f"{cluster.scale_out}, oversubscription {cluster.oversubscription:g}; fabric {fabric.name}: tolerates "
            f"{tolerates} senders per receiver, passes {100 * fabric.efficiency:.0f} % of a port's rate"
        ),
        "overheads": (
            f"{format_seconds(cluster.message_overhead_s)} per message, "
            f"{format_seconds(cluster.stage_overhead_s)} per stage"
        ),
        "broken": _faults(cluster),
    }


def _faults(cluster: Cluster) -> str:
    words = []
    for fault in cluster.faults:
        place = f"server {fault.server}, GPU {fault.gpu}"
        if isinstance(fault, MissingGpu):
            words.append(f"{place} is missing")
        elif fault.bandwidth_bytes_per_s == 0:
            words.append(f"the NIC of {place} is dead")
        else:
            words.append(f"the NIC of {place} runs at {format_bandwidth(fault.bandwidth_bytes_per_s)}")
    more = [f"{len(words) - MAX_FAULTS} more"] if len(words) > MAX_FAULTS else []
    return "; ".join([*words[:MAX_FAULTS], *more]) or "nothing"
