"""`interlock reproduce`: each paper's headline table, ours beside theirs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from interlock.cli.options import HtmlOption, JsonOption
from interlock.cli.outputs import Outputs
from interlock.cli.show import command_line, print_json, print_table, progress_of
from interlock.files import write_text

__all__ = ["command"]


def command(
    paper: Annotated[str | None, typer.Argument(help="fast, rails, dysharp or tacos; default: all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller and fewer problems.")] = False,
    page: HtmlOption = None,
    as_json: JsonOption = False,
) -> int:
    """Published figures and ours, side by side, with a badge per claim.

    Examples:

      interlock reproduce --quick

      interlock reproduce tacos --html tacos.html
    """
    from interlock.report.claims import Status
    from interlock.report.reproduce import PAPERS, SOURCES, reproduce

    outputs = Outputs({"--html": page})
    papers = PAPERS if paper is None else (paper,)
    with progress_of(len(papers), "reproducing") as step:
        made = reproduce(papers, quick=quick, progress=step)
    reached = sum(claim.status in (Status.REPRODUCED, Status.BEATEN) for claim in made)
    if page is not None:
        from interlock.report.reproduce_page import reproduce_page

        write_text(page, reproduce_page(made, command_line(), quick=quick))
    if as_json:
        sources = {name: SOURCES[name] for name in papers}
        print_json({"claims": [asdict(claim) for claim in made], "quick": quick, "sources": sources})
    else:
        rows = [[c.paper, c.claim, f"{c.published} {c.unit}", c.words, c.status] for c in made]
        notes = [f"{reached} of {len(made)} claims reproduced or beaten. Ours are simulated or modelled unless said."]
        notes += [f"Published in {SOURCES[name]}, unless a note names another source." for name in papers]
        notes += [f"{c.claim}: {c.note}." for c in made if c.note]
        header = ["paper", "claim", "published", "ours", "status"]
        print_table("Published and ours", header, rows, notes, words=("claim", "ours"))
    outputs.say()
    return 0 if reached == len(made) else 1
