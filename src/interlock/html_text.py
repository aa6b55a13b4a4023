"""Small pieces of HTML for notebooks: facts by name, and tables."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

__all__ = ["facts_html", "table_html"]


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """A heading and a table of names and facts."""
    rows = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(fact)}</td></tr>'
        for name, fact in facts.items()
    )
    return f"<p><b>{html.escape(title)}</b></p><table><tbody>{rows}</tbody></table>"


def table_html(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A table with its title above and notes below.

    >>> table_html("two", ["n"], [["1"], ["2"]]).count("<tr>")
    3
    """
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p><b>{html.escape(title)}</b></p>{table}{below}"
