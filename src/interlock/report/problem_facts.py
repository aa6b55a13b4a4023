"""The problem on the page: the cluster or graph with every default that applied, what is broken, and the traffic."""

from __future__ import annotations

import html

import numpy as np

from interlock.problem import Problem
from interlock.report.page import Page
from interlock.units import format_bandwidth, format_bytes, format_seconds

__all__ = ["add_problem", "problem_facts"]


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
        facts |= problem.demand.facts()
    if problem.cluster is not None:
        return facts | problem.cluster.facts()
    graph = problem.topology
    rates = np.unique(graph.bandwidth_bytes_per_s)
    shown = " to ".join(dict.fromkeys(format_bandwidth(float(rate)) for rate in (rates[0], rates[-1])))
    return facts | {
        "topology": f"{graph.name}: {graph.num_ranks} ranks, {graph.num_nodes} nodes, {graph.num_links} links",
        "link rates": shown,
        "link latency": f"at most {format_seconds(float(graph.latency_s.max(initial=0.0)))}",
        "message overhead": f"at most {format_seconds(float(graph.message_overhead_s.max(initial=0.0)))}",
    }
