"""Every Python snippet in the docs runs, and prints what the page says where a text block follows it."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import interlock

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
SNIPPET = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.S)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
# Modules whose import needs an extra that may be missing.
OPTIONAL = ("interlock.torch", "interlock.runtime", "interlock.lab")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run_and_print_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "__main__"}
    for code, expected in SNIPPET.findall(page.read_text()):
        if code.startswith("# not run"):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), space)
        if expected:
            assert printed.getvalue().strip() == expected.strip()
    assert page.read_text().strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def _modules() -> list[str]:
    names = [module.name for module in pkgutil.walk_packages(interlock.__path__, "interlock.")]
    return [name for name in names if not name.startswith(OPTIONAL) and "_core" not in name]


@pytest.mark.parametrize("name", _modules())
def test_examples_in_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
