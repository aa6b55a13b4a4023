"""All four papers' claims, ours beside theirs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from interlock.errors import InvalidInput, nearest
from interlock.report.claims import Claim

__all__ = ["PAPERS", "reproduce"]

PAPERS = ("fast", "rails", "dysharp", "tacos")


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
