"""All four papers' claims, ours beside theirs, and the page that shows them with a badge per claim."""

from __future__ import annotations

import html
import importlib
from collections.abc import Callable, Sequence

from interlock.errors import InvalidInput, nearest
from interlock.report.claims import ABOUT_SLACK, Claim, Status, counts
from interlock.report.page import Page, render

__all__ = ["PAPERS", "SOURCES", "reproduce", "reproduce_page"]

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
# A sign beside the colour, for those who cannot tell colours apart.
SIGN_BY_STATUS = {
    Status.REPRODUCED: "=",
    Status.BEATEN: "+",
    Status.FITTED: "~",
    Status.NOT_REACHED: "\N{MINUS SIGN}",
    Status.NOT_COMPARABLE: "?",
}


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


def reproduce_page(claims: Sequence[Claim], command: str, *, quick: bool) -> str:
    """HTML of the claims, paper by paper; numbers are those of `--json`."""
    setting = "quick" if quick else "full"
    page = Page("Interlock: published and ours", "simulated or modelled", command, {"setting": setting})
    page.section("In short", _totals(claims))
    for paper in dict.fromkeys(claim.paper for claim in claims):
        source = f"<p class='note'>Published in: {html.escape(SOURCES[paper])}.</p>" if paper in SOURCES else ""
        page.section(paper.upper(), source + _table([claim for claim in claims if claim.paper == paper]))
    return render(page)


def _totals(claims: Sequence[Claim]) -> str:
    badges = " ".join(f"{_badge(status)} {count}" for status, count in counts(claims).items() if count)
    words = (
        "Ours are simulated or modelled, never the paper's hardware, unless a note says measured. "
        f"{ABOUT_SLACK} "
        "Deviations stand under the claim."
    )
    return f"<p>{badges}</p><p class='note'>{words}</p>"


def _table(claims: Sequence[Claim]) -> str:
    lines = []
    for claim in claims:
        note = f"<br><small>{html.escape(claim.note)}</small>" if claim.note else ""
        published = html.escape(claim.published_text)
        lines.append(
            f'<tr data-status="{claim.status}"><td class="words">{html.escape(claim.claim)}{note}</td>'
            f'<td data-label="published">{published}</td><td data-label="ours">{html.escape(claim.text)}</td>'
            f'<td data-label="slack">{claim.slack_text}</td><td>{_badge(claim.status)}</td>'
            f'<td class="words">{html.escape(claim.constants_text)}</td></tr>'
        )
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("claim", "published", "ours", "slack", "verdict", "constants")
    )
    return f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _badge(status: Status) -> str:
    return f'<span class="verdict {status.replace(" ", "-")}">{SIGN_BY_STATUS[status]} {status}</span>'
