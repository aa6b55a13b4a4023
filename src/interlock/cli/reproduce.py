"""`interlock reproduce`: each paper's headline table, ours beside theirs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import HtmlOption, JsonOption, refuse
from interlock.cli.outputs import Outputs
from interlock.cli.show import command_line, print_json, print_notes, print_table, progress_of
from interlock.files import write_text

if TYPE_CHECKING:
    from interlock.report.claims import Claim

__all__ = ["command"]


def command(
    paper: Annotated[str | None, typer.Argument(help="fast, rails, dysharp or tacos; default: all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller and fewer problems.")] = False,
    notes: Annotated[bool, typer.Option("--notes", help="Say under the table how each figure was made.")] = False,
    page: HtmlOption = None,
    as_json: JsonOption = False,
) -> int:
    """Published figures and ours, side by side, with a verdict per claim; exits 0 when everything ran.

    Examples:

      interlock reproduce --quick

      interlock reproduce fast --notes

      interlock reproduce tacos --html tacos.html
    """
    from interlock.report.claims import ABOUT_SLACK, counts
    from interlock.report.reproduce import PAPERS, SOURCES, reproduce

    if as_json:
        refuse({"--notes": notes or None}, "--json has every note")
    outputs = Outputs({"--html": page})
    papers = PAPERS if paper is None else (paper,)
    with progress_of(len(papers), "reproducing") as step:
        made = reproduce(papers, quick=quick, progress=step)
    if page is not None:
        from interlock.report.reproduce import reproduce_page

        write_text(page, reproduce_page(made, command_line(), quick=quick))
    found = counts(made)
    if as_json:
        sources = {name: SOURCES[name] for name in papers}
        print_json({"claims": [asdict(claim) for claim in made], "counts": found, "quick": quick, "sources": sources})
    else:
        rows = [[c.paper, c.claim, c.published_text, c.text, c.slack_text, c.status, c.constants_text] for c in made]
        header = ["paper", "claim", "published", "ours", "slack", "verdict", "constants"]
        lines = [", ".join(f"{count} {status}" for status, count in found.items()) + f" of {len(made)}."]
        lines.append("Reproduced: within the slack, with systems in the published order.")
        lines.append(ABOUT_SLACK)
        lines.append("Ours are simulated or modelled, never the paper's hardware, unless said; --notes says how.")
        if notes:
            lines += [f"Published in {SOURCES[name]}, unless said." for name in papers]
            lines += [f"{c.claim}: {c.note}." for c in made if c.note]
            lines += [f"{c.claim}: {_origins(c)}." for c in made if c.origins]
        kept = print_table("Published and ours", header, rows, lines, wrap=("claim", "published"), drop=("constants",))
        if "constants" not in kept:  # the terminal has no room for them beside the figures
            claims_by_constants: dict[str, list[str]] = {}
            for claim in made:
                claims_by_constants.setdefault(claim.constants_text, []).append(claim.claim)
            print_notes([f"Constants {how}: {'; '.join(of)}." for how, of in claims_by_constants.items()])
    outputs.say()
    return 0


def _origins(claim: Claim) -> str:
    return "; ".join(f"{origin} {', '.join(names)}" for origin, names in claim.origins.items())
