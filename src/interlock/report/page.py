"""One self-contained HTML file: figures drawn by Plotly from data computed here, nothing fetched."""

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

__all__ = ["Page", "array", "render", "table"]


class Page:
    """What a page shows: HTML sections, figures by element id, and choices that switch a part of it."""

    def __init__(self, title: str, honesty: str, command: str, facts: Mapping[str, str]) -> None:
        self.title, self.honesty = title, honesty
        self.facts = {"command": command, "times are": honesty, **facts, **_versions()}
        self.sections: list[str] = []
        self.figures: dict[str, object] = {}
        self.choices: dict[str, dict[str, object]] = {}

    def section(self, heading: str, body: str) -> None:
        """Append a section; `body` is HTML."""
        self.sections.append(f"<section><h2>{html.escape(heading)}</h2>\n{body}\n</section>")

    def plot(self, name: str, caption: str, figure: object | None = None) -> str:
        """HTML of a place for a figure; drawn at load where a figure is given."""
        if figure is not None:
            self.figures[name] = figure
        label = html.escape(caption, quote=True)
        return (
            f'<figure><div id="{name}" class="plot" role="img" aria-label="{label}"></div>'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )


def render(page: Page) -> str:
    """The whole file."""
    static = files("interlock.report") / "static"
    facts = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in page.facts.items())
    data = json.dumps({"figures": page.figures, "choices": page.choices}, separators=(",", ":"), allow_nan=False)
    return Template((static / "page.html").read_text()).substitute(
        title=html.escape(page.title),
        honesty=html.escape(page.honesty),
        css=(static / "page.css").read_text(),
        body="\n".join(page.sections),
        facts=facts,
        data=data.replace("</", "<\\/"),
        plotly=_plotly(),
        js=(static / "page.js").read_text(),
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], names: Sequence[str] | None = None) -> str:
    """An HTML table; with `names`, rows can be chosen."""
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in header)
    lines = []
    for place, row in enumerate(rows):
        chosen = f' data-name="{html.escape(names[place], quote=True)}"' if names else ""
        lines.append(f"<tr{chosen}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def array(values: NDArray[np.generic]) -> dict[str, object]:
    """Numbers as Plotly reads them in base64: compact, and exact."""
    kinds = {"float64": "f8", "float32": "f4", "int32": "i4", "uint8": "u1"}
    text = base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
    made: dict[str, object] = {"dtype": kinds[str(values.dtype)], "bdata": text}
    return made if values.ndim == 1 else made | {"shape": ", ".join(map(str, values.shape))}


def _plotly() -> str:
    """Plotly's script as its package ships it."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def _versions() -> dict[str, str]:
    return {
        "interlock": version("interlock"),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "byte order": sys.byteorder,
    }
