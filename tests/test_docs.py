"""Every snippet in the docs runs, and prints what the page says where a text block follows it; pages do not drift.

A shell block that begins with a comment is read by the command line, but not run: it needs files, root or time.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import interlock
from interlock.cli.main import app, run

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
SNIPPET = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.S)
RUN = re.compile(r"```python\n(?!# not run|# train\.py)")
SHELL = re.compile(r"```(?:sh|bash)\n(.*?)```", re.S)
COMMAND = re.compile(r"```(?:sh|bash)\n(?:(?!```).)*?\binterlock ", re.S)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
# Modules whose import needs an extra that may be missing.
OPTIONAL = ("interlock.torch", "interlock.runtime", "interlock.lab", "interlock.gpu")


def _pages(pattern: re.Pattern[str]) -> pytest.MarkDecorator:
    """Pages that have something to try."""
    found = [page for page in PAGES if pattern.search(page.read_text())]
    return pytest.mark.parametrize("page", found, ids=lambda page: str(page.relative_to(ROOT)))


@_pages(RUN)
def test_snippets_run_and_print_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "__main__"}
    for code, expected in SNIPPET.findall(page.read_text()):
        if code.startswith(("# not run", "# train.py")):  # the latter is run by tests/runtime/test_torchrun_page.py
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), space)
        if expected:
            assert printed.getvalue().strip() == expected.strip()


def _commands(block: str) -> list[list[str]]:
    """The `interlock` commands of a shell block, as words."""
    lines = block.replace("\\\n", " ").splitlines()
    found = [shlex.split(part, comments=True) for line in lines for part in line.split(";")]
    return [words[1:] for words in found if words[:1] == ["interlock"]]


@_pages(COMMAND)
def test_commands_are_understood_and_run_where_the_page_does_not_say_otherwise(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in SHELL.findall(page.read_text()):
        for words in _commands(block):
            command, rest = typer.main.get_command(app), list(words)
            while hasattr(command, "commands"):
                command = command.commands[rest.pop(0)]
            assert command.make_context("interlock", rest).params
            if not block.startswith("#"):
                assert run(words) == 0, f"{words}: {capsys.readouterr().err}"


def test_the_page_of_the_command_line_is_what_its_help_says() -> None:
    tool = ROOT / "tools" / "cli_reference.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}

    assert named == pages


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "reference" / "cli" / "index.html").exists()


def test_every_how_to_has_a_picture() -> None:
    """`tools/draw_howtos.py` draws them; that they are there is for the test of links."""
    pages = sorted(ROOT.glob("docs/howto/*.md"))
    assert pages
    assert [
        page.name for page in pages if not re.search(r"!\[[^]]+\]\(\.\./images/[\w-]+\.svg\)", page.read_text())
    ] == []


def test_pictures_say_what_is_drawn_now(tmp_path: Path) -> None:
    """Their words and figures, which come from stored results and from plans; marks may move by a rounding."""
    draw = "import draw_howtos, draw_overview, pathlib; draw_howtos.FOLDER = draw_overview.FOLDER = pathlib.Path('.')\n"
    draw += "import sys; sys.argv = sys.argv[:1]; draw_howtos.main(); draw_overview.main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    subprocess.run([sys.executable, "-c", draw], cwd=tmp_path, env=environment, check=True, timeout=300)
    stored = ROOT / "docs" / "images"
    drawn = {file.name for file in tmp_path.glob("*.svg")}
    assert drawn == {file.name for kind in ("howto", "overview") for file in stored.glob(f"{kind}-*.svg")}
    for name in sorted(drawn):
        now, then = (re.findall(r"<text[^>]*>([^<]*)<", (folder / name).read_text()) for folder in (tmp_path, stored))
        assert now == then, f"{name} is old: python tools/draw_howtos.py; python tools/draw_overview.py"


def test_files_that_the_architecture_names_exist() -> None:
    named = re.findall(r"`((?:src|cpp|docs)/[\w./-]+)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(named) > 40
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_architecture_names_the_layers_that_import_linter_holds() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    held = [re.findall(r"\w+", layer) for layer in layers]
    paragraph = re.search(r"high to low:\n\n(.*?)\n\n", (ROOT / "ARCHITECTURE.md").read_text(), re.S)
    assert paragraph
    assert [re.findall(r"\w+", layer) for layer in paragraph[1].split("·")] == held


def test_every_source_of_the_core_has_a_header_of_its_name_in_the_same_room() -> None:
    sources = {source.relative_to(ROOT / "cpp/src").with_suffix("") for source in ROOT.glob("cpp/src/**/*.cpp")}
    headers = {
        header.relative_to(ROOT / "cpp/include/interlock").with_suffix("")
        for header in ROOT.glob("cpp/include/**/*.hpp")
    }
    assert len(sources) > 50
    assert sources - headers == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def _modules() -> list[str]:
    """Modules whose source has an example."""
    found = pkgutil.walk_packages(interlock.__path__, "interlock.")
    named = [(module.name, module.module_finder.find_spec(module.name)) for module in found]  # type: ignore[call-arg]
    return [
        name
        for name, spec in named
        if not name.startswith(OPTIONAL) and "_core" not in name and ">>> " in Path(str(spec.origin)).read_text()
    ]


@pytest.mark.parametrize("name", _modules())
def test_examples_in_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0 and result.failed == 0
