"""All four papers' claims, ours beside theirs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from interlock.errors import InvalidInput, nearest
from interlock.report.claims import Claim

__all__ = ["PAPERS", "SOURCES", "reproduce"]

# Where published figures come from, unless a claim's note names another source.
SOURCES = {
    "fast": "FAST: An Efficient Scheduler for All-to-All GPU Communication, NSDI 2026, arXiv 2505.09764",
    "rails": (
        "RailS: Load Balancing for All-to-All Communication in Distributed Mixture-of-Experts Training, "
        "arXiv 2510.19262"
    ),
    "dysharp": "DySHARP: Accelerating MoE with Dynamic In-Switch Computing on Multi-GPUs, arXiv 2605.05607",
    "tacos": (
        "TACOS: Topology-Aware Collective Algorithm Synthesizer for Distributed Machine Learning, MICRO 2024, "
        "arXiv 2304.05301"
    ),
}
PAPERS = tuple(SOURCES)


def reproduce(
    papers: Sequence[str] = PAPERS, *, quick: bool = True, progress: Callable[[str], None] | None = None
) -> list[Claim]:
    """Claims of the chosen papers, in their order; `quick` takes smaller or fewer problems."""
    made: list[Claim] = []
    for paper in papers:
        if paper not in PAPERS:
            raise InvalidInput(f"unknown paper {paper!r}; {nearest(paper, PAPERS)}")
        if progress is not None:
            progress(paper)
        module = importlib.import_module(f"interlock.report.reproduce_{paper}")
        made.extend(module.claims(quick))
    return made
