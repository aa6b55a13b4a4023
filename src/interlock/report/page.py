"""One self-contained HTML file: tables, charts and drawings made here, brought to life by a little script."""

from __future__ import annotations

import base64
import html
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from string import Template

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLOURS", "Page", "array", "compact", "render", "scroll", "table"]

# Okabe-Ito, told apart by colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999999")
TYPES = {"float64": "f8", "float32": "f4", "int32": "i4", "uint16": "u2", "uint8": "u1"}  # as numbers.js calls them
SCRIPTS = ("numbers.js", "heat.js", "sides.js", "timeline.js", "page.js")


class Page:
    """What a page shows: HTML sections, data that scripts draw, and choices that switch a part of it.

    `shared` is read when the page opens; a choice's own data only when it is chosen.
    """

    def __init__(self, title: str, honesty: str, command: str, facts: Mapping[str, str]) -> None:
        self.title, self.honesty = title, honesty
        self.facts = {"command": command, "times are": honesty, **facts, **_versions()}
        self.sections: list[str] = []
        self.shared: dict[str, object] = {}
        self.choices: dict[str, Mapping[str, object]] = {}

    def section(self, heading: str, body: str) -> None:
        """Append a section; `body` is HTML."""
        self.sections.append(f"<section><h2>{html.escape(heading)}</h2>\n{body}\n</section>")


def render(page: Page) -> str:
    """The whole file."""
    static = files("interlock.report") / "static"
    facts = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in page.facts.items())
    choices = "\n".join(
        f'<script type="application/json" data-choice="{html.escape(name, quote=True)}">{_json(choice)}</script>'
        for name, choice in page.choices.items()
    )
    return Template((static / "page.html").read_text()).substitute(
        title=html.escape(page.title),
        honesty=html.escape(page.honesty),
        css=(static / "page.css").read_text(),
        body="\n".join(page.sections),
        facts=facts,
        data=_json(page.shared),
        choices=choices,
        js="\n".join((static / name).read_text() for name in SCRIPTS),
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], names: Sequence[str] | None = None) -> str:
    """An HTML table; with `names`, rows can be chosen."""
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in header)
    lines = []
    for place, row in enumerate(rows):
        chosen = f' data-name="{html.escape(names[place], quote=True)}"' if names else ""
        lines.append(f"<tr{chosen}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return scroll(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>")


def scroll(body: str) -> str:
    """HTML that may be wider than the page; the keyboard reaches it."""
    return f'<div class="scroll" tabindex="0">{body}</div>'


def array(values: NDArray[np.generic]) -> dict[str, object]:
    """A column in base64: compact, and exact."""
    text = base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
    return {"dtype": TYPES[str(values.dtype)], "bdata": text}


def compact(values: NDArray[np.integer]) -> dict[str, object]:
    """Whole numbers from 0 in as few bytes as they need."""
    most = int(values.max(initial=0))
    return array(values.astype(np.uint8 if most < 256 else np.uint16 if most < 65_536 else np.int32))


def _json(values: object) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")


def _versions() -> dict[str, str]:
    return {
        "interlock": version("interlock"),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "byte order": sys.byteorder,
    }
